"""Searches on real container stacks leave nothing on the engine but what they keep on purpose."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.containers import cases
from tests.containers.remnants import remnants, remove
from tests.containers.second_engine import SecondEngine, second_engine
from tests.containers.workshop import Workshop
from tests.end_to_end.containers.disturbed import ENDS, Search

#: Bytes that the second engine's disk has: twice what the largest images of the tests take.
DISK = 3 << 30
#: Bytes of a file that moves whatever moves.
BALLAST = 24 << 20


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


@pytest.fixture(scope="session")
def ends_observed(
    second: SecondEngine,
    engine: docker.DockerClient,
    workshop: Workshop,
    cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Search:
    """A search on the second engine that was stopped when both ends were known."""
    good, bad = (
        workshop.derived(
            f"bitsect-test/disturbed:{end}",
            image,
            # Of another content in each, so that every hybrid has to copy it or the BLAS.
            files={"opt/ballast": bytes([number]) * BALLAST},
        )
        for number, (end, image) in enumerate(
            zip(("good", "bad"), cases.chain(workshop).images[:2], strict=True)
        )
    )
    second.load(engine, (good, bad))
    search = Search(second, (good, bad), tmp_path_factory.mktemp("ends"), cache)
    with search.running() as process:
        assert process.stderr is not None
        said = [next(process.stderr)]
        while not said[-1].startswith("session 1: "):
            said.append(next(process.stderr))
    assert search.observed == ENDS
    return search


@pytest.fixture(scope="session")
def undisturbed(ends_observed: Search, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answer that the same search gives when nothing happens to it."""
    data = tmp_path_factory.mktemp("undisturbed")
    return continued(ends_observed, data).answer(kept=ENDS)


@pytest.fixture
def begun(ends_observed: Search, undisturbed: dict[str, Any], tmp_path: Path) -> Search:
    """The search that knows its ends, with no hybrid made yet."""
    search = continued(ends_observed, tmp_path / "data")
    with search.engine.client() as client:
        remove(client, remnants(client, search.cache))
    return search


def continued(search: Search, data: Path) -> Search:
    """The same search with a copy of what it knows."""
    shutil.copytree(search.data, data, dirs_exist_ok=True)
    return search.on(data)
