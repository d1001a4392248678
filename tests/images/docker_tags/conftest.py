"""A registry to ask, and a home without credentials of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bitsect.images.runtime.docker.registry import RegistryRepository, RepositoryName
from tests.images.docker_tags.fake_registry import FakeRegistry, serving

Opened = Callable[[], RegistryRepository]


@pytest.fixture(autouse=True)
def docker_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The docker command line's configuration file, which is not there yet."""
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    # Loopback is reached without a proxy, whatever the machine has.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    return folder / "config.json"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A registry with an empty repository."""
    with serving() as served:
        yield served


@pytest.fixture
def opened(registry: FakeRegistry) -> Iterator[Opened]:
    """Opens that repository for reading, with the credentials that are stored by then."""
    with ExitStack() as stack:

        def open_it() -> RegistryRepository:
            name = RepositoryName.of(registry.name)
            repository = RegistryRepository(name, {}, "linux/amd64")
            stack.callback(repository.close)
            return repository

        yield open_it
