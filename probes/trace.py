"""The record of one probe run: what was fingerprinted, in order, in a file that shows edits.

A trace is JSON Lines: a header, one line for each event, and an end line with the number of
events and the SHA-256 of every byte before it. While it is written it has the name that
:func:`partial_path` gives; it gets its own when it is whole and on the disk.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Union

from bitsect.probes.errors import TraceError
from bitsect.probes.trace_reader import TraceReader
from bitsect.probes.trace_records import SCHEMA, Event, EventKey, Header, Trace, is_note

__all__ = [
    "SCHEMA",
    "Event",
    "EventKey",
    "Header",
    "Trace",
    "TraceWriter",
    "partial_path",
    "read_trace",
]

PathLike = Union[str, "os.PathLike[str]"]


def partial_path(path: PathLike) -> Path:
    """Return the name that the trace ``path`` has while it is being written."""
    target = Path(path)
    return target.with_name(target.name + ".part")


def read_trace(path: PathLike, allow_incomplete: bool = False) -> Trace:
    """Read a trace; TraceError names the file, the line and the reason when it is no evidence.

    With ``allow_incomplete`` a trace whose writer was killed is read as far as it goes: the end
    line may be missing and the last line may be torn. Everything else is refused as ever.
    """
    try:
        with open(path, "rb") as lines:
            return TraceReader(str(path), allow_incomplete).read(lines)
    except OSError as error:
        raise TraceError(str(path), None, f"it cannot be read: {error.strerror}") from error


class TraceWriter:
    """Writes one trace: a context manager.

    Leaving it well ends the trace, puts it on the disk and gives it its name. Leaving it by an
    exception keeps what was written under :func:`partial_path`, to be read as incomplete.
    Events go to the operating system ``batch`` at a time. TraceError when the disk refuses.
    """

    def __init__(self, path: PathLike, header: Header, *, batch: int = 64) -> None:
        self._path = Path(path)
        self._header = header
        self._batch = batch
        self._pending: list[bytes] = []
        self._keys: set[EventKey] = set()
        self._root = hashlib.sha256()
        self._file: BinaryIO | None = None

    def __enter__(self) -> TraceWriter:
        try:
            self._file = partial_path(self._path).open("wb", buffering=0)
        except OSError as error:
            raise self._refused(error) from error
        self._append({"header": asdict(self._header)})
        try:
            self.flush()
        except TraceError:
            self._file.close()
            raise
        return self

    def write(self, event: Event) -> None:
        """Append one event; ValueError when its key was written before or its parts do not fit."""
        key = event.key
        if key in self._keys:
            raise ValueError(f"a trace holds each key once: {key.text}")
        if event.certificates and len(event.certificates) != len(event.outputs):
            raise ValueError(f"certificates are for all outputs or for none: {key.text}")
        if event.note is not None and not is_note(event.note):
            raise ValueError(f"a note is one short printable line: {event.note!r}")
        # Building the key anew refuses what _replace() may have put into it.
        text = EventKey(*key).text
        self._keys.add(key)
        record: dict[str, Any] = {"key": text, "in": event.inputs, "out": event.outputs}
        if event.certificates:
            record["cert"] = event.certificates
        if event.note is not None:
            record["note"] = event.note
        self._append(record)
        if len(self._pending) >= self._batch:
            self.flush()

    def flush(self) -> None:
        """Hand what was written so far to the operating system: it outlives this process."""
        data = b"".join(self._pending)
        self._pending.clear()
        self._root.update(data)
        try:
            while data:
                data = data[self._opened().write(data) :]
        except OSError as error:
            raise self._refused(error) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        file, partial = self._opened(), partial_path(self._path)
        try:
            with file:
                self.flush()
                if kind is not None:
                    return
                end = {"events": len(self._keys), "root": self._root.hexdigest()}
                self._append({"end": end})
                self.flush()
                os.fsync(file.fileno())
            partial.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError as refusal:
            raise self._refused(refusal) from refusal
        finally:
            self._file = None

    def _append(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, separators=(",", ":"), allow_nan=False)
        self._pending.append(line.encode("ascii") + b"\n")

    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("a TraceWriter writes only inside its with statement")
        return self._file

    def _refused(self, error: OSError) -> TraceError:
        return TraceError(str(self._path), None, f"it cannot be written: {error.strerror}")


def _sync_folder(folder: Path) -> None:
    """Put the new name itself on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
