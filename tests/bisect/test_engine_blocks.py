"""The search where components cannot be mixed freely."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitsect.bisect.engine.model import Finding, Outcome, Vector
from bitsect.bisect.verdicts import Verdict
from tests.bisect.worlds import (
    Played,
    World,
    culprits_of,
    inseparable,
    moved,
    play,
    requires,
    up_closed,
)


def in_vain(world: World, played: Played) -> int:
    """Trials that could not be run."""
    return sum(not world.runs(trial.vector) for trial in played.trials)


def runnable_below(world: World, event: str, finding: Finding) -> list[Vector]:
    """Brute force: smaller mixtures that run and show the change all the same."""
    below = itertools.product(*(range(point + 1) for point in finding.at))
    return [
        vector
        for vector in below
        if vector != finding.at
        and world.runs(vector)
        and world.digest[event](vector) != "as before"
    ]


# Blocks that were expected


def test_a_block_is_moved_whole_until_it_is_to_blame() -> None:
    # Given a block that is innocent
    world = World(
        (2,) * 8,
        {"event": up_closed([moved(8, 6)])},
        crashes=inseparable((1, 2, 3)),
        blocks=((1, 2, 3),),
    )

    # When the session is played
    played = play(world)

    # Then no mixture of it was ever tried
    (finding,) = played.engine.state().findings
    assert culprits_of(finding) == {6}
    assert in_vain(world, played) == 0


def test_a_block_is_split_where_its_mixed_states_run() -> None:
    # Given a block of which one component is to blame, and of which any part runs
    world = World((2,) * 8, {"event": up_closed([moved(8, 2)])}, blocks=((1, 2, 3, 4),))

    (finding,) = play(world).engine.state().findings

    assert culprits_of(finding) == {2}
    assert finding.exact
    assert finding.together == ()


def test_what_runs_only_together_is_reported_together() -> None:
    # Given a block of three of which no part runs
    world = World(
        (2,) * 6,
        {"event": up_closed([moved(6, 2)])},
        crashes=inseparable((1, 2, 3)),
        blocks=((1, 2, 3),),
    )

    # When the session is played
    played = play(world)
    (finding,) = played.engine.state().findings

    # Then all three are named, none of them as exactly known, with what their mixtures gave
    assert culprits_of(finding) == {1, 2, 3}
    assert finding.together == ("pip:package1", "pip:package2", "pip:package3")
    assert not finding.exact
    for culprit in finding.culprits:
        assert culprit.bound.blocked == (culprit.before,)
        assert culprit.bound.reasons == ("CRASH",)
    # And the side that it parts from is where the step starts
    assert finding.before == played.engine.good

    # And nothing that failed is tried twice
    assert len(played.trials) == len(played.vectors) + 2


def test_a_component_that_needs_another_is_told_from_it() -> None:
    # Given a culprit that crashes without the rest of its block, which does run without it
    world = World(
        (2,) * 5,
        {"event": up_closed([moved(5, 2)])},
        crashes=requires((2, 1, 3, 1)),
        blocks=((2, 3),),
    )

    (finding,) = play(world).engine.state().findings

    # Then the culprit is exactly known, and the other is only known to be needed by it
    bounds = {culprit.component: culprit.bound for culprit in finding.culprits}
    assert bounds["pip:package2"].exact
    assert finding.together == ("pip:package3",)
    assert not finding.exact


def test_a_block_that_never_runs_in_part_is_given_up() -> None:
    # Given a block of thirty
    block = tuple(range(30))
    world = World(
        (2,) * 40,
        {"event": up_closed([moved(40, 11)])},
        crashes=inseparable(block),
        blocks=(block,),
    )

    played = play(world)

    (finding,) = played.engine.state().findings
    assert culprits_of(finding) == set(block)
    assert len(finding.together) == 30
    assert {reason for culprit in finding.culprits for reason in culprit.bound.reasons} == {"CRASH"}
    assert in_vain(world, played) <= 12


def test_a_block_that_was_expected_wrongly_costs_little() -> None:
    # Given blocks all over, and a world in which everything runs alone
    blocks = tuple((i, i + 1, i + 2) for i in range(0, 30, 3))
    world = World((2,) * 30, {"event": up_closed([moved(30, 7, 22)])}, blocks=blocks)
    (finding,) = play(world).engine.state().findings
    assert culprits_of(finding) == {7, 22}
    assert finding.exact


def test_points_of_a_component_that_cannot_go_all_the_way_back_are_searched() -> None:
    # Given a culprit that needs its partner at 1 or above, and a partner with many points
    world = World(
        (2, 9, 2),
        {"event": up_closed([(1, 0, 0)])},
        crashes=requires((0, 1, 1, 3)),
        blocks=((0, 1),),
    )

    (finding,) = play(world).engine.state().findings

    # Then the partner is at the lowest point at which the culprit runs
    assert finding.at == (1, 3, 0)
    assert finding.together == ("pip:package1",)
    partner = finding.culprits[1]
    assert partner.bound.blocked == ("1.0", "1.1", "1.2")


@pytest.mark.parametrize("blocks", [((0, 3),), ((0, 1), (1, 2)), ((0, 0),), ((-1,),)])
def test_blocks_that_are_none_are_refused(blocks: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="distinct axes"):
        World((2, 2, 2), {}, blocks=blocks).engine()


# What nobody expected


@pytest.mark.parametrize("pair", [*itertools.combinations(range(1, 8), 2)])
def test_a_pair_that_runs_only_together_is_no_culprit(pair: tuple[int, int]) -> None:
    # Given a culprit and an innocent pair
    world = World((2,) * 8, {"event": up_closed([moved(8, 0)])}, crashes=inseparable(pair))

    (finding,) = play(world).engine.state().findings

    assert culprits_of(finding) == {0}
    assert finding.exact


@pytest.mark.parametrize("components", [10, 40])
def test_two_unexpected_pairs_are_no_culprits_either(components: int) -> None:
    chance = random.Random(components)
    trials = []
    for _ in range(30):
        # Given a culprit and two innocent pairs, anywhere
        culprit, *others = chance.sample(range(components), 5)
        world = World(
            (2,) * components,
            {"event": up_closed([moved(components, culprit)])},
            crashes=inseparable(others[:2], others[2:]),
        )

        played = play(world)

        (finding,) = played.engine.state().findings
        assert culprits_of(finding) == {culprit}
        trials.append(len(played.trials))
    assert sum(trials) / len(trials) <= 22
    assert max(trials) <= 60


def test_when_nothing_runs_in_part_the_search_ends() -> None:
    # Given a world in which only the ends run
    world = World((2,) * 20, {"event": up_closed([moved(20, 3)])}, crashes=inseparable(range(20)))

    played = play(world)

    # Then everything is to blame together, after a bounded number of attempts
    (finding,) = played.engine.state().findings
    assert len(finding.together) == 20
    assert in_vain(world, played) <= 4 * 5 + 24
    assert played.engine.state().clearing is None


def test_a_mixture_that_does_not_repeat_itself_is_no_culprit_either() -> None:
    # Given a mixture of two innocent components that gives another digest each time
    world = World((2,) * 6, {"event": up_closed([moved(6, 5)])})
    engine = world.engine()
    while asked := engine.ask(1):
        (trial,) = asked
        outcome = world.outcome(trial)
        if trial.vector[1] != trial.vector[2]:
            outcome = Outcome({"event": f"shaky {trial.repetition}"})
        engine.tell(trial, outcome)

    # Then what it gave once is not believed
    (finding,) = engine.state().findings
    assert culprits_of(finding) == {5}
    assert finding.exact


# Against brute force


@st.composite
def stacks(draw: st.DrawFn) -> tuple[World, list[str]]:
    """Worlds of up to six two-point components with a few needs and up to two blocks.

    One of the blocks may be unexpected.
    """
    count = draw(st.integers(2, 6))
    axes = list(range(count))
    sets = st.sets(st.sampled_from(axes), min_size=1, max_size=2)
    events = {
        f"event{i}": up_closed([moved(count, *culprits)])
        for i, culprits in enumerate(draw(st.lists(sets, min_size=1, max_size=3)))
    }
    order = draw(st.permutations(axes))
    sizes = draw(st.sampled_from([(2, 3), (3, 2)]))
    groups = [tuple(order[: sizes[0]]), tuple(order[sizes[0] :][: sizes[1]])]
    groups = groups[: draw(st.integers(0, 2))]
    pairs = st.tuples(st.sampled_from(axes), st.sampled_from(axes))
    needs = draw(st.lists(pairs, max_size=2))
    groups_crash = inseparable(*groups)
    needs_crash = requires(*((a, 1, b, 1) for a, b in needs))
    return World(
        (2,) * count,
        events,
        crashes=lambda vector: groups_crash(vector) or needs_crash(vector),
        blocks=tuple(groups[draw(st.integers(0, 1)) :]),
        touched=frozenset(draw(st.sets(st.sampled_from(axes)))),
    ), list(events)


@settings(max_examples=300)
@given(stacks(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_findings_are_minimal_up_to_what_runs(
    stack: tuple[World, list[str]], workers: int, chance: random.Random
) -> None:
    # Given such a world
    world, events = stack

    # When the session is played by several workers in any order
    played = play(world, workers, lambda running: chance.randrange(len(running)))
    state = played.engine.state()

    # Then nothing smaller that runs shows the change
    for event in events:
        (finding,) = [each for each in state.findings if event in each.events]
        assert world.digest[event](finding.at) == "changed"
        assert runnable_below(world, event, finding) == []
        # And what is called exact was run, and what is not has a reason
        for culprit, without in zip(finding.culprits, finding.without, strict=True):
            bound = culprit.bound
            assert bound.exact == (not bound.blocked)
            if bound.exact:
                assert played.engine.evidence.runs(without) > 0
                assert world.digest[event](without) == "as before"
            else:
                assert set(bound.reasons) == {Verdict.CRASH}

    # And the answer is that of one worker
    alone = play(world).engine.state()
    assert [(f.culprits, f.at, f.events) for f in alone.findings] == [
        (f.culprits, f.at, f.events) for f in state.findings
    ]
    assert (alone.cleared, alone.uncleared) == (state.cleared, state.uncleared)


@given(stacks(), st.data())
def test_the_order_of_observations_changes_nothing(
    stack: tuple[World, list[str]], data: st.DataObject
) -> None:
    # Given a session cut off anywhere
    world, _ = stack
    trials = play(world).trials
    kept = trials[: data.draw(st.integers(0, len(trials)))]

    # When its observations are told to two engines in different orders
    first, second = world.engine(), world.engine()
    for trial in kept:
        first.tell(trial, world.outcome(trial))
    for trial in data.draw(st.permutations(kept)):
        second.tell(trial, world.outcome(trial))

    # Then both know the same and ask the same
    assert first.state() == second.state()
    assert first.ask(3) == second.ask(3)


@settings(max_examples=200)
@given(st.data(), st.integers(1, 3))
def test_histories_that_make_no_sense_are_searched_to_an_end(
    data: st.DataObject, workers: int
) -> None:
    # Given arbitrary digests and arbitrary failures, with blocks and milestones
    sizes = tuple(data.draw(st.lists(st.integers(2, 3), min_size=2, max_size=4)))
    everywhere = list(itertools.product(*(range(size) for size in sizes)))
    table = dict(
        zip(
            everywhere,
            data.draw(st.tuples(*(st.sampled_from("abc") for _ in everywhere))),
            strict=True,
        )
    )
    order = data.draw(st.permutations(range(len(sizes))))
    step = data.draw(st.sampled_from(everywhere))
    world = World(
        sizes,
        {"event": lambda vector: table[vector]},
        broken=frozenset(data.draw(st.sets(st.sampled_from(everywhere[1:-1])))),
        milestones=tuple(sorted({step, tuple(size - 1 for size in sizes)})),
        blocks=(tuple(order[:2]),) if data.draw(st.booleans()) else (),
        touched=frozenset(order[-2:]),
    )

    # When the session is played, then it ends
    played = play(world, workers)

    # And every finding is a change between two vectors that ran
    for finding in played.engine.state().findings:
        assert played.engine.evidence.runs(finding.before)
        assert table[finding.at] != table[finding.before]
        for culprit, without in zip(finding.culprits, finding.without, strict=True):
            if culprit.bound.exact:
                assert world.runs(without)
                assert table[without] == table[finding.before]
