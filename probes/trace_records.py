"""The values that a trace holds; :mod:`bitsect.probes.trace` writes and reads them."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from bitsect.probes.errors import EventKeyError

SCHEMA = 1

_WORD = r"[^\s/#]+"
_NUMBER = r"(?:0|[1-9][0-9]{0,17})"
_KEY = re.compile(f"({_NUMBER})/({_NUMBER})/({_WORD})/({_WORD})/({_WORD})#({_NUMBER})")
_WORD_ALONE = re.compile(_WORD)
_NUMBER_LIMIT = 10**18
_LONGEST_NOTE = 1000
_PROCESS_RUN = secrets.token_hex(8)


class _KeyFields(NamedTuple):
    iteration: int
    microbatch: int
    phase: str
    scope: str
    operation: str
    occurrence: int


class EventKey(_KeyFields):
    """Names an event independently of the run.

    Numbers are from 0 to below ``10**18``; phase, scope and operation are not empty and hold no
    ``/``, no ``#``, no white space and nothing unprintable. EventKeyError otherwise.
    """

    __slots__ = ()

    def __new__(
        cls,
        iteration: int,
        microbatch: int,
        phase: str,
        scope: str,
        operation: str,
        occurrence: int,
    ) -> EventKey:
        self = super().__new__(cls, iteration, microbatch, phase, scope, operation, occurrence)
        for number in (iteration, microbatch, occurrence):
            if not 0 <= number < _NUMBER_LIMIT:
                raise EventKeyError(self.text, f"the number {number} is out of range")
        for word in (phase, scope, operation):
            if not (_WORD_ALONE.fullmatch(word) and word.isprintable()):
                raise EventKeyError(self.text, f"{word!r} is empty or holds '/', '#' or a space")
        return self

    @property
    def text(self) -> str:
        """The key as one word, e.g. ``0/0/forward/kernels.gemm.float32/mm#0``."""
        return (
            f"{self.iteration}/{self.microbatch}/{self.phase}/{self.scope}"
            f"/{self.operation}#{self.occurrence}"
        )

    @classmethod
    def parse(cls, text: str) -> EventKey:
        """Return the key that ``text`` spells; EventKeyError when it spells none."""
        match = _KEY.fullmatch(text)
        if match is None or not text.isprintable():
            raise EventKeyError(text, "not iteration/microbatch/phase/scope/operation#occurrence")
        iteration, microbatch, phase, scope, operation, occurrence = match.groups()
        return cls._make(
            (int(iteration), int(microbatch), phase, scope, operation, int(occurrence))
        )


def is_note(text: str) -> bool:
    """Say whether ``text`` can be an event's note: one printable line, not empty, not long."""
    return 0 < len(text) <= _LONGEST_NOTE and text.isprintable()


class Event(NamedTuple):
    """One fingerprinted thing.

    ``inputs`` and ``outputs`` are fingerprints; ``certificates`` holds the SHA-256 of every
    output, or nothing. ``note`` records an outcome that is not a tensor, such as
    ``raised AttributeError``: a value to compare, not a failure of the probe.
    """

    key: EventKey
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    note: str | None = None

    @property
    def digest(self) -> str:
        """One word that is equal for two events when their outputs and notes are equal."""
        if len(self.outputs) == 1 and self.note is None:
            return self.outputs[0]
        return "sha256:" + _sha256_of([list(self.outputs), self.note])

    @property
    def certificate(self) -> str | None:
        """One word that stands for all certificates, or None when there are none."""
        if not self.certificates:
            return None
        if len(self.certificates) == 1:
            return self.certificates[0]
        return _sha256_of(list(self.certificates))


@dataclass(frozen=True)
class Header:
    """The conditions under which the events arose.

    ``probe`` is the probe's digest; ``run`` differs between any two processes; ``arguments``
    holds JSON values without fractions; ``threads`` counts torch's threads inside an operation.
    """

    probe: str
    run: str = _PROCESS_RUN
    arguments: Mapping[str, Any] = field(default_factory=dict)
    manifest: str | None = None
    rank: int = 0
    world: int = 1
    device_class: str = "cpu"
    providers: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    threads: int = 1
    schema: int = SCHEMA


@dataclass(frozen=True)
class Trace:
    """A trace as read; ``complete`` is false when its writer never came to the end."""

    header: Header
    events: tuple[Event, ...]
    complete: bool = True

    @cached_property
    def by_key(self) -> dict[EventKey, Event]:
        """The events by key, in order."""
        return {event.key: event for event in self.events}


def _sha256_of(value: list[Any]) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()
