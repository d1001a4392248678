"""The values that the search works on. Nothing here does I/O or knows what a stack is."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bitsect.bisect.engine.vectors import Vector as Vector
from bitsect.bisect.engine.vectors import moved_between, replaced
from bitsect.bisect.verdicts import FAILURES, Verdict

#: The digest of an event that a trace does not contain. A value like any other: an event
#: that appears or vanishes is a change.
ABSENT = "absent"


class Axis(msgspec.Struct, frozen=True):
    """A component with its points in order, the good stack's first, the bad stack's last.

    :param odds: how likely a change is at each step from one point to the next, relative to
        the other steps; equally likely if empty. Decides what an answer costs, never the answer.
    :param touched: whether the probe was seen to use the component. What it used is suspected
        before all else; that too decides costs alone.
    :raises ValueError: fewer than two points, a point twice, or odds that do not fit them.
    """

    component: str
    points: tuple[str, ...]
    odds: tuple[int, ...] = ()
    touched: bool = True

    def __post_init__(self) -> None:
        if len(self.points) < 2:
            raise ValueError(f"axis {self.component} needs two points, has {self.points}")
        if len(set(self.points)) != len(self.points):
            raise ValueError(f"axis {self.component} names a point twice: {self.points}")
        if self.odds and (len(self.odds) != self.top or min(self.odds) < 1):
            raise ValueError(f"axis {self.component} needs {self.top} positive odds: {self.odds}")

    @property
    def top(self) -> int:
        """Index of the bad stack's point."""
        return len(self.points) - 1

    def weight(self, low: int, high: int) -> int:
        """How likely a change is somewhere between two points."""
        return sum(self.odds[low:high]) if self.odds else high - low


class Trial(msgspec.Struct, frozen=True, order=True):
    """A question of the search: run this hybrid, and count the run as this repetition."""

    vector: Vector
    repetition: int


class Outcome(msgspec.Struct, frozen=True):
    """The answer to one trial: the digest of every event, or why there is none.

    ``failure`` is None exactly when the probe ran to its end.
    """

    events: Mapping[str, str] = {}
    failure: Verdict | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.failure is not None and self.failure not in FAILURES:
            raise ValueError(f"{self.failure} is not a failure")
        if self.failure is not None and self.events:
            raise ValueError("a failed run has no events")


class Bound(msgspec.Struct, frozen=True):
    """How well one coordinate of an answer is known.

    ``exact``: the point just below was run and does not show the change. Otherwise the
    points ``blocked`` could not be run, and the change lies somewhere above ``below``: the
    nearest lower point that is not among them, or the component's good end.

    ``inseparable``: the other culprits did not run without this component, so it could only be
    moved together with them. It may be to blame, or needed by what is. Where many such
    mixtures had failed already the reason is that of the one most like it.
    """

    exact: bool
    below: str
    blocked: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    inseparable: bool = False


class Culprit(msgspec.Struct, frozen=True):
    """One coordinate of a minimal failing vector: this component, between these points."""

    component: str
    before: str
    after: str
    bound: Bound


class Finding(msgspec.Struct, frozen=True):
    """One explained change: events that part together, and the step that parts them.

    ``without`` holds, per culprit, the vector with that culprit alone taken back: there the
    events are as they were at the step's good side, or else the culprit's bound says why that
    is not known. ``at`` is the minimal failing vector. ``before`` is one at the step's good
    side: of ``without`` if any ran, else the stack that the step starts from.

    ``sufficient``: whether the good end with these components at their bad points, and nothing
    else, has other digests than the good end, in all of the events. ``necessary``: whether the
    bad end with the culprits of all findings at their good points has the good end's digests
    again, in all of the events. Both are None where that was not run to its end.
    """

    culprits: tuple[Culprit, ...]
    at: Vector
    without: tuple[Vector, ...]
    events: tuple[str, ...]
    before: Vector
    sufficient: bool | None = None
    necessary: bool | None = None

    @property
    def exact(self) -> bool:
        """Whether every culprit is pinned to two adjacent points."""
        return all(culprit.bound.exact for culprit in self.culprits)

    @property
    def together(self) -> tuple[str, ...]:
        """Components that could only be moved together; their bounds have the reasons."""
        return tuple(c.component for c in self.culprits if c.bound.inseparable)

    @property
    def key(self) -> tuple[tuple[str, str, str], ...]:
        """What makes two findings one: the same steps of the same components."""
        return tuple((c.component, c.before, c.after) for c in self.culprits)


class Bracket(msgspec.Struct, frozen=True):
    """Where an open class is being searched: between two points of one axis."""

    events: tuple[str, ...]
    axis: int
    context: Vector
    low: int
    high: int

    @property
    def inside(self) -> int:
        """Number of points strictly between the ends."""
        return self.high - self.low - 1

    def vector(self, point: int) -> Vector:
        """The vector that tries one point."""
        return replaced(self.context, self.axis, point)


class MilestoneBracket(msgspec.Struct, frozen=True):
    """Where an open class is being searched: along whole stacks, of which the first shows the
    digest of the step's good side, the last another one, and those between are not all known.
    """

    events: tuple[str, ...]
    stacks: tuple[Vector, ...]

    @property
    def low(self) -> int:
        """Index of the first stack."""
        return 0

    @property
    def high(self) -> int:
        """Index of the last stack."""
        return len(self.stacks) - 1

    @property
    def inside(self) -> int:
        """Number of stacks strictly between the ends."""
        return len(self.stacks) - 2

    @property
    def moved(self) -> tuple[int, ...]:
        """The axes along which the ends differ."""
        return moved_between(self.stacks[0], self.stacks[-1])

    def vector(self, point: int) -> Vector:
        """The stack with this index."""
        return self.stacks[point]


class SetQuestion(msgspec.Struct, frozen=True):
    """An open class whose culprit components are not yet known: this vector decides next."""

    events: tuple[str, ...]
    vector: Vector
    suspects: tuple[str, ...]


class EndProblem(msgspec.Struct, frozen=True):
    """Why no search can start from these ends.

    ``kind`` is ``failed`` (an end did not run), ``nondeterministic`` (an end's repetitions
    disagree) or ``agree`` (the ends differ in no event).
    """

    kind: str
    side: str = ""
    verdict: Verdict | None = None
    reason: str = ""
    events: tuple[str, ...] = ()
    compared: int = 0


class Anomaly(msgspec.Struct, frozen=True):
    """A history that is not monotone: these events changed, and changed back.

    ``same`` are two vectors with equal digests, ``other`` one between them that differs.
    """

    events: tuple[str, ...]
    same: tuple[Vector, Vector]
    other: Vector
