"""Comparing two traces, event by event.

Only traces that answer the same question are compared: the same probe with the same
arguments, on devices of one class, from two different processes. What the probe did on
purpose to be caught must have been caught, or its silence elsewhere would mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bitsect.bisect.errors import InvalidEvidence
from bitsect.probes.control import PHASE as CONTROL_PHASE
from bitsect.probes.control import controls_caught
from bitsect.probes.trace import Event, EventKey, Trace


class Change(msgspec.Struct, frozen=True):
    """One event that is not the same in two traces.

    ``kind`` is ``source`` (equal inputs, different outputs), ``receiver`` (its inputs differ
    already), ``appeared`` or ``vanished``. The digests are None where there is no event.
    """

    key: str
    kind: str
    first: str | None
    second: str | None


class Comparison(msgspec.Struct, frozen=True):
    """What two traces have in common. ``compared`` counts events present in both."""

    compared: int
    changes: tuple[Change, ...]
    certified: int

    @property
    def equal(self) -> bool:
        """Whether every event of either trace is in the other with the same outputs."""
        return not self.changes


def compare_traces(first: Trace, second: Trace) -> Comparison:
    """Compare two traces.

    :raises InvalidEvidence: they do not answer the same question, hold no event to compare,
        a control was not caught, or a fingerprint and its certificate contradict each other.
    """
    require_comparable(first, second)
    ours, theirs = comparable_events(first), comparable_events(second)
    if not ours and not theirs:
        raise InvalidEvidence("empty")
    certified = require_consistent(first, second)
    changes: list[Change] = []
    for key in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(key), theirs.get(key)
        if one is None or other is None:
            kind = "appeared" if one is None else "vanished"
            changes.append(Change(key.text, kind, _digest(one), _digest(other)))
            continue
        if one.digest != other.digest:
            kind = "source" if one.inputs == other.inputs else "receiver"
            changes.append(Change(key.text, kind, one.digest, other.digest))
    return Comparison(len(ours.keys() & theirs.keys()), tuple(changes), certified)


def require_comparable(first: Trace, second: Trace) -> None:
    """Refuse two traces between which equality would mean nothing.

    :raises InvalidEvidence: see compare_traces.
    """
    if first.header.run == second.header.run:
        raise InvalidEvidence("same-run", first.header.run)
    for what, ours, theirs in _conditions(first, second):
        if ours != theirs:
            raise InvalidEvidence(what, ours, theirs)
    missed = controls_caught(first, second)
    if missed:
        raise InvalidEvidence("controls", ", ".join(missed))


def require_consistent(first: Trace, second: Trace) -> int:
    """Check every fingerprint that both traces have against the bytes; how many there were.

    :raises InvalidEvidence: fingerprints are equal where bytes differ, or the other way round.
    """
    ours, theirs = comparable_events(first), comparable_events(second)
    return sum(_certified(ours[key], theirs[key]) for key in ours.keys() & theirs.keys())


def comparable_events(trace: Trace) -> dict[EventKey, Event]:
    """A trace's events without the controls, in order."""
    return {e.key: e for e in trace.events if e.key.phase != CONTROL_PHASE}


def digests(trace: Trace) -> dict[str, str]:
    """Digest of every comparable event by the text of its key, in order."""
    return {key.text: event.digest for key, event in comparable_events(trace).items()}


def _conditions(first: Trace, second: Trace) -> Iterator[tuple[str, str, str]]:
    one, other = first.header, second.header
    yield "probe", one.probe, other.probe
    for name in sorted({*one.arguments, *other.arguments}):
        yield (
            "arguments",
            f"{name}={one.arguments.get(name)}",
            f"{name}={other.arguments.get(name)}",
        )
    yield "device", one.device_class, other.device_class
    yield "ranks", f"{one.rank} of {one.world}", f"{other.rank} of {other.world}"


def _certified(one: Event, other: Event) -> bool:
    """Whether bytes confirm what the fingerprints say of two events.

    :raises InvalidEvidence: they contradict it.
    """
    if not one.certificates or not other.certificates:
        return False
    same_fingerprints = one.outputs == other.outputs
    if same_fingerprints != (one.certificates == other.certificates):
        raise InvalidEvidence("fingerprint", one.key.text, "SHA-256")
    return True


def _digest(event: Event | None) -> str | None:
    return None if event is None else event.digest
