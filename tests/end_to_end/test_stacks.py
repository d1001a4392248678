"""Real stacks of this machine: pinned, looked at again, changed, and made again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import Program

STACK = "venv:six==1.16.0"


def drifts(ran: Any) -> dict[str, Any]:
    """What a ``--json`` run names by component, without noise."""
    answer = json.loads(ran.stdout)
    drift = answer.get("drift", answer)
    return {each["component"]: each for each in drift["differences"] if not each["noise"]}


@pytest.mark.end_to_end
class TestAnEnvironment:
    def test_it_is_as_it_was_pinned(self, bitsect: Program, tmp_path: Path) -> None:
        file = str(tmp_path / "stack.yaml")
        pinned = bitsect("pin", STACK, "-o", file)
        assert pinned.returncode == 0, pinned.stderr
        ran = bitsect("verify", file)
        assert (ran.returncode, ran.stdout) == (0, f"{STACK} is as pinned.\n"), ran.stderr

    def test_a_variable_that_was_set_since_is_named(self, bitsect: Program, tmp_path: Path) -> None:
        file = str(tmp_path / "stack.yaml")
        bitsect("pin", STACK, "-o", file)
        ran = bitsect("verify", file, "--json", MKL_CBWR="AVX2")
        assert ran.returncode == 1
        assert drifts(ran) == {
            "env:MKL_CBWR": {"component": "env:MKL_CBWR", "before": None, "after": "AVX2",
                             "noise": False, "layer": "controls"}
        }  # fmt: skip

    def test_one_that_was_changed_is_told_and_made_again(
        self, bitsect: Program, tmp_path: Path
    ) -> None:
        # Given an environment whose only module somebody edited, keeping its size
        file = str(tmp_path / "stack.yaml")
        bitsect("pin", STACK, "-o", file)
        python = Path(json.loads(bitsect("rebuild", file, "--json").stdout)["python"])
        (module,) = python.parent.parent.glob("lib/python*/site-packages/six.py")
        edited = module.read_bytes()[:-1] + b"#"
        module.unlink()
        module.write_bytes(edited)

        # Then that is named
        ran = bitsect("verify", file, "--json")
        assert ran.returncode == 1
        assert "altered six.py" in drifts(ran)["pip:six"]["after"]

        # And an environment is made that is as pinned, in the same place
        made = bitsect("rebuild", file)
        assert (made.returncode, made.stdout) == (0, f"{python}\n{STACK} is as pinned.\n")
        assert module.read_bytes() != edited

    def test_another_version_is_not_it(self, bitsect: Program, tmp_path: Path) -> None:
        file = str(tmp_path / "stack.yaml")
        bitsect("pin", STACK, "-o", file)
        ran = bitsect("verify", file, "venv:six==1.17.0", "--json")
        assert ran.returncode == 1
        assert set(drifts(ran)) == {"pip:six"}


def test_the_python_that_runs_can_be_looked_at_and_not_made_again(
    bitsect: Program, tmp_path: Path
) -> None:
    file = str(tmp_path / "stack.yaml")
    assert bitsect("pin", "host:", "-o", file).returncode == 0
    ran = bitsect("verify", file, "--json", OMP_NUM_THREADS="1")
    assert ran.returncode == 1
    assert drifts(ran)["env:OMP_NUM_THREADS"]["after"] == "1"

    made = bitsect("rebuild", file)
    assert (made.returncode, made.stdout) == (2, "")
    assert "nothing says how to make that again" in made.stderr.splitlines()[-1]


def test_a_manifest_that_is_none_is_refused_in_one_line(bitsect: Program, tmp_path: Path) -> None:
    for command in ("verify", "rebuild"):
        ran = bitsect(command, str(tmp_path / "missing.yaml"))
        assert (ran.returncode, ran.stdout) == (2, "")
        assert len(ran.stderr.splitlines()) == 1
        assert "missing.yaml" in ran.stderr
