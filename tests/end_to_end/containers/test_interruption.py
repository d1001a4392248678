"""The search, or the engine, is killed in the middle: nothing is lost, and nothing is left."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from docker.models.containers import Container

from tests.end_to_end.containers.disturbed import (
    ENDS,
    Search,
    assert_clean,
    builds,
    findings,
    only_error,
    probes,
    running,
    wait_until,
)

pytestmark = [pytest.mark.end_to_end, pytest.mark.engine]


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_search_that_was_stopped_goes_on(
    by: signal.Signals, begun: Search, undisturbed: dict[str, Any]
) -> None:
    # Given a search that is stopped while it makes a hybrid, and again while a trial runs
    for moment in (builds, probes):
        said = stopped(begun, moment, by)
        if by == signal.SIGINT:
            assert "everything observed is kept" in said
            assert "Traceback" not in said
        # Then no container runs on without it, and all that was observed is there
        wait_until(lambda: running(begun.engine) == [])
        assert begun.observed == ENDS

    # When the same command is given again
    answer = begun.answer(kept=ENDS)

    # Then the answer is the one that it would have given, and nothing is left
    assert findings(answer) == findings(undisturbed)
    assert answer["innocent"] == undisturbed["innocent"]
    assert_clean(begun)


@pytest.mark.parametrize("moment", [builds, probes], ids=["building", "probing"])
def test_an_engine_that_is_killed_loses_nothing(
    moment: Callable[[Container], bool], begun: Search, undisturbed: dict[str, Any]
) -> None:
    # Given a search whose engine is killed under it
    engine = begun.engine
    with begun.running() as process:
        wait_until(lambda: any(map(moment, running(engine))), process)
        engine.kill()
        _, said = process.communicate()

    # Then it says so in one line, and all that was observed is there
    line = only_error(process.returncode, said)
    assert "INFRA: the container engine cannot be used" in line
    assert "nothing is lost" in line
    assert begun.observed == ENDS

    # And without an engine it says so too
    assert "INFRA: the container engine cannot be used" in begun.refused()

    # When the engine is there again, the same command goes on to the same answer
    engine.start()
    answer = begun.answer(kept=ENDS)
    assert findings(answer) == findings(undisturbed)
    assert_clean(begun)


def stopped(search: Search, moment: Callable[[Container], bool], by: signal.Signals) -> str:
    """Stops a search at some moment; what it said."""
    with search.running() as process:
        wait_until(lambda: any(map(moment, running(search.engine))), process)
        process.send_signal(by)
        _, said = process.communicate()
    assert process.returncode == (130 if by == signal.SIGINT else -by)
    return said
