"""The answer as a document, whatever text stacks put into it."""

from __future__ import annotations

import msgspec

from bitsect.bisect.engine.model import Bound, Culprit
from bitsect.bisect.findings import Answer, EventChange, FoundChange, TrialLine
from bitsect.bisect.report import markdown
from bitsect.bisect.verdicts import Verdict
from bitsect.bisect.wording import Operations

EVIL = "1 | `x`\n## Approved\n| \x1b[2J <img src=x> [y](z)"
TABLE_ROW = "| "


def answer(component: str, point: str, text: str) -> Answer:
    """An answer in which everything that a stack can name is one of these."""
    bound = Bound(exact=False, below="1.0", blocked=(point,), reasons=(text,))
    found = FoundChange(
        number=1,
        culprits=(Culprit(component, "1.0", point, bound),),
        exact=False,
        operations=(Operations("data", ("log",), 1),),
        changes=(EventChange("0/0/host/data.a.b/l|g#0", "a", "b", True),),
        runs_before=2,
        runs_after=2,
        together=(component,),
    )
    line = TrialLine((1,), f"{component} {point}", Verdict.MISMATCH, 2, 1, 1000, text)
    return Answer(
        session=1, good=text, bad="bad", settled=True, findings=(found,), changed_events=1,
        compared_events=2, trials=(line,), scan=None, left_at_most=0, repeats_left=0,
        open_brackets=((text, text),), came_back=(text,), left_out={component: {text: 1}},
        interpreter=text, device="cpu", probe="sha256:00", innocent=(component,),
        noise=((component, text),),
    )  # fmt: skip


def headings(document: str) -> list[str]:
    return [line.split(".")[0] for line in document.splitlines() if line.startswith("#")]


def cells(line: str) -> int:
    return line.replace("\\|", "").count("|")


def test_a_stack_cannot_write_lines_or_steer_a_terminal() -> None:
    plain = markdown(answer("env:A", "2", "it broke"))
    evil = markdown(answer(f"env:{EVIL}", EVIL, EVIL))
    assert len(evil.splitlines()) == len(plain.splitlines())
    assert len(headings(evil)) == len(headings(plain))
    assert all(line.isprintable() for line in evil.splitlines())


def test_a_stack_cannot_add_cells_to_a_table() -> None:
    document = markdown(answer(f"env:{EVIL}", EVIL, EVIL))
    tables = [line for line in document.splitlines() if line.startswith(TABLE_ROW)]
    assert {cells(line) for line in tables} == {4, 6, 7}


def test_markup_outside_code_is_escaped() -> None:
    document = markdown(answer("env:A", EVIL, "it broke"))
    heading = next(line for line in document.splitlines() if line.startswith("## 1."))
    assert "\\<img" in heading
    assert "\\[y](z)" in heading


def test_backticks_do_not_end_a_code_span() -> None:
    document = markdown(answer("env:a`b``c", "2", "it broke"))
    assert "- ``` env:a`b``c ```" in document


def test_plain_text_stays_as_it_is() -> None:
    document = markdown(answer("pip:numpy", "2.0", "it broke"))
    assert "| 1 | numpy 1.0 → 2.0 | data: log | 1 | 2 + 2 runs, SHA-256 |" in document
    assert "- `pip:numpy` is known only as a range: 2.0 (it broke) could not be run." in document
    assert msgspec.json.encode(document)
