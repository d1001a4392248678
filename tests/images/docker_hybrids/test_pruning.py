"""Hybrids are a cache: what is kept, what goes first, and what is never touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from bitsect.images.errors import InfrastructureError
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.runtime.docker.committing import (
    all_labels,
    commit,
    config_like,
    described,
    own_labels,
)
from bitsect.images.runtime.docker.pruning import MadeImage, MadeImages, name_of
from bitsect.images.runtime.docker.runtime import DockerRuntime
from bitsect.images.runtime.docker.workbench import workbench

pytestmark = pytest.mark.engine

KEYS = {letter: "sha256:" + letter * 64 for letter in "abcd"}
SIZE = 100_000


class Maker:
    """Makes images that are as large as they should be."""

    def __init__(self, docker: DockerRuntime, image: ImageIdentity) -> None:
        self._docker = docker
        self._image = image

    def images(self, limit: int | None) -> MadeImages:
        folder = self._docker.marks.folder / "made"
        return MadeImages(self._docker.engine, self._docker.marks, folder, limit)

    def make(self, images: MadeImages, letter: str, base: str = "") -> None:
        """Make an image of `SIZE` bytes and leave it unused."""

        def build() -> None:
            engine, marks = self._docker.engine, self._docker.marks
            name = ":".join(name_of("hybrid", KEYS[base], marks.root)) if base else None
            above = described(engine, name or self._image.engine_id, KEYS.get(base, "none"))
            labels = own_labels(marks, "hybrid", self._image, above)
            labels = all_labels(labels, KEYS[letter], above)
            with workbench(engine, marks, above.id, "/usr/bin/python3") as bench:
                code = f"open('/opt/{letter}', 'w').write('x' * {SIZE})"
                bench.run(["/usr/bin/python3", "-B", "-c", code])
                config = config_like(self._image, above, {})
                commit(engine, marks, bench.container, config, labels)

        images.ensure("hybrid", KEYS[letter], build)[1].release()


@pytest.fixture
def maker(docker_runtime: DockerRuntime, small_image: str) -> Maker:
    return Maker(docker_runtime, docker_runtime.identities.of(small_image, small_image, ""))


def letters(images: MadeImages) -> str:
    return "".join(sorted(image.key[7] for image in images.all()))


def test_what_is_made_and_not_found_is_not_made_again_for_ever(maker: Maker) -> None:
    made = []
    with pytest.raises(InfrastructureError) as caught:
        maker.images(None).ensure("hybrid", KEYS["a"], lambda: made.append(1))
    assert (caught.value.kind, len(made)) == ("refused", 1)
    assert "does not have the image bitsect/hybrid:" in caught.value.detail


def test_the_size_of_an_image_is_what_it_adds(maker: Maker) -> None:
    images = maker.images(None)
    maker.make(images, "a")
    maker.make(images, "b", base="a")
    assert {image.key[7]: image.size for image in images.all()} == {"a": SIZE, "b": SIZE}


def test_what_was_used_least_recently_goes_first(maker: Maker) -> None:
    images = maker.images(2 * SIZE)
    for letter in "ab":
        maker.make(images, letter)
    # Given that the older one was used again
    images.ensure("hybrid", KEYS["a"], lambda: None)[1].release()

    maker.make(images, "c")

    assert letters(images) == "ac"


def test_what_is_in_use_stays(maker: Maker) -> None:
    images = maker.images(0)
    maker.make(images, "a")
    held = images.hold("hybrid", KEYS["a"])
    assert held is not None

    with held[1]:
        maker.make(images, "b")
        assert letters(images) == "ab"
        assert not images.remove(held[0])

    maker.make(images, "c")
    assert letters(images) == "c"


def test_an_image_that_never_was_leaves_no_lock(maker: Maker) -> None:
    images = maker.images(None)
    assert images.hold("hybrid", KEYS["d"]) is None
    assert not images.lock_path(KEYS["d"]).exists()


def test_what_another_one_was_made_from_goes_after_it(maker: Maker) -> None:
    images = maker.images(2 * SIZE)
    maker.make(images, "a")
    maker.make(images, "b", base="a")
    # Given that the one on top was used before its base
    images.ensure("hybrid", KEYS["a"], lambda: None)[1].release()

    maker.make(images, "c")
    assert letters(images) == "ac"

    maker.make(images, "d")
    assert letters(images) == "cd"


def test_the_latest_stays_whatever_its_size(maker: Maker) -> None:
    images = maker.images(0)
    maker.make(images, "a")
    assert letters(images) == "a"


@pytest.fixture
def strangers(docker_runtime: DockerRuntime, maker: Maker) -> Iterator[list[str]]:
    """Names for an image that somebody makes from a hybrid, or gives to one."""
    names = ["bitsect-test-stranger/tagged:1", "bitsect-test-stranger/made:1"]
    with ExitStack() as stack:
        for name in names:
            stack.callback(docker_runtime.engine.api.remove_image, name, noprune=True)
        yield names


def test_images_of_others_are_never_touched(
    docker_runtime: DockerRuntime, maker: Maker, strangers: list[str]
) -> None:
    # Given a hybrid that somebody has given a name too, and an image made from it
    engine, marks = docker_runtime.engine, docker_runtime.marks
    images = maker.images(0)
    maker.make(images, "a")
    [hybrid] = images.all()
    (tagged, tag), (made, other_tag) = (name.split(":") for name in strangers)
    engine.api.tag(hybrid.id, tagged, tag)
    with workbench(engine, marks, hybrid.id, "/usr/bin/python3") as bench:
        engine.api.commit(bench.container, made, other_tag)

    # When there is no more room
    maker.make(images, "b")
    maker.make(images, "c")

    # Then what bitsect made goes, and nothing else
    assert letters(images) == "c"
    for name in strangers:
        assert engine.image(name)


def test_the_hybrids_of_another_cache_folder_are_not_ours(
    maker: Maker, docker_runtime: DockerRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = maker.images(None)
    maker.make(images, "a")

    monkeypatch.setattr(docker_runtime.marks, "root", "another")

    assert images.all() == []
    assert images.find("hybrid", KEYS["a"]) is None
    monkeypatch.undo()
    assert isinstance(images.find("hybrid", KEYS["a"]), MadeImage)
