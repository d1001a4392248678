"""Which vectors to run next, for all open classes together.

Every open class says what it would accept. A point of a bracket tells a class as much as it
splits the bracket evenly: with the change equally likely at each of its places, that is the
entropy of the split, in bits. A vector that one class needs as it stands tells that class one
bit. The vector worth most, summed over the classes, comes first; equal worth goes to the
smaller vector, so that the choice is a function of the evidence alone.

With several workers the vectors are chosen one after another, each for what it adds to those
already running: the same entropy, of the finer split.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from bitsect.bisect.engine.evidence import Evidence
from bitsect.bisect.engine.model import Bracket, SetQuestion, Vector
from bitsect.bisect.engine.search import bracket_vector, untried_points


def choose(
    brackets: Sequence[Bracket],
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
            for vector, bits in _worth_of_points(bracket, points, taken):
                worth[vector] += bits
        for question in questions:
            if question.vector not in taken:
                worth[question.vector] += 1.0
        if not worth:
            break
        # Rounded, so that the last bit of a logarithm never decides.
        best = min(worth, key=lambda vector: (-round(worth[vector], 9), vector))
        chosen.append(best)
        taken.add(best)
    return chosen


def _worth_of_points(
    bracket: Bracket, points: list[int], taken: set[Vector]
) -> Iterable[tuple[Vector, float]]:
    vectors = {point: bracket_vector(bracket, point) for point in points}
    cuts = sorted(point for point, vector in vectors.items() if vector in taken)
    edges = [bracket.low, *cuts, bracket.high]
    places = bracket.high - bracket.low
    for below, above in itertools.pairwise(edges):
        for point in points:
            if below < point < above:
                yield vectors[point], _split_entropy(below, point, above, places)


def _split_entropy(below: int, point: int, above: int, places: int) -> float:
    """Bits that a point adds by splitting one piece of a bracket of ``places`` places."""
    left, right = point - below, above - point
    whole = left + right
    return (whole * math.log2(whole) - left * math.log2(left) - right * math.log2(right)) / places
