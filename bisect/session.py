"""One bisection from its question to its answer.

The driver joins the pure engine with the laboratory that runs its trials and the store that
remembers them. It holds no knowledge of its own: whatever it was doing when it was killed, the
same question asked again finds every observation in the store and goes on from there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Protocol

import msgspec

from bitsect.bisect.engine.engine import Engine
from bitsect.bisect.engine.model import Axis, EndProblem, Trial, Vector
from bitsect.bisect.errors import (
    EndFailed,
    NondeterministicEnd,
    NothingToBisect,
    NotMadeOfParts,
    SessionBusy,
)
from bitsect.bisect.observing import Observer
from bitsect.bisect.outcomes import OutcomeReader
from bitsect.bisect.question_record import Question
from bitsect.bisect.records import LedgerEntry, Milestone, Observation, SessionRecord, SessionSpec
from bitsect.bisect.reporting import Reporter
from bitsect.bisect.specimen import TrialRunner
from bitsect.bisect.store import Store
from bitsect.images.runtime.protocol import Mixer
from bitsect.probes.errors import BitsectError


class SessionDriver:
    """Answers one question.

    :param workers: trials that run at the same time.
    """

    def __init__(
        self,
        question: Question,
        mixer: Mixer,
        laboratory: TrialRunner,
        store: Store,
        reporter: Reporter,
        workers: int = 1,
    ) -> None:
        self._question = question
        self._observer = Observer(question, mixer, laboratory, reporter.notice)
        self._laboratory = laboratory
        self._store = store
        self._reporter = reporter
        self._workers = workers

    def run(self, *, again: bool = False) -> SessionRecord:
        """Search to the end, or go on with a search that was interrupted.

        :param again: ask everything anew, even if this question was answered. Going on with a
            search that was itself begun so is no new beginning.
        :raises EndFailed, NondeterministicEnd, NotMadeOfParts, NothingToBisect: there is nothing
            to search between these ends; no session is left behind.
        :raises InfrastructureError: the host failed; everything observed is kept.
        """
        with self._only_one() as claim:
            session = self._store.session_of(self._question.identity)
            if session is None or (again and (session.finished or not session.spec.salt)):
                return self._begin(claim, secrets.token_hex(8) if again else "")
            claim(session.number)
            return self._go_on(session)

    # Beginning and going on

    def _begin(self, claim: _Claim, salt: str) -> SessionRecord:
        spec = msgspec.structs.replace(self._question.spec, salt=salt)
        self._laboratory.salt = salt
        engine = engine_of(spec)
        seen: list[tuple[Trial, Observation, str]] = []
        self._reporter.stage("verifying that each end repeats itself")
        self._work(
            engine,
            OutcomeReader(self._store),
            lambda trial, *what: seen.append((trial, *what)),
            0,
            ends_only=True,
        )
        self._refuse_parts(engine, seen)
        _raise_for(engine.state().problem, spec)

        axes = _suspects_first(spec.axes, [observation for _, observation, _ in seen])
        spec = msgspec.structs.replace(spec, axes=axes)
        session = self._store.create_session(self._question.identity, spec)
        claim(session.number)
        engine, reader = engine_of(spec), OutcomeReader(self._store)
        for trial, observation, source in seen:
            trial = Trial(engine.bad if any(trial.vector) else engine.good, trial.repetition)
            engine.tell(trial, reader.outcome(observation))
            self._store.enter(session.number, trial.vector, trial.repetition, source, observation)
        self._reporter.session_opened(session, 0)
        return self._search(session, engine, reader, len(seen))

    def _refuse_parts(self, engine: Engine, seen: list[tuple[Trial, Observation, str]]) -> None:
        """An end that repeats itself as it is, and not when it is put together from its parts.

        :raises NotMadeOfParts: there is one.
        """
        problem = engine.state().problem
        if problem is None or problem.kind != "nondeterministic":
            return
        good = problem.side == "good"
        end = self._question.good if good else self._question.bad
        vector = engine.good if good else engine.bad
        if not self._observer.is_rebuilt(engine.axes, end):
            return
        first = next(each for trial, each, _ in seen if trial == Trial(vector, 0))
        again = self._observer.observe_as_it_is(engine.axes, Trial(vector, 1))
        reader = OutcomeReader(self._store)
        once, twice = reader.outcome(first), reader.outcome(again)
        if twice.failure is None and once.events == twice.events:
            raise NotMadeOfParts(problem.side, end.reference, problem.events)

    def _go_on(self, session: SessionRecord) -> SessionRecord:
        ledger = self._store.ledger(session.number)
        self._laboratory.salt = session.spec.salt
        engine, reader = engine_of(session.spec), OutcomeReader(self._store)
        for entry in ledger:
            engine.tell(Trial(entry.vector, entry.repetition), reader.outcome(entry.observation))
        self._reporter.session_opened(session, len(ledger))
        if session.finished:
            return session
        self._store.note(session.number, "resumed")
        return self._search(session, engine, reader, len(ledger))

    def _search(
        self, session: SessionRecord, engine: Engine, reader: OutcomeReader, known: int
    ) -> SessionRecord:
        def written(trial: Trial, observation: Observation, source: str) -> None:
            self._store.enter(session.number, trial.vector, trial.repetition, source, observation)

        try:
            self._work(engine, reader, written, known)
            # An end that was steady before may have turned out not to be.
            _raise_for(engine.state().problem, session.spec)
        except BaseException as error:
            # Whatever ended the search is told, even if it cannot be written down any more.
            with contextlib.suppress(BitsectError):
                self._store.note(session.number, "interrupted", type(error).__name__)
            raise
        self._store.note(session.number, "finished")
        return self._store.session(session.number)

    # Running trials

    def _work(
        self,
        engine: Engine,
        reader: OutcomeReader,
        written: _Written,
        known: int,
        ends_only: bool = False,
    ) -> None:
        """Run what the engine asks for until it asks for nothing more.

        :param known: runs that the ledger has already.
        """
        running: dict[Future[tuple[Observation, str]], Trial] = {}
        done = known
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="trial")
        try:
            while True:
                free = self._workers - len(running)
                for trial in engine.ask(free, running.values()) if free else ():
                    if ends_only and trial.vector not in (engine.good, engine.bad):
                        continue
                    self._reporter.trial_started(trial, self._observer.label(engine.axes, trial))
                    running[pool.submit(self._observer.observe, engine.axes, trial)] = trial
                if not running:
                    return
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    trial = running.pop(future)
                    observation, source = future.result()
                    # Read before it is entered, so that a session never holds what cannot be.
                    outcome = reader.outcome(observation, at_an_end=ends_only)
                    written(trial, observation, source)
                    engine.tell(trial, outcome)
                    done += 1
                    entry = LedgerEntry(done, trial.vector, trial.repetition, source, observation)
                    label = self._observer.label(engine.axes, trial)
                    self._reporter.trial_ended(trial, label, entry, engine)
        except BaseException:
            self._laboratory.stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    # One process per question

    @contextmanager
    def _only_one(self) -> Iterator[_Claim]:
        name = self._question.identity.removeprefix("sha256:")
        place = self._store.root / "locks" / f"{name}.lock"
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("a+") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.seek(0)
                holder = stream.read().split()
                session = int(holder[1]) if len(holder) == 2 else 0
                raise SessionBusy(session, int(holder[0]) if holder else None) from None

            def claim(session: int) -> None:
                stream.seek(0)
                stream.truncate()
                stream.write(f"{os.getpid()} {session}")
                stream.flush()

            yield claim


def engine_of(spec: SessionSpec) -> Engine:
    """The engine that searches a session, before it was told anything."""
    index = {axis.component: position for position, axis in enumerate(spec.axes)}
    return Engine(
        spec.axes,
        milestones=[milestone_vector(milestone, spec) for milestone in spec.milestones],
        blocks=[[index[component] for component in block] for block in spec.blocks],
    )


def milestone_vector(milestone: Milestone, spec: SessionSpec) -> Vector:
    """Where a stack between the ends lies."""
    return tuple(axis.points.index(milestone.points[axis.component]) for axis in spec.axes)


class _Claim(Protocol):
    def __call__(self, session: int) -> None:
        """Write down which session this process is running."""


class _Written(Protocol):
    def __call__(self, trial: Trial, observation: Observation, source: str) -> object:
        """Called when a trial was observed, before the engine takes it in."""


def _suspects_first(
    axes: tuple[Axis, ...], observations: Iterable[Observation]
) -> tuple[Axis, ...]:
    """Components that the probe was seen to use come first: the culprit is among them."""
    used = {name for observation in observations for name in observation.touched}
    told = (msgspec.structs.replace(axis, touched=axis.component in used) for axis in axes)
    return tuple(sorted(told, key=lambda axis: (not axis.touched, axis.component)))


def _raise_for(problem: EndProblem | None, spec: SessionSpec) -> None:
    if problem is None:
        return
    if problem.kind == "agree":
        raise NothingToBisect(problem.compared)
    end = spec.good if problem.side == "good" else spec.bad
    if problem.kind == "nondeterministic":
        raise NondeterministicEnd(problem.side, end.reference, problem.events)
    assert problem.verdict is not None
    raise EndFailed(problem.side, end.reference, problem.verdict, problem.reason)
