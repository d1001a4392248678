"""Comparing two traces: what counts as equal, as a change, and as no evidence at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitsect.bisect.compare import compare_traces, digests
from bitsect.bisect.errors import InvalidEvidence
from bitsect.probes.trace import Event, EventKey
from tests.bisect.traces import event, trace


def refused(*traces: object) -> str:
    with pytest.raises(InvalidEvidence) as caught:
        compare_traces(*traces)  # type: ignore[arg-type]
    return caught.value.what


def test_equal_events_of_two_processes_are_equal() -> None:
    comparison = compare_traces(trace(event("power", "a")), trace(event("power", "a")))
    assert comparison.equal
    assert (comparison.compared, comparison.certified) == (1, 1)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1))
def test_exactly_the_events_that_differ_are_named(pairs: list[tuple[str, str]]) -> None:
    first = trace(*(event(f"op{i}", one) for i, (one, _) in enumerate(pairs)))
    second = trace(*(event(f"op{i}", other) for i, (_, other) in enumerate(pairs)))

    changes = compare_traces(first, second).changes

    assert [EventKey.parse(change.key).operation for change in changes] == [
        f"op{i}" for i, (one, other) in enumerate(pairs) if one != other
    ]
    assert all(change.kind == "source" for change in changes)


def test_an_event_with_other_inputs_is_a_receiver() -> None:
    first, second = trace(event("power", "a")), trace(event("power", "b", inputs="other"))
    (change,) = compare_traces(first, second).changes
    assert change.kind == "receiver"


def test_events_of_one_side_only_are_changes() -> None:
    both, old, new = event("both", "a"), event("old", "a"), event("new", "a")
    comparison = compare_traces(trace(both, old), trace(both, new))
    assert [(EventKey.parse(c.key).operation, c.kind) for c in comparison.changes] == [
        ("old", "vanished"),
        ("new", "appeared"),
    ]
    assert comparison.compared == 1


def test_an_operation_that_raises_is_a_value_to_compare() -> None:
    key = event("trapezoid", "a").key
    raised = trace(Event(key, note="raised AttributeError"))
    assert compare_traces(raised, trace(Event(key, note="raised AttributeError"))).equal
    assert not compare_traces(raised, trace(Event(key, note="raised TypeError"))).equal
    assert not compare_traces(raised, trace(event("trapezoid", "a"))).equal


def test_controls_are_never_compared() -> None:
    made = trace(event("power", "a"))
    assert list(digests(made)) == [event("power", "a").key.text]


@pytest.mark.parametrize(
    ("what", "header"),
    [
        ("probe", {"probe": "sha256:other"}),
        ("arguments", {"arguments": {"seed": 1}}),
        ("device", {"device_class": "other"}),
        ("ranks", {"world": 2}),
    ],
)
def test_traces_of_different_questions_are_refused(what: str, header: dict[str, Any]) -> None:
    same = event("power", "a")
    assert refused(trace(same), trace(same, **header)) == what


def test_thread_counts_are_part_of_the_stack_and_may_differ() -> None:
    same = event("power", "a")
    assert compare_traces(trace(same, threads=1), trace(same, threads=8)).equal


def test_a_trace_is_not_compared_with_itself() -> None:
    made = trace(event("power", "a"))
    assert refused(made, made) == "same-run"


@pytest.mark.parametrize("control", ["arrival_order", "swapped_pair", "copy_agrees"])
def test_a_control_that_was_not_caught_makes_the_evidence_invalid(control: str) -> None:
    same = event("power", "a")
    blind = [trace(same, missed=(control,)) for _ in range(2)]
    assert refused(*blind) == "controls"


def test_fingerprints_that_bytes_contradict_are_refused() -> None:
    # Equal fingerprints over different bytes, and the other way round
    collided = (trace(event("p", "a")), trace(event("p", "a", certificate="b")))
    split = (trace(event("p", "a")), trace(event("p", "b", certificate="a")))
    assert refused(*collided) == refused(*split) == "fingerprint"


def test_no_events_are_no_agreement() -> None:
    assert refused(trace(), trace()) == "empty"
