"""Which of the moved components are needed for a change, each at its bad point.

The search moves *units*: a block is one, every other component is one of its own. A block that
turns out to be needed is split as far as its mixed states run. Of what is left nothing can be
taken away, alone or together, without losing the change or the ability to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bitsect.bisect.engine.asked import Asked, Unit, axes_of
from bitsect.bisect.engine.change import Change
from bitsect.bisect.engine.model import Vector
from bitsect.bisect.engine.needs import NeedsVector
from bitsect.bisect.engine.space import Space
from bitsect.bisect.engine.subsets import minimal_set, without_needless
from bitsect.bisect.engine.vectors import mixed, moved_between
from bitsect.bisect.verdicts import Verdict

#: Mixtures that may be tried in vain to find the needed units, per doubling of their number.
PATIENCE = 4

#: Mixtures that may be tried in vain to take away what is not needed.
REMOVAL_PATIENCE = 24

#: Mixed states of one block that may be tried in vain to split it, and for each of its members,
#: up to a limit, to take away what is not needed: a block is not expected to run in part.
BLOCK_PATIENCE = 4
BLOCK_REMOVAL_PATIENCE = 8


class Needed(msgspec.Struct, frozen=True):
    """The components that a change needs.

    :param axes: in order.
    :param together: those of them without which nothing ran, so that it is not known whether
        they matter themselves or are only needed by the others.
    :param untried: those of these for which that was concluded from other mixtures, since too
        many had failed already; and why the one most like it failed.
    """

    axes: tuple[int, ...]
    together: frozenset[int] = frozenset()
    untried: Mapping[int, Verdict] = {}


def needed_components(space: Space, base: Vector, top: Vector, change: Change) -> Needed:
    """The fewest components that show the change when they alone go from base to top.

    :raises NeedsVector: that is not known yet.
    """
    moved = moved_between(base, top)
    if len(moved) == 1:
        return Needed(moved)

    def ask(chosen: frozenset[int]) -> bool | None:
        vector = mixed(base, top, chosen)
        if not change.observed(vector):
            suspects = sorted(asked.smallest_shown())
            raise NeedsVector(vector, space.components(suspects))
        return change.shows(vector)

    asked = Asked(ask, frozenset(moved))
    asked.grant(PATIENCE * len(moved).bit_length())
    found = minimal_set(asked, _units(space, moved))
    asked.grant(REMOVAL_PATIENCE)
    found = without_needless(asked, found)
    found = _with_blocks_split(space, asked, found)
    together = [unit for unit in found if asked.shows(_but(found, unit)) is None]
    untried = {
        unit.axes[0]: asked.nearest_in_vain(_but(found, unit), unit)
        for unit in together
        if not asked.in_vain(_but(found, unit))
    }
    return Needed(
        tuple(sorted(axes_of(found))),
        axes_of(together),
        {axis: change.why(mixed(base, top, tried)) for axis, tried in untried.items()},
    )


def _with_blocks_split(space: Space, asked: Asked, found: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """The found units, one component each, without what is not needed of their blocks."""
    blocks = [unit for unit in found if len(unit.axes) > 1]
    if not blocks:
        return found
    for block in blocks:
        asked.grant(BLOCK_PATIENCE)
        others = _but(found, block)
        found = others + minimal_set(asked, _singles(space, block.axes), others)
    asked.grant(min(len(axes_of(blocks)), BLOCK_REMOVAL_PATIENCE))
    return without_needless(asked, found)


def _units(space: Space, moved: Sequence[int]) -> tuple[Unit, ...]:
    """The moved components as units, touched ones first, and in their order."""
    units = dict.fromkeys(
        tuple(axis for axis in space.block_of(one) if axis in moved) for one in moved
    )
    return _in_order(Unit(axes, any(space.axes[axis].touched for axis in axes)) for axes in units)


def _singles(space: Space, axes: Sequence[int]) -> tuple[Unit, ...]:
    return _in_order(Unit((axis,), space.axes[axis].touched) for axis in axes)


def _in_order(units: Iterable[Unit]) -> tuple[Unit, ...]:
    return tuple(sorted(units, key=lambda unit: not unit.touched))


def _but(units: Sequence[Unit], left_out: Unit) -> tuple[Unit, ...]:
    return tuple(unit for unit in units if unit != left_out)
