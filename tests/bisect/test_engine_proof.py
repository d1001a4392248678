"""What a finished search proves: necessity, sufficiency, and the innocence of all others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitsect.bisect.engine.model import Outcome, Vector
from bitsect.bisect.verdicts import Verdict
from tests.bisect.worlds import (
    World,
    culprits_of,
    inseparable,
    moved,
    play,
    requires,
    up_closed,
)


def test_the_innocent_are_cleared_by_one_more_trial() -> None:
    # Given two events with a culprit each
    world = World((2,) * 7, {"a": up_closed([moved(7, 1)]), "b": up_closed([moved(7, 4)])})

    played = play(world)

    # Then the last trial is the bad end without both, and it clears all others
    state = played.engine.state()
    assert played.trials[-1].vector == state.clearing == moved(7, 0, 2, 3, 5, 6)
    assert state.cleared == tuple(f"pip:package{axis}" for axis in (0, 2, 3, 5, 6))
    assert state.uncleared == ()
    assert [finding.necessary for finding in state.findings] == [True, True]


def test_what_is_known_already_is_not_run_again() -> None:
    # Given two components, of which the innocent one was run alone
    world = World((2, 2), {"event": up_closed([(0, 1)])})

    played = play(world)

    # Then that is what clears it
    state = played.engine.state()
    assert state.clearing == (1, 0)
    assert state.cleared == ("pip:package0",)
    assert len(played.trials) == len({trial.vector for trial in played.trials}) + 2


def test_a_second_cause_is_never_hidden() -> None:
    # Given an event that either of two components changes, to the same digest
    world = World((2,) * 6, {"event": up_closed([moved(6, 0), moved(6, 4)])})

    state = play(world).engine.state()

    # Then one is found; the other shows in what is left, and nothing is called innocent
    (finding,) = state.findings
    assert culprits_of(finding) == {0}
    assert (finding.sufficient, finding.necessary) == (True, False)
    assert state.uncleared == ("event",)
    assert state.cleared == ()


def test_events_that_only_innocents_change_are_reported() -> None:
    # Given an event that two components together change, and change back with a third
    def digest(vector: Vector) -> str:
        return str(vector[1] > 0 and vector[2] > 0 and not vector[3])

    world = World((2,) * 5, {"event": up_closed([moved(5, 3)]), "other": digest})

    played = play(world)

    # Then the bad end without the culprit shows it; it is run twice, since nothing else did
    state = played.engine.state()
    assert state.settled
    assert state.clearing == moved(5, 0, 1, 2, 4)
    assert state.uncleared == ("other",)
    assert state.cleared == ()
    assert played.engine.evidence.runs(state.clearing) == 2
    # And that says nothing against the finding
    (finding,) = state.findings
    assert finding.events == ("event",)
    assert finding.necessary is True


def test_a_fluke_clears_nothing_and_is_told() -> None:
    # Given a last trial whose two runs disagree
    world = World((2,) * 4, {"event": up_closed([moved(4, 0)]), "other": lambda vector: "same"})
    engine = world.engine()
    last = moved(4, 1, 2, 3)
    while asked := engine.ask(1):
        (trial,) = asked
        outcome = world.outcome(trial)
        if trial.vector == last and not trial.repetition:
            outcome = Outcome({**outcome.events, "other": "fluke"})
        engine.tell(trial, outcome)

    # Then the event is reported, and nothing is cleared
    state = engine.state()
    assert state.settled
    assert state.uncleared == ("other",)
    assert state.cleared == ()


def test_where_the_last_trial_cannot_run_nothing_is_cleared() -> None:
    # Given innocents that do not run without the culprit
    world = World((2,) * 6, {"event": up_closed([moved(6, 0)])}, crashes=requires((3, 1, 0, 1)))

    engine = play(world).engine

    # Then that is kept as the reason
    state = engine.state()
    assert state.settled
    assert state.clearing == moved(6, 1, 2, 3, 4, 5)
    assert engine.evidence.failure(state.clearing) == (Verdict.CRASH, "SIGSEGV")
    assert state.cleared == state.uncleared == ()
    (finding,) = state.findings
    assert finding.necessary is None
    assert finding.sufficient is True


def test_the_rest_is_cleared_without_the_culprits_block() -> None:
    # Given a member of the culprit's block that does not run without it
    world = World(
        (2,) * 6,
        {"event": up_closed([moved(6, 1)])},
        crashes=requires((2, 1, 1, 1)),
        blocks=((1, 2),),
    )

    state = play(world).engine.state()

    # Then the block goes back as a whole, and says nothing of its innocent member
    (finding,) = state.findings
    assert culprits_of(finding) == {1}
    assert state.clearing == moved(6, 0, 3, 4, 5)
    assert state.cleared == tuple(f"pip:package{axis}" for axis in (0, 3, 4, 5))
    assert finding.necessary is None


def test_where_all_are_to_blame_nothing_is_left_to_clear() -> None:
    world = World((2, 2, 2), {"event": up_closed([(1, 1, 1)])}, crashes=inseparable((0, 1)))
    state = play(world).engine.state()
    assert state.settled
    assert state.clearing is None
    assert state.cleared == ()


def test_a_single_axis_needs_no_clearing() -> None:
    played = play(World((9,), {"event": up_closed([(4,)])}))
    state = played.engine.state()
    assert state.clearing is None
    (finding,) = state.findings
    assert (finding.sufficient, finding.necessary) == (True, True)


@pytest.mark.parametrize("touched", [frozenset({3}), frozenset({0}), frozenset()])
def test_one_culprit_is_shown_to_be_enough(touched: frozenset[int]) -> None:
    world = World((2,) * 5, {"event": up_closed([moved(5, 3)])}, touched=touched)
    (finding,) = play(world).engine.state().findings
    assert (finding.sufficient, finding.necessary) == (True, True)


def test_a_culprit_that_needs_its_surroundings_is_not_called_enough() -> None:
    # Given an event that the second step changes only after the first, and was tried alone
    def digest(vector: Vector) -> str:
        return f"{vector[0]} {vector[0] and vector[1]}"

    world = World((2, 2), {"event": digest}, touched=frozenset({1}))

    first, second = play(world).engine.state().findings

    assert (culprits_of(first), first.sufficient) == ({0}, True)
    assert (culprits_of(second), second.sufficient) == ({1}, False)


def test_nothing_is_claimed_before_the_search_has_settled() -> None:
    # Given a session stopped before its last trial
    world = World((2,) * 6, {"event": up_closed([moved(6, 2)])})
    engine = world.engine()
    for trial in play(world).trials[:-1]:
        engine.tell(trial, world.outcome(trial))

    # Then it is not settled, and says which vector it waits for
    state = engine.state()
    assert not state.settled
    assert state.clearing == moved(6, 0, 1, 3, 4, 5)
    assert state.cleared == ()
    assert state.trials_left_at_most == 1
    assert [trial.vector for trial in engine.ask(4)] == [state.clearing]


@settings(max_examples=200)
@given(st.data())
def test_who_is_cleared_is_innocent(data: st.DataObject) -> None:
    # Given events with one or two causes each, over components with points
    sizes = tuple(data.draw(st.lists(st.integers(2, 4), min_size=2, max_size=5)))
    corners = st.tuples(*(st.integers(0, size - 1) for size in sizes)).filter(any)
    causes = data.draw(st.lists(st.lists(corners, min_size=1, max_size=2), min_size=1, max_size=3))
    world = World(sizes, {f"event{i}": up_closed(each) for i, each in enumerate(causes)})

    played = play(world)
    state = played.engine.state()

    # Then what is cleared changes nothing, whatever of it is moved
    axes = [int(name.removeprefix("pip:package")) for name in state.cleared]
    for vector in world.vectors():
        if all(point == 0 for axis, point in enumerate(vector) if axis not in axes):
            for event in world.digest:
                assert world.digest[event](vector) == "as before"
    # And where nothing is, an event says why, or all are to blame
    named = set().union(*(culprits_of(finding) for finding in state.findings))
    assert state.cleared or state.uncleared or named == set(range(len(sizes)))
