"""A session's answer as a document."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from bitsect import __version__
from bitsect.bisect.engine.model import Bound, Culprit
from bitsect.bisect.findings import Answer, FoundChange
from bitsect.bisect.wording import counted, operations_of, operations_text, shown
from bitsect.images.printable import in_one_line

#: Events of one finding that are listed one by one.
LISTED_EVENTS = 12

# What begins or ends an element of Markdown within a line, and `|`, which ends a cell.
_MARKUP = re.compile(r"[\\`|<\[]")
_PLURALS = {
    "fails now": "fail now",
    "failed before": "failed before",
    "fails otherwise": "fail otherwise",
    "is gone": "are gone",
    "is new": "are new",
}
_BACKTICKS = re.compile("`+")


def markdown(answer: Answer) -> str:
    """The whole answer in Markdown. Text of a stack cannot end a line, a cell or a code span."""
    return "".join(f"{in_one_line(line)}\n" for line in _document(answer))


def summary(answer: Answer) -> str:
    """The answer in one sentence."""
    found = len(answer.findings)
    steps = counted(found, "step")
    changed = f"{answer.changed_events} of {answer.compared_events} events differ between the ends"
    if not answer.settled:
        return f"{changed}; {steps} found so far, the search is not finished"
    steps += " changed them"
    if sum(len(finding.changes) for finding in answer.findings) > answer.changed_events:
        steps += ", some more than once"
    ranges = sum(any(map(is_range, finding.culprits)) for finding in answer.findings)
    joint = sum(bool(finding.together) for finding in answer.findings)
    return f"{changed}; {steps}" + "".join(
        f", {how}" if found == 1 else f", {count} of them {how}"
        for count, how in (
            (ranges, "known only as a range"),
            (joint, "of components that could only be moved together"),
        )
        if count
    )


def is_range(culprit: Culprit) -> bool:
    """Whether points between its two could not be run."""
    return any(point != culprit.bound.below for point in culprit.bound.blocked)


def outcomes_text(found: FoundChange) -> str:
    """How many of its events are more than other bits; empty if none."""
    counts = Counter(change.outcome for change in found.changes)
    del counts["other bits"]
    return ", ".join(
        f"{count} that {outcome if count == 1 else _PLURALS[outcome]}"
        for outcome, count in sorted(counts.items())
    )


def between_text(found: FoundChange) -> str:
    """Between which neighbours of a chain it came; empty where there is no chain."""
    return f"between {found.between[0]} and {found.between[1]}" if found.between else ""


def step_text(culprit: Culprit) -> str:
    """One culprit: component, and the two points between which it changes bits."""
    return f"{shown(culprit.component)} {culprit.before} → {culprit.after}"


def bound_text(culprit: Culprit) -> str:
    """How well a culprit is known, in words; empty if exactly."""
    if not is_range(culprit):
        return ""
    return f"a range: {_blocked(culprit.bound)} could not be run"


def _blocked(bound: Bound) -> str:
    return ", ".join(
        f"{point} ({reason})"
        for point, reason in zip(bound.blocked, bound.reasons, strict=True)
        if bound.inseparable or point != bound.below
    )


def confirmed_text(found: FoundChange) -> str:
    """How often both sides of a finding were run, and whether bytes confirm it."""
    certified = all(change.certified for change in found.changes)
    return f"{found.runs_before} + {found.runs_after} runs" + (", SHA-256" if certified else "")


def _document(answer: Answer) -> Iterator[str]:
    yield f"# What changed the bits between {_code(answer.good)} and {_code(answer.bad)}"
    yield ""
    yield f"**{summary(answer)}.**"
    yield ""
    if answer.findings:
        yield from _table(answer)
    for found in answer.findings:
        yield from _finding(found)
    yield from _innocent(answer)
    yield from _caveats(answer)
    yield from _trials(answer)
    yield from _conditions(answer)


def _table(answer: Answer) -> Iterator[str]:
    yield "| # | step | operations | events | confirmed by |"
    yield "|---|---|---|---|---|"
    for found in answer.findings:
        steps = " and ".join(step_text(culprit) for culprit in found.culprits)
        operations = operations_text(found.operations)
        yield (
            f"| {found.number} | {_plain(steps)} | {_plain(operations)} | {len(found.changes)}"
            f" | {confirmed_text(found)} |"
        )
    yield ""


def _finding(found: FoundChange) -> Iterator[str]:
    yield f"## {found.number}. " + _plain(" and ".join(step_text(c) for c in found.culprits))
    yield ""
    if found.between:
        yield f"- It came between {_code(found.between[0])} and {_code(found.between[1])}."
    for culprit in found.culprits:
        if is_range(culprit):
            bound = _plain(bound_text(culprit))
            yield f"- {_code(culprit.component)} is known only as {bound}."
    yield from _proof(found)
    for group in found.operations:
        names = _plain(", ".join(group.names))
        yield f"- {_plain(group.kind)}: {names} ({counted(group.events, 'event')})."
    if outcomes_text(found):
        yield f"- Not only other bits: {outcomes_text(found)}."
    yield ""
    yield "| event | before | after |"
    yield "|---|---|---|"
    for change in found.changes[:LISTED_EVENTS]:
        cells = map(_code_cell, (change.event, change.before, change.after))
        yield f"| {' | '.join(cells)} |"
    more = len(found.changes) - LISTED_EVENTS
    if more > 0:
        yield f"| … and {more} more | | |"
    yield ""


def _proof(found: FoundChange) -> Iterator[str]:
    apart = [c for c in found.culprits if c.component not in found.together]
    if found.together:
        names = ", ".join(map(_code, found.together))
        several = len(found.together) > 1
        tried = "; ".join(
            f"{_code(c.component)} at {_plain(_blocked(c.bound))}"
            for c in found.culprits
            if c.bound.inseparable and c.bound.blocked
        )
        yield (
            f"- Moved together only: with {'any one of ' if several else ''}{names} left out the"
            f" others did not run, so {'each of these' if several else 'it'} may be to blame, or"
            " only be needed by what is." + (f" Tried: {tried}." if tried else "")
        )
    if len(apart) > 1:
        names = ", ".join(_code(culprit.component) for culprit in apart)
        yield f"- Each of {names} is needed: with any one of them taken back, the change is gone."
    if found.sufficient is not None:
        word = "is enough" if found.sufficient else "is not enough: its surroundings matter"
        yield f"- Sufficiency: the good end with this step alone {word}."
    if found.necessary is not None:
        word = "has the good end's bits again" if found.necessary else "still has other bits"
        yield f"- Necessity: the bad end without the steps found {word}."


def _innocent(answer: Answer) -> Iterator[str]:
    if answer.innocent:
        yield "## What changed nothing"
        yield ""
        yield (
            "With all of these at their bad points and no culprit, every event was as at the"
            " good end:"
        )
        yield ""
        yield from (f"- {_code(component)}" for component in answer.innocent)
        yield ""
    if answer.noise:
        yield "Not searched, since none of it can change a bit:"
        yield ""
        yield from (f"- {_code(component)}: {_plain(why)}" for component, why in answer.noise)
        yield ""


def _caveats(answer: Answer) -> Iterator[str]:
    notes = [
        f"Changed and changed back, not counted above: {_plain(text)}." for text in answer.came_back
    ]
    for component, missing in answer.left_out.items():
        reasons = ", ".join(f"{count} {why}" for why, count in missing.items())
        notes.append(f"Releases of {_code(component)} that were no points: {_plain(reasons)}.")
    notes += [
        f"Still open between {_plain(where)}: {_plain(what)}."
        for where, what in answer.open_brackets
    ]
    if answer.unexplained:
        what = operations_text(operations_of(answer.unexplained))
        notes.append(f"Changed although no culprit was moved, so not explained: {_plain(what)}.")
    if notes:
        yield "## What to know"
        yield ""
        yield from (f"- {note}" for note in notes)
        yield ""


def _trials(answer: Answer) -> Iterator[str]:
    scan = f" (a linear scan takes {answer.scan})" if answer.scan else ""
    yield f"## Trials: {len(answer.trials)}{scan}"
    yield ""
    yield "| runs | what was different | verdict | events changed | seconds |"
    yield "|---|---|---|---|---|"
    for line in answer.trials:
        yield (
            f"| {', '.join(map(str, line.runs))} | {_plain(line.what)} | {line.verdict}"
            f" | {line.changed} | {line.milliseconds / 1000:.1f} |"
        )
    yield ""


def _conditions(answer: Answer) -> Iterator[str]:
    yield "## Conditions"
    yield ""
    last = len(answer.stacks) - 1
    for at, stack in enumerate(answer.stacks):
        role = "Good end" if at == 0 else "Bad end" if at == last else "Between"
        engine = f", run by {_plain(stack.engine)}" if stack.engine else ""
        yield f"- {role}: {_code(stack.reference)}, {_code(stack.identity)}{engine}"
    yield f"- Python: {_plain(answer.interpreter)}"
    yield f"- Device class: {_plain(answer.device)}"
    yield f"- Probe: {_code(answer.probe)}"
    ended = f", ended {answer.ended}" if answer.ended else ", not ended"
    yield f"- Session: {answer.session}, begun {answer.began}{ended}"
    yield f"- Written by: bitsect {__version__}"


def _plain(text: str) -> str:
    """Text of a stack as it may stand anywhere, a table's cell too."""
    return _MARKUP.sub(r"\\\g<0>", text)


def _code(text: str) -> str:
    """Text of a stack as a code span, whatever backticks are in it."""
    fence = "`" * (1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    padding = " " if len(fence) > 1 else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def _code_cell(text: str) -> str:
    """The same in a table, where even a code span ends at a bar."""
    return _code(text).replace("|", "\\|")
