"""Every kind of bad input: one clear line, exit status 2, and no session left behind."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bitsect.bisect.store import SCHEMA, Store
from tests.end_to_end.conftest import Program

TORCH = "torch==2.13.0"


def refused(bitsect: Program, data: Path, *arguments: str, **changes: str) -> str:
    """Runs a command that must be refused; its one line."""
    ran = bitsect(*arguments, **changes)
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    lines = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, ran.stderr
    assert ran.stderr.splitlines()[-1] == lines[0]
    if (data / "store.sqlite").exists():
        store = Store(data)
        assert store.sessions() == ()
        store.close()
    return lines[0]


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (("good:conda:x", "bad:venv:numpy==2.0.0"), "or two virtual environments"),
        (("good:venv:", "bad:venv:numpy==2.0.0"), "cannot use"),
        (("good:venv:no such file.txt", "bad:venv:numpy==2.0.0"), "cannot use"),
        (("good:venv:numpy==", "bad:venv:numpy==2.0.0"), "cannot use"),
        (("venv:numpy==1.26.4", "bad:venv:numpy==2.0.0"), "one good:REF and one bad:REF"),
        (("good:venv:numpy==1.26.4", "good:venv:numpy==2.0.0"), "one good:REF and one bad:REF"),
        (("good:venv:numpy==1.26.4",), "one good:REF and one bad:REF"),
        (("good:host:", "bad:venv:numpy==2.0.0"), "or two virtual environments"),
        (("good:", "bad:venv:numpy==2.0.0"), "nothing follows the side"),
    ],
)
def test_references_that_say_nothing(
    bitsect: Program, data: Path, ends: tuple[str, ...], said: str
) -> None:
    assert said in refused(bitsect, data, "bisect", "start", *ends)


@pytest.mark.parametrize(
    "arguments",
    [
        ("bisect", "bogus"),
        ("bisect", "start", "--workers", "0", "good:venv:a", "bad:venv:b"),
        ("bisect", "start", "--arms", "legs", "good:venv:a", "bad:venv:b"),
        ("bisect", "start", "--python", "/no/python", "good:venv:numpy", "bad:venv:numpy"),
        ("bisect", "status"),
        ("bisect", "log", "--session", "3"),
        ("bisect", "report", "-o", "/no/folder/report.md"),
        ("compare", "missing.jsonl", "missing.jsonl"),
        ("diff", "manifest:missing.yaml", "manifest:missing.yaml"),
        ("pin", "host:", "-o", "/no/folder/stack.yaml"),
        ("probe", "ubuntu:22.04"),
    ],
    ids=" ".join,
)
def test_commands_that_cannot_be_done(
    bitsect: Program, data: Path, arguments: tuple[str, ...]
) -> None:
    refused(bitsect, data, *arguments)


@pytest.mark.end_to_end
def test_a_version_that_does_not_exist(bitsect: Program, data: Path) -> None:
    line = refused(
        bitsect, data, "bisect", "start", "good:venv:numpy==1.99.0", "bad:venv:numpy==2.0.0"
    )
    assert "numpy 1.99.0" in line
    assert "nearest: " in line


@pytest.mark.end_to_end
def test_requirements_that_do_not_fit_together(bitsect: Program, data: Path) -> None:
    line = refused(
        bitsect, data, "bisect", "start",
        "good:venv:numpy==2.0.0,scipy==1.9.3", "bad:venv:numpy==2.0.1,scipy==1.14.0",
    )  # fmt: skip
    assert "UNRESOLVED" in line
    assert "scipy==1.9.3 depends on numpy" in line


@pytest.mark.end_to_end
def test_equal_ends(bitsect: Program, data: Path) -> None:
    same = ("good:venv:numpy==2.0.0", "bad:venv:numpy==2.0.0")
    assert "the same stack" in refused(bitsect, data, "bisect", "start", *same)


@pytest.mark.end_to_end
def test_ends_that_agree_on_every_event(bitsect: Program, data: Path) -> None:
    # Given two stacks that differ in a package that computes nothing
    ends = [f"{side}:venv:{TORCH},numpy==2.4.6,six=={v}" for side, v in
            (("good", "1.16.0"), ("bad", "1.17.0"))]  # fmt: skip
    line = refused(bitsect, data, "bisect", "start", *ends)
    assert "nothing to bisect: the two stacks agree on all" in line


SHAKY = """
import os
import numpy

steady = numpy.sum
numpy.sum = lambda *given, **named: steady(*given, **named) + int.from_bytes(os.urandom(4), "big")
"""


def shaky_wheel(folder: Path) -> None:
    """A distribution whose presence makes ``numpy.sum`` nondeterministic."""
    info = "shaky-1.0.dist-info"
    files = {
        "shaky.py": SHAKY,
        "shaky.pth": "import shaky\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: shaky\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / "shaky-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


@pytest.mark.end_to_end
def test_an_end_that_does_not_repeat_itself(bitsect: Program, data: Path, tmp_path: Path) -> None:
    # Given a bad end with a distribution that adds noise to every sum
    shaky_wheel(tmp_path)
    places = f"{tmp_path} {os.environ.get('PIP_FIND_LINKS', '')}".strip()
    ends = (f"good:venv:{TORCH},numpy==2.4.6", f"bad:venv:{TORCH},numpy==2.4.6,shaky==1.0")

    line = refused(bitsect, data, "bisect", "start", *ends, PIP_FIND_LINKS=places)

    assert "NONDETERMINISTIC: the bad end" in line
    assert "data.reduction" in line


@pytest.mark.end_to_end
def test_a_stack_in_which_the_probe_cannot_run(bitsect: Program, data: Path) -> None:
    ends = ("good:venv:numpy==2.0.0", "bad:venv:numpy==2.0.1")
    assert "torch is not installed" in refused(bitsect, data, "bisect", "start", *ends)


@pytest.mark.parametrize("variable", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"])
def test_an_index_that_cannot_be_reached(bitsect: Program, data: Path, variable: str) -> None:
    line = refused(
        bitsect, data, "bisect", "start",
        f"good:venv:{TORCH},numpy==1.26.4", f"bad:venv:{TORCH},numpy==2.0.0",
        **{variable: "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "UV_NO_CACHE": "1"},
    )  # fmt: skip
    assert "no package index can be reached" in line
    assert "127.0.0.1:9" in line


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to mount")
def test_a_disk_without_space(bitsect: Program, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    try:
        ends = ("good:venv:numpy==1.26.4", "bad:venv:numpy==2.0.0")
        line = refused(
            bitsect, disk / "data", "bisect", "start", *ends, BITSECT_DATA=str(disk / "data"),
            BITSECT_CACHE=str(disk / "cache"),
        )  # fmt: skip
        assert "no space is left on the disk" in line
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_store_of_a_newer_version(bitsect: Program, data: Path) -> None:
    store = Store(data)
    store._database.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    store.close()
    ran = bitsect("bisect", "status")
    assert ran.returncode == 2
    assert "written by a newer bitsect" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.end_to_end
def test_traces_and_manifests_that_were_tampered_with(bitsect: Program, tmp_path: Path) -> None:
    # Given a probe of this Python, kept in a folder that is named from where one is
    kept = tmp_path / "work" / "kept"
    ran = bitsect("probe", "host:", "-o", "kept", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["comparison"]["changes"] == []
    first, second = kept / "first.jsonl", kept / "second.jsonl"
    assert bitsect("compare", str(first), str(second)).returncode == 0

    def compared(change: Callable[[str], str]) -> str:
        second.write_text(change(whole))
        ran = bitsect("compare", str(first), str(second))
        assert ran.returncode == 2, ran.stdout
        (line,) = ran.stderr.splitlines()
        return line

    # Then a trace that is cut, or in which one digit was changed, is refused
    whole = second.read_text()
    assert "second.jsonl" in compared(lambda text: text[: len(text) // 2])
    assert "second.jsonl" in compared(lambda text: text.replace("mm.nn", "mm.nx", 1))
    assert "one run" in compared(lambda text: first.read_text())

    # And so is a manifest in which one character was changed
    stack = kept / "stack.yaml"
    text = stack.read_text()
    same = bitsect("diff", f"manifest:{stack}", f"manifest:{stack}")
    assert same.returncode == 0, same.stderr
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("version: 2.13.0", "version: 2.13.1", 1))
    assert other.read_text() != text
    ran = bitsect("diff", f"manifest:{stack}", f"manifest:{other}")
    assert ran.returncode == 2
    assert "cannot be relied on, at software" in ran.stderr
