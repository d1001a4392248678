"""One package with its alternatives, moved between images with torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bitsect.images.layers import Binary
from bitsect.images.mixing.loaded import still_loaded
from bitsect.images.runtime.protocol import Stack
from tests.containers import cases
from tests.containers.workshop import Workshop
from tests.images.docker_hybrids.mix import Mix

pytestmark = pytest.mark.engine

BLAS = f"apt:{cases.OPENBLAS}"

PRODUCT = """
import torch
one = torch.ones(300, 300)
assert float((one @ one)[0, 0]) == 300
for line in open("/proc/self/maps"):
    path = line.split()[-1]
    if "blas" in path or "lapack" in path:
        print(path)
"""


@pytest.fixture
def mix(mix_of: Callable[..., Mix], workshop: Workshop) -> Mix:
    ends = cases.one_package(workshop)
    return mix_of(ends.good, ends.bad)


def libraries(mix: Mix, stack: Stack) -> set[str]:
    """Linear algebra that a product of matrices has mapped."""
    return set(mix.python(stack, PRODUCT).splitlines())


def owner_is_openblas(paths: set[str]) -> bool:
    return any("/openblas-pthread/" in path for path in paths)


def test_the_good_image_with_the_package_computes_with_it_and_without_it_not(mix: Mix) -> None:
    # Given the good image with nothing but the package, and the bad one with all but it
    alone = mix.with_bad(BLAS)
    others = mix.with_bad(*(set(mix.points(0)) - {BLAS}))

    with_package, without = libraries(mix, alone), libraries(mix, others)

    # Then each computes with what it should
    assert owner_is_openblas(with_package)
    assert without
    assert not owner_is_openblas(without)
    # And neither was an end
    assert len(mix.hybrids()) == 2
    # And a run that had still mapped the other one would be noticed
    assert alone.recipe is not None
    assert still_loaded(mix.space, alone.recipe, binaries(mix, with_package)) is None
    assert still_loaded(mix.space, alone.recipe, binaries(mix, without)) is None
    assert others.recipe is not None
    told = still_loaded(mix.space, others.recipe, binaries(mix, with_package))
    assert told is not None
    assert told.startswith(f"{BLAS}: /usr/lib/x86_64-linux-gnu/openblas-pthread/")


def binaries(mix: Mix, paths: set[str]) -> list[Binary]:
    """As an inventory describes them, in whichever image has them."""
    found = []
    for path in sorted(paths):
        entry = next(
            contents.entries[path] for contents in mix.space.contents if path in contents.entries
        )
        assert entry.elf is not None
        found.append(Binary(path, entry.size, entry.elf.build_id))
    return found


def test_the_package_database_follows(mix: Mix) -> None:
    code = (
        "import subprocess; print(subprocess.run(['dpkg-query', '--show', '--showformat',"
        f" '${{Status}}', '{cases.OPENBLAS}'], capture_output=True, text=True).stdout)"
    )
    assert mix.python(mix.with_bad(BLAS), code) == "install ok installed"
    others = mix.with_bad(*(set(mix.points(0)) - {BLAS}))
    assert mix.python(others, code) == ""
