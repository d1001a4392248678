"""How many trials a bracket is expected to cost still.

A bracket with one change somewhere inside is searched by a binary decision tree: its inner
nodes are points to try, its leaves the steps between points, and a step costs as many trials
as its leaf is deep. The best tree for given odds is the optimal alphabetic tree; its weighted
path length is found by dynamic programming over all intervals of the axis, in quadratic time
because the best root moves monotonically (Knuth, Optimum binary search trees, 1971).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from bitsect.bisect.engine.model import Axis

#: Longest axis whose odds are treated exactly. Beyond it the entropy stands in for the path
#: length, which is never more than two trials above it (Horibe 1977).
EXACT_STEPS = 400


class Cost:
    """Expected cost of every bracket of one axis, in trials times weight."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self._table = _path_lengths(axis.odds) if 0 < len(axis.odds) <= EXACT_STEPS else None

    def of(self, low: int, high: int) -> float:
        """Trials that the bracket between two points costs, times its weight."""
        if self._table is not None:
            return self._table[low][high]
        if self._axis.odds:
            return _entropy(self._axis.odds[low:high])
        return _even_path_length(high - low)

    def saved(self, low: int, point: int, high: int) -> float:
        """What trying a point saves of the bracket's cost, times its weight."""
        return self.of(low, high) - self.of(low, point) - self.of(point, high)


@functools.lru_cache(maxsize=256)
def cost_of(axis: Axis) -> Cost:
    """The costs of an axis, computed once."""
    return Cost(axis)


def _even_path_length(steps: int) -> int:
    """Path length of the best tree over equally likely steps: the balanced one."""
    depth = steps.bit_length() - 1
    return steps * depth + 2 * (steps - (1 << depth))


def _entropy(odds: Sequence[int]) -> float:
    whole = sum(odds)
    return whole * math.log2(whole) - sum(weight * math.log2(weight) for weight in odds)


def _path_lengths(odds: Sequence[int]) -> list[list[int]]:
    """Weighted path length of the best tree over the steps from i to j, for all i < j."""
    steps = len(odds)
    upto = [0]
    for weight in odds:
        upto.append(upto[-1] + weight)
    length = [[0] * (steps + 1) for _ in range(steps + 1)]
    root = [[0] * (steps + 1) for _ in range(steps + 1)]
    for low in range(steps):
        root[low][low + 1] = low + 1
    for width in range(2, steps + 1):
        for low in range(steps - width + 1):
            high = low + width
            first = max(root[low][high - 1], low + 1)
            last = min(root[low + 1][high], high - 1)
            best = min(range(first, last + 1), key=lambda k: length[low][k] + length[k][high])
            root[low][high] = best
            length[low][high] = length[low][best] + length[best][high] + upto[high] - upto[low]
    return length
