"""What a process opened and asked for, as it is watched from inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from bitsect.probes.usage import Variables

ROOT = Path(__file__).parents[2]

FRAME = """
import json, os, sys
from bitsect.probes.usage import usage
usage.watch()
{program}
usage.stop()
open("after.txt").close()
sys.stdout.write(json.dumps([usage.files(ignored=[os.getcwd() + "/ignored"]),
                             usage.variables(), usage.problems()]))
"""


def watched(folder: Path, program: str, **variables: str) -> tuple[list[str], list[str], Any]:
    """(files, variables, problems) of a program; the hook cannot be taken out of this process."""
    (folder / "after.txt").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", FRAME.format(program=textwrap.dedent(program))],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables}, cwd=folder,
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    files, names, problems = json.loads(done.stdout)
    return files, names, problems


def test_files_that_were_read_are_told_once_with_what_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "real.conf").write_text("x")
    (tmp_path / "link.conf").symlink_to("real.conf")
    files, _, problems = watched(
        tmp_path, "for _ in range(3): open('link.conf').read(); os.close(os.open(b'real.conf', 0))"
    )
    assert files == [str(tmp_path / "link.conf"), str(tmp_path / "real.conf")]
    assert problems == []


@pytest.mark.parametrize(
    "program",
    [
        "open('new.txt', 'w').close()",
        "open('/proc/self/maps').read(); open('/dev/null').close()",
        "os.makedirs('ignored'); open('ignored/x', 'w').close(); open('ignored/x').close()",
        "os.makedirs('a-1.dist-info'); p='a-1.dist-info/METADATA'; open(p,'w').close(); open(p)",
        "open('gone', 'w').close(); open('gone').close(); os.unlink('gone')",
        "sys.audit('open'); sys.audit('open', 1); sys.audit('open', 'x', None, 'y')",
        "try: open('absent')\nexcept OSError: pass",
    ],
)
def test_what_says_nothing_about_the_stack_is_left_out(tmp_path: Path, program: str) -> None:
    files, _, problems = watched(tmp_path, program)
    assert (files, problems) == ([], [])


def test_a_compiled_module_counts_as_its_source(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("value = 1\n")
    program = "sys.path.insert(0, os.getcwd()); import mine"
    for _ in range(2):
        files, _, _ = watched(tmp_path, program, PYTHONDONTWRITEBYTECODE="")
        assert files == [str(tmp_path / "mine.py")]


def test_a_relative_name_in_a_folder_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    program = """
    os.makedirs('lost'); os.chdir('lost'); os.rmdir('../lost')
    try: open('x')
    except OSError: pass
    os.chdir('/')
    open('{after}', 'w').close()
    """.replace("{after}", str(tmp_path / "after.txt"))
    # The frame's own last file is named from where the program began.
    files, _, _ = watched(tmp_path, program + f"\n    os.chdir('{tmp_path}')")
    assert files == []


@pytest.mark.parametrize(
    ("program", "read"),
    [
        ("os.environ.get('ABSENT')", ["ABSENT"]),
        ("os.getenv('HOME'); os.environb.get(b'OTHER')", ["HOME", "OTHER"]),
        ("'PRESENT' in os.environ", ["PRESENT"]),
        ("os.environ['PRESENT']; os.environ['NEW'] = '1'", ["PRESENT"]),
        ("dict(os.environ); os.environ.copy(); {**os.environ}; list(os.environ.items())", []),
        ("list(os.environ); os.environ['PRESENT']", ["PRESENT"]),
        ("import subprocess; subprocess.run(['true'], env=dict(os.environ, A='1'))", []),
    ],
)
def test_variables_that_were_asked_for_by_name(
    tmp_path: Path, program: str, read: list[str]
) -> None:
    _, names, _ = watched(tmp_path, program, PRESENT="x")
    assert names == read


def test_a_changed_variable_still_reaches_programs(tmp_path: Path) -> None:
    program = """
    import subprocess
    os.environ['MINE'] = 'yes'
    assert subprocess.run(['printenv', 'MINE'], capture_output=True).stdout == b'yes\\n'
    assert os.environb[b'MINE'] == b'yes'
    """
    watched(tmp_path, program)


def test_a_sweep_that_stops_halfway_was_a_search() -> None:
    variables = Variables({"a": 1, "b": 2, "c": 3})
    for key in variables:
        if variables[key] == 2:
            break
    assert variables.names() == ["a", "b"]


def test_a_whole_sweep_was_a_copy() -> None:
    variables = Variables({"a": 1, "b": 2})
    assert {key: variables[key] for key in variables} == {"a": 1, "b": 2}
    assert variables.names() == []
    assert variables["b"] == 2
    assert variables.names() == ["b"]
