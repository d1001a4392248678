"""A library that was exchanged and is mapped all the same is noticed."""

from __future__ import annotations

import pytest

from bitsect.images.layers import Binary
from bitsect.images.mixing.loaded import still_loaded
from bitsect.images.mixing.space import ImageSpace
from tests.images.mixing import samples

PATH = "/opt/lib/libsum.so"
OLD_ONLY = "/opt/lib/libold.so"
CHANGED, GONE = "lib:libsum.so", "lib:libold.so"


@pytest.fixture
def space() -> ImageSpace:
    return samples.space(
        {PATH: samples.file(b"old", "aa"), OLD_ONLY: samples.file(b"older", "cc")},
        {PATH: samples.file(b"new", "bb")},
    )


def mapped(path: str, build_id: str | None, size: int | None = None) -> list[Binary]:
    return [Binary(path, size, build_id)]


def test_what_is_as_it_should_be_is_no_fault(space: ImageSpace) -> None:
    good, bad = space.chain_recipes
    assert still_loaded(space, good, mapped(PATH, "aa")) is None
    assert still_loaded(space, bad, mapped(PATH, "bb")) is None
    assert still_loaded(space, bad, mapped("/usr/lib/libc.so.6", "ff")) is None
    assert still_loaded(space, bad, []) is None


def test_the_old_build_of_an_exchanged_library_is_noticed(space: ImageSpace) -> None:
    bad = space.chain_recipes[1]
    told = still_loaded(space, bad, mapped(PATH, "aa"))
    assert told is not None
    assert told.startswith(f"{CHANGED}: {PATH} was loaded as it is in ")


def test_a_library_that_should_be_gone_is_noticed(space: ImageSpace) -> None:
    told = still_loaded(space, space.chain_recipes[1], mapped(OLD_ONLY, "cc"))
    assert told is not None
    assert told.startswith(f"{GONE}: {OLD_ONLY}")


def test_without_a_build_id_the_size_has_to_do() -> None:
    space = samples.space({PATH: b"old one"}, {PATH: b"new"})
    bad = space.chain_recipes[1]
    assert still_loaded(space, bad, mapped(PATH, None, 3)) is None
    assert still_loaded(space, bad, mapped(PATH, None, 7)) is not None
    assert still_loaded(space, bad, mapped(PATH, None)) is None
