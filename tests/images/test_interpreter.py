from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from packaging.tags import sys_tags

from bitsect.images.errors import InterpreterError
from bitsect.images.interpreter import Interpreter, describe_interpreter


def test_it_describes_the_python_that_runs(interpreter: Interpreter) -> None:
    assert interpreter.version == platform.python_version()
    assert interpreter.implementation == sys.implementation.name
    assert interpreter.build == sys.version
    assert interpreter.tags == tuple(map(str, sys_tags()))
    assert interpreter.platform_tag == f"{sys.platform}_{platform.machine()}"


def test_an_environment_is_seen_through_to_its_base(interpreter: Interpreter) -> None:
    described = describe_interpreter(sys.executable)

    assert described == interpreter
    assert Path(described.path).samefile(Path(sys.executable))


def test_another_build_has_another_identity(interpreter: Interpreter) -> None:
    fields = {name: getattr(interpreter, name) for name in interpreter.__struct_fields__}
    rebuilt = Interpreter(**(fields | {"build": "another"}))

    assert rebuilt.identity != interpreter.identity


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InterpreterError, match="no such file") as caught:
        describe_interpreter("/nowhere/python")

    assert caught.value.path == "/nowhere/python"


@pytest.mark.parametrize(
    ("script", "executable"),
    [
        ("#!/bin/sh\nexit 3\n", True),
        ("#!/bin/sh\necho hello\n", True),
        ("#!/bin/sh\necho '{}'\n", True),
        ("no program\n", False),
    ],
)
def test_a_file_that_is_no_python_is_refused(script: str, executable: bool, tmp_path: Path) -> None:
    file = tmp_path / "python"
    file.write_text(script)
    file.chmod(0o755 if executable else 0o644)

    with pytest.raises(InterpreterError) as caught:
        describe_interpreter(file)

    assert caught.value.reason


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError):
        describe_interpreter(tmp_path)
