"""Each end is also run as it is when it is put together from its parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bitsect.bisect.errors import NondeterministicEnd, NotMadeOfParts
from bitsect.bisect.findings import answer_of
from bitsect.bisect.reporting import Reporter
from bitsect.bisect.session import SessionDriver
from bitsect.bisect.store import Store
from bitsect.bisect.verdicts import Verdict
from bitsect.images.runtime.protocol import Stack
from bitsect.probes.trace import Event
from tests.bisect.fakes import FakeLaboratory, FakeMixer, numpy_like, question
from tests.bisect.traces import event

#: A component that says that an end was put together.
PARTS = "pip:parts"


class PartsMixer(FakeMixer):
    """Puts ends together from their parts."""

    def rebuilt(self, stack: Stack) -> Stack:
        return dataclasses.replace(stack, components={**stack.components, PARTS: "1"})


class Notes(Reporter):
    def __init__(self) -> None:
        self.told: list[str] = []

    def notice(self, what: str) -> None:
        self.told.append(what)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path)
    yield opened
    opened.close()


def driver(laboratory: FakeLaboratory, reporter: Reporter | None = None) -> SessionDriver:
    reporter = reporter or Reporter()
    return SessionDriver(question(), PartsMixer(), laboratory, laboratory.store, reporter)


def test_a_repetition_of_an_end_runs_on_its_parts(store: Store) -> None:
    # Given stacks whose bits are those of their parts
    seen: list[tuple[bool, int]] = []

    def noted(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        if components["pip:numpy"] in ("1.0", "3.0"):
            seen.append((PARTS in components, repetition))
        return numpy_like(components, repetition)

    session = driver(FakeLaboratory(store, noted)).run()

    # Then each end has run once as it is and otherwise on its parts, and the search is as ever
    assert (False, 0) in seen
    assert (True, 1) in seen
    assert all(rebuilt == (repetition > 0) for rebuilt, repetition in seen)
    assert len(answer_of(store, session).findings) == 3


def test_an_end_whose_parts_have_other_bits_is_no_end(store: Store) -> None:
    # Given a bad end in which something matters that is none of its parts
    def more_than_parts(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        if components["pip:numpy"] == "3.0" and PARTS not in components:
            return [*numpy_like(components, repetition)[:2], event("sum", "by its user")]
        return numpy_like(components, repetition)

    with pytest.raises(NotMadeOfParts) as caught:
        driver(FakeLaboratory(store, more_than_parts)).run()
    assert (caught.value.side, caught.value.reference) == ("bad", str({"pip:numpy": "3.0"}))
    assert [each.rpartition("/")[2] for each in caught.value.events] == ["sum#0"]
    assert store.sessions() == ()


def test_an_end_that_does_not_repeat_itself_is_not_laid_at_its_parts(store: Store) -> None:
    # Given an end that has other bits every time, whether put together or not
    count = iter(range(100))

    def restless(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        return [*numpy_like(components, repetition)[:2], event("sum", str(next(count)))]

    with pytest.raises(NondeterministicEnd):
        driver(FakeLaboratory(store, restless)).run()


def test_an_end_that_cannot_be_put_together_is_repeated_as_it_is(store: Store) -> None:
    def whole_alone(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        if PARTS in components and components["pip:numpy"] == "3.0":
            return Verdict.UNBUILDABLE
        return numpy_like(components, repetition)

    notes = Notes()
    session = driver(FakeLaboratory(store, whole_alone), notes).run()
    assert len(answer_of(store, session).findings) == 3
    (told,) = set(notes.told)
    assert "cannot be put together" in told
