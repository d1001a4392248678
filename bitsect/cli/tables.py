"""Results as tables for a terminal. Every one has a JSON twin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import takewhile

from rich.table import Table
from rich.text import Text

from bitsect.bisect.compare import Comparison
from bitsect.bisect.findings import Answer, FoundChange
from bitsect.bisect.records import LedgerEntry, SessionRecord
from bitsect.bisect.report import (
    between_text,
    bound_text,
    is_range,
    outcomes_text,
    step_text,
    summary,
)
from bitsect.bisect.wording import counted, label_of, operations_of, operations_text, short, shown
from bitsect.cli.console import SafeConsole
from bitsect.images.differences import Difference
from bitsect.images.drift import Drift

#: Columns that a step may take on a line of its own.
WIDEST_STEP = 28
#: Characters of a value that a table shows whole.
LONGEST_VALUE = 160
#: Characters before the first that differs, where a value is cut.
CONTEXT = 20
# Of flags, and of lists of folders.
_WORDS = re.compile(r"[^\s:,;]+")


def print_answer(answer: Answer) -> None:
    """The findings of a session, and what to know about them."""
    out = _out()
    out.print(Text(f"session {answer.session}: {answer.good} .. {answer.bad}"), soft_wrap=True)
    if answer.findings:
        table = Table(header_style="bold")
        table.add_column("#")
        steps = [text for found in answer.findings for text in _steps(found)]
        wide = max(map(len, steps)) > WIDEST_STEP
        table.add_column("step", no_wrap=not wide, max_width=WIDEST_STEP, overflow="fold")
        table.add_column("operations", overflow="fold", ratio=1)
        table.add_column("events", justify="right")
        table.add_column("runs", no_wrap=True)
        for found in answer.findings:
            table.add_row(
                str(found.number),
                Text("\n".join(_steps(found))),
                Text("\n".join(_changed(found))),
                str(len(found.changes)),
                f"{found.runs_before}+{found.runs_after}",
                end_section=True,
            )
        out.print(table)
    out.print(Text(f"{summary(answer)}."), soft_wrap=True)
    if answer.findings and answer.certified:
        out.print(Text("Every change is confirmed by SHA-256 of the bytes on both sides."))
    scan = f"; a linear scan of these releases takes {answer.scan}" if answer.scan else ""
    out.print(Text(f"{counted(len(answer.trials), 'trial')}{scan}."))
    if answer.innocent:
        out.print(Text(innocent_text(answer)), soft_wrap=True)
    if answer.unexplained:
        what = operations_text(operations_of(answer.unexplained))
        out.print(Text(f"changed although no culprit was moved: {what}"), soft_wrap=True)
    for text in answer.came_back:
        out.print(Text(f"changed and changed back, not counted above: {text}"), soft_wrap=True)
    for where, what in answer.open_brackets:
        out.print(Text(f"still open: {where}: {what}"), soft_wrap=True)
    if answer.settled:
        out.print(Text("Read on: bisect report (the whole document), bisect log (every run)."))
    else:
        left = left_text(answer.left_at_most, answer.repeats_left, 1 if answer.scan else 2)
        out.print(Text(f"{left}: the same command goes on."))


def print_sessions(sessions: Iterable[SessionRecord]) -> None:
    """What was searched, and how far it came."""
    out = _out()
    table = _table("#", "good end", "bad end", "begun", "state")
    for session in sessions:
        table.add_row(
            str(session.number),
            Text(session.spec.good.reference),
            Text(session.spec.bad.reference),
            session.created[: len("2026-01-01T00:00")].replace("T", " "),
            "finished" if session.finished else "open",
        )
    out.print(table)


def print_ledger(session: SessionRecord, ledger: Iterable[LedgerEntry]) -> None:
    """Every observation of a session."""
    out = _out()
    spec = session.spec
    out.print(Text(f"session {session.number}: {spec.good.reference} .. {spec.bad.reference}"))
    table = _table(
        "run", "what was different", "repetition", "gave", "trace file", "seconds", "from"
    )
    for entry in ledger:
        seen = entry.observation
        table.add_row(
            str(entry.sequence),
            Text(label_of(spec.axes, entry.vector)),
            str(entry.repetition + 1),
            Text("a trace" if seen.failure is None else f"{seen.failure}: {seen.reason}"),
            (seen.trace or "").removeprefix("sha256:")[:12],
            f"{sum(seen.milliseconds.values()) / 1000:.1f}",
            entry.source,
        )
    out.print(table)
    for event in session.events:
        out.print(Text(f"{event.at}  {event.kind} {event.detail}".rstrip()), soft_wrap=True)


def print_comparison(comparison: Comparison) -> None:
    """What differs between two traces."""
    out = _out()
    if comparison.equal:
        out.print(
            Text(
                f"equal: all {comparison.compared} events agree,"
                f" {comparison.certified} of them by SHA-256."
            )
        )
        return
    table = _table("event", "how", "first", "second")
    for change in comparison.changes:
        table.add_row(
            Text(change.key),
            change.kind,
            Text(_digest_text(change.first)),
            Text(_digest_text(change.second)),
        )
    out.print(table)
    operations = operations_of(change.key for change in comparison.changes)
    out.print(
        Text(
            f"different: {len(comparison.changes)} events, {comparison.compared} compared:"
            f" {operations_text(operations)}."
        ),
        soft_wrap=True,
    )


def print_differences(differences: Iterable[Difference]) -> None:
    """The components in which two manifests differ."""
    out = _out()
    listed = list(differences)
    telling = [difference for difference in listed if not difference.noise]
    if telling:
        table = _table("component", "first", "second")
        for difference in telling:
            before, after = telling_parts(difference.before, difference.after)
            table.add_row(Text(difference.component), Text(before), Text(after))
        out.print(table)
    noise = len(listed) - len(telling)
    out.print(
        Text(
            ("1 component differs" if len(telling) == 1 else f"{len(telling)} components differ")
            + (f"; {noise} more are noise." if noise else ".")
        )
    )


def telling_parts(before: str | None, after: str | None) -> tuple[str, str]:
    """Two values; of long ones only the words that the other does not have, in order.

    What is cut is cut where the two differ, so that what is shown of them does.
    """
    first, second = (value if value is not None else "absent" for value in (before, after))
    if max(len(first), len(second)) <= LONGEST_VALUE:
        return first, second
    one, other = _WORDS.findall(first), _WORDS.findall(second)
    parts = _beyond(one, other), _beyond(other, one)
    # Otherwise they differ in what stands between their words, or in the order of these.
    first, second = parts if any(parts) else (first, second)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    start = max(0, sum(1 for _ in same) - CONTEXT)
    return _cut(first, start), _cut(second, start)


def _beyond(words: Iterable[str], others: Iterable[str]) -> str:
    """Those that are not among the others, or not as often."""
    left = Counter(others)
    found = []
    for word in words:
        if left[word]:
            left[word] -= 1
        else:
            found.append(word)
    return " ".join(found)


def _cut(text: str, start: int) -> str:
    if not text:
        return "(nothing more)"
    shown = text[start : start + LONGEST_VALUE]
    more = len(text) - len(shown)
    ellipses = "… " if start else "", " …" if start + LONGEST_VALUE < len(text) else ""
    left_out = f" ({more} characters more, see --json)" if more else ""
    return f"{ellipses[0]}{shown}{ellipses[1]}{left_out}"


def print_drift(drift: Drift) -> None:
    """What of a stack is not as it was pinned, noise too; of the evidence only how much."""
    out = _out()
    shown = [each for each in drift.differences if each.layer != "evidence"]
    if shown:
        table = _table("component", "layer", "pinned", "now", "")
        for difference in shown:
            before, after = telling_parts(difference.before, difference.after)
            table.add_row(
                Text(difference.component),
                difference.layer,
                Text(before),
                Text(after),
                "noise" if difference.noise else "",
            )
        out.print(table)
    noise = sum(difference.noise for difference in drift.differences)
    changed = len(drift.differences) - noise
    match drift.outcome:
        case "drift":
            counted = "1 component is" if changed == 1 else f"{changed} components are"
            said = f"{counted} not as pinned in {drift.reference}"
        case "unknown":
            said = (
                f"not seen of {drift.reference}: {', '.join(drift.unseen)}; the rest is as pinned"
            )
        case "same":
            said = f"{drift.reference} is as pinned"
    beside = f"; noise: {noise}" if noise else ""
    out.print(Text(f"{said}{beside}."), soft_wrap=True)


def innocent_text(answer: Answer) -> str:
    """Which components changed nothing."""
    differences = counted(len(answer.innocent), "other difference")
    return f"{differences} changed no bit: {short(map(shown, answer.innocent), 12)}."


def left_text(trials: int, repeats: int, axes: int) -> str:
    """What may still have to run. The number is a bound on one axis, an estimate on several."""
    amount = "at most" if axes == 1 else "about"
    more = f", and {counted(repeats, 'repeat')}" if repeats else ""
    return f"{amount} {counted(trials, 'trial')} left{more}"


def _steps(found: FoundChange) -> Iterable[str]:
    for culprit in found.culprits:
        yield step_text(culprit)
        if is_range(culprit):
            yield bound_text(culprit)
    if found.together:
        yield f"moved together only: {', '.join(map(shown, found.together))}"
    if found.between:
        yield between_text(found)


def _changed(found: FoundChange) -> Iterable[str]:
    yield operations_text(found.operations, len(found.operations), 4, "\n")
    if outcomes_text(found):
        yield f"not only other bits: {outcomes_text(found)}"


def _digest_text(digest: str | None) -> str:
    if digest is None:
        return "absent"
    return digest.rpartition(":")[2][:16]


def _out() -> SafeConsole:
    return SafeConsole(highlight=False)


def _table(*columns: str) -> Table:
    table = Table(header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
