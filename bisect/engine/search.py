"""The search for one class of events: from digests to minimal failing vectors.

How it works
------------

A class is a set of events that have agreed in every observation so far, so one event stands
for all. Its digests at the two ends differ. The search climbs from the good end to the bad
end in *steps*. A step starts from a ``base`` vector and finds a minimal vector above it whose
digest is no longer the base's: taking any one culprit coordinate back by one point restores
the base's digest. The next step starts from there, until the digest is the bad end's. An
event that changes twice between the ends therefore gives two steps, each with its culprit.

One step has two stages:

1. *Components*: which of the moved components are needed for the change, each at its bad
   point. Halving as if there were one culprit comes first; the answer is verified by a trial
   of that one component alone, and if that does not show the change, QuickXplain (Junker
   2004) finds the minimal set.
2. *Points*: for each needed component in turn, the lowest point that still shows the change,
   by bisection. Points that could not be run are passed over, nearest to the middle first,
   and if no runnable point is left in the bracket the coordinate is reported as blocked.

The program is a pure function of the evidence. Where it needs a vector that was not observed
it does not wait: it stops and returns what it would accept, with how much each choice would
tell. Run again with more evidence it takes the same path further. That makes a session the
fold of its observations: the order in which they arrive changes nothing.

Everything observed is used, whoever asked for it: a bracket is narrowed to the lowest change
that the evidence already shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from bitsect.bisect.engine.evidence import UNSTABLE, Evidence
from bitsect.bisect.engine.model import (
    Axis,
    Bound,
    Bracket,
    Culprit,
    SetQuestion,
    Vector,
)


class Step(msgspec.Struct, frozen=True):
    """One minimal change: culprits, the vector that shows it, and that vector's neighbours."""

    culprits: tuple[Culprit, ...]
    at: Vector
    without: tuple[Vector, ...]


class Progress(msgspec.Struct, frozen=True):
    """What the search for one class knows: finished steps, and the questions it has left."""

    steps: tuple[Step, ...] = ()
    brackets: tuple[Bracket, ...] = ()
    set_questions: tuple[SetQuestion, ...] = ()

    @property
    def open(self) -> bool:
        """Whether another trial would bring this class further."""
        return bool(self.brackets or self.set_questions)


class _NeedsPoint(Exception):
    """The search needs some point inside a bracket."""

    def __init__(self, bracket: Bracket) -> None:
        super().__init__()
        self.bracket = bracket


class _NeedsVector(Exception):
    """The search needs one particular vector."""

    def __init__(self, vector: Vector, suspects: tuple[str, ...]) -> None:
        super().__init__()
        self.vector = vector
        self.suspects = suspects


class ClassSearch:
    """Runs the program above for one class.

    :param axes: the session's axes.
    :param evidence: what was observed; both ends among it.
    :param events: the class; its first event stands for all.
    """

    def __init__(self, axes: Sequence[Axis], evidence: Evidence, events: tuple[str, ...]) -> None:
        self._axes = axes
        self._evidence = evidence
        self._events = events
        self._event = events[0]
        self._good: Vector = tuple(0 for _ in axes)
        self._bad: Vector = tuple(axis.top for axis in axes)

    def run(self) -> Progress:
        """Climb as far as the evidence reaches."""
        steps: list[Step] = []
        brackets: list[Bracket] = []
        base = self._good
        while self._value(base) != self._value(self._bad):
            try:
                step = self._step(base)
            except _NeedsVector as need:
                question = SetQuestion(self._events, need.vector, need.suspects)
                return Progress(tuple(steps), tuple(brackets), (question,))
            except _NeedsPoint as need:
                brackets.append(need.bracket)
                onward = _replaced(need.bracket.context, need.bracket.axis, need.bracket.high)
                if len(self._moved(base)) > 1:
                    break
                # On a single axis the evidence above this bracket is already comparable, so
                # later changes are searched at the same time.
                base = onward
                continue
            steps.append(step)
            base = step.at
        return Progress(tuple(steps), tuple(brackets))

    # One step

    def _step(self, base: Vector) -> Step:
        reference = self._value(base)

        def shows(vector: Vector) -> bool | None:
            """Whether the vector shows a change from base; None if it cannot tell."""
            if self._evidence.events(vector) is None:
                return None
            value = self._value(vector)
            return None if value == UNSTABLE else value != reference

        needed = self._needed_components(base, shows)
        at = _mixed(base, self._bad, needed)
        at, bounds = self._lowered(base, at, needed, shows)
        # A culprit that came down all the way was not needed after all: only a history
        # that is not monotone does that.
        needed = tuple(axis for axis in needed if at[axis] > base[axis])
        without = {
            axis: _replaced(at, axis, self._axes[axis].points.index(bounds[axis].below))
            for axis in needed
        }
        culprits = tuple(
            Culprit(
                component=self._axes[axis].component,
                before=bounds[axis].below,
                after=self._axes[axis].points[at[axis]],
                bound=self._settled(bounds[axis], without[axis], shows),
            )
            for axis in needed
        )
        return Step(culprits, at, tuple(without.values()))

    def _settled(
        self, bound: Bound, without: Vector, shows: Callable[[Vector], bool | None]
    ) -> Bound:
        """A bound as it holds where the other coordinates have come down to."""
        tried_in_vain = self._evidence.observed(without) and shows(without) is None
        if not bound.exact or not tried_in_vain:
            return bound
        return Bound(False, bound.below, (bound.below,), (self._why(without),))

    def _lowered(
        self,
        base: Vector,
        at: Vector,
        needed: tuple[int, ...],
        shows: Callable[[Vector], bool | None],
    ) -> tuple[Vector, dict[int, Bound]]:
        """Lower every needed coordinate until none can come down one point further."""
        bounds: dict[int, Bound] = {}
        while True:
            start = at
            for axis in needed:
                if at[axis] == base[axis]:
                    continue
                if axis in bounds and not self._lower_neighbour_shows(at, axis, bounds, shows):
                    continue
                point, bounds[axis] = self._lowest_point(base, at, axis, shows)
                at = _replaced(at, axis, point)
            if at == start:
                return at, bounds

    def _lower_neighbour_shows(
        self,
        at: Vector,
        axis: int,
        bounds: dict[int, Bound],
        shows: Callable[[Vector], bool | None],
    ) -> bool:
        """Whether the evidence contradicts that this coordinate is as low as it can be.

        It can only where another coordinate came down since this one was searched.
        """
        below = _replaced(at, axis, self._axes[axis].points.index(bounds[axis].below))
        return self._evidence.observed(below) and shows(below) is True

    # Stage 1: components

    def _needed_components(
        self, base: Vector, shows: Callable[[Vector], bool | None]
    ) -> tuple[int, ...]:
        moved = self._moved(base)
        if len(moved) == 1:
            return moved

        def test(chosen: Sequence[int]) -> bool:
            vector = _mixed(base, self._bad, chosen)
            if not self._evidence.observed(vector):
                raise _NeedsVector(vector, tuple(self._axes[axis].component for axis in moved))
            # A mixture that cannot run shows nothing. Taking it as "no change" keeps its
            # components in the answer, which stays sufficient; necessity is checked below.
            return shows(vector) is True

        suspects = list(moved)
        while len(suspects) > 1:
            half = suspects[: len(suspects) // 2]
            suspects = half if test(half) else suspects[len(half) :]
        if test(suspects):
            return tuple(suspects)
        return tuple(sorted(_quick_xplain(list(moved), test)))

    # Stage 2: points

    def _lowest_point(
        self,
        base: Vector,
        at: Vector,
        axis: int,
        shows: Callable[[Vector], bool | None],
    ) -> tuple[int, Bound]:
        """The lowest point of one axis that still shows the change, others as in ``at``."""
        known = {at[axis]: True}
        failed: list[int] = []
        for point in range(base[axis], at[axis]):
            vector = _replaced(at, axis, point)
            shown = shows(vector)
            if shown is not None:
                known[point] = shown
                continue
            if self._evidence.observed(vector):
                failed.append(point)
            elif point == base[axis] and not self._shown_above(vector, shows):
                # Nothing says yet that the component is needed at all.
                raise _NeedsVector(vector, (self._axes[axis].component,))
        high = min(point for point, shown in known.items() if shown)
        points = self._axes[axis].points
        if high == base[axis]:
            return high, Bound(exact=True, below=points[high])
        low = max((point for point in known if point < high), default=base[axis])
        blocked = [point for point in failed if low <= point < high]
        if any(point not in blocked for point in range(low + 1, high)):
            raise _NeedsPoint(Bracket(self._events, axis, at, low, high))
        return high, Bound(
            exact=not blocked,
            below=points[low],
            blocked=tuple(points[point] for point in blocked),
            reasons=tuple(self._why(_replaced(at, axis, point)) for point in blocked),
        )

    def _shown_above(self, vector: Vector, shows: Callable[[Vector], bool | None]) -> bool:
        """Whether a vector above this one is unchanged: then so is this one, if monotone.

        Saves a trial; what an answer is called exact for has always been run.
        """
        return any(
            shows(above) is False and all(a >= b for a, b in zip(above, vector, strict=True))
            for above in self._evidence.vectors()
        )

    def _why(self, vector: Vector) -> str:
        failure = self._evidence.failure(vector)
        return "NONDETERMINISTIC" if failure is None else failure[0].value

    def _value(self, vector: Vector) -> str:
        return self._evidence.value(vector, self._event)

    def _moved(self, base: Vector) -> tuple[int, ...]:
        return tuple(i for i, point in enumerate(self._bad) if point > base[i])


def untried_points(bracket: Bracket, evidence: Evidence) -> list[int]:
    """The points inside a bracket that have not been tried in its context."""
    return [
        point
        for point in range(bracket.low + 1, bracket.high)
        if not evidence.observed(_replaced(bracket.context, bracket.axis, point))
    ]


def bracket_vector(bracket: Bracket, point: int) -> Vector:
    """The vector that tries one point of a bracket."""
    return _replaced(bracket.context, bracket.axis, point)


def _replaced(vector: Vector, axis: int, point: int) -> Vector:
    return (*vector[:axis], point, *vector[axis + 1 :])


def _mixed(base: Vector, top: Vector, chosen: Sequence[int]) -> Vector:
    picked = set(chosen)
    return tuple(top[i] if i in picked else base[i] for i in range(len(base)))


def _quick_xplain(candidates: list[int], test: Callable[[Sequence[int]], bool]) -> list[int]:
    """A minimal subset of ``candidates`` for which ``test`` holds.

    ``test`` holds for all candidates together and, if it is monotone, the result loses the
    property when any one member is taken away. About 2k·log2(n/k) + 2k tests for k of n
    (Junker, QuickXplain, AAAI 2004).
    """

    def explain(background: list[int], grew: bool, rest: list[int]) -> list[int]:
        if grew and test(background):
            return []
        if len(rest) == 1:
            return rest
        first, second = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        needed_second = explain(background + first, True, second)
        needed_first = explain(background + needed_second, bool(needed_second), first)
        return needed_first + needed_second

    return explain([], False, candidates)
