"""Standard output: results, and nothing but results."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path

import msgspec

from bitsect.images.errors import InfrastructureError
from bitsect.probes.errors import OutputError


def prepare_output() -> None:
    """Make both streams writable, wherever they lead and whatever they can spell."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Closed by whoever started us; what is said then has no reader.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def json_text(value: object) -> str:
    """A value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def print_json(value: object) -> None:
    """Write a value as indented JSON."""
    sys.stdout.write(json_text(value))


def print_text(text: str) -> None:
    """Write text as it is."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def close_output(status: int) -> int:
    """Flush; a reader that has gone away, such as `head`, is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def require_place_for(path: Path) -> None:
    """Refuse a file that could not be written, before any work is done for it.

    :raises OutputError: its folder is missing or may not be written.
    """
    if path.is_dir():
        raise OutputError(str(path), "it is a folder")
    if not path.parent.is_dir():
        raise OutputError(str(path), "its folder does not exist")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(str(path), "its folder may not be written")


def write_file(path: Path, text: str) -> None:
    """Write a result to a file in one step.

    :raises InfrastructureError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        full = error.errno == errno.ENOSPC
        raise InfrastructureError("disk" if full else "permission", str(path)) from error
