"""What is searched: the axes, the whole stacks between the ends, and the blocks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from bitsect.bisect.engine.model import Axis, Vector
from bitsect.bisect.engine.vectors import at_or_below


class Space:
    """Everything that a search knows before it has seen anything.

    :param axes: the components in which the two ends differ, each with its points. The order
        is the order in which they are suspected, those that the probe touched before all others.
    :param milestones: whole stacks that exist between the ends, in order.
    :param blocks: axes, by index, that are not expected to run when only some of them moved.
        A hypothesis that decides what an answer costs: where it is wrong, trials show it.
    :raises ValueError: no axis, a component twice, a milestone off the axes or below the one
        before it, or an axis that does not exist or lies in two blocks.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        milestones: Sequence[Vector] = (),
        blocks: Sequence[Sequence[int]] = (),
    ) -> None:
        names = [axis.component for axis in axes]
        if not axes or len(set(names)) != len(names):
            raise ValueError(f"axes must be distinct and at least one, not {names}")
        self.axes = tuple(axes)
        self._index = {name: position for position, name in enumerate(names)}
        self.good: Vector = tuple(0 for _ in axes)
        self.bad: Vector = tuple(axis.top for axis in axes)
        for milestone in milestones:
            self.check(milestone)
        for low, high in itertools.pairwise(milestones):
            if not at_or_below(low, high):
                raise ValueError(f"milestone {high} goes back behind {low}")
        # On a single axis they are points like all others.
        self.milestones = tuple(milestones) if len(axes) > 1 else ()
        blocked = [axis for block in blocks for axis in block]
        if len(set(blocked)) != len(blocked) or not set(blocked) <= set(range(len(axes))):
            raise ValueError(f"blocks must be of distinct axes, not {blocks}")
        self.blocks = tuple(tuple(sorted(block)) for block in blocks if block)

    def check(self, vector: Vector) -> None:
        """Raise ValueError for a vector that does not lie on the axes."""
        fits = len(vector) == len(self.axes) and all(
            0 <= point <= axis.top for point, axis in zip(vector, self.axes, strict=True)
        )
        if not fits:
            raise ValueError(f"{vector} does not lie on the axes")

    def chain_from(self, base: Vector) -> tuple[Vector, ...]:
        """The base, the milestones above it, and the bad end."""
        above = (each for each in self.milestones if at_or_below(base, each))
        return tuple(dict.fromkeys((base, *above, self.bad)))

    def block_of(self, axis: int) -> tuple[int, ...]:
        """The axes that an axis is expected to move with, itself among them."""
        return next((block for block in self.blocks if axis in block), (axis,))

    def index(self, component: str) -> int:
        """The position of a component's axis."""
        return self._index[component]

    def components(self, axes: Sequence[int]) -> tuple[str, ...]:
        """The names of some axes."""
        return tuple(self.axes[axis].component for axis in axes)
