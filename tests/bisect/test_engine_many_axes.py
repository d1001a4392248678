"""The search over several components, against brute force."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitsect.bisect.engine.model import Finding, Vector
from tests.bisect.worlds import World, play, up_closed


def is_minimal(world: World, event: str, finding: Finding) -> bool:
    """Brute force: the vector shows the change and none of its lower neighbours does."""
    digest = world.digest[event]
    before = digest(tuple(0 for _ in world.sizes))
    lower = [
        (*finding.at[:i], finding.at[i] - 1, *finding.at[i + 1 :])
        for i in range(len(world.sizes))
        if finding.at[i] > 0
    ]
    return digest(finding.at) != before and all(digest(v) == before for v in lower)


def vectors_above_zero(sizes: tuple[int, ...]) -> list[Vector]:
    return [v for v in itertools.product(*(range(s) for s in sizes)) if any(v)]


def test_every_small_world_is_answered_exactly() -> None:
    # Given every world of two axes of three points with one or two minimal vectors
    sizes = (3, 3)
    corners = vectors_above_zero(sizes)
    for minimal in [*itertools.combinations(corners, 1), *itertools.combinations(corners, 2)]:
        world = World(sizes, {"event": up_closed(minimal)})

        # When the session is played
        state = play(world).engine.state()

        # Then the one finding is a minimal failing vector, and says it is exact
        (finding,) = state.findings
        assert is_minimal(world, "event", finding), minimal
        assert finding.exact


@settings(max_examples=300)
@given(st.data(), st.integers(1, 3), st.randoms(use_true_random=False))
def test_random_worlds_are_answered_exactly(
    data: st.DataObject, workers: int, chance: random.Random
) -> None:
    # Given up to five components with several classes of events, some needing two or three
    sizes = tuple(data.draw(st.lists(st.integers(2, 6), min_size=1, max_size=5)))
    corners = st.tuples(*(st.integers(0, size - 1) for size in sizes)).filter(any)
    events = data.draw(st.lists(st.lists(corners, min_size=1, max_size=2), min_size=1, max_size=4))
    world = World(sizes, {f"event{i}": up_closed(m) for i, m in enumerate(events)})

    # When the session is played by several workers in any order
    state = play(world, workers, lambda running: chance.randrange(len(running))).engine.state()

    # Then each event has one finding, a minimal failing vector of its own
    for i in range(len(events)):
        (finding,) = [f for f in state.findings if f"event{i}" in f.events]
        assert is_minimal(world, f"event{i}", finding)
        assert finding.exact
        assert [c.component for c in finding.culprits] == [
            f"pip:package{axis}" for axis, point in enumerate(finding.at) if point
        ]


@settings(max_examples=300)
@given(st.data())
def test_mixtures_that_cannot_run_never_give_a_silently_wrong_answer(data: st.DataObject) -> None:
    # Given worlds in which random mixtures cannot be run, but the ends can
    sizes = tuple(data.draw(st.lists(st.integers(2, 4), min_size=2, max_size=3)))
    corners = st.tuples(*(st.integers(0, size - 1) for size in sizes)).filter(any)
    minimal = data.draw(st.lists(corners, min_size=1, max_size=2))
    top = tuple(size - 1 for size in sizes)
    inner = [v for v in vectors_above_zero(sizes) if v != top]
    broken = frozenset(data.draw(st.sets(st.sampled_from(inner)))) if inner else frozenset()
    world = World(sizes, {"event": up_closed(minimal)}, broken)

    # When the session is played
    engine = play(world).engine
    (finding,) = engine.state().findings

    # Then the vector does show the change; called exact, it is minimal; and for a coordinate
    # that is not, the points that could not be run are named
    assert world.digest["event"](finding.at) == "changed"
    if finding.exact:
        assert is_minimal(world, "event", finding)
    for culprit, without in zip(finding.culprits, finding.without, strict=True):
        assert culprit.bound.exact == (not culprit.bound.blocked)
        # What is called exact was run, never inferred
        if culprit.bound.exact:
            assert engine.evidence.runs(without) > 0


def test_an_interaction_names_both_components() -> None:
    # Given a change that needs package0 >= 2 and package2 >= 3
    world = World((4, 4, 5), {"event": up_closed([(2, 0, 3)])})

    (finding,) = play(world).engine.state().findings

    assert [(c.component, c.before, c.after) for c in finding.culprits] == [
        ("pip:package0", "0.1", "0.2"),
        ("pip:package2", "2.2", "2.3"),
    ]
    assert finding.without == ((1, 0, 3), (2, 0, 2))


def test_independent_culprits_give_one_finding_each() -> None:
    world = World(
        (5, 5, 5),
        {"a": up_closed([(3, 0, 0)]), "b": up_closed([(0, 0, 2)]), "c": up_closed([(3, 0, 0)])},
    )

    findings = play(world).engine.state().findings

    assert [(f.culprits[0].component, f.events) for f in findings] == [
        ("pip:package2", ("b",)),
        ("pip:package0", ("a", "c")),
    ]


@pytest.mark.parametrize("components", [8, 100])
def test_one_culprit_among_many_costs_about_the_logarithm(components: int) -> None:
    sizes = tuple(2 for _ in range(components))
    corner = tuple(int(i == components - 2) for i in range(components))
    played = play(World(sizes, {"event": up_closed([corner])}))
    # Two ends, halving, and the verification of the one that is left.
    assert len(played.vectors) <= 2 + (components - 1).bit_length() + 1


def test_classes_that_change_in_different_surroundings_are_different_findings() -> None:
    # Given an event that changes with package0 alone, and one that changes with package1 first
    # and then again with the same step of package0
    def twice(vector: Vector) -> str:
        return f"{vector[1] >= 1} {vector[0] >= 3 and vector[1] >= 1}"

    world = World((5, 3), {"once": up_closed([(3, 0)]), "twice": twice})

    state = play(world).engine.state()

    # Then each finding's vector shows its own events changed, and its neighbours do not
    for finding in state.findings:
        for event in finding.events:
            digest = world.digest[event]
            for without in finding.without:
                assert digest(finding.at) != digest(without)
    assert {event for f in state.findings for event in f.events} == {"once", "twice"}


@settings(max_examples=200)
@given(st.data())
def test_every_finding_shows_what_it_says(data: st.DataObject) -> None:
    # Given events with arbitrary digests on every vector, some of which cannot be run
    sizes = tuple(data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=3)))
    everywhere = list(itertools.product(*(range(size) for size in sizes)))
    tables = [
        dict(
            zip(
                everywhere,
                data.draw(st.tuples(*(st.integers(0, 2) for _ in everywhere))),
                strict=True,
            )
        )
        for _ in range(2)
    ]
    inner = everywhere[1:-1]
    broken = frozenset(data.draw(st.sets(st.sampled_from(inner)))) if inner else frozenset()
    digests = {
        f"event{i}": (lambda vector, t=table: str(t[vector])) for i, table in enumerate(tables)
    }
    world = World(sizes, digests, broken)

    # When the session is played, however little sense the histories make
    engine = play(world).engine

    # Then it ends, and every finding that is called exact is a change between neighbours that ran
    for finding in engine.state().findings:
        for event in finding.events:
            for culprit, without in zip(finding.culprits, finding.without, strict=True):
                if culprit.bound.exact:
                    assert world.digest[event](finding.at) != world.digest[event](without)
                    assert without not in broken
