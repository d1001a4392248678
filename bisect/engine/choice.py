"""Which vectors to run next, for all open classes together.

Every open class says what it would accept. A point of a bracket is worth what it is expected
to save of the trials that the bracket still costs: one at best, less the further it lies from
the best split. A vector that one class needs as it stands is worth one trial to that class.
The vector worth most, summed over the classes, comes first; equal worth goes to the smaller
vector, so that the choice is a function of the evidence alone.

With several workers the vectors are chosen one after another, each for what it saves beside
those already running.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

from bitsect.bisect.engine.cost import cost_of
from bitsect.bisect.engine.evidence import Evidence
from bitsect.bisect.engine.model import Axis, Bracket, MilestoneBracket, SetQuestion, Vector
from bitsect.bisect.engine.search import untried_points


def choose(
    axes: Sequence[Axis],
    brackets: Sequence[Bracket | MilestoneBracket],
    questions: Sequence[SetQuestion],
    evidence: Evidence,
    running: Iterable[Vector],
    count: int,
) -> list[Vector]:
    """Up to ``count`` vectors to run beside those that are running."""
    taken = set(running)
    chosen: list[Vector] = []
    candidates = [(bracket, untried_points(bracket, evidence)) for bracket in brackets]
    while len(chosen) < count:
        worth: defaultdict[Vector, float] = defaultdict(float)
        for bracket, points in candidates:
            for vector, saved in _worth_of_points(_axis_of(bracket, axes), bracket, points, taken):
                worth[vector] += saved
        for question in questions:
            if question.vector not in taken:
                worth[question.vector] += 1.0
        if not worth:
            break
        # Rounded, so that the last bit of a quotient never decides.
        best = min(worth, key=lambda vector: (-round(worth[vector], 9), vector))
        chosen.append(best)
        taken.add(best)
    return chosen


def _worth_of_points(
    axis: Axis, bracket: Bracket | MilestoneBracket, points: list[int], taken: set[Vector]
) -> Iterable[tuple[Vector, float]]:
    vectors = {point: bracket.vector(point) for point in points}
    cuts = sorted(point for point, vector in vectors.items() if vector in taken)
    edges = [bracket.low, *cuts, bracket.high]
    cost, whole = cost_of(axis), axis.weight(bracket.low, bracket.high)
    for below, above in itertools.pairwise(edges):
        for point in points:
            if below < point < above:
                yield vectors[point], cost.saved(below, point, above) / whole


def _axis_of(bracket: Bracket | MilestoneBracket, axes: Sequence[Axis]) -> Axis:
    """What a bracket is cut along; between milestones every step is equally likely."""
    if isinstance(bracket, Bracket):
        return axes[bracket.axis]
    return Axis("milestones", tuple(str(index) for index in range(bracket.high + 1)))
