"""Being stopped, in every way, in the middle of a search on real stacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bitsect.bisect.store import Store
from tests.end_to_end.conftest import Program

pytestmark = pytest.mark.end_to_end

COMMAND = (
    "bisect",
    "start",
    "--workers=1",
    "good:venv:torch==2.13.0,numpy==2.2.0",
    "bad:venv:torch==2.13.0,numpy==2.3.2",
)
#: Lines that a search prints when an observation is in the store.
OBSERVED = 6


@contextmanager
def searching(surroundings: dict[str, str], observations: int) -> Iterator[subprocess.Popen[str]]:
    """A search that has reported this many observations and is at the next."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bitsect", *COMMAND],
        env=surroundings,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith(f"[{observations}]"):
                break
        else:
            pytest.fail("the search ended before it could be stopped")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> list[tuple[str, str]]:
    """The steps that the same search finds when nothing happens to it."""
    ran = subprocess.run(
        [sys.executable, "-m", "bitsect", *COMMAND, "--json"],
        env={
            **os.environ,
            "BITSECT_DATA": str(tmp_path_factory.mktemp("undisturbed")),
            "BITSECT_CACHE": str(cache),
        },
        check=True,
        capture_output=True,
        text=True,
    )
    return steps_of(ran.stdout)


def steps_of(answer: str) -> list[tuple[str, str]]:
    return [
        (finding["culprits"][0]["before"], finding["culprits"][0]["after"])
        for finding in json.loads(answer)["findings"]
    ]


def kept(data: Path) -> int:
    store = Store(data)
    try:
        return len(store.ledger(store.session().number))
    finally:
        store.close()


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_search_that_was_stopped_goes_on_where_it_was(
    by: signal.Signals,
    bitsect: Program,
    surroundings: dict[str, str],
    data: Path,
    undisturbed: list[tuple[str, str]],
) -> None:
    # Given a search that is stopped in the middle
    with searching(surroundings, OBSERVED) as process:
        process.send_signal(by)
        status = process.wait()
        assert process.stderr is not None
        said = process.stderr.read()
    if by == signal.SIGINT:
        assert status == 130
        assert "everything observed is kept" in said
        assert "Traceback" not in said
    observed = kept(data)
    assert observed >= OBSERVED

    # And none of its programs is left
    assert programs_using(str(data.parent)) == []

    # When the same command is given again
    again = bitsect(*COMMAND, "--json")
    assert again.returncode == 0, again.stderr

    # Then it goes on with all that was observed, to the answer that it would have given
    assert f"going on, {observed} observations kept" in again.stderr
    assert steps_of(again.stdout) == undisturbed != []

    # And a third time it only reads
    third = bitsect(*COMMAND, "--json")
    assert json.loads(third.stdout) == json.loads(again.stdout)


def programs_using(text: str) -> list[str]:
    """Command lines of living processes, other than this one, that name a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if text in line:
                found.append(line)
    return found
