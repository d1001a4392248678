"""A whole session on made-up stacks with the real engine and the real store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bitsect.bisect.engine.model import Axis
from bitsect.bisect.errors import (
    EndFailed,
    InvalidEvidence,
    NondeterministicEnd,
    NothingToBisect,
    SessionBusy,
    StoreError,
)
from bitsect.bisect.findings import answer_of
from bitsect.bisect.records import Observation, SessionRecord
from bitsect.bisect.report import markdown, summary
from bitsect.bisect.reporting import Reporter
from bitsect.bisect.session import SessionDriver
from bitsect.bisect.specimen import Specimen
from bitsect.bisect.store import Store
from bitsect.bisect.verdicts import Verdict
from bitsect.bisect.wording import operations_text
from bitsect.images.errors import InfrastructureError
from bitsect.probes.trace import Event
from tests.bisect.fakes import POINTS, FakeLaboratory, FakeMixer, Probe, numpy_like, question
from tests.bisect.traces import event, trace, write

EXPECTED = [
    (("pip:numpy", "1.1", "1.2"), "data elementwise float64: power"),
    (("pip:numpy", "1.2", "2.0"), "data elementwise float64: log"),
    (("pip:numpy", "2.3", "3.0"), "data elementwise float64: log"),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path)
    yield opened
    opened.close()


def driver(
    laboratory: FakeLaboratory, workers: int = 1, mixer: FakeMixer | None = None
) -> SessionDriver:
    return SessionDriver(
        question(), mixer or FakeMixer(), laboratory, laboratory.store, Reporter(), workers
    )


def found(store: Store, session: SessionRecord) -> list[tuple[tuple[str, str, str], object]]:
    return [
        ((c.component, c.before, c.after), operations_text(one.operations))
        for one in answer_of(store, session).findings
        for c in one.culprits
    ]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_session_finds_every_step(store: Store, workers: int) -> None:
    session = driver(FakeLaboratory(store), workers).run()

    answer = answer_of(store, session)
    assert found(store, session) == EXPECTED
    assert session.finished
    assert answer.settled
    assert answer.certified
    assert (answer.changed_events, answer.compared_events) == (2, 3)
    assert min(min(f.runs_before, f.runs_after) for f in answer.findings) == 2


def test_the_same_question_again_is_answered_from_the_store(store: Store) -> None:
    first = driver(FakeLaboratory(store)).run()
    again = FakeLaboratory(store)
    assert driver(again).run() == first
    assert again.ran == []


def test_a_fresh_session_is_another_session(store: Store) -> None:
    first = driver(FakeLaboratory(store)).run()
    second = driver(FakeLaboratory(store)).run(again=True)
    assert second.number != first.number
    assert found(store, second) == EXPECTED


@pytest.mark.parametrize("after", range(9))
@pytest.mark.parametrize("error", [KeyboardInterrupt, InfrastructureError("disk", "/data")])
def test_an_interrupted_session_goes_on_and_loses_nothing(
    store: Store, after: int, error: type[BaseException] | BaseException
) -> None:
    # Given a search that is stopped at its n-th run, by Ctrl-C or by a full disk
    calls = 0

    def breaks_off(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        nonlocal calls
        if calls == after:
            raise error
        calls += 1
        return numpy_like(components, repetition)

    broken = FakeLaboratory(store, breaks_off)
    with pytest.raises((KeyboardInterrupt, InfrastructureError)):
        driver(broken).run()
    assert broken.stopped

    # When the same question is asked again
    second = FakeLaboratory(store)
    session = driver(second).run()

    # Then nothing that was observed runs again, and the answer is the same
    assert not set(broken.ran[:-1]) & set(second.ran)
    assert found(store, session) == EXPECTED
    assert [s.number for s in store.sessions()] == [session.number]
    if after >= 4:
        assert [e.kind for e in session.events] == ["interrupted", "resumed", "finished"]


def ends_with(probe: Probe, store: Store, error: type[Exception]) -> Exception:
    with pytest.raises(error) as caught:
        driver(FakeLaboratory(store, probe)).run()
    assert store.sessions() == ()
    return caught.value


def test_ends_that_agree_leave_no_session(store: Store) -> None:
    error = ends_with(lambda c, r: [event("sum", "same")], store, NothingToBisect)
    assert isinstance(error, NothingToBisect)
    assert error.compared == 1


@pytest.mark.parametrize(("side", "version"), [("good", "1.0"), ("bad", "3.0")])
def test_an_end_that_does_not_repeat_itself_leaves_no_session(
    store: Store, side: str, version: str
) -> None:
    def shaky(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        output = str(repetition) if components["pip:numpy"] == version else "steady"
        return [event("sum", "same"), event("mean", output)]

    error = ends_with(shaky, store, NondeterministicEnd)
    assert isinstance(error, NondeterministicEnd)
    assert (error.side, error.events) == (side, (event("mean", "x").key.text,))


@pytest.mark.parametrize("verdict", [Verdict.CRASH, Verdict.TIMEOUT, Verdict.UNBUILDABLE])
def test_an_end_that_does_not_run_leaves_no_session(store: Store, verdict: Verdict) -> None:
    error = ends_with(lambda c, r: verdict, store, EndFailed)
    assert isinstance(error, EndFailed)
    assert (error.side, error.verdict, error.reason) == ("good", verdict, "it broke")


def test_a_release_that_fits_nothing_is_passed_over_and_named(store: Store) -> None:
    session = driver(FakeLaboratory(store), mixer=FakeMixer(frozenset({"2.0"}))).run()

    answer = answer_of(store, session)
    (log,) = [f for f in answer.findings if f.culprits[0].after == "2.1"]
    assert not log.exact
    assert log.culprits[0].bound.blocked == ("2.0",)
    assert "1 of them known only as a range" in summary(answer)
    assert "2.0 (UNRESOLVED) could not be run" in markdown(answer)


def test_a_trial_that_crashes_is_passed_over(store: Store) -> None:
    def crashing(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        return Verdict.CRASH if components["pip:numpy"] == "1.1" else numpy_like(components, 0)

    session = driver(FakeLaboratory(store, crashing)).run()
    (power,) = [f for f in answer_of(store, session).findings if f.culprits[0].after == "1.2"]
    assert power.culprits[0].before == "1.0"
    assert power.culprits[0].bound.reasons == ("CRASH",)


def test_suspects_come_first_whatever_the_lengths_of_their_axes(store: Store) -> None:
    # Given two components with different numbers of releases, the second of which is used
    axes = (Axis("pip:idle", ("1", "2")), Axis("pip:numpy", POINTS))
    laboratory = FakeLaboratory(store)
    session = SessionDriver(question(axes), FakeMixer(), laboratory, store, Reporter()).run()

    # Then the one that is used is suspected first, and the session can be read again
    assert [axis.component for axis in session.spec.axes] == ["pip:numpy", "pip:idle"]
    assert found(store, session) == EXPECTED


def test_a_component_of_one_end_only_can_be_the_culprit(store: Store) -> None:
    # Given a package that the bad end has and the good end has not
    axes = (Axis("pip:numpy", ("1.0", "2.0")), Axis("pip:mkl", ("absent", "7")))

    def probe(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        return [event("matmul", "mkl" if "pip:mkl" in components else "openblas")]

    laboratory = FakeLaboratory(store, probe)
    session = SessionDriver(question(axes), FakeMixer(), laboratory, store, Reporter()).run()

    assert found(store, session) == [
        (("pip:mkl", "absent", "7"), "data elementwise float64: matmul")
    ]
    # And the component that the probe touched was suspected first
    assert [axis.component for axis in session.spec.axes] == ["pip:numpy", "pip:mkl"]


def test_a_trace_of_a_blind_detector_stops_the_search(store: Store, tmp_path: Path) -> None:
    class Blind(FakeLaboratory):
        def run(self, specimen):  # type: ignore[no-untyped-def]
            run = self.store.begin_run(None, specimen.label)
            made = trace(*numpy_like(specimen.stack.components, 0), missed=("swapped_pair",))
            content = write(made, tmp_path / "t.jsonl").read_bytes()
            return self.store.finish_run(run, trace=content), "run"

    with pytest.raises(InvalidEvidence) as caught:
        driver(Blind(store)).run()
    assert (caught.value.what, caught.value.first) == ("controls", "swapped_pair")


def test_invalid_evidence_inside_is_a_trial_that_failed(store: Store, tmp_path: Path) -> None:
    # Given one release on which a control is not caught
    class BlindOnce(FakeLaboratory):
        def run(self, specimen: Specimen) -> tuple[Observation, str]:
            if specimen.stack.components["pip:numpy"] != "2.0":
                return super().run(specimen)
            run = self.store.begin_run(None, specimen.label)
            seen = numpy_like(specimen.stack.components, 0)
            assert not isinstance(seen, Verdict)
            made = trace(*seen, missed=("swapped_pair",))
            content = write(made, tmp_path / "t.jsonl").read_bytes()
            return self.store.finish_run(run, trace=content), "run"

    session = driver(BlindOnce(store)).run()

    # Then its neighbours bound the answer, and the session reads the same ever after
    (log,) = [f for f in answer_of(store, session).findings if f.culprits[0].after == "2.1"]
    assert log.culprits[0].bound.blocked == ("2.0",)


def test_bytes_that_contradict_fingerprints_stop_the_search(store: Store) -> None:
    def lying(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        other = "x" if components["pip:numpy"] == "2.0" else None
        seen = numpy_like(components, repetition)
        assert not isinstance(seen, Verdict)
        return [*seen[:2], event("sum", "same", certificate=other)]

    with pytest.raises(InvalidEvidence) as caught:
        driver(FakeLaboratory(store, lying)).run()
    assert caught.value.what == "fingerprint"


def test_a_fresh_search_that_was_interrupted_goes_on_as_a_fresh_one(store: Store) -> None:
    # Given an answered question, asked anew, and interrupted
    driver(FakeLaboratory(store)).run()
    calls = 0

    def breaks_off(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
        nonlocal calls
        calls += 1
        if calls > 6:
            raise KeyboardInterrupt
        return numpy_like(components, repetition)

    with pytest.raises(KeyboardInterrupt):
        driver(FakeLaboratory(store, breaks_off)).run(again=True)

    # When it is asked anew again
    laboratory = FakeLaboratory(store)
    session = driver(laboratory).run(again=True)

    # Then the interrupted one goes on, with its own observations and no older ones
    assert session.number == 2
    assert len(laboratory.ran) == len(store.ledger(2)) - 6


def test_a_damaged_trace_is_never_an_answer(store: Store) -> None:
    session = driver(FakeLaboratory(store)).run()
    blob = store.ledger(session.number)[3].observation.trace
    assert blob is not None
    place = store.blobs.path(blob)
    place.write_bytes(place.read_bytes().replace(b"float64", b"float65"))
    with pytest.raises(StoreError, match="damaged"):
        answer_of(store, session)


def test_one_question_is_searched_by_one_process_at_a_time(store: Store) -> None:
    class Meddling(FakeLaboratory):
        def run(self, specimen):  # type: ignore[no-untyped-def]
            with pytest.raises(SessionBusy):
                driver(FakeLaboratory(self.store)).run()
            return super().run(specimen)

    session = driver(Meddling(store)).run()
    assert found(store, session) == EXPECTED


def test_the_report_names_every_finding_and_every_trial(store: Store) -> None:
    session = driver(FakeLaboratory(store)).run()
    answer = answer_of(store, session)
    text = markdown(answer)
    for number, step in enumerate(("numpy 1.1 → 1.2", "numpy 1.2 → 2.0", "numpy 2.3 → 3.0"), 1):
        assert f"## {number}. {step}" in text
    assert text.count("| MISMATCH |") + text.count("| MATCH |") == len(answer.trials)
    assert (
        summary(answer)
        == "2 of 3 events differ between the ends; 3 steps changed them, some more than once"
    )
