"""The search: it says what to run next, and what the answers add up to.

The engine is pure. It does no I/O, reads no clock and draws no random numbers. A driver asks
it for trials, runs them however it likes, and tells it what they gave; the driver's order,
its number of workers and its interruptions change nothing about the answer, since the engine
is a fold over the set of observations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec

from bitsect.bisect.engine.choice import choose
from bitsect.bisect.engine.evidence import UNSTABLE, Evidence
from bitsect.bisect.engine.model import (
    ABSENT,
    Anomaly,
    Axis,
    Bracket,
    EndProblem,
    Finding,
    Outcome,
    SetQuestion,
    Trial,
    Vector,
)
from bitsect.bisect.engine.search import (
    ClassSearch,
    Progress,
    Step,
    bracket_vector,
    untried_points,
)
from bitsect.bisect.verdicts import Verdict


class State(msgspec.Struct, frozen=True):
    """Everything that the search knows, computed from the evidence.

    ``doubtful`` are vectors whose digests want repeating before they are believed.
    ``trials_left_at_most`` counts vectors that were never run, ``repeats_left`` runs that only
    repeat one of these. ``settled`` says that neither is left: the findings are final.
    """

    problem: EndProblem | None
    findings: tuple[Finding, ...]
    brackets: tuple[Bracket, ...]
    set_questions: tuple[SetQuestion, ...]
    doubtful: tuple[Vector, ...]
    trials_left_at_most: int
    repeats_left: int
    settled: bool


class Engine:
    """Finds every step between two stacks at which events change.

    :param axes: the components in which the two ends differ, each with its points. The
        order of the axes is the order in which they are suspected.
    :param repetitions: runs of each end that must agree, and processes that must have seen a
        digest before it is one side of a finding. At least 2: one run cannot show that a stack
        repeats itself.
    :raises ValueError: no axis, a component twice, or too few repetitions.
    """

    def __init__(self, axes: Sequence[Axis], repetitions: int = 2) -> None:
        names = [axis.component for axis in axes]
        if not axes or len(set(names)) != len(names):
            raise ValueError(f"axes must be distinct and at least one, not {names}")
        if repetitions < 2:
            raise ValueError("one run cannot show that a stack repeats itself")
        self.axes = tuple(axes)
        self.good: Vector = tuple(0 for _ in axes)
        self.bad: Vector = tuple(axis.top for axis in axes)
        self.evidence = Evidence()
        self._repetitions = repetitions
        self._state: State | None = None

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """Take in what a trial gave.

        :raises ValueError: the vector does not lie on the axes, or the repetition was told
            before with another outcome.
        """
        self._check(trial.vector)
        self.evidence.add(trial.vector, trial.repetition, outcome)
        self._state = None

    def ask(self, count: int, running: Iterable[Trial] = ()) -> list[Trial]:
        """Up to ``count`` trials worth running beside those that are running.

        An empty list with nothing running means that the search is over. An empty list
        while trials run means: wait for them.
        """
        busy = set(running)
        state = self.state()
        if state.problem is not None:
            return []
        if not self._ends_known():
            return self._missing_runs([self.good, self.bad], busy)[:count]
        vectors = choose(
            self.axes,
            state.brackets,
            state.set_questions,
            self.evidence,
            (trial.vector for trial in busy),
            count,
        )
        trials = [Trial(vector, 0) for vector in vectors]
        if len(trials) < count:
            confirming = self._missing_runs(state.doubtful, busy)
            trials += confirming[: count - len(trials)]
        return trials

    def state(self) -> State:
        """What is known now."""
        if self._state is None:
            self._state = self._compute()
        return self._state

    def anomalies(self) -> tuple[Anomaly, ...]:
        """Events that changed and changed back, as far as the evidence shows."""
        found: dict[tuple[Vector, Vector, Vector], list[str]] = defaultdict(list)
        vectors = list(self.evidence.vectors())
        for events in self.classes():
            value = {v: self.evidence.value(v, events[0]) for v in vectors}
            witness = _came_back(vectors, value)
            if witness is not None:
                found[witness].extend(events)
        return tuple(
            Anomaly(tuple(events), (low, high), middle)
            for (low, middle, high), events in found.items()
        )

    def classes(self) -> list[tuple[str, ...]]:
        """Events grouped so that the members of a group agree in every observation.

        Two events agree when their digests are equal between the same pairs of vectors;
        the digests themselves differ, of course.
        """
        vectors = list(self.evidence.vectors())
        names = dict.fromkeys(name for v in vectors for name in self.evidence.events(v) or ())
        columns = [self.evidence.events(v) or {} for v in vectors]
        groups: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
        for name in names:
            seen: dict[str, int] = {}
            groups[
                tuple(seen.setdefault(column.get(name, ABSENT), len(seen)) for column in columns)
            ].append(name)
        return [tuple(events) for events in groups.values()]

    def verdict(self, vector: Vector) -> Verdict | None:
        """The verdict on a vector against the good end; None while nothing is known."""
        failure = self.evidence.failure(vector)
        if failure is not None:
            return failure[0]
        if not self.evidence.observed(vector) or not self.evidence.observed(self.good):
            return None
        if self.evidence.unstable(vector):
            return Verdict.NONDETERMINISTIC
        here, good = self.evidence.events(vector), self.evidence.events(self.good)
        return Verdict.MATCH if here == good else Verdict.MISMATCH

    def changed_events(self, vector: Vector) -> tuple[str, ...]:
        """Events whose digest on this vector is not the good end's, in trace order."""
        here, good = self.evidence.events(vector), self.evidence.events(self.good)
        if here is None or good is None:
            return ()
        names = dict.fromkeys([*good, *here])
        return tuple(n for n in names if here.get(n, ABSENT) != good.get(n, ABSENT))

    # The state

    def _compute(self) -> State:
        problem = self._end_problem()
        if problem is not None or not self._ends_known():
            inside = sum(axis.top - 1 for axis in self.axes)
            return State(problem, (), (), (), (), inside, 0, problem is not None)
        progress = [
            (events, ClassSearch(self.axes, self.evidence, events).run())
            for events in self.classes()
            if self.evidence.value(self.good, events[0]) != self.evidence.value(self.bad, events[0])
        ]
        findings = _gathered(progress)
        brackets = tuple(b for _, p in progress for b in p.brackets)
        questions = tuple(q for _, p in progress for q in p.set_questions)
        doubtful = self._unconfirmed(findings)
        if not (brackets or questions):
            doubtful += self._strange()
        repeats = len(self._missing_runs(doubtful, set()))
        left = self._trials_left_at_most(brackets, questions)
        settled = not (brackets or questions or repeats)
        return State(None, findings, brackets, questions, tuple(doubtful), left, repeats, settled)

    def _end_problem(self) -> EndProblem | None:
        for side, vector in (("good", self.good), ("bad", self.bad)):
            failed = self.evidence.first_failed(vector)
            if failed is not None:
                return EndProblem("failed", side, failed.failure, failed.reason)
            unstable = self.evidence.unstable(vector)
            if unstable:
                return EndProblem("nondeterministic", side, events=unstable)
        if self._ends_known() and not self.changed_events(self.bad):
            return EndProblem("agree", compared=len(self.evidence.events(self.good) or {}))
        return None

    def _ends_known(self) -> bool:
        return not self._missing_runs([self.good, self.bad], set())

    def _unconfirmed(self, findings: Iterable[Finding]) -> list[Vector]:
        """Sides of findings whose digests too few processes have seen.

        A digest that came from two processes repeats itself, be it in two runs of one vector
        or in one run each of two. A vector that was never run confirms nothing.
        """
        unconfirmed = {
            vector
            for finding in findings
            for vector in (finding.at, *finding.without)
            if self.sightings(finding, vector) < self._repetitions
        }
        return sorted(unconfirmed)

    def _strange(self) -> list[Vector]:
        """Vectors at which events differ from those below and above them alike.

        Such a history is either real or noise that another run may show to be noise.
        """
        known = {anomaly.other for anomaly in self.anomalies()}
        return sorted(vector for vector in known if self.evidence.runs(vector) < self._repetitions)

    def sightings(self, finding: Finding, vector: Vector) -> int:
        """Processes that saw what this vector shows, for the finding's event least often seen."""
        if self.evidence.events(vector) is None:
            return 0
        return min(
            self.evidence.sightings(event, self.evidence.value(vector, event))
            for event in finding.events
        )

    def _missing_runs(self, vectors: Iterable[Vector], busy: Set[Trial]) -> list[Trial]:
        """Runs that are still wanted, so that every vector has repeated itself.

        A vector that failed once is not tried for ever: its failure is part of the answer.
        """
        missing: list[Trial] = []
        for repetition in range(self._repetitions):
            for vector in vectors:
                trial = Trial(vector, repetition)
                told = self.evidence.repetitions(vector)
                if repetition not in told and trial not in busy:
                    missing.append(trial)
        return missing

    def _trials_left_at_most(
        self, brackets: Sequence[Bracket], questions: Sequence[SetQuestion]
    ) -> int:
        """Vectors that may still have to be run.

        Exact as a bound on one axis: no point outside an open bracket is ever asked for. On
        several axes it supposes that every class changes once.
        """
        points = {
            bracket_vector(bracket, point)
            for bracket in brackets
            for point in untried_points(bracket, self.evidence)
        }
        inside = sum(axis.top - 1 for axis in self.axes)
        sets = 0
        for question in questions:
            suspects = len(question.suspects)
            sets += 2 * suspects + suspects.bit_length() + inside
        return len(points) + sets

    def _check(self, vector: Vector) -> None:
        fits = len(vector) == len(self.axes) and all(
            0 <= point <= axis.top for point, axis in zip(vector, self.axes, strict=True)
        )
        if not fits:
            raise ValueError(f"{vector} does not lie on the axes")


def _gathered(progress: Iterable[tuple[tuple[str, ...], Progress]]) -> tuple[Finding, ...]:
    """One finding per step, with the events of every class that takes it.

    Steps of the same components in different surroundings are different steps.
    """
    events: defaultdict[Step, list[str]] = defaultdict(list)
    for names, one in progress:
        for step in one.steps:
            events[step].extend(names)
    found = [
        Finding(step.culprits, step.at, step.without, tuple(names))
        for step, names in events.items()
    ]
    return tuple(sorted(found, key=lambda finding: (finding.at, finding.key)))


def _came_back(
    vectors: Sequence[Vector], value: Mapping[Vector, str]
) -> tuple[Vector, Vector, Vector] | None:
    """Three vectors, each above the one before, of which only the middle one differs."""
    for low in vectors:
        above = [v for v in vectors if v != low and _below(low, v)]
        for high in above:
            if value[high] != value[low]:
                continue
            for middle in above:
                if value[middle] not in (value[low], UNSTABLE) and _below(middle, high):
                    return low, middle, high
    return None


def _below(low: Vector, high: Vector) -> bool:
    return all(a <= b for a, b in zip(low, high, strict=True))
