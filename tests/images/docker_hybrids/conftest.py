"""A runtime that mixes images which the workshop made, and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from bitsect.images.contents.axes import axes_between
from bitsect.images.contents.cache import ContentsCache
from bitsect.images.contents.model import Contents
from bitsect.images.contents.reader import read_contents
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.payload import staged_probe
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.files import exported
from bitsect.images.runtime.docker.runtime import DockerRuntime
from bitsect.images.runtime.docker.sweep import clear
from tests.containers.workshop import Workshop
from tests.images.docker_hybrids.mix import Mix

#: Makes the space of a chain of tags.
Spaces = Callable[..., ImageSpace]


@pytest.fixture(scope="session")
def kept_contents(tmp_path_factory: pytest.TempPathFactory) -> ContentsCache:
    """Images are read once for all tests."""
    return ContentsCache(tmp_path_factory.mktemp("contents"))


@pytest.fixture
def cache_root(tmp_path: Path) -> Path:
    """Another one for each test, so that none finds another's hybrids."""
    return tmp_path / "cache"


@pytest.fixture
def docker_runtime(workshop: Workshop, cache_root: Path) -> Iterator[DockerRuntime]:
    """Whatever is made with it is removed in the end."""
    with closing(Engine.connect()) as engine:
        runtime = DockerRuntime(engine, staged_probe(cache_root), cache_root)
        try:
            yield runtime
        finally:
            runtime.close()
            clear(engine, runtime.marks)


@pytest.fixture
def space_of(docker_runtime: DockerRuntime, kept_contents: ContentsCache) -> Spaces:
    """Gives the space of images by their tags, good end first."""

    def contents_of(image_id: str, digest: str) -> Contents:
        def read() -> Contents:
            with exported(docker_runtime.engine, image_id, docker_runtime.marks) as stream:
                return read_contents(cast(BinaryIO, stream))

        return kept_contents.get(digest, read)

    def space(*tags: str) -> ImageSpace:
        images = [docker_runtime.identities.of(tag, tag, tag.partition(":")[0]) for tag in tags]
        contents = [contents_of(image.engine_id, image.config_digest) for image in images]
        variables = [image.environment for image in images]
        chain = list(zip(contents, variables, strict=True))
        return ImageSpace(images, contents, axes_between(chain))

    return space


@pytest.fixture
def mix_of(docker_runtime: DockerRuntime, space_of: Spaces) -> Callable[..., Mix]:
    """Gives what mixes the images with these tags."""
    return lambda *tags: Mix(docker_runtime, space_of(*tags))
