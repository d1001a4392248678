"""YAML for files that are evidence: the part of the language that says exactly one thing.

Read are mappings with plain text keys, lists, text, whole numbers, true, false and null, in one
document. Aliases, anchors, tags, repeated keys and whatever YAML would guess a type for
(dates, octal numbers, ``yes``) are refused with their place, so no two readers can disagree
about such a file, and a small file cannot unfold into a large one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

LARGEST_BYTES = 64 * 1024 * 1024
DEEPEST = 64

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_CONSTANTS = {"true": True, "false": False, "null": None}
_TEXT = "tag:yaml.org,2002:str"
_resolve: Callable[[type, str, tuple[bool, bool]], str] = yaml.resolver.Resolver().resolve


class StrictYamlError(Exception):
    """A text is not in this part of YAML.

    :param place: where in the document, such as ``software.python``; empty at its top.
    :param reason: what stands there, with the line where it is known.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason


def write(value: object) -> str:
    """The value as YAML that `read` reads back as the same; mappings sorted by key."""
    return yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=True,
        allow_unicode=True,
        default_flow_style=False,
        width=100,
    )


def read_file(path: Path) -> Any:
    """As `read`, for a file. Raises OSError if the file cannot be read at all."""
    with path.open("rb") as stream:
        data = stream.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise StrictYamlError("", f"larger than {LARGEST_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise StrictYamlError("", f"byte {error.start} is not UTF-8") from None
    return read(text)


def read(text: str) -> Any:
    """The value that a text says. Raises StrictYamlError."""
    try:
        return _Reader(yaml.parse(text, Loader=_Parser)).document()
    except yaml.YAMLError as error:
        raise StrictYamlError("", f"not YAML: {_problem_of(error)}") from None


def _problem_of(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)


# libyaml's are ten times as fast; PyYAML may have been built without it.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BaseDumper):  # type: ignore[misc]  # one of two classes
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represented(dumper: Any, text: str) -> Any:
    """Whole files, such as a lock, are written line by line."""
    return dumper.represent_scalar(_TEXT, text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represented)


class _Reader:
    """Builds the value from the parser's events, which unlike its nodes know no references."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events

    def document(self) -> Any:
        self._next("")
        first = self._next("")
        if isinstance(first, yaml.StreamEndEvent):
            raise StrictYamlError("", "empty")
        value = self._value(self._next(""), "", 0)
        self._next("")
        if not isinstance(self._next(""), yaml.StreamEndEvent):
            raise StrictYamlError("", "more than one document")
        return value

    def _next(self, place: str) -> yaml.Event:
        event = next(self._events)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise StrictYamlError(place, f"{_line(event)}: aliases and anchors are not read")
        if getattr(event, "tag", None) is not None:
            raise StrictYamlError(place, f"{_line(event)}: tags are not read")
        return event

    def _value(self, event: yaml.Event, place: str, depth: int) -> Any:
        if depth > DEEPEST:
            raise StrictYamlError(place, f"{_line(event)}: nested deeper than {DEEPEST} levels")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(place, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(place, depth)
        return _scalar(event, place)

    def _mapping(self, place: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := self._next(place), yaml.MappingEndEvent):
            key = _scalar(event, place) if isinstance(event, yaml.ScalarEvent) else None
            if not isinstance(key, str):
                raise StrictYamlError(place, f"{_line(event)}: a key is not text")
            inner = f"{place}.{key}" if place else key
            if key in found:
                raise StrictYamlError(inner, f"{_line(event)}: stands here a second time")
            found[key] = self._value(self._next(inner), inner, depth + 1)
        return found

    def _sequence(self, place: str, depth: int) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := self._next(place), yaml.SequenceEndEvent):
            found.append(self._value(event, f"{place}[{len(found)}]", depth + 1))
        return found


def _scalar(event: Any, place: str) -> str | int | bool | None:
    text: str = event.value
    if event.style:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _resolve(yaml.ScalarNode, text, (True, False)) != _TEXT:
        reason = f"{_line(event)}: {text!r} could mean several things; text needs quotes"
        raise StrictYamlError(place, reason)
    return text


def _line(event: yaml.Event) -> str:
    mark = event.start_mark
    return f"line {mark.line + 1}" if mark is not None else "somewhere"
