"""Showing a search while it runs: live on a terminal, line by line elsewhere."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.text import Text

from bitsect.bisect.engine.engine import Engine, State
from bitsect.bisect.engine.model import Trial
from bitsect.bisect.records import LedgerEntry, SessionRecord
from bitsect.bisect.reporting import Reporter
from bitsect.bisect.verdicts import Verdict
from bitsect.bisect.wording import counted, open_brackets
from bitsect.cli.console import console
from bitsect.cli.tables import left_text

MARKS = {
    Verdict.MATCH: "●",
    Verdict.MISMATCH: "○",
    Verdict.NONDETERMINISTIC: "?",
}
#: Everything that gave no comparison.
BROKEN = "×"  # noqa: RUF001  (the mark is drawn, not read)


def outcome_text(trial: Trial, entry: LedgerEntry, engine: Engine) -> str:
    """What a trial gave, in words."""
    verdict = engine.verdict(trial.vector)
    if verdict is None:
        if engine.evidence.failure(engine.good) is not None:
            return "a trace, and none of the good end's to compare it with"
        return "a trace, to be compared with the good end's"
    if verdict is Verdict.MISMATCH:
        return f"{verdict}, {counted(len(engine.changed_events(trial.vector)), 'event')} changed"
    reason = entry.observation.reason.split("\n", 1)[0]
    return f"{verdict}: {reason}" if reason and verdict not in MARKS else str(verdict)


def time_text(entry: LedgerEntry) -> str:
    """How long a trial took, or that it had been observed earlier."""
    if entry.source == "cache":
        return "observed earlier"
    return f"{sum(entry.observation.milliseconds.values()) / 1000:.1f} s"


def finished_text(session: SessionRecord) -> str:
    """Why an answer comes at once."""
    return f"session {session.number} was finished: answered from the store (--fresh asks anew)"


def _is_searching(state: State) -> bool:
    """Whether the ends are known, so that what is left is known too."""
    return bool(state.findings or state.brackets or state.milestone_brackets or state.set_questions)


class LineReporter(Reporter):
    """One line per event, for logs and pipes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing to undo."""

    def stage(self, what: str) -> None:
        self._print(what)

    def notice(self, what: str) -> None:
        self._print(f"note: {what}")

    def session_opened(self, session: SessionRecord, kept: int) -> None:
        if session.finished:
            self._print(finished_text(session))
        elif kept:
            self._print(f"session {session.number}: going on, {kept} observations kept")
        else:
            self._print(f"session {session.number}: the ends differ, searching")

    def trial_ended(self, trial: Trial, label: str, entry: LedgerEntry, engine: Engine) -> None:
        self._print(
            f"[{entry.sequence}] {label}: {outcome_text(trial, entry, engine)} ({time_text(entry)})"
        )
        state = engine.state()
        if _is_searching(state):
            self._print(
                f"    {left_text(state.trials_left_at_most, state.repeats_left, len(engine.axes))}"
            )
            for where, what in open_brackets(engine, state):
                self._print(f"    open  {where}  {what}")

    def _print(self, text: str) -> None:
        console.print(Text(text), soft_wrap=True)


class LiveReporter(Reporter):
    """The ledger scrolls by; below it stands what runs now and what is still open."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._stage = ""
        self._running: dict[Trial, tuple[str, str]] = {}
        self._left = ""
        self._open: tuple[tuple[str, str], ...] = ()
        self._done = 0
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._render)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._guard:
            self._running.clear()
            self._left, self._open, self._stage = "", (), ""
        self._live.stop()

    def stage(self, what: str) -> None:
        with self._guard:
            self._stage = what

    def notice(self, what: str) -> None:
        self._live.console.print(Text(f"note: {what}"), soft_wrap=True)

    def session_opened(self, session: SessionRecord, kept: int) -> None:
        if session.finished:
            self._live.console.print(Text(finished_text(session)))
        with self._guard:
            self._done = max(self._done, kept)
            self._stage = f"session {session.number}" + (
                f", going on with {kept} observations" if kept else ""
            )

    def trial_started(self, trial: Trial, label: str) -> None:
        with self._guard:
            self._running[trial] = label, "waiting"

    def trial_phase(self, label: str, phase: str) -> None:
        with self._guard:
            for trial, (running, _) in self._running.items():
                if running == label:
                    self._running[trial] = label, phase

    def trial_ended(self, trial: Trial, label: str, entry: LedgerEntry, engine: Engine) -> None:
        verdict = engine.verdict(trial.vector)
        mark = "·" if verdict is None else MARKS.get(verdict, BROKEN)
        line = Text(f"{mark} [{entry.sequence}] {label}  ")
        line.append(outcome_text(trial, entry, engine), style="bold")
        line.append(f"  {time_text(entry)}", style="dim")
        state = engine.state()
        searching = _is_searching(state)
        with self._guard:
            self._running.pop(trial, None)
            self._done = max(self._done, entry.sequence)
            if searching:
                self._left = left_text(
                    state.trials_left_at_most, state.repeats_left, len(engine.axes)
                )
                self._open = open_brackets(engine, state)
        self._live.console.print(line)

    def _render(self) -> Group:
        with self._guard:
            lines = [Text(self._stage, style="bold")] if self._stage else []
            lines += [
                Text(f"◆ {label}  ").append(phase, style="dim")
                for label, phase in self._running.values()
            ]
            if self._left:
                lines.append(Text(f"{self._done} runs done, {self._left}"))
            # Never more than a part of the screen: what has ended scrolls by above.
            room = max(1, console.height // 2 - len(lines))
            width = max((len(where) for where, _ in self._open), default=0)
            lines += [
                Text(f"  open  {where:{width}}  ").append(what, style="dim")
                for where, what in self._open[:room]
            ]
            if len(self._open) > room:
                lines.append(Text(f"  and {len(self._open) - room} more open brackets"))
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)


def reporter_for_console(quiet: bool) -> LiveReporter | LineReporter | QuietReporter:
    """The reporter that fits where standard error goes."""
    if quiet:
        return QuietReporter()
    return LiveReporter() if console.is_terminal else LineReporter()


class QuietReporter(Reporter):
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing to undo."""
