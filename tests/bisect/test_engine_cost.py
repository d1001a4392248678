"""The expected cost of a bracket, against every possible decision tree."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitsect.bisect.engine.cost import EXACT_STEPS, Cost
from bitsect.bisect.engine.model import Axis
from tests.bisect.worlds import World, play, staircase


def axis(odds: tuple[int, ...]) -> Axis:
    return Axis("pip:numpy", tuple(str(i) for i in range(len(odds) + 1)), odds)


def cheapest_tree(odds: tuple[int, ...]) -> int:
    """Weighted path length of the best of all decision trees, by trying them all."""

    @functools.cache
    def best(low: int, high: int) -> int:
        if high - low == 1:
            return 0
        return sum(odds[low:high]) + min(
            best(low, point) + best(point, high) for point in range(low + 1, high)
        )

    return best(0, len(odds))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12).map(tuple))
def test_the_cost_is_that_of_the_best_decision_tree(odds: tuple[int, ...]) -> None:
    assert Cost(axis(odds)).of(0, len(odds)) == cheapest_tree(odds)


@pytest.mark.parametrize("steps", range(1, 40))
def test_without_odds_every_step_is_equally_likely(steps: int) -> None:
    even = Axis("pip:numpy", tuple(str(i) for i in range(steps + 1)))
    assert Cost(even).of(0, steps) == Cost(axis((1,) * steps)).of(0, steps)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=40).map(tuple), st.data())
def test_no_trial_saves_more_than_one_trial(odds: tuple[int, ...], data: st.DataObject) -> None:
    low = data.draw(st.integers(0, len(odds) - 2))
    high = data.draw(st.integers(low + 2, len(odds)))
    cost, one = Cost(axis(odds)), axis(odds)
    saved = [cost.saved(low, point, high) for point in range(low + 1, high)]
    assert max(saved) == one.weight(low, high)


def test_beyond_the_exact_length_the_entropy_stands_in() -> None:
    odds = tuple(1 + i % 5 for i in range(EXACT_STEPS + 1))
    exact, close = Cost(axis(odds[:EXACT_STEPS])), Cost(axis(odds))
    low = exact.of(0, EXACT_STEPS)
    assert close.of(0, EXACT_STEPS) <= low <= close.of(0, EXACT_STEPS) + 2 * sum(odds)


@given(st.data())
def test_odds_change_the_cost_and_never_the_answer(data: st.DataObject) -> None:
    # Given a history, searched once with odds and once without
    length = data.draw(st.integers(3, 20))
    cuts = data.draw(st.sets(st.integers(1, length - 1), min_size=1, max_size=4))
    values = [str(sum(cut <= point for cut in cuts)) for point in range(length)]
    odds = data.draw(st.lists(st.integers(1, 9), min_size=length - 1, max_size=length - 1))

    class Weighted(World):
        @property
        def axes(self) -> tuple[Axis, ...]:
            return (Axis("pip:package0", super().axes[0].points, tuple(odds)),)

    plain = play(World((length,), {"event": staircase(values)}))
    weighted = play(Weighted((length,), {"event": staircase(values)}))

    assert weighted.engine.state().findings == plain.engine.state().findings


@pytest.mark.parametrize("odds", [(1,), (1, 2, 3), (1, 0)])
def test_odds_that_do_not_fit_the_points_are_refused(odds: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="odds"):
        Axis("pip:numpy", ("1", "2", "3"), odds)
