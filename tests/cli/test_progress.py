"""What is said of a trial when it has ended."""

from __future__ import annotations

from bitsect.bisect.engine.engine import Engine
from bitsect.bisect.engine.model import Axis, Outcome, Trial
from bitsect.bisect.records import LedgerEntry, Observation
from bitsect.bisect.verdicts import Verdict
from bitsect.cli.progress import outcome_text

GOOD, BAD = Trial((0,), 0), Trial((1,), 0)


def said(trial: Trial, **told: Outcome) -> str:
    engine = Engine([Axis("pip:numpy", ("1", "2"))])
    for name, outcome in told.items():
        engine.tell({"good": GOOD, "bad": BAD}[name], outcome)
    outcome = told["good" if trial is GOOD else "bad"]
    seen = Observation(
        number=1, failure=outcome.failure, reason=outcome.reason, trace=None, manifest=None,
        log=None, touched=(), milliseconds={}, ended="",
    )  # fmt: skip
    return outcome_text(trial, LedgerEntry(1, trial.vector, 0, "run", seen), engine)


def test_changed_events_are_counted() -> None:
    text = said(BAD, good=Outcome({"a": "1", "b": "1"}), bad=Outcome({"a": "1", "b": "2"}))
    assert text == "MISMATCH, 1 event changed"


def test_before_the_good_end_there_is_nothing_to_compare() -> None:
    assert said(BAD, bad=Outcome({"a": "1"})) == "a trace, to be compared with the good end's"


def test_a_good_end_that_failed_is_no_mismatch() -> None:
    crashed = Outcome(failure=Verdict.CRASH, reason="SIGSEGV")
    assert said(GOOD, good=crashed) == "CRASH: SIGSEGV"
    text = said(BAD, good=crashed, bad=Outcome({"a": "1"}))
    assert text == "a trace, and none of the good end's to compare it with"
