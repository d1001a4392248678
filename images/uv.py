"""The one place that starts uv, and that tells apart why it failed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import uv as uv_package

from bitsect.images.errors import (
    BadReference,
    InfrastructureError,
    UnbuildableError,
    UnresolvedError,
)
from bitsect.images.pip_settings import PipSettings, UvSubcommand

# uv's own variables that a user may set without changing what is resolved. All others, and
# uv's configuration files, are left out: pip's settings alone decide, or the versions listed
# for an axis and the versions installed could come from two places.
KEPT_VARIABLES = re.compile(
    r"UV_(CACHE_DIR|LINK_MODE|CONCURRENT_\w+|HTTP_\w+|REQUEST_TIMEOUT|KEYRING_PROVIDER"
    r"|SYSTEM_CERTS|NATIVE_TLS|INSECURE_HOST|FS_\w+|TEST_\w+)"
)
DROPPED_VARIABLES = frozenset({"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME"})
TAIL_LENGTH = 4000

DISK_FULL = re.compile(r"os error (28|122)\b|No space left on device|Disk quota exceeded")
PERMISSION = re.compile(r"os error (1|13|30)\b|Permission denied|Read-only file system")
UNREACHABLE = re.compile(
    r"Failed to fetch|client error|error sending request|dns error|Request failed after"
    r"|Could not connect|operation timed out|network (connectivity )?is disabled"
    r"|HTTP status (client|server) error|Failed to download|--find-links"
)
UNREADABLE = re.compile(
    r"Couldn't parse requirement|Error parsing included file|Unexpected '|Unsupported requirement"
    r"|Invalid requirement|Failed to parse|TOML parse error|is not a valid lock file"
)
UNBUILDABLE = re.compile(
    r"Failed to build|Build backend|build backend|Failed to (install|read|unzip|extract)"
    r"|is not compatible with the current|marked as `--no-build`|Distribution not found"
    r"|[Ii]nvalid wheel|The wheel|Git operation failed"
)
# Without a login uv takes the index for empty, and only hints at the reason.
UNAUTHORISED = re.compile(r"lack of valid authentication credentials \(401|network was disabled")
# A file that came, but is another one than was locked.
FORGED = re.compile(r"Hash mismatch")
SECRET = re.compile(r"(?<=://)[^/\s@]+@")


class Uv:
    """Runs uv's subcommands with pip's settings."""

    def __init__(self, settings: PipSettings, environment: Mapping[str, str] | None = None) -> None:
        self.settings = settings
        self._environment = os.environ if environment is None else environment

    def compile(self, arguments: Sequence[str], asked: tuple[str, ...]) -> str:
        """``uv pip compile``; gives its standard output.

        :param asked: the requirements, to be named by an error.
        """
        return self._run("compile", ["pip", "compile", "--no-header", *arguments], asked)

    def sync(self, arguments: Sequence[str], what: str, hold: Sequence[int] = ()) -> str:
        """``uv pip sync``; ``hold``: lock files that uv keeps open for as long as it lives."""
        return self._run("sync", ["pip", "sync", *arguments], (what,), hold)

    def venv(self, arguments: Sequence[str], what: str, hold: Sequence[int] = ()) -> str:
        """``uv venv``."""
        return self._run("venv", ["venv", "--no-project", *arguments], (what,), hold)

    def _run(
        self,
        subcommand: UvSubcommand,
        command: list[str],
        asked: tuple[str, ...],
        hold: Sequence[int] = (),
    ) -> str:
        command = [find_uv(), *command, *self.settings.uv_arguments(subcommand)]
        try:
            finished = subprocess.run(
                command, env=self._variables(), capture_output=True, text=True,
                errors="replace", stdin=subprocess.DEVNULL, pass_fds=tuple(hold), check=False,
            )  # fmt: skip
        except OSError as error:
            raise InfrastructureError("tool", f"uv: {error.strerror}") from error
        if finished.returncode != 0:
            raise failure(finished.returncode, finished.stderr, asked)
        return finished.stdout

    def _variables(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self._environment.items()
            if name not in DROPPED_VARIABLES
            and (not name.startswith("UV_") or KEPT_VARIABLES.fullmatch(name))
        }
        fixed = {
            "UV_NO_CONFIG": "1",
            "UV_NO_PROGRESS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "NO_COLOR": "1",
            # Environments that share a package share its bytes on the disk.
            "UV_LINK_MODE": kept.get("UV_LINK_MODE", "hardlink"),
        }
        return kept | fixed | self.settings.uv_environment()


def find_uv() -> str:
    """Path of uv's executable; raises InfrastructureError("tool") if it is not installed."""
    try:
        return str(Path(uv_package.find_uv_bin()))
    except (OSError, RuntimeError) as error:
        raise InfrastructureError("tool", f"uv: {error}") from error


def failure(
    returncode: int, stderr: str, asked: tuple[str, ...]
) -> UnresolvedError | UnbuildableError | InfrastructureError | BadReference:
    """The error that a failed run of uv stands for.

    The host's faults are looked for first: a full disk or a dead index can surface in the
    middle of anything, and must never be taken for a property of the stack.
    """
    text = SECRET.sub("***@", stderr).strip()
    # Warnings and progress come before it.
    text = text[max(0, text.find("error:")) :]
    line = " ".join(text.split())[-TAIL_LENGTH:]
    if DISK_FULL.search(text):
        return InfrastructureError("disk", line)
    if PERMISSION.search(text):
        return InfrastructureError("permission", line)
    if hint := UNAUTHORISED.search(text):
        return InfrastructureError("index", f"{explanation(text)}; {hint[0]}")
    if "No solution found" in text:
        return UnresolvedError(asked, explanation(text))
    if UNREADABLE.search(text):
        return BadReference(", ".join(asked), explanation(text))
    unbuildable = UNBUILDABLE.search(text) and not UNREACHABLE.search(text)
    if unbuildable or FORGED.search(text):
        return UnbuildableError(", ".join(asked), text[-TAIL_LENGTH:])
    if UNREACHABLE.search(text):
        return InfrastructureError("index", explanation(text))
    return InfrastructureError("tool", f"uv ended with {returncode}: {line}")


def explanation(text: str) -> str:
    """uv's causes as one paragraph, without its headline, hints, and markers."""
    body = text.split("\nhint:", 1)[0]
    headline, *causes = re.split(r"\n\s*(?:cause:|╰─▶|├─▶|Caused by:)", body)
    chosen = causes or [headline.removeprefix("error:")]
    return "; ".join(" ".join(cause.replace("│", " ").split()) for cause in chosen)
