"""One runtime for all tests of containers here, on the real engine and with small limits."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bitsect.images.payload import Payload, staged_probe
from bitsect.images.reference import parse_reference
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.limits import ContainerOptions
from bitsect.images.runtime.docker.runtime import DockerRuntime, FoundImage
from bitsect.images.runtime.docker.session import ContainerSession
from bitsect.images.runtime.docker.sweep import clear

MEMORY = 256 << 20
PROCESSES = 64
OPTIONS = ContainerOptions(memory=MEMORY, processes=PROCESSES)


@pytest.fixture
def unanswered() -> Iterator[None]:
    """For tests in which nobody answers: the SDK forgets to close its end of the connection."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture(scope="session")
def real_engine() -> Iterator[Engine]:
    """The engine that this machine's user has."""
    with closing(Engine.connect()) as engine:
        yield engine


@pytest.fixture(scope="session")
def cache_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bitsect's cache folder."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def payload(cache_root: Path) -> Payload:
    return staged_probe(cache_root)


@pytest.fixture(scope="session")
def runtime(real_engine: Engine, payload: Payload, cache_root: Path) -> Iterator[DockerRuntime]:
    """With small limits. At the end nothing of it may be left on the engine."""
    with DockerRuntime(real_engine, payload, cache_root, OPTIONS) as opened:
        yield opened
        left = real_engine.api.containers(
            all=True, filters={"label": f"bitsect.root={opened.marks.root}"}
        )
        clear(real_engine, opened.marks)
    assert left == []


@pytest.fixture(scope="session")
def handle(runtime: DockerRuntime, small_image: str) -> FoundImage:
    """The image with Python and nothing else."""
    return runtime.ensure(runtime.resolve(parse_reference(small_image)))


@pytest.fixture
def session(runtime: DockerRuntime, handle: FoundImage) -> Iterator[ContainerSession]:
    with runtime.open(handle) as opened:
        yield opened
