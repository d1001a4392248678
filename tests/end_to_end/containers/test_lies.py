"""Images that lie: what they say is checked before it counts, and one line says what is wrong."""

from __future__ import annotations

import subprocess

import pytest

from tests.containers import cases, lies
from tests.containers.workshop import Workshop
from tests.end_to_end.conftest import Program

pytestmark = [pytest.mark.end_to_end, pytest.mark.engine]

#: For each lie about what an image consists of, what is said of it.
ABOUT_ITSELF = {
    "no end": "it printed without end",
    "a broken document": "Input data was truncated",
    "a list": "Expected `object`, got `array`",
    "a deep document": "maximum recursion depth exceeded",
    "another schema": "99 is unknown",
    "other types": "unknown field `distributions`",
}
#: For each lie about what it computes.
ABOUT_ITS_RUN = {
    "nothing": "left no rank00000.jsonl",
    "a link": "left no rank00000.jsonl",
    "a pipe": "left no rank00000.jsonl",
    "no end": "left no rank00000.jsonl",
    "a broken document": "its trace cannot be relied on: the line has no end",
    "of another probe": "its trace is of another probe",
    "of another stack": "its trace is of another stack",
    "files that say nothing": "touched.json: Expected `int`, got `str`",
}


def refusal(ran: subprocess.CompletedProcess[str]) -> str:
    """The one line that says why nothing can be concluded."""
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    return line


def test_every_lie_is_told() -> None:
    assert ABOUT_ITSELF.keys() == lies.INVENTORIES.keys()
    assert ABOUT_ITS_RUN.keys() == lies.TRACES.keys()


@pytest.mark.parametrize("lie", ABOUT_ITSELF)
def test_an_image_that_lies_about_itself(lie: str, bitsect: Program, workshop: Workshop) -> None:
    image = cases.lying(workshop, "itself", lie)
    assert ABOUT_ITSELF[lie] in refusal(bitsect("probe", image))


@pytest.mark.parametrize("lie", ABOUT_ITS_RUN)
def test_an_image_that_lies_about_its_run(lie: str, bitsect: Program, workshop: Workshop) -> None:
    image = cases.lying(workshop, "its-run", lie)
    assert ABOUT_ITS_RUN[lie] in refusal(bitsect("probe", image))


def test_an_end_that_lies(bitsect: Program, workshop: Workshop) -> None:
    # Given a good end that gives out another trace for its own
    image, other = cases.lying(workshop, "its-run", "of another probe"), workshop.small()
    line = refusal(bitsect("bisect", "start", f"good:{image}", f"bad:{other}"))

    # Then the end has failed, and there is no search
    assert "CRASH: the good end" in line
    assert ABOUT_ITS_RUN["of another probe"] in line
    assert "there is no session yet" in refusal(bitsect("bisect", "status"))
