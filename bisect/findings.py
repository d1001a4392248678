"""A session's answer, put together from the store for whoever wants to read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec

from bitsect.bisect.compare import comparable_events
from bitsect.bisect.engine.engine import Engine
from bitsect.bisect.engine.model import Culprit, Finding, Trial, Vector
from bitsect.bisect.errors import InvalidEvidence
from bitsect.bisect.outcomes import OutcomeReader, stored_trace
from bitsect.bisect.records import EndRecord, LedgerEntry, Milestone, SessionRecord, SessionSpec
from bitsect.bisect.session import engine_of, milestone_vector
from bitsect.bisect.store import Store
from bitsect.bisect.verdicts import Verdict
from bitsect.bisect.wording import (
    Operations,
    label_of,
    open_brackets,
    operations_of,
    operations_text,
)
from bitsect.images.manifest import from_canonical
from bitsect.probes.trace import Event, EventKey, Trace

#: What a change is: bits, or that an operation began or ceased to fail or to be there.
Outcome = Literal[
    "other bits", "fails now", "failed before", "fails otherwise", "is gone", "is new"
]


class EventChange(msgspec.Struct, frozen=True):
    """One event of a finding, on both sides of the step.

    :param certified: SHA-256 of the bytes says the same as the fingerprints.
    :param outcome: what became of an event that has no digest on one side, or on both.
    """

    event: str
    before: str
    after: str
    certified: bool
    outcome: Outcome = "other bits"


class FoundChange(msgspec.Struct, frozen=True):
    """A finding with what proves it.

    :param operations: what a person would call the events, see ``operations_of``.
    :param runs_before: processes that saw the good side's digests, for the event least seen.
    :param runs_after: processes that saw the bad side's.
    :param together: components of these that could only be moved together.
    :param sufficient: the good end changes with these components alone; None if that was not run.
    :param necessary: the bad end has the good end's digests without the culprits; likewise.
    :param between: the stacks of a chain between which the change came, neighbours unless what
        lies between could not be run; None where there are only the ends.
    """

    number: int
    culprits: tuple[Culprit, ...]
    exact: bool
    operations: tuple[Operations, ...]
    changes: tuple[EventChange, ...]
    runs_before: int
    runs_after: int
    together: tuple[str, ...] = ()
    sufficient: bool | None = None
    necessary: bool | None = None
    between: tuple[str, str] | None = None


class SearchedStack(msgspec.Struct, frozen=True):
    """A whole stack of a search.

    :param identity: digest of an image's config, or of what an environment installs.
    :param engine: that ran it; empty where there is none.
    """

    reference: str
    identity: str
    engine: str = ""


class TrialLine(msgspec.Struct, frozen=True):
    """One trial of the ledger: what was different from the good end, and what it gave.

    :param runs: numbers of its lines in the ledger.
    """

    vector: Vector
    what: str
    verdict: Verdict | None
    runs: tuple[int, ...]
    changed: int
    milliseconds: int
    reason: str


class Answer(msgspec.Struct, frozen=True):
    """Everything that a session knows, ready to be shown or written as JSON.

    :param scan: trials that a linear scan of the points takes; None on several axes, where
        nothing so simple is an alternative.
    :param components: in how many of them the ends differ.
    :param innocent: components that were shown to change no event.
    :param unexplained: events that change though no culprit is moved.
    :param noise: differences that were not searched, and why none of them can change a bit.
    :param stacks: the good end, what lies between in order, and the bad end.
    :param began, ended: moments in UTC; the end's is None while there is none.
    """

    session: int
    good: str
    bad: str
    settled: bool
    findings: tuple[FoundChange, ...]
    changed_events: int
    compared_events: int
    trials: tuple[TrialLine, ...]
    scan: int | None
    left_at_most: int
    repeats_left: int
    open_brackets: tuple[tuple[str, str], ...]
    came_back: tuple[str, ...]
    left_out: dict[str, dict[str, int]]
    interpreter: str
    device: str
    probe: str
    components: int = 1
    innocent: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    noise: tuple[tuple[str, str], ...] = ()
    stacks: tuple[SearchedStack, ...] = ()
    began: str = ""
    ended: str | None = None

    @property
    def certified(self) -> bool:
        """Whether bytes confirm every event of every finding."""
        return all(change.certified for found in self.findings for change in found.changes)


def replay(store: Store, session: SessionRecord) -> tuple[Engine, tuple[LedgerEntry, ...]]:
    """The engine as the store's observations make it."""
    engine = engine_of(session.spec)
    ledger = store.ledger(session.number)
    reader = OutcomeReader(store)
    for entry in ledger:
        engine.tell(Trial(entry.vector, entry.repetition), reader.outcome(entry.observation))
    return engine, ledger


def answer_of(store: Store, session: SessionRecord) -> Answer:
    """A session's answer as far as it is known.

    :raises StoreError: a trace that it rests on is damaged.
    """
    engine, ledger = replay(store, session)
    state = engine.state()
    traces = _Traces(store, ledger)
    chain = _chain(session.spec, engine)
    first = next((e.observation for e in ledger if e.observation.trace is not None), None)
    device = "unknown" if first is None else traces.at(engine.good).header.device_class
    return Answer(
        session=session.number,
        good=session.spec.good.reference,
        bad=session.spec.bad.reference,
        settled=state.settled,
        findings=tuple(
            _found(number, finding, engine, traces, chain)
            for number, finding in enumerate(state.findings, 1)
        ),
        changed_events=len(engine.changed_events(engine.bad)),
        compared_events=len(engine.evidence.events(engine.good) or {}),
        trials=_lines(engine, ledger),
        scan=len(engine.axes[0].points) if len(engine.axes) == 1 else None,
        left_at_most=state.trials_left_at_most,
        repeats_left=state.repeats_left,
        open_brackets=open_brackets(engine, state),
        came_back=tuple(
            f"{operations_text(operations_of(each.events))}:"
            f" {label_of(engine.axes, each.other)} differs from"
            f" {label_of(engine.axes, each.same[0])},"
            f" {label_of(engine.axes, each.same[1])} does not"
            for each in engine.anomalies()
        ),
        left_out=session.spec.left_out,
        interpreter=session.spec.interpreter,
        device=device,
        probe=session.spec.probe,
        components=len(engine.axes),
        innocent=state.cleared,
        unexplained=state.uncleared,
        noise=session.spec.noise,
        stacks=tuple(
            SearchedStack(stack.reference, stack.lock, _engine_of(store, ledger, vector))
            for stack, vector in chain
        ),
        began=session.created,
        ended=session.events[-1].at if session.finished else None,
    )


def _chain(spec: SessionSpec, engine: Engine) -> tuple[tuple[EndRecord | Milestone, Vector], ...]:
    """The whole stacks of a search, each with where it lies."""
    stacks: tuple[EndRecord | Milestone, ...] = (spec.good, *spec.milestones, spec.bad)
    vectors = (engine.good, *(milestone_vector(each, spec) for each in spec.milestones), engine.bad)
    return tuple(zip(stacks, vectors, strict=True))


def _engine_of(store: Store, ledger: tuple[LedgerEntry, ...], vector: Vector) -> str:
    """Name and version of the container engine that ran a stack; empty where none did."""
    manifests = (e.observation.manifest for e in ledger if e.vector == vector)
    blob = next(filter(None, manifests), None)
    if blob is None:
        return ""
    image = from_canonical(store.blobs.get(blob)).evidence.get("image")
    return str(image.get("engine", "")) if isinstance(image, dict) else ""


class _Traces:
    """One trace per vector that ran, read once."""

    def __init__(self, store: Store, ledger: tuple[LedgerEntry, ...]) -> None:
        self._store = store
        self._blobs: dict[Vector, str] = {}
        for entry in ledger:
            if entry.observation.trace is not None:
                self._blobs.setdefault(entry.vector, entry.observation.trace)
        self._read: dict[str, Trace] = {}
        self._events: dict[Vector, dict[EventKey, Event]] = {}

    def at(self, vector: Vector) -> Trace:
        blob = self._blobs[vector]
        if blob not in self._read:
            self._read[blob] = stored_trace(self._store, blob)
        return self._read[blob]

    def events(self, vector: Vector) -> dict[EventKey, Event]:
        if vector not in self._events:
            self._events[vector] = comparable_events(self.at(vector))
        return self._events[vector]


def _found(
    number: int,
    finding: Finding,
    engine: Engine,
    traces: _Traces,
    chain: Sequence[tuple[EndRecord | Milestone, Vector]],
) -> FoundChange:
    before = traces.events(finding.before)
    changes = tuple(
        _event_change(event, before, traces.events(finding.at)) for event in finding.events
    )
    return FoundChange(
        number=number,
        culprits=finding.culprits,
        exact=finding.exact,
        operations=operations_of(finding.events),
        changes=changes,
        runs_before=engine.sightings(finding, finding.before),
        runs_after=engine.sightings(finding, finding.at),
        together=finding.together,
        sufficient=finding.sufficient,
        necessary=finding.necessary,
        between=_between(finding, engine, chain) if len(chain) > 2 else None,
    )


def _between(
    finding: Finding, engine: Engine, chain: Sequence[tuple[EndRecord | Milestone, Vector]]
) -> tuple[str, str]:
    """The first stack in which every culprit has come as far as its point, and the last before
    it that is known not to show the change: some culprit is no further there than where it did
    not show."""
    index = {axis.component: place for place, axis in enumerate(engine.axes)}
    places = [index[culprit.component] for culprit in finding.culprits]
    below = [
        engine.axes[place].points.index(culprit.bound.below)
        for place, culprit in zip(places, finding.culprits, strict=True)
    ]
    reached = (
        at
        for at, (_, vector) in enumerate(chain)
        if at and all(vector[place] >= finding.at[place] for place in places)
    )
    high = next(reached, len(chain) - 1)
    low = max(
        at
        for at, (_, vector) in enumerate(chain[:high])
        if not at or any(vector[p] <= b for p, b in zip(places, below, strict=True))
    )
    return chain[low][0].reference, chain[high][0].reference


def _event_change(
    event: str, before: dict[EventKey, Event], after: dict[EventKey, Event]
) -> EventChange:
    """Both sides of one event, bytes checked against fingerprints.

    :raises InvalidEvidence: they contradict each other.
    """
    key = EventKey.parse(event)
    one, other = before.get(key), after.get(key)
    certified = False
    if one is not None and other is not None and one.certificates and other.certificates:
        if one.certificates == other.certificates:
            raise InvalidEvidence("fingerprint", event, "SHA-256")
        certified = True
    return EventChange(
        event,
        "absent" if one is None else one.note or one.digest,
        "absent" if other is None else other.note or other.digest,
        certified,
        _outcome(one, other),
    )


def _outcome(before: Event | None, after: Event | None) -> Outcome:
    if before is None:
        return "is new"
    if after is None:
        return "is gone"
    if before.note is None and after.note is None:
        return "other bits"
    if before.note is None:
        return "fails now"
    return "failed before" if after.note is None else "fails otherwise"


def _lines(engine: Engine, ledger: tuple[LedgerEntry, ...]) -> tuple[TrialLine, ...]:
    spent: dict[Vector, int] = defaultdict(int)
    runs: dict[Vector, list[int]] = defaultdict(list)
    for entry in ledger:
        spent[entry.vector] += sum(entry.observation.milliseconds.values())
        runs[entry.vector].append(entry.sequence)
    lines = []
    for vector in dict.fromkeys(entry.vector for entry in ledger):
        failure = engine.evidence.failure(vector)
        lines.append(
            TrialLine(
                vector=vector,
                what=label_of(engine.axes, vector),
                verdict=engine.verdict(vector),
                runs=tuple(runs[vector]),
                changed=len(engine.changed_events(vector)),
                milliseconds=spent[vector],
                reason="" if failure is None else failure[1],
            )
        )
    return tuple(lines)
