"""The search along whole stacks that exist between the ends."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitsect.bisect.engine.model import Vector
from tests.bisect.worlds import World, culprits_of, moved, play, up_closed


def one_by_one(components: int) -> tuple[Vector, ...]:
    """A chain in which one component after another goes to its bad point."""
    return tuple(moved(components, *range(count)) for count in range(1, components))


def test_milestones_are_tried_before_mixtures() -> None:
    # Given six components, two of which move in each step of a chain
    chain = ((1, 1, 0, 0, 0, 0), (1, 1, 1, 1, 0, 0))
    world = World((2,) * 6, {"event": up_closed([(0, 0, 0, 1, 0, 0)])}, milestones=chain)

    # When the session is played
    played = play(world)

    # Then the chain is searched first, and mixtures lie between the two neighbours that part
    inner = [trial.vector for trial in played.trials if trial.vector not in ((0,) * 6, (1,) * 6)]
    clearing = played.engine.state().clearing
    assert inner[:2] == [chain[0], chain[1]]
    assert {vector[4:] for vector in inner[2:] if vector != clearing} <= {(0, 0)}

    # And the step starts from the lower one
    (finding,) = played.engine.state().findings
    assert finding.at == (1, 1, 0, 1, 0, 0)
    assert finding.without == (chain[0],)
    assert culprits_of(finding) == {3}
    assert finding.exact


def test_a_long_chain_costs_the_logarithm() -> None:
    # Given forty components that move one by one along a chain
    for culprit in (0, 1, 20, 39):
        event = up_closed([moved(40, culprit)])
        world = World((2,) * 40, {"event": event}, milestones=one_by_one(40))

        # When the session is played
        played = play(world)

        # Then a binary search of the chain finds the culprit, and one trial clears the others
        (finding,) = played.engine.state().findings
        assert culprits_of(finding) == {culprit}
        assert len(played.vectors) <= 2 + math.ceil(math.log2(40)) + 1


def test_a_milestone_that_cannot_run_is_passed_over() -> None:
    # Given a chain whose middle stack crashes
    chain = (moved(8, 0, 1), moved(8, 0, 1, 2, 3), moved(8, 0, 1, 2, 3, 4, 5))
    world = World(
        (2,) * 8,
        {"event": up_closed([moved(8, 2)])},
        broken=frozenset({chain[1]}),
        milestones=chain,
    )

    # When the session is played
    played = play(world)

    # Then the components of the wider pair are searched, and the culprit is exact
    (finding,) = played.engine.state().findings
    assert chain[1] in played.vectors
    assert finding.at == moved(8, 0, 1, 2)
    assert finding.without == (chain[0],)
    assert finding.exact


def test_changes_in_two_places_of_a_chain_are_two_findings() -> None:
    # Given an event that changes twice along a chain
    def twice(vector: Vector) -> str:
        return f"{vector[0]} {vector[4]}"

    world = World((2,) * 6, {"event": twice}, milestones=one_by_one(6))

    state = play(world).engine.state()

    assert [culprits_of(finding) for finding in state.findings] == [{0}, {4}]
    assert state.cleared == tuple(f"pip:package{axis}" for axis in (1, 2, 3, 5))


def test_points_between_two_milestones_are_searched_last() -> None:
    # Given a component whose index offers points between those of the milestones
    chain = ((8, 0), (16, 0))
    world = World((25, 2), {"event": up_closed([(11, 0)])}, milestones=chain)

    played = play(world)

    (finding,) = played.engine.state().findings
    assert finding.at == (11, 0)
    assert finding.without == ((10, 0),)
    # Two ends, two milestones, three of the seven points, and what clears the other component
    assert len(played.vectors) == 2 + 2 + 3 + 1


@given(st.data())
def test_milestones_change_what_an_answer_costs_never_the_answer(data: st.DataObject) -> None:
    # Given events with one minimal vector each, and a random chain
    sizes = tuple(data.draw(st.lists(st.integers(2, 4), min_size=2, max_size=5)))
    top = tuple(size - 1 for size in sizes)
    corners = st.tuples(*(st.integers(0, size - 1) for size in sizes)).filter(any)
    events = {
        f"event{i}": up_closed([corner])
        for i, corner in enumerate(data.draw(st.lists(corners, min_size=1, max_size=3)))
    }
    chain: list[Vector] = []
    for _ in range(data.draw(st.integers(0, 4))):
        low = chain[-1] if chain else tuple(0 for _ in sizes)
        between = (st.integers(a, b) for a, b in zip(low, top, strict=True))
        chain.append(data.draw(st.tuples(*between)))

    # When the session is played with it and without
    state = play(World(sizes, events, milestones=tuple(chain))).engine.state()
    plain = play(World(sizes, events)).engine.state()

    # Then the culprits of every event are the same, all exactly known
    for event in events:
        with_chain, without = (
            {
                (culprit.component, culprit.before, culprit.after)
                for finding in one.findings
                if event in finding.events
                for culprit in finding.culprits
            }
            for one in (state, plain)
        )
        # A change that needs two components shows where the chain moves the later one.
        assert with_chain <= without
        assert with_chain
    assert all(finding.exact for finding in state.findings)


def test_on_a_single_axis_a_milestone_is_a_point_like_others() -> None:
    event = {"event": up_closed([(13,)])}
    with_chain = play(World((33,), event, milestones=((5,), (20,)))).trials
    assert with_chain == play(World((33,), event)).trials


def test_milestones_may_be_equal() -> None:
    # Given a chain in which nothing moves twice, at an end and inside
    chain = ((0, 0, 0), (1, 0, 0), (1, 0, 0), (1, 1, 1))
    world = World((2,) * 3, {"event": up_closed([(0, 0, 1)])}, milestones=chain)
    (finding,) = play(world).engine.state().findings
    assert culprits_of(finding) == {2}


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_two_stretches_of_a_chain_are_searched_at_once(workers: int) -> None:
    # Given a long chain along which an event changes twice
    def twice(vector: Vector) -> str:
        return f"{vector[3]} {vector[28]}"

    world = World((2,) * 32, {"event": twice}, milestones=one_by_one(32))

    # When several workers play
    played = play(world, workers)

    # Then the answer is the same
    assert [culprits_of(finding) for finding in played.engine.state().findings] == [{3}, {28}]


@pytest.mark.parametrize(
    ("chain", "what"),
    [
        ([(1, 0), (0, 1)], "goes back"),
        ([(2, 0)], "does not lie on the axes"),
        ([(1,)], "does not lie on the axes"),
    ],
)
def test_a_chain_that_is_none_is_refused(chain: list[Vector], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        World((2, 2), {}, milestones=tuple(chain)).engine()


def test_an_open_chain_says_between_which_stacks() -> None:
    # Given a session of which only the ends were run
    world = World((2,) * 4, {"event": up_closed([(0, 1, 0, 0)])}, milestones=one_by_one(4))
    engine = world.engine()
    for trial in engine.ask(4):
        engine.tell(trial, world.outcome(trial))

    # Then the bracket is the whole chain
    (bracket,) = engine.state().milestone_brackets
    assert bracket.stacks == ((0,) * 4, *one_by_one(4), (1,) * 4)
    assert bracket.inside == 3
    assert bracket.events == ("event",)
