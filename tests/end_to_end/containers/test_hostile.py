"""Images that mean harm: each is contained by its limits and gets a clear verdict."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import docker
import pytest

from bitsect.images.runtime.docker.marks import MADE
from tests.containers import cases
from tests.containers.hostile import Behaviour
from tests.containers.workshop import Workshop
from tests.end_to_end.conftest import Program

pytestmark = [pytest.mark.end_to_end, pytest.mark.engine]

#: What each is stopped by, as a person is told.
VERDICTS: Mapping[Behaviour, tuple[str, ...]] = {
    "forks": ("TIMEOUT", "CRASH"),
    "writes": ("TIMEOUT", "CRASH"),
    "sleeps": ("TIMEOUT",),
    "connects": ("CRASH",),
    "prints": ("CRASH",),
}
#: Bytes by which the host's disk may differ for other reasons.
TOLERANCE = 200 << 20


@pytest.mark.parametrize("behaviour", list(VERDICTS))
def test_a_hostile_end_is_contained(
    behaviour: Behaviour, bitsect: Program, workshop: Workshop, engine: docker.DockerClient
) -> None:
    # Given an image that looks like any other, and does harm as soon as its Python starts
    good = workshop.torch()
    bad = cases.hostile(workshop, behaviour, with_torch=True)
    free, processes = shutil.disk_usage("/").free, number_of_processes()

    # When it is an end of a search
    ran = bitsect(
        "bisect", "start", f"good:{good}", f"bad:{bad}",
        "--arms=data", "--timeout=12", "--memory=1g", "--processes=256",
    )  # fmt: skip

    # Then there is no search, and one line says why
    assert ran.returncode == 2, ran.stderr
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    verdicts = VERDICTS[behaviour]
    assert any(f"{verdict}: the bad end" in line for verdict in verdicts), line
    if behaviour == "connects":
        assert "no way out" in line

    # And nothing of it is left on the host
    assert shutil.disk_usage("/").free > free - TOLERANCE
    assert number_of_processes() < processes + 100
    left = engine.containers.list(all=True, filters={"ancestor": bad}, ignore_removed=True)
    assert [each for each in left if MADE in each.labels] == []


def number_of_processes() -> int:
    return sum(entry.name.isdigit() for entry in Path("/proc").iterdir())
