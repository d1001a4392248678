"""Searches on real container stacks leave nothing on the engine but what they keep on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.containers.remnants import remnants, remove


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(engine: docker.DockerClient, cache: Path) -> Iterator[None]:
    """No container outlives the tests; the images and volumes that are kept go with them."""
    yield
    found = remnants(engine, cache)
    remove(engine, found)
    assert found.containers == ()
