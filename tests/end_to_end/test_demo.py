"""The demo, checked against the store and the index rather than against itself."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from bitsect.bisect.findings import replay
from bitsect.bisect.store import Store
from bitsect.images.catalogue import releases
from bitsect.images.interpreter import describe_interpreter
from bitsect.images.pip_settings import read_pip_settings
from bitsect.probes.trace import read_trace
from tests.end_to_end.conftest import Program

pytestmark = pytest.mark.end_to_end
ROOT = Path(__file__).parents[2]


def demo_arguments() -> list[str]:
    """What `make demo` runs, read from make itself."""
    printed = subprocess.run(
        ["make", "--dry-run", "--always-make", "demo", f"PYTHON={sys.executable}",
         f"BIN={Path(sys.executable).parent}"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    (line,) = [each for each in printed.splitlines() if "bisect start" in each]
    return shlex.split(line)[1:]


def test_the_demo_finds_what_the_store_proves(bitsect: Program, data: Path) -> None:
    # Given the demo's own command
    arguments = demo_arguments()
    good, bad = (re.findall(r"numpy==([^,]+)$", end)[0] for end in arguments[1:3])

    # When it has run
    ran = bitsect("bisect", *arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)

    # Then it found something, settled, confirmed by bytes and by repetition
    assert answer["settled"]
    assert answer["findings"]
    assert all(change["certified"] for f in answer["findings"] for change in f["changes"])
    assert all(min(f["runs_before"], f["runs_after"]) >= 2 for f in answer["findings"])

    # And every step is between releases that are neighbours on the user's index
    offered = offered_between(good, bad)
    for finding in answer["findings"]:
        (culprit,) = finding["culprits"]
        assert culprit["component"] == "pip:numpy"
        assert culprit["bound"]["exact"]
        place = offered.index(culprit["before"])
        assert offered[place + 1] == culprit["after"]

    # And the traces in the store say so: between two steps of an event its digest is the
    # same at every release that ran, and at each step it is another one
    returned = events_that_came_back(data)
    assert bool(returned) == bool(answer["came_back"])
    check_against_traces(answer, digests_by_release(data, offered), offered, returned)

    # And it took fewer trials than the releases have
    assert len(answer["trials"]) < answer["scan"] == len(offered)

    # And the table says the same to a person
    shown = bitsect("bisect", "status")
    for finding in answer["findings"]:
        assert (
            f"{finding['culprits'][0]['before']} → {finding['culprits'][0]['after']}"
            in shown.stdout
        )


def offered_between(good: str, bad: str) -> list[str]:
    found = releases("numpy", describe_interpreter(), read_pip_settings())
    return [
        release.version
        for release in found
        if Version(good) <= Version(release.version) <= Version(bad)
        and not (release.yanked or release.prerelease)
        and release.has_wheel
    ]


def digests_by_release(data: Path, offered: list[str]) -> dict[str, dict[str, str]]:
    """Event digests of every release that ran, straight from the stored traces."""
    store = Store(data)
    session = store.session()
    assert session.spec.axes[0].points == tuple(offered)
    found: dict[str, dict[str, str]] = {}
    for entry in store.ledger(session.number):
        assert entry.observation.trace is not None
        trace = read_trace(store.blobs.path(entry.observation.trace))
        assert trace.header.versions["numpy"] == offered[entry.vector[0]]
        events = {e.key.text: e.digest for e in trace.events if e.key.phase != "control"}
        assert found.setdefault(offered[entry.vector[0]], events) == events
    store.close()
    return found


def events_that_came_back(data: Path) -> set[str]:
    """Events that changed and changed back, which the answer names apart from its steps."""
    store = Store(data)
    engine, _ = replay(store, store.session())
    store.close()
    return {event for anomaly in engine.anomalies() for event in anomaly.events}


def check_against_traces(
    answer: dict[str, Any],
    seen: dict[str, dict[str, str]],
    offered: list[str],
    returned: set[str],
) -> None:
    steps: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for finding in answer["findings"]:
        (culprit,) = finding["culprits"]
        for change in finding["changes"]:
            steps[change["event"]].append((culprit["before"], culprit["after"]))
    ran = [version for version in offered if version in seen]
    good, bad = seen[offered[0]], seen[offered[-1]]
    changed = {event for event in {*good, *bad} if good.get(event) != bad.get(event)}
    assert set(steps) == changed
    for event, pairs in steps.items():
        stations = [offered[0], *(version for pair in pairs for version in pair), offered[-1]]
        for start, end in zip(stations[0::2], stations[1::2], strict=True):
            stretch = ran[ran.index(start) : ran.index(end) + 1]
            digests = {seen[version].get(event) for version in stretch}
            assert len(digests) == 1 or event in returned, (event, stretch)
            assert seen[start].get(event) == seen[end].get(event)
        for before, after in pairs:
            assert seen[before].get(event) != seen[after].get(event)
