"""How many vectors may still have to be run.

Exact as a bound on one axis: no point outside an open bracket is ever asked for. On several
axes it supposes that every class changes once, by at most two components, and that every
mixture runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from bitsect.bisect.engine.evidence import Evidence
from bitsect.bisect.engine.model import Bracket, MilestoneBracket, SetQuestion
from bitsect.bisect.engine.search import untried_points
from bitsect.bisect.engine.space import Space


def left_before_the_search(space: Space) -> int:
    """Vectors beside the ends."""
    if len(space.axes) == 1:
        return space.axes[0].top - 1
    return len(space.milestones) + _of_a_step(space, len(space.axes)) + 1


def left_at_most(
    space: Space,
    evidence: Evidence,
    brackets: Sequence[Bracket | MilestoneBracket],
    questions: Sequence[SetQuestion],
) -> int:
    """Vectors beside those that were observed, for what the open classes need."""
    untried = {
        bracket.vector(point) for bracket in brackets for point in untried_points(bracket, evidence)
    }
    if len(space.axes) == 1:
        return len(untried)
    suspects = [len(question.suspects) for question in questions]
    for bracket in brackets:
        moved = bracket.moved if isinstance(bracket, MilestoneBracket) else (bracket.axis,)
        suspects.append(len(moved))
    # The last one clears the innocent.
    return len(untried) + sum(_of_a_step(space, count) for count in suspects) + 1


def _of_a_step(space: Space, suspects: int) -> int:
    """What one step takes, once its culprits are among so many suspects.

    One search as if one component were to blame, and one for each of two; by units, then
    inside their blocks. Then the points of both, and the neighbours of the answer.
    """
    block = max(map(len, space.blocks), default=0)
    inside = sum(sorted(axis.top - 1 for axis in space.axes)[-2:])
    return 3 * (suspects.bit_length() + 2 * block.bit_length() + 1) + inside + 2
