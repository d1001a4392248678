"""The search along one component's releases, against a linear scan."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitsect.bisect.engine.engine import Engine
from bitsect.bisect.engine.model import Axis, Outcome, Trial
from bitsect.bisect.verdicts import Verdict
from tests.bisect.worlds import World, play, staircase


def found_pairs(played_engine: Engine, event: str) -> list[tuple[int, int]]:
    """The steps of one event, as pairs of points on the only axis."""
    return [
        (finding.without[0][0], finding.at[0])
        for finding in played_engine.state().findings
        if event in finding.events
    ]


def changes(values: list[str]) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(len(values) - 1) if values[i] != values[i + 1]]


def histories(longest: int = 40, most_changes: int = 5) -> st.SearchStrategy[list[list[str]]]:
    """Histories of several events over one axis; no digest ever comes back."""

    def one(length: int) -> st.SearchStrategy[list[str]]:
        cuts = st.lists(st.integers(1, length - 1), max_size=most_changes, unique=True)
        return cuts.map(
            lambda where: [f"d{sum(cut <= point for cut in where)}" for point in range(length)]
        )

    return st.integers(2, longest).flatmap(lambda n: st.lists(one(n), min_size=1, max_size=8))


def world_of(histories: list[list[str]], broken: frozenset[tuple[int, ...]] = frozenset()) -> World:
    return World(
        (len(histories[0]),),
        {f"event{i}": staircase(values) for i, values in enumerate(histories)},
        broken,
    )


@given(histories())
def test_every_change_is_found_and_nothing_else(histories: list[list[str]]) -> None:
    # Given events that change at arbitrary points of one axis, never back
    world = world_of(histories)

    # When the session is played to its end
    engine = play(world).engine

    # Then each event's steps are exactly its changes, each pinned to adjacent points
    for i, values in enumerate(histories):
        assert found_pairs(engine, f"event{i}") == changes(values)
    assert all(finding.exact for finding in engine.state().findings)


@given(histories(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_workers_and_their_order_change_nothing(
    histories: list[list[str]], workers: int, chance: random.Random
) -> None:
    # Given the same world
    world = world_of(histories)

    # When several workers finish in any order
    engine = play(world, workers, lambda running: chance.randrange(len(running))).engine

    # Then the findings are those of one worker
    assert engine.state().findings == play(world).engine.state().findings


@given(histories(), st.data())
def test_the_session_is_a_fold_of_its_observations(
    histories: list[list[str]], data: st.DataObject
) -> None:
    # Given a session cut off anywhere
    world = world_of(histories)
    trials = play(world).trials
    kept = trials[: data.draw(st.integers(0, len(trials)))]

    # When its observations are told to a new engine in another order
    first, second = Engine(world.axes), Engine(world.axes)
    for trial in kept:
        first.tell(trial, world.outcome(trial))
    for trial in data.draw(st.permutations(kept)):
        second.tell(trial, world.outcome(trial))

    # Then both know the same and ask the same
    assert first.state() == second.state()
    assert first.ask(3) == second.ask(3)


@given(histories())
def test_trials_left_is_an_upper_bound_at_every_moment(histories: list[list[str]]) -> None:
    world = world_of(histories)
    trials = play(world).trials
    engine = Engine(world.axes)
    ends = {engine.good, engine.bad}
    seen: set[tuple[int, ...]] = set()
    for trial in trials:
        engine.tell(trial, world.outcome(trial))
        seen.add(trial.vector)
        still = {t.vector for t in trials} - seen - ends
        assert len(still) <= engine.state().trials_left_at_most


@pytest.mark.parametrize("points", [2, 3, 4, 9, 33, 64, 513])
def test_one_change_costs_a_binary_search(points: int) -> None:
    for place in {1, points // 2, points - 1} - {0}:
        values = ["a"] * place + ["b"] * (points - place)
        played = play(world_of([values]))
        assert len(played.vectors) <= 2 + math.ceil(math.log2(points - 1))


@settings(max_examples=200)
@given(histories(longest=14), st.data())
def test_points_that_cannot_run_are_disclosed(
    histories: list[list[str]], data: st.DataObject
) -> None:
    # Given a world in which some inner points cannot be run
    inner = list(range(1, len(histories[0]) - 1))
    broken = frozenset(
        (point,)
        for point in data.draw(st.sets(st.sampled_from(inner)) if inner else st.just(set()))
    )
    engine = play(world_of(histories, broken)).engine

    # Then every event's runnable neighbours that differ are exactly its steps,
    # and a step is called exact only if no point lies between
    runnable = [p for p in range(len(histories[0])) if (p,) not in broken]
    for i, values in enumerate(histories):
        expected = [
            (low, high) for low, high in itertools.pairwise(runnable) if values[low] != values[high]
        ]
        assert found_pairs(engine, f"event{i}") == expected
    for finding in engine.state().findings:
        (culprit,) = finding.culprits
        between = range(finding.without[0][0] + 1, finding.at[0])
        assert culprit.bound.exact == (len(between) == 0)
        assert culprit.bound.blocked == tuple(f"0.{point}" for point in between)
        assert set(culprit.bound.reasons) <= {"UNRESOLVED"}


def test_an_event_that_appears_is_a_change() -> None:
    # Given an event that only later releases have
    axis = Axis("pip:numpy", ("1", "2", "3"))
    engine = Engine([axis])
    has = {0: {}, 1: {"new": "d"}, 2: {"new": "d"}}
    while asked := engine.ask(1):
        engine.tell(asked[0], Outcome(has[asked[0].vector[0]]))

    # Then its appearance is a finding
    (finding,) = engine.state().findings
    assert finding.events == ("new",)
    assert (finding.culprits[0].before, finding.culprits[0].after) == ("1", "2")


def test_a_history_that_comes_back_is_reported() -> None:
    # Given an event that changes, changes back, and changes again
    values = ["a", "b", "b", "a", "a", "a", "a", "c"]
    engine = play(world_of([values, ["x", "y", "y", "y", "y", "y", "y", "z"]])).engine

    # When some trial happened to look at the first change (the second event sent it there)
    # Then the anomaly names the event and three vectors that prove it
    (anomaly,) = engine.anomalies()
    assert anomaly.events == ("event0",)
    low, high = anomaly.same
    assert values[low[0]] == values[high[0]] != values[anomaly.other[0]]


def test_a_digest_that_comes_and_goes_is_looked_at_twice() -> None:
    # Given an event whose first run at one inner point was a fluke
    values = ["a", "a", "b", "b", "b"]
    world = world_of([values, ["x", "x", "x", "x", "x"]])
    engine = Engine(world.axes)
    while asked := engine.ask(1):
        (trial,) = asked
        outcome = world.outcome(trial)
        if trial == Trial((1,), 0):
            outcome = Outcome({**outcome.events, "event1": "fluke"})
        engine.tell(trial, outcome)

    # Then the point is run again, which shows it to be noise there, and nothing came back
    assert engine.evidence.runs((1,)) == 2
    assert engine.evidence.unstable((1,)) == ("event1",)
    assert engine.anomalies() == ()
    assert found_pairs(engine, "event0") == [(1, 2)]


def test_monotone_histories_raise_no_anomaly() -> None:
    assert play(world_of([["a", "a", "b", "b", "c"]])).engine.anomalies() == ()


def test_ends_that_agree_are_a_problem_not_a_search() -> None:
    played = play(world_of([["a", "b", "a"]]))
    problem = played.engine.state().problem
    assert problem is not None
    assert (problem.kind, problem.compared) == ("agree", 1)
    assert played.vectors == {(0,), (2,)}


@pytest.mark.parametrize("side", ["good", "bad"])
def test_an_end_that_disagrees_with_itself_stops_the_search(side: str) -> None:
    # Given an end that gives another digest each time
    engine = Engine([Axis("pip:numpy", ("1", "2", "3"))])
    end = engine.good if side == "good" else engine.bad
    while asked := engine.ask(1):
        (trial,) = asked
        shaky = str(trial.repetition) if trial.vector == end else "steady"
        engine.tell(trial, Outcome({"shaky": shaky, "steady": "d"}))

    # Then the problem names the side and the event, and no inner point was asked for
    problem = engine.state().problem
    assert problem is not None
    assert (problem.kind, problem.side, problem.events) == ("nondeterministic", side, ("shaky",))
    assert set(engine.evidence.tried()) == {engine.good, engine.bad}


def test_an_end_that_fails_stops_the_search() -> None:
    engine = Engine([Axis("pip:numpy", ("1", "2"))])
    engine.tell(Trial((1,), 0), Outcome(failure=Verdict.CRASH, reason="SIGSEGV"))
    problem = engine.state().problem
    assert problem is not None
    assert (problem.kind, problem.side, problem.verdict) == ("failed", "bad", Verdict.CRASH)
    assert engine.ask(1) == []


@given(histories())
def test_both_sides_of_every_finding_were_seen_by_two_processes(
    histories: list[list[str]],
) -> None:
    world = world_of(histories)
    played = play(world)
    engine = played.engine
    for finding in engine.state().findings:
        for vector in (finding.at, *finding.without):
            for event in finding.events:
                value = world.digest[event](vector)
                seen = [t for t in played.trials if world.digest[event](t.vector) == value]
                assert len(seen) >= 2


def test_a_digest_that_one_process_alone_has_seen_is_repeated() -> None:
    # Given a digest that only one point has
    played = play(world_of([["a", "a", "b", "c", "c"]]))

    # Then that point, and no other inner one, is run twice
    assert [t.vector for t in played.trials if t.repetition == 1] == [(0,), (4,), (2,)]


def test_a_side_that_turns_out_unstable_is_not_a_bound() -> None:
    # Given a point whose second run differs from its first
    values = ["a", "a", "c", "b", "b"]
    world = world_of([values])
    engine = Engine(world.axes)
    while asked := engine.ask(1):
        (trial,) = asked
        outcome = world.outcome(trial)
        if trial == Trial((2,), 1):
            outcome = Outcome({"event0": "something else"})
        engine.tell(trial, outcome)

    # Then the answer says that the point tells nothing
    (finding,) = engine.state().findings
    (culprit,) = finding.culprits
    assert (culprit.before, culprit.after) == ("0.1", "0.3")
    assert not culprit.bound.exact
    assert culprit.bound.blocked == ("0.2",)
    assert culprit.bound.reasons == ("NONDETERMINISTIC",)


def test_a_point_that_fails_when_it_is_repeated_is_not_believed() -> None:
    # Given a point that runs once and crashes the next time
    values = ["a", "a", "c", "b", "b"]
    world = world_of([values])
    engine = Engine(world.axes)
    while asked := engine.ask(1):
        (trial,) = asked
        outcome = world.outcome(trial)
        if trial == Trial((2,), 1):
            outcome = Outcome(failure=Verdict.CRASH, reason="SIGSEGV")
        engine.tell(trial, outcome)

    # Then it bounds nothing, and the answer says so
    (finding,) = engine.state().findings
    assert engine.verdict((2,)) is Verdict.CRASH
    assert not finding.exact
    assert finding.culprits[0].bound.blocked == ("0.2",)


def test_verdicts_compare_with_the_good_end() -> None:
    world = world_of([["a", "a", "b"]], frozenset())
    engine = play(world).engine
    assert engine.verdict((1,)) is Verdict.MATCH
    assert engine.verdict((2,)) is Verdict.MISMATCH
    assert engine.changed_events((2,)) == ("event0",)
    assert engine.verdict((0,)) is Verdict.MATCH


@pytest.mark.parametrize(
    "vector", [(), (0, 0), (3,), (-1,)], ids=["empty", "too long", "too high", "negative"]
)
def test_a_vector_off_the_axes_is_refused(vector: tuple[int, ...]) -> None:
    engine = Engine([Axis("pip:numpy", ("1", "2", "3"))])
    with pytest.raises(ValueError, match="does not lie on the axes"):
        engine.tell(Trial(vector, 0), Outcome({}))


def test_a_repetition_told_twice_differently_is_refused() -> None:
    engine = Engine([Axis("pip:numpy", ("1", "2", "3"))])
    engine.tell(Trial((0,), 0), Outcome({"e": "d"}))
    engine.tell(Trial((0,), 0), Outcome({"e": "d"}))
    with pytest.raises(ValueError, match="told twice"):
        engine.tell(Trial((0,), 0), Outcome({"e": "other"}))


def test_malformed_axes_are_refused() -> None:
    with pytest.raises(ValueError, match="two points"):
        Axis("pip:numpy", ("1",))
    with pytest.raises(ValueError, match="twice"):
        Axis("pip:numpy", ("1", "1"))
    axis = Axis("pip:numpy", ("1", "2"))
    with pytest.raises(ValueError, match="distinct"):
        Engine([axis, axis])
    with pytest.raises(ValueError, match="distinct"):
        Engine([])
    with pytest.raises(ValueError, match="repeats itself"):
        Engine([axis], repetitions=1)
