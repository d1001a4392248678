"""Searches on real container stacks leave nothing on the engine but what they keep on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.containers.remnants import remnants, remove
from tests.containers.second_engine import SecondEngine, second_engine

#: Bytes that the second engine's disk has: twice what the largest images of the tests take.
DISK = 3 << 30


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(engine: docker.DockerClient, cache: Path) -> Iterator[None]:
    """No container outlives the tests; the images and volumes that are kept go with them."""
    yield
    found = remnants(engine, cache)
    remove(engine, found)
    assert found.containers == ()


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondEngine]:
    """An engine that may be killed, on a disk that may be filled."""
    with second_engine(tmp_path_factory.mktemp("second"), DISK) as started:
        yield started
