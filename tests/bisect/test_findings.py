"""Where in a chain of stacks a change came, and what a change is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bitsect.bisect.engine.model import Axis
from bitsect.bisect.findings import Answer, answer_of
from bitsect.bisect.records import Milestone
from bitsect.bisect.report import outcomes_text
from bitsect.bisect.reporting import Reporter
from bitsect.bisect.session import SessionDriver
from bitsect.bisect.store import Store
from bitsect.bisect.verdicts import Verdict
from bitsect.probes.trace import Event
from tests.bisect.fakes import FakeLaboratory, FakeMixer, Probe, question
from tests.bisect.traces import event

VERSIONS = ("1.0", "2.0", "3.0")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "data")
    yield opened
    opened.close()


def searched_through(store: Store, probe: Probe) -> Answer:
    """The answer where 2.0 is a stack between the ends, which are 1.0 and 3.0."""
    asked = question((Axis("pip:numpy", VERSIONS),))
    middle = Milestone("venv:middle", {"pip:numpy": "2.0"}, "sha256:middle")
    asked = replace(asked, spec=msgspec.structs.replace(asked.spec, milestones=(middle,)))
    laboratory = FakeLaboratory(store, probe)
    return answer_of(store, SessionDriver(asked, FakeMixer(), laboratory, store, Reporter()).run())


def changing_at(first: str, *, broken: str = "") -> Probe:
    """One event, which is other from a version on."""

    def probe(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        version = components["pip:numpy"]
        if version == broken:
            return Verdict.CRASH
        return [event("log", "new" if version >= first else "old"), event("sum", "same")]

    return probe


@pytest.mark.parametrize(
    ("first", "between"),
    [("2.0", ("venv:good", "venv:middle")), ("3.0", ("venv:middle", "venv:bad"))],
)
def test_the_neighbours_are_named(store: Store, first: str, between: tuple[str, str]) -> None:
    (finding,) = searched_through(store, changing_at(first)).findings
    assert finding.between == between


def test_a_stack_that_did_not_run_is_no_neighbour(store: Store) -> None:
    (finding,) = searched_through(store, changing_at("2.0", broken="2.0")).findings
    assert not finding.exact
    assert finding.between == ("venv:good", "venv:bad")


def test_all_stacks_are_named_in_order(store: Store) -> None:
    answer = searched_through(store, changing_at("2.0"))
    assert [each.reference for each in answer.stacks] == ["venv:good", "venv:middle", "venv:bad"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, "raised TypeError", "1 that fails now"),
        ("raised TypeError", None, "1 that failed before"),
        ("raised TypeError", "raised ValueError", "1 that fails otherwise"),
    ],
)
def test_an_operation_that_fails_is_more_than_other_bits(
    store: Store, before: str | None, after: str | None, said: str
) -> None:
    def probe(components: Mapping[str, str], repetition: int) -> list[Event]:
        note = after if components["pip:numpy"] >= "2.0" else before
        outcome = event("log", "bits")
        return [
            outcome if note is None else outcome._replace(outputs=(), certificates=(), note=note)
        ]

    (finding,) = searched_through(store, probe).findings
    assert outcomes_text(finding) == said


def test_an_event_that_vanishes_is_gone(store: Store) -> None:
    def probe(components: Mapping[str, str], repetition: int) -> list[Event]:
        kept = [event("sum", "same")]
        return kept if components["pip:numpy"] >= "2.0" else [*kept, event("log", "bits")]

    (finding,) = searched_through(store, probe).findings
    assert outcomes_text(finding) == "1 that is gone"
