"""The answer as a document, whatever text stacks put into it."""

from __future__ import annotations

import msgspec

from bitsect.bisect.engine.model import Bound, Culprit
from bitsect.bisect.findings import Answer, EventChange, FoundChange, SearchedStack, TrialLine
from bitsect.bisect.report import markdown, summary
from bitsect.bisect.verdicts import Verdict
from bitsect.bisect.wording import Operations

EVIL = "1 | `x`\n## Approved\n| \x1b[2J <img src=x> [y](z)"
TABLE_ROW = "| "


def answer(component: str, point: str, text: str, *, inseparable: bool = False) -> Answer:
    """An answer in which everything that a stack can name is one of these."""
    bound = Bound(False, "1.0", ("1.0" if inseparable else point,), (text,), inseparable)
    together = (component,) if inseparable else ()
    found = FoundChange(
        number=1,
        culprits=(Culprit(component, "1.0", point, bound),),
        exact=False,
        operations=(Operations("data", ("log",), 1),),
        changes=(
            EventChange("0/0/host/data.a.b/l|g#0", "a", "b", True),
            EventChange("0/0/host/data.a.b/log#0", "a", "raised TypeError", False, "fails now"),
        ),
        runs_before=2,
        runs_after=2,
        together=together,
        between=("between", text),
    )
    line = TrialLine((1,), f"{component} {point}", Verdict.MISMATCH, (3, 5), 1, 1000, text)
    return Answer(
        session=1, good=text, bad="bad", settled=True, findings=(found,), changed_events=2,
        compared_events=2, trials=(line,), scan=None, left_at_most=0, repeats_left=0,
        open_brackets=((text, text),), came_back=(text,), left_out={component: {text: 1}},
        interpreter=text, device="cpu", probe="sha256:00", innocent=(component,),
        noise=((component, text),), began="then",
        stacks=(SearchedStack(text, text, text), SearchedStack(text, "sha256:01")),
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
    assert {cells(line) for line in tables} == {4, 6}


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
    assert "| 1 | numpy 1.0 → 2.0 | data: log | 2 | 2 + 2 runs |" in document
    assert "- `pip:numpy` is known only as a range: 2.0 (it broke) could not be run." in document
    assert msgspec.json.encode(document)


def test_what_is_only_known_to_move_together_is_no_range() -> None:
    told = answer("pip:numpy", "2.0", "it broke", inseparable=True)
    document = markdown(told)
    assert "known only as a range" not in document
    assert (
        "2 events differ between the ends; 1 step changed them, of components that could"
        in summary(told)
    )
    assert "Tried: `pip:numpy` at 1.0 (it broke)." in document
    assert "- Moved together only: with `pip:numpy` left out the others did not run" in document


def test_a_finding_says_where_in_a_chain_it_came_and_what_is_more_than_bits() -> None:
    document = markdown(answer("env:A", "2", "train:11"))
    assert "- It came between `between` and `train:11`." in document
    assert "- Not only other bits: 1 that fails now." in document


def test_the_conditions_say_what_ran_and_when() -> None:
    document = markdown(answer("env:A", "2", "train:11"))
    assert "- Good end: `train:11`, `train:11`, run by train:11" in document
    assert "- Bad end: `train:11`, `sha256:01`\n" in document
    assert "- Session: 1, begun then, not ended" in document


def test_a_trial_is_named_by_its_runs() -> None:
    assert "| 3, 5 | env:A 2 | MISMATCH | 1 | 1.0 |" in markdown(answer("env:A", "2", "it broke"))
