"""What a stack says cannot steer a terminal, nor write lines of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitsect.images.printable import in_one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("torch 2.6 → 2.7, grün", "torch 2.6 → 2.7, grün"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("one\ntwo\tthree", "one\ntwo\tthree"),
        ("back\rwards \u202e", "back\\rwards \\u202e"),
    ],
)
def test_what_a_terminal_would_act_on_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_nothing_gets_past(text: str) -> None:
    assert in_one_line(text).isprintable()
    assert all(each.isprintable() or each in "\n\t" for each in printable(text))
