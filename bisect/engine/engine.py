"""The search: it says what to run next, and what the answers add up to.

The engine is pure. It does no I/O, reads no clock and draws no random numbers. A driver asks
it for trials, runs them however it likes, and tells it what they gave; the driver's order,
its number of workers and its interruptions change nothing about the answer, since the engine
is a fold over the set of observations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set

import msgspec

from bitsect.bisect.engine.choice import choose
from bitsect.bisect.engine.evidence import Evidence
from bitsect.bisect.engine.histories import anomalies_in, classes_of
from bitsect.bisect.engine.model import (
    Anomaly,
    Axis,
    Bracket,
    EndProblem,
    Finding,
    MilestoneBracket,
    Outcome,
    SetQuestion,
    Trial,
    Vector,
)
from bitsect.bisect.engine.proof import Clearing, clearing, proven
from bitsect.bisect.engine.remaining import left_at_most, left_before_the_search
from bitsect.bisect.engine.search import ClassSearch, Progress, Step
from bitsect.bisect.engine.space import Space
from bitsect.bisect.verdicts import Verdict


class State(msgspec.Struct, frozen=True):
    """Everything that the search knows, computed from the evidence.

    ``doubtful`` are vectors whose digests want repeating before they are believed.
    ``trials_left_at_most`` counts vectors that were never run, ``repeats_left`` runs that only
    repeat one of these. ``settled`` says that neither is left: the findings are final.

    Of several components, those that are innocent are ``cleared`` by one more vector once the
    findings stand: ``clearing``, the bad end with every culprit at its good point. It is None
    as long as the culprits are not known, and where they are all components. Events that are
    not as at the good end there are ``uncleared``: the findings do not explain them, and
    nothing is cleared. Nothing is cleared either where the vector fails.
    """

    problem: EndProblem | None = None
    findings: tuple[Finding, ...] = ()
    brackets: tuple[Bracket, ...] = ()
    milestone_brackets: tuple[MilestoneBracket, ...] = ()
    set_questions: tuple[SetQuestion, ...] = ()
    doubtful: tuple[Vector, ...] = ()
    clearing: Vector | None = None
    cleared: tuple[str, ...] = ()
    uncleared: tuple[str, ...] = ()
    trials_left_at_most: int = 0
    repeats_left: int = 0
    settled: bool = False


class Engine:
    """Finds every step between two stacks at which events change.

    :param axes, milestones, blocks: see `Space`.
    :param repetitions: runs of each end that must agree, and processes that must have seen a
        digest before it is one side of a finding. At least 2: one run cannot show that a stack
        repeats itself.
    :raises ValueError: too few repetitions, or see `Space`.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        repetitions: int = 2,
        *,
        milestones: Sequence[Vector] = (),
        blocks: Sequence[Sequence[int]] = (),
    ) -> None:
        if repetitions < 2:
            raise ValueError("one run cannot show that a stack repeats itself")
        self._space = Space(axes, milestones, blocks)
        self.axes = self._space.axes
        self.good = self._space.good
        self.bad = self._space.bad
        self.evidence = Evidence()
        self._repetitions = repetitions
        self._state: State | None = None

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """Take in what a trial gave.

        :raises ValueError: the vector does not lie on the axes, or the repetition was told
            before with another outcome.
        """
        self._space.check(trial.vector)
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
            [*state.brackets, *state.milestone_brackets],
            state.set_questions,
            self.evidence,
            (trial.vector for trial in busy),
            count,
        )
        trials = [Trial(vector, 0) for vector in vectors]
        confirming = self._wanted_runs([*state.doubtful, *self._unasked(state.clearing)], busy)
        return trials + confirming[: count - len(trials)]

    def state(self) -> State:
        """What is known now."""
        if self._state is None:
            self._state = self._compute()
        return self._state

    def anomalies(self) -> tuple[Anomaly, ...]:
        """Events that changed and changed back, as far as the evidence shows."""
        return anomalies_in(self.evidence)

    def classes(self) -> list[tuple[str, ...]]:
        """Events grouped so that the members of a group agree in every observation."""
        return classes_of(self.evidence)

    def verdict(self, vector: Vector) -> Verdict | None:
        """The verdict on a vector against the good end; None while there is nothing to compare."""
        failure = self.evidence.failure(vector)
        if failure is not None:
            return failure[0]
        here, good = self.evidence.events(vector), self.evidence.events(self.good)
        if here is None or good is None:
            return None
        if self.evidence.unstable(vector):
            return Verdict.NONDETERMINISTIC
        return Verdict.MATCH if here == good else Verdict.MISMATCH

    def changed_events(self, vector: Vector) -> tuple[str, ...]:
        """Events whose digest on this vector is not the good end's, in trace order."""
        return self.evidence.differing(self.good, vector)

    # The state

    def _compute(self) -> State:
        problem = self._end_problem()
        if problem is not None or not self._ends_known():
            left = 0 if problem is not None else left_before_the_search(self._space)
            return State(problem, trials_left_at_most=left, settled=problem is not None)
        progress = [
            (events, ClassSearch(self._space, self.evidence, events).run())
            for events in self.classes()
            if self.evidence.value(self.good, events[0]) != self.evidence.value(self.bad, events[0])
        ]
        findings = _gathered(progress)
        brackets = [bracket for _, one in progress for bracket in one.brackets]
        questions = [question for _, one in progress for question in one.set_questions]
        searching = bool(brackets or questions)
        doubtful = self._unconfirmed(findings) + ([] if searching else self._strange())
        last = Clearing()
        if not searching and not self._wanted_runs(doubtful):
            findings = proven(self._space, self.evidence, findings)
            last = clearing(self._space, self.evidence, findings)
            doubtful += self._unbelieved(last)
        wanted = self._wanted_runs(doubtful)
        repeats = sum(self.evidence.observed(trial.vector) for trial in wanted)
        settled = not (searching or wanted or self._unasked(last.vector))
        left = left_at_most(self._space, self.evidence, brackets, questions) + len(wanted) - repeats
        return State(
            findings=findings,
            brackets=tuple(b for b in brackets if isinstance(b, Bracket)),
            milestone_brackets=tuple(b for b in brackets if isinstance(b, MilestoneBracket)),
            set_questions=tuple(questions),
            doubtful=tuple(doubtful),
            clearing=last.vector,
            cleared=last.cleared,
            uncleared=last.uncleared,
            trials_left_at_most=0 if settled else left,
            repeats_left=repeats,
            settled=settled,
        )

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
        return not self._missing_runs([self.good, self.bad])

    def _unconfirmed(self, findings: Iterable[Finding]) -> list[Vector]:
        """Sides of findings whose digests too few processes have seen.

        A digest that came from two processes repeats itself, be it in two runs of one vector
        or in one run each of two. A vector that was never run confirms nothing, and one that
        cannot run never will.
        """
        unconfirmed: set[Vector] = set()
        for finding in findings:
            neighbours = zip(finding.without, finding.culprits, strict=True)
            apart = [vector for vector, culprit in neighbours if not culprit.bound.inseparable]
            unconfirmed |= {
                vector
                for vector in (finding.at, *apart)
                if self.evidence.failure(vector) is None
                and self.sightings(finding, vector) < self._repetitions
            }
        return sorted(unconfirmed)

    def _unbelieved(self, last: Clearing) -> list[Vector]:
        """The last question, if its answer has digests that too few processes have seen."""
        if last.vector is None:
            return []
        seen = (
            self.evidence.sightings(event, self.evidence.value(last.vector, event))
            for event in last.uncleared
        )
        return [last.vector] if min(seen, default=self._repetitions) < self._repetitions else []

    def _unasked(self, vector: Vector | None) -> list[Vector]:
        return [] if vector is None or self.evidence.observed(vector) else [vector]

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

    def _wanted_runs(
        self, vectors: Iterable[Vector], busy: Set[Trial] = frozenset()
    ) -> list[Trial]:
        """Runs that doubtful vectors want: one of what was never run, else all that are missing."""
        wanted = list(vectors)
        tried = [vector for vector in wanted if self.evidence.observed(vector)]
        first = (Trial(vector, 0) for vector in wanted if vector not in tried)
        return [trial for trial in first if trial not in busy] + self._missing_runs(tried, busy)

    def _missing_runs(
        self, vectors: Iterable[Vector], busy: Set[Trial] = frozenset()
    ) -> list[Trial]:
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


def _gathered(progress: Iterable[tuple[tuple[str, ...], Progress]]) -> tuple[Finding, ...]:
    """One finding per step, with the events of every class that takes it.

    Steps of the same components in different surroundings are different steps.
    """
    events: defaultdict[Step, list[str]] = defaultdict(list)
    for names, one in progress:
        for step in one.steps:
            events[step].extend(names)
    found = [
        Finding(step.culprits, step.at, step.without, tuple(names), step.before)
        for step, names in events.items()
    ]
    return tuple(sorted(found, key=lambda finding: (finding.at, finding.key)))
