"""The inventory as it is started: a process with no package of ours, one JSON object."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bitsect.probes import inventory

SOURCE = Path(inventory.__file__).resolve()


def start(
    *arguments: str, python: str = sys.executable, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(SOURCE), *arguments],
        capture_output=True, text=True, check=True, env={**os.environ, **(environment or {})},
    )  # fmt: skip
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def values(tree: object) -> Iterator[object]:
    if isinstance(tree, dict):
        for value in tree.values():
            yield from values(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from values(value)
    else:
        yield tree


IDENTITY = ("software", "controls", "hardware")


def identity_of(report: dict[str, Any]) -> dict[str, Any]:
    return {layer: report[layer] for layer in IDENTITY}


def test_two_runs_agree_on_all_that_is_identity() -> None:
    first, second = start(), start()
    assert identity_of(first) == identity_of(second)
    assert set(first) == {"schema", "evidence", *IDENTITY}
    assert first["schema"] == 1


def test_there_are_no_fractions_and_no_place_of_the_environment_in_identity() -> None:
    report = start("--warm-up")
    everything = list(values(identity_of(report)))
    assert not any(isinstance(value, float) for value in everything)
    texts = [value for value in everything if isinstance(value, str)]
    assert not any(text.startswith(sys.prefix + "/") for text in texts)
    names = {entry["name"] for entry in report["software"]["distributions"]}
    assert {"torch", "numpy"} <= names


def test_the_warm_up_maps_the_libraries_and_reads_the_flags() -> None:
    cold, warm = start(), start("--warm-up")
    assert cold["controls"]["torch"] is None
    assert warm["controls"]["torch"]["deterministic_algorithms"] is False
    assert warm["software"]["torch"]["git_version"]
    paths = [library["path"] for library in warm["software"]["libraries"]]
    assert any("libtorch_cpu" in path for path in paths)
    assert any("openblas" in path for path in paths)
    assert len(paths) > len(cold["software"]["libraries"])
    assert (cold["software"]["warm_up"], warm["software"]["warm_up"]) == (False, True)
    # The probe's own folder lends no module to the stack that is looked at.
    assert not any(SOURCE.parent.as_posix() in path for path in paths)


def test_a_variable_changes_the_controls_and_nothing_else() -> None:
    plain, changed = start(), start(environment={"OMP_NUM_THREADS": "1"})
    assert changed["controls"]["variables"]["OMP_NUM_THREADS"] == "1"
    assert plain["software"] == changed["software"]
    assert plain["hardware"] == changed["hardware"]


def test_equal_environments_in_different_folders_are_described_equally(tmp_path: Path) -> None:
    reports = []
    for name in ("one", "a_longer_name"):
        folder = tmp_path / name
        venv.create(folder, symlinks=True)
        site = next(folder.glob("lib/python*/site-packages"))
        info = site / "demo-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: demo\nVersion: 1\n")
        (site / "demo.py").write_text("")
        launcher = folder / "bin" / "demo"
        launcher.write_text(f"#!{folder}/bin/python\n")
        size = launcher.stat().st_size
        rows = f"demo.py,sha256=x,0\n../../../bin/demo,sha256={name},{size}\n"
        (info / "RECORD").write_text(rows)
        reports.append(start(python=str(folder / "bin" / "python")))
    one, other = reports
    assert [entry["name"] for entry in one["software"]["distributions"]] == ["demo"]
    assert one["software"]["distributions"][0]["altered"] == []
    assert identity_of(one) == identity_of(other)
    assert one["evidence"]["prefix"] != other["evidence"]["prefix"]


def test_libraries_that_print_while_they_load_do_not_spoil_the_answer(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("import os\nprint('hello')\nos.write(1, b'there')\nbroken\n")
    report = start("--warm-up", environment={"PYTHONPATH": str(tmp_path)})
    problems = {problem["what"]: problem["reason"] for problem in report["evidence"]["problems"]}
    assert problems["warm-up: numpy"] == "NameError"


def test_the_file_runs_alone_from_any_folder(tmp_path: Path) -> None:
    alone = tmp_path / "copied.py"
    shutil.copy(SOURCE, alone)
    done = subprocess.run(
        [sys.executable, "-I", str(alone)],
        capture_output=True, text=True, check=True, cwd=tmp_path, env={},
    )  # fmt: skip
    assert json.loads(done.stdout)["software"]["python"]["implementation"] == "cpython"


def test_an_argument_that_is_not_understood_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(SOURCE), "--depth"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "--depth" in done.stderr


@pytest.mark.parametrize("layer", ["altered", "missing", "unreadable"])
def test_this_environment_agrees_with_its_records_byte_by_byte(layer: str) -> None:
    report = start("--deep")
    wrong = {e["name"]: e[layer] for e in report["software"]["distributions"] if e[layer]}
    assert wrong == {}
