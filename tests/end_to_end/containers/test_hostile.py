"""Images that mean harm: each is contained by its limits and gets a clear verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import docker
import pytest

from tests.containers import cases
from tests.containers.hostile import BEHAVIOURS, Behaviour
from tests.containers.second_engine import SecondEngine
from tests.containers.workshop import Workshop
from tests.end_to_end.conftest import Program
from tests.end_to_end.containers.disturbed import only_error, wait_until

pytestmark = [pytest.mark.end_to_end, pytest.mark.engine]

#: What each is stopped by, as a person is told: what its Python does with a full disk or without
#: another process differs.
VERDICTS: Mapping[Behaviour, tuple[str, ...]] = {
    "forks": ("TIMEOUT", "CRASH"),
    "writes": ("TIMEOUT", "CRASH"),
    "sleeps": ("TIMEOUT",),
    "connects": ("CRASH",),
    "prints": ("CRASH",),
}
LIMITS = ("--arms=data", "--timeout=4", "--memory=1g", "--processes=256")
#: Bytes by which a disk may differ when nothing that a stack wrote is on it.
TOLERANCE = 16 << 20


@pytest.fixture(scope="module")
def harmless(
    second: SecondEngine, engine: docker.DockerClient, workshop: Workshop
) -> Iterator[str]:
    """An image to compare with, beside the hostile ones on an engine that nobody else uses."""
    images = (workshop.small(), *(cases.hostile(workshop, each) for each in BEHAVIOURS))
    second.load(engine, images)
    yield workshop.small()
    with second.client() as client:
        for image in images:
            client.images.remove(image, force=True)


@pytest.mark.parametrize("behaviour", VERDICTS)
@pytest.mark.parametrize("command", ["probe", "start"])
def test_a_hostile_image_is_contained(
    command: str,
    behaviour: Behaviour,
    bitsect: Program,
    data: Path,
    second: SecondEngine,
    harmless: str,
    workshop: Workshop,
) -> None:
    # Given an image that does harm as soon as its Python starts
    image = cases.hostile(workshop, behaviour)
    free, processes = second.disk.free, second.processes

    # When it is to run
    words: tuple[str, ...] = ("probe", image)
    if command == "start":
        words = ("bisect", "start", f"good:{image}", f"bad:{harmless}")
    ran = bitsect(*words, *LIMITS, DOCKER_HOST=second.address)

    # Then one line says why it did not
    line = only_error(ran.returncode, ran.stderr)
    assert any(f"{verdict}: no inventory of {image}" in line for verdict in VERDICTS[behaviour])
    if behaviour == "connects":
        assert "no way out" in line

    # And nothing of it is left: no container, no process, no byte
    with second.client() as client:
        assert client.containers.list(all=True, ignore_removed=True) == []
    wait_until(lambda: second.processes <= processes)
    assert second.disk.free > free - TOLERANCE
    assert size_of(data) < TOLERANCE


def test_a_hostile_end_is_no_end(bitsect: Program, workshop: Workshop) -> None:
    # Given a search that ends at an image that looks like any other
    good, bad = workshop.torch(), cases.hostile(workshop, "prints", with_torch=True)

    # Then there is none, and one line says why
    ran = bitsect("bisect", "start", f"good:{good}", f"bad:{bad}", "--arms=data")
    line = only_error(ran.returncode, ran.stderr)
    assert f"CRASH: the bad end, {bad}" in line
    assert "it printed without end" in line


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
