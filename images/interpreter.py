"""What an interpreter is, as far as the choice of its packages and its bits depend on it."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import msgspec
import packaging

from bitsect.images.errors import InterpreterError

# Runs inside the described interpreter, with our copy of `packaging` and nothing else.
DESCRIBE = """\
import json, platform, sys
sys.path.insert(0, sys.argv[1])
from packaging.markers import default_environment
from packaging.tags import sys_tags
print(json.dumps({
    "executable": sys.executable,
    "base": getattr(sys, "_base_executable", None) or sys.executable,
    "version": platform.python_version(),
    "implementation": sys.implementation.name,
    "build": sys.version,
    "tags": [str(tag) for tag in sys_tags()],
    "libc": "-".join(filter(None, platform.libc_ver())),
    "markers": {key: str(value) for key, value in default_environment().items()},
}))
"""
TIMEOUT_SECONDS = 60


class Interpreter(msgspec.Struct, frozen=True):
    """One Python interpreter of this machine.

    ``path`` is what environments are made from, ``tags`` are its wheel tags, best first,
    ``libc`` is such as ``glibc-2.36``, and ``markers`` the variables of requirement markers.
    """

    path: str
    version: str
    implementation: str
    build: str
    tags: tuple[str, ...]
    libc: str
    markers: dict[str, str]

    @property
    def platform_tag(self) -> str:
        """System and machine, such as ``linux_x86_64``."""
        return f"{self.markers['sys_platform']}_{self.markers['platform_machine']}"

    @property
    def identity(self) -> str:
        """What of it a lock's digest covers: another build of the same version is another."""
        return " ".join(
            (f"{self.implementation}-{self.version}", self.platform_tag, self.libc, self.build)
        )


def describe_interpreter(path: Path | str | None = None) -> Interpreter:
    """Describes an interpreter, by default the one that bitsect's own environment is made of.

    Raises InterpreterError for a file that is missing, not executable, or no Python ≥ 3.9.
    """
    if path is None:
        path = getattr(sys, "_base_executable", None) or sys.executable
    # Not resolved: a virtual environment's `python` is a link whose own place is its meaning.
    return _describe(str(Path(path).absolute()))


@functools.cache
def _describe(path: str) -> Interpreter:
    if not Path(path).exists():
        raise InterpreterError(path, "no such file")
    library = str(Path(packaging.__file__).parent.parent)
    try:
        finished = subprocess.run(
            # -I: its own packages and variables must not replace what we measure with.
            [path, "-I", "-B", "-c", DESCRIBE, library],
            capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
    except OSError as error:
        raise InterpreterError(path, error.strerror or str(error)) from error
    except subprocess.TimeoutExpired as error:
        raise InterpreterError(path, f"no answer in {TIMEOUT_SECONDS} seconds") from error
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or [f"ended with {finished.returncode}"]
        raise InterpreterError(path, lines[-1])
    return _decoded(path, finished.stdout)


def _decoded(path: str, answer: str) -> Interpreter:
    try:
        fields = msgspec.json.decode(answer, type=dict[str, object])
        base, executable = fields.pop("base"), fields.pop("executable")
        # Environments made from an environment would break when that one is removed.
        chosen = base if base and Path(str(base)).exists() else executable
        return msgspec.convert({"path": str(chosen), **fields}, Interpreter)
    except (msgspec.MsgspecError, KeyError) as error:
        raise InterpreterError(path, "it did not answer as Python does") from error
