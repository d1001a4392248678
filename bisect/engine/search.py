"""The search for one class of events: from digests to minimal failing vectors.

How it works
------------

A class is a set of events that have agreed in every observation so far, so one event stands
for all. Its digests at the two ends differ. The search climbs from the good end to the bad
end in *steps*. A step starts from a ``base`` vector and finds a minimal vector above it whose
digest is no longer the base's: taking any one culprit coordinate back by one point restores
the base's digest. The next step starts from there, until the digest is the bad end's. An
event that changes twice between the ends therefore gives two steps, each with its culprit.

One step has three stages:

1. *Milestones*, if there are any: between which two neighbours of the whole stacks above the
   base the digest changes, by bisection. Those that could not be run are passed over. What
   follows happens between these two; without milestones, between the base and the bad end.
2. *Components*: which of the moved components are needed for the change, each at its upper
   point (components.py).
3. *Points*: for each needed component in turn, the lowest point that still shows the change
   (points.py).

The program is a pure function of the evidence. Where it needs a vector that was not observed
it does not wait: it stops and returns what it would accept, with how much each choice would
tell. Run again with more evidence it takes the same path further. That makes a session the
fold of its observations: the order in which they arrive changes nothing.

Everything observed is used, whoever asked for it: a bracket is narrowed to the lowest change
that the evidence already shows.
"""

from __future__ import annotations

import msgspec

from bitsect.bisect.engine.change import Change
from bitsect.bisect.engine.components import needed_components
from bitsect.bisect.engine.evidence import Evidence
from bitsect.bisect.engine.model import (
    Bracket,
    Culprit,
    MilestoneBracket,
    SetQuestion,
    Vector,
)
from bitsect.bisect.engine.needs import NeedsPoint, NeedsVector
from bitsect.bisect.engine.points import Descent
from bitsect.bisect.engine.space import Space
from bitsect.bisect.engine.vectors import mixed, moved_between


class Step(msgspec.Struct, frozen=True):
    """One minimal change; see `Finding` for the fields."""

    culprits: tuple[Culprit, ...]
    at: Vector
    without: tuple[Vector, ...]
    before: Vector


class Progress(msgspec.Struct, frozen=True):
    """What the search for one class knows: finished steps, and the questions it has left."""

    steps: tuple[Step, ...] = ()
    brackets: tuple[Bracket | MilestoneBracket, ...] = ()
    set_questions: tuple[SetQuestion, ...] = ()


class ClassSearch:
    """Runs the program above for one class.

    :param evidence: what was observed; both ends among it.
    :param events: the class; its first event stands for all.
    """

    def __init__(self, space: Space, evidence: Evidence, events: tuple[str, ...]) -> None:
        self._space = space
        self._evidence = evidence
        self._events = events

    def run(self) -> Progress:
        """Climb as far as the evidence reaches."""
        steps: list[Step] = []
        brackets: list[Bracket | MilestoneBracket] = []
        base, bad = self._space.good, self._space.bad
        while self._value(base) != self._value(bad):
            try:
                step = self._step(base)
            except NeedsVector as need:
                question = SetQuestion(self._events, need.vector, need.suspects)
                return Progress(tuple(steps), tuple(brackets), (question,))
            except NeedsPoint as need:
                brackets.append(need.bracket)
                # On a single axis, and along milestones, the evidence above this bracket is
                # already comparable, so later changes are searched at the same time.
                if isinstance(need.bracket, Bracket) and len(moved_between(base, bad)) > 1:
                    break
                base = need.bracket.vector(need.bracket.high)
                continue
            steps.append(step)
            base = step.at
        return Progress(tuple(steps), tuple(brackets))

    def _step(self, base: Vector) -> Step:
        change = Change(self._evidence, self._events[0], base)
        low, high = self._neighbours(base, change)
        needed = needed_components(self._space, low, high, change)
        descent = Descent(self._space, low, needed, change, self._events)
        at, bounds = descent.lowest(mixed(low, high, needed.axes))
        # A culprit that came down all the way was not needed after all: only a history
        # that is not monotone does that.
        axes = [axis for axis in needed.axes if at[axis] > low[axis]]
        culprits = tuple(
            Culprit(
                component=self._space.axes[axis].component,
                before=bounds[axis].below,
                after=self._space.axes[axis].points[at[axis]],
                bound=bounds[axis],
            )
            for axis in axes
        )
        without = tuple(descent.neighbour(at, axis, bounds[axis]) for axis in axes)
        before = next((vector for vector in without if change.shows(vector) is False), low)
        return Step(culprits, at, without, before)

    def _neighbours(self, base: Vector, change: Change) -> tuple[Vector, Vector]:
        """The two whole stacks above the base between which the change first shows.

        :raises NeedsPoint: that is not known yet.
        """
        chain = self._space.chain_from(base)
        shown = [change.shows(stack) for stack in chain]
        high = shown.index(True)
        low = max(index for index in range(high) if shown[index] is False)
        between = chain[low : high + 1]
        if not all(change.observed(stack) for stack in between):
            raise NeedsPoint(MilestoneBracket(self._events, between))
        return chain[low], chain[high]

    def _value(self, vector: Vector) -> str:
        return self._evidence.value(vector, self._events[0])


def untried_points(bracket: Bracket | MilestoneBracket, evidence: Evidence) -> list[int]:
    """The points inside a bracket that have not been tried in its context."""
    return [
        point
        for point in range(bracket.low + 1, bracket.high)
        if not evidence.observed(bracket.vector(point))
    ]
