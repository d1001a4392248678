"""Reading a trace back and believing none of it before it is checked."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, NoReturn

from bitsect.probes.errors import EventKeyError, TraceError
from bitsect.probes.trace_records import SCHEMA, Event, EventKey, Header, Trace, is_note

# Far above what a probe writes; a longer line is something else, or damage.
_LONGEST_LINE = 1 << 20
_WHOLE_LIMIT = 1 << 63

_FINGERPRINT = re.compile(r"[^\s:\[\],]{1,64}\[(?:\d{1,18}(?:,\d{1,18})*)?\]:[0-9a-f]{32}")
_CERTIFICATE = re.compile(r"[0-9a-f]{64}")
_HEADER_NAMES = frozenset(field.name for field in fields(Header))
_REQUIRED = frozenset(("key", "in", "out"))
_ALLOWED = _REQUIRED | {"cert", "note"}
_AGAIN = "run the probe again"


class _RefusedError(Exception):
    """What is wrong with the line at hand."""


class TraceReader:
    """Reads the lines of one trace; TraceError for the first thing that is wrong."""

    def __init__(self, path: str, allow_incomplete: bool) -> None:
        self._path = path
        self._allow_incomplete = allow_incomplete
        self._root = hashlib.sha256()
        self._header: Header | None = None
        self._events: dict[EventKey, Event] = {}
        self._complete = False
        self._line = 0

    def read(self, lines: Iterable[bytes]) -> Trace:
        """Return the trace that the lines (with their ends) make."""
        try:
            for line in lines:
                self._line += 1
                if not line.endswith(b"\n"):
                    self._torn()
                    break
                self._take(line)
        except (_RefusedError, EventKeyError) as error:
            reason = error.reason if isinstance(error, EventKeyError) else str(error)
            raise TraceError(self._path, self._line, reason) from error
        if self._header is None:
            raise TraceError(self._path, None, f"it has no header, so it is no trace: {_AGAIN}")
        if not self._complete and not self._allow_incomplete:
            raise TraceError(
                self._path, self._line, f"the end line is missing, so it was cut: {_AGAIN}"
            )
        return Trace(self._header, tuple(self._events.values()), self._complete)

    def _take(self, line: bytes) -> None:
        if self._complete:
            _refuse("something follows the end line: the file was edited")
        record = _decode(line)
        if self._header is None:
            self._header = _header(record)
        elif "end" in record:
            self._end(record)
            return
        else:
            event = _event(record)
            if self._events.setdefault(event.key, event) is not event:
                _refuse(f"the key {event.key.text} is there twice")
        self._root.update(line)

    def _end(self, record: dict[str, Any]) -> None:
        end = record["end"]
        if len(record) != 1 or type(end) is not dict or set(end) != {"events", "root"}:
            _refuse("an end line holds events and root, and nothing else")
        count, root = end["events"], end["root"]
        if type(count) is not int or type(root) is not str or not _CERTIFICATE.fullmatch(root):
            _refuse("an end line holds a whole number and a SHA-256")
        if root != self._root.hexdigest():
            _refuse(
                "the lines above do not have the root that stands here: the file was edited "
                f"after it was written; {_AGAIN}, or take the unedited file"
            )
        if count != len(self._events):
            _refuse(f"there are {len(self._events)} events, not {count} as it says")
        self._complete = True

    def _torn(self) -> None:
        if self._complete or not self._allow_incomplete:
            _refuse(f"the line has no end, so the file was cut: {_AGAIN}")


def _refuse(reason: str) -> NoReturn:
    raise _RefusedError(reason)


def _decode(line: bytes) -> dict[str, Any]:
    if len(line) > _LONGEST_LINE:
        _refuse(f"the line is longer than {_LONGEST_LINE} bytes")
    try:
        record = _DECODER.decode(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _RefusedError("it is not JSON") from error
    if type(record) is not dict:
        _refuse("it is not a JSON object")
    found: dict[str, Any] = record
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse("a name is there twice in one JSON object")
    return found


def _fraction(text: str) -> NoReturn:
    _refuse(f"{text} is not a whole number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_fraction, parse_constant=_fraction
)


def _event(record: dict[str, Any]) -> Event:
    names = record.keys()
    if not names <= _ALLOWED or not names >= _REQUIRED:
        _refuse("an event holds key, in, out, and perhaps cert and note, and nothing else")
    key, note = record["key"], record.get("note")
    if type(key) is not str:
        _refuse("a key is a text")
    outputs = _texts(record["out"], _FINGERPRINT, "out")
    certificates: tuple[str, ...] = ()
    if "cert" in record:
        certificates = _texts(record["cert"], _CERTIFICATE, "cert")
        if not certificates or len(certificates) != len(outputs):
            _refuse("there is not one certificate for each output")
    if "note" in record and not (type(note) is str and is_note(note)):
        _refuse("a note is one short printable line")
    inputs = _texts(record["in"], _FINGERPRINT, "in")
    return Event(EventKey.parse(key), inputs, outputs, certificates, note)


def _texts(value: Any, pattern: re.Pattern[str], name: str) -> tuple[str, ...]:
    if type(value) is not list:
        _refuse(f"{name} is not a list")
    matches = pattern.fullmatch
    for text in value:
        if type(text) is not str or not matches(text):
            kind = "SHA-256" if pattern is _CERTIFICATE else "fingerprint"
            _refuse(f"{name} holds something that is not a {kind}")
    return tuple(value)


def _header(record: dict[str, Any]) -> Header:
    values = record.get("header")
    if len(record) != 1 or type(values) is not dict:
        _refuse("a trace begins with a header, and this is none")
    schema = values.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        _refuse(
            f"its schema is {schema!r} and this program reads schema {SCHEMA}: "
            "use the program that wrote it, or run the probe again"
        )
    if values.keys() != _HEADER_NAMES:
        odd = sorted(values.keys() ^ _HEADER_NAMES)
        _refuse(f"the header lacks, or should not have: {', '.join(map(repr, odd))}")
    _check_header(values)
    return Header(**values)


def _check_header(values: dict[str, Any]) -> None:
    for name in ("probe", "run", "device_class"):
        if type(values[name]) is not str or not values[name]:
            _refuse(f"{name} is not a text")
    if values["manifest"] is not None and type(values["manifest"]) is not str:
        _refuse("manifest is neither a text nor null")
    for name, least in (("rank", 0), ("world", 1), ("threads", 1)):
        number = values[name]
        if type(number) is not int or not least <= number < _WHOLE_LIMIT:
            _refuse(f"{name} is not a whole number of at least {least}")
    if values["rank"] >= values["world"]:
        _refuse("rank is not below world")
    for name in ("providers", "versions"):
        table = values[name]
        if type(table) is not dict or any(type(text) is not str for text in table.values()):
            _refuse(f"{name} is not a table of texts")
    if type(values["arguments"]) is not dict:
        _refuse("arguments is not a table")
