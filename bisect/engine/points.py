"""How low the needed components can come with the change still showing.

Each coordinate in turn goes to the lowest point that still shows the change, by bisection.
Points that could not be run are passed over, nearest to the middle first, and if no runnable
point is left in the bracket the coordinate is reported as blocked.
"""

from __future__ import annotations

from bitsect.bisect.engine.change import Change
from bitsect.bisect.engine.components import Needed
from bitsect.bisect.engine.model import Bound, Bracket, Vector
from bitsect.bisect.engine.needs import NeedsPoint, NeedsVector
from bitsect.bisect.engine.space import Space
from bitsect.bisect.engine.vectors import replaced
from bitsect.bisect.verdicts import Verdict


class Descent:
    """The second stage of one step.

    :param base: where the step starts.
    :param needed: the components that the change needs.
    :param events: the class that is searched.
    """

    def __init__(
        self,
        space: Space,
        base: Vector,
        needed: Needed,
        change: Change,
        events: tuple[str, ...],
    ) -> None:
        self._axes = space.axes
        self._base = base
        self._needed = needed
        self._change = change
        self._events = events

    def lowest(self, at: Vector) -> tuple[Vector, dict[int, Bound]]:
        """Lower every needed coordinate until none can come down one point further.

        :raises NeedsPoint, NeedsVector: that is not known yet.
        """
        bounds: dict[int, Bound] = {}
        while True:
            start = at
            for axis in self._needed.axes:
                if at[axis] == self._base[axis]:
                    continue
                if axis in bounds and not self._to_be_searched_again(at, axis, bounds[axis]):
                    continue
                point, bounds[axis] = self._lowest_point(at, axis)
                at = replaced(at, axis, point)
            if at == start:
                return at, {axis: self._settled(at, axis, bounds[axis]) for axis in bounds}

    def neighbour(self, at: Vector, axis: int, bound: Bound) -> Vector:
        """The vector with one coordinate taken back to the point below it."""
        return replaced(at, axis, self._axes[axis].points.index(bound.below))

    def _to_be_searched_again(self, at: Vector, axis: int, bound: Bound) -> bool:
        """Whether a coordinate may come further down now that others have come down.

        It may where the evidence says so, and where it could not come down only because the
        others did not run without it.
        """
        neighbour = self.neighbour(at, axis, bound)
        if bound.inseparable and axis not in self._needed.untried:
            return not self._change.tried_in_vain(neighbour)
        return self._change.shows(neighbour) is True

    def _settled(self, at: Vector, axis: int, bound: Bound) -> Bound:
        """A bound as it holds where the other coordinates have come down to."""
        neighbour = self.neighbour(at, axis, bound)
        if not bound.exact or not self._change.tried_in_vain(neighbour):
            return bound
        return Bound(False, bound.below, (bound.below,), (self._change.why(neighbour).value,))

    def _lowest_point(self, at: Vector, axis: int) -> tuple[int, Bound]:
        """The lowest point of one axis that still shows the change, others as in ``at``."""
        base = self._base[axis]
        known, failed = self._tried(at, axis)
        high = min(point for point, shown in known.items() if shown)
        points = self._axes[axis].points
        if high == base:
            return high, Bound(exact=True, below=points[high])
        low = max((point for point in known if point < high), default=base)
        blocked = [point for point in failed if low <= point < high]
        if any(point not in blocked for point in range(low + 1, high)):
            raise NeedsPoint(Bracket(self._events, axis, at, low, high))
        return high, Bound(
            exact=not blocked,
            below=points[low],
            blocked=tuple(points[point] for point in blocked),
            reasons=tuple(failed[point].value for point in blocked),
            inseparable=axis in self._needed.together and low in blocked,
        )

    def _tried(self, at: Vector, axis: int) -> tuple[dict[int, bool], dict[int, Verdict]]:
        """The points below this one that ran, with what they show, and those that did not.

        :raises NeedsVector: nothing says yet that the component is needed at all.
        """
        known = {at[axis]: True}
        failed: dict[int, Verdict] = {}
        for point in range(self._base[axis], at[axis]):
            vector = replaced(at, axis, point)
            shown = self._change.shows(vector)
            if shown is not None:
                known[point] = shown
            elif self._change.observed(vector):
                failed[point] = self._change.why(vector)
            elif point == self._base[axis]:
                if axis in self._needed.untried:
                    failed[point] = self._needed.untried[axis]
                elif not self._change.unchanged_above(vector):
                    raise NeedsVector(vector, (self._axes[axis].component,))
        return known, failed
