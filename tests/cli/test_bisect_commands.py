"""`bisect sessions`, `log --run` and `report`, on a store in which one search has ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bitsect.bisect.errors import NoManifest, NoRun
from bitsect.bisect.store import Store
from bitsect.cli.app import bisect_app
from bitsect.cli.console import UsageError
from tests.bisect.fakes import searched

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def one_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BITSECT_DATA", str(tmp_path / "data"))
    store = Store(tmp_path / "data")
    searched(store)
    store.close()


def bisect(*words: str) -> int:
    status = bisect_app(list(words), standalone_mode=False)
    assert isinstance(status, int)
    return status


def test_sessions_are_listed(capsys: Captured) -> None:
    assert bisect("sessions") == 0
    shown = capsys.readouterr().out
    assert "venv:good" in shown
    assert "finished" in shown


def test_sessions_as_json(capsys: Captured) -> None:
    bisect("sessions", "--json")
    (session,) = json.loads(capsys.readouterr().out)
    assert (session["number"], session["spec"]["bad"]["reference"]) == (1, "venv:bad")


def test_a_run_as_json(capsys: Captured) -> None:
    bisect("log", "--run", "2", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["session"], told["run"]["sequence"]) == (1, 2)
    assert told["printed"] == "it printed nothing"


def test_a_run_that_is_not_there() -> None:
    with pytest.raises(NoRun):
        bisect("log", "--run", "1000")


def test_a_manifest_is_a_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--run"):
        bisect("log", "--manifest", str(tmp_path / "stack.yaml"))


def test_a_run_without_a_manifest_writes_none(tmp_path: Path) -> None:
    with pytest.raises(NoManifest):
        bisect("log", "--run", "1", "--manifest", str(tmp_path / "stack.yaml"))
    assert not (tmp_path / "stack.yaml").exists()


def test_the_report_names_runs_as_the_log_does(capsys: Captured) -> None:
    bisect("log", "--json")
    logged = {each["sequence"] for each in json.loads(capsys.readouterr().out)["ledger"]}
    bisect("report", "--json")
    trials = json.loads(capsys.readouterr().out)["trials"]
    assert {run for trial in trials for run in trial["runs"]} == logged


def test_the_version(capsys: Captured) -> None:
    bisect_app(["--version"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("bitsect ")
