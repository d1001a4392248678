"""What an answer costs among many components, of which the probe touched a few."""

from __future__ import annotations

import random

import pytest

from bitsect.bisect.engine.model import Vector
from tests.bisect.worlds import World, culprits_of, inseparable, moved, play, up_closed


def inner_vectors(world: World) -> list[Vector]:
    """The vectors of a session beside its ends, in the order in which they were asked."""
    played = play(world)
    ends = (played.engine.good, played.engine.bad)
    return list(dict.fromkeys(t.vector for t in played.trials if t.vector not in ends))


def test_all_that_was_touched_moves_first_and_nothing_else() -> None:
    # Given twelve components of which three, anywhere, were touched, one of them to blame
    world = World((2,) * 12, {"event": up_closed([moved(12, 7)])}, touched=frozenset({2, 7, 11}))

    vectors = inner_vectors(world)

    # Then the first trial moves these, and the search goes on among them
    assert vectors[0] == moved(12, 2, 7, 11)
    clearing = vectors.pop()
    assert clearing == moved(12, *(axis for axis in range(12) if axis != 7))
    assert all(set(vector) - {0} == {1} for vector in vectors)
    assert all(
        vector[axis] == 0 for vector in vectors for axis in range(12) if axis not in (2, 7, 11)
    )


def test_one_trial_clears_what_was_touched_as_a_group() -> None:
    # Given a culprit that the probe was not seen to touch
    world = World((2,) * 12, {"event": up_closed([moved(12, 5)])}, touched=frozenset({0, 1, 2}))

    vectors = inner_vectors(world)

    # Then none of the touched ones is looked at again before the end
    assert vectors[0] == moved(12, 0, 1, 2)
    assert all(vector[:3] == (0, 0, 0) for vector in vectors[1:-1])
    (finding,) = play(world).engine.state().findings
    assert culprits_of(finding) == {5}


def test_a_block_counts_as_touched_if_one_of_it_was() -> None:
    world = World(
        (2,) * 8,
        {"event": up_closed([moved(8, 4)])},
        blocks=((3, 4),),
        touched=frozenset({4}),
    )
    assert inner_vectors(world)[0] == moved(8, 3, 4)


@pytest.mark.parametrize("touched", [frozenset(), frozenset(range(9))])
def test_without_a_hint_the_halves_come_first(touched: frozenset[int]) -> None:
    world = World((2,) * 9, {"event": up_closed([moved(9, 8)])}, touched=touched)
    assert inner_vectors(world)[0] == moved(9, 0, 1, 2, 3)


@pytest.mark.parametrize("touched", [1, 2])
@pytest.mark.parametrize("components", [10, 11, 60])
def test_a_touched_culprit_costs_at_most_nine_trials(components: int, touched: int) -> None:
    chance = random.Random(components)
    for _ in range(20):
        # Given a culprit among the touched ones
        used = chance.sample(range(components), touched)
        world = World(
            (2,) * components,
            {f"event{i}": up_closed([moved(components, used[0])]) for i in range(3)},
            touched=frozenset(used),
        )

        # When the session is played
        played = play(world)

        # Then it is found and all others are cleared: two ends twice, the touched ones, each
        # half of them, and the last trial
        state = played.engine.state()
        (finding,) = state.findings
        assert culprits_of(finding) == {used[0]}
        assert finding.exact
        assert len(state.cleared) == components - 1
        assert len(played.trials) <= 4 + 1 + 2 * (touched - 1) + 1


@pytest.mark.parametrize("place", range(11))
def test_a_culprit_among_eleven_costs_at_most_twelve_trials(place: int) -> None:
    # Given a culprit anywhere, of eleven of which two were touched
    for touched in (frozenset({0, 1}), frozenset({4, 9})):
        world = World((2,) * 11, {"event": up_closed([moved(11, place)])}, touched=touched)
        played = play(world)
        (finding,) = played.engine.state().findings
        assert culprits_of(finding) == {place}
        assert len(played.trials) <= 12


def test_a_culprit_in_a_pair_that_runs_only_together_costs_at_most_twelve_trials() -> None:
    # Given a library that runs only with its package, and nine innocent differences
    world = World(
        (2,) * 11,
        {"event": up_closed([moved(11, 3)])},
        crashes=inseparable((3, 4)),
        blocks=((3, 4),),
        touched=frozenset({3, 8}),
    )
    played = play(world)
    (finding,) = played.engine.state().findings
    assert culprits_of(finding) == {3, 4}
    assert len(played.engine.state().cleared) == 9
    assert len(played.trials) <= 12


def test_two_components_needed_together_cost_at_most_nineteen_trials() -> None:
    chance = random.Random(0)
    for _ in range(40):
        pair = chance.sample(range(10), 2)
        touched = frozenset({pair[0], *chance.sample(range(10), 1)})
        world = World((2,) * 10, {"event": up_closed([moved(10, *pair)])}, touched=touched)
        played = play(world)
        (finding,) = played.engine.state().findings
        assert culprits_of(finding) == set(pair)
        assert finding.exact
        assert len(played.trials) <= 19


def test_trials_left_is_an_upper_bound_where_one_or_two_are_to_blame() -> None:
    chance = random.Random(1)
    for _ in range(60):
        # Given a world in which everything runs
        sizes = tuple(chance.choice([2, 2, 2, 3, 5]) for _ in range(chance.randint(2, 12)))
        culprits = chance.sample(range(len(sizes)), chance.randint(1, 2))
        corner = tuple(
            chance.randint(1, size - 1) if axis in culprits else 0
            for axis, size in enumerate(sizes)
        )
        world = World(
            sizes,
            {"event": up_closed([corner])},
            blocks=(tuple(range(chance.randint(0, len(sizes)))),),
            touched=frozenset(chance.sample(range(len(sizes)), chance.randint(0, len(sizes)))),
        )
        played = play(world)
        engine = world.engine()
        left = played.vectors

        # When it is played, then at every moment no more is asked for than was said
        for trial in played.trials:
            engine.tell(trial, world.outcome(trial))
            left = left - {trial.vector}
            assert len(left - {engine.good, engine.bad}) <= engine.state().trials_left_at_most
        assert engine.state().trials_left_at_most == 0
