"""What a stack says is written on the terminal, and never obeyed by it."""

from __future__ import annotations

import io

import pytest
from rich.table import Table
from rich.text import Text

from bitsect.cli.console import SafeConsole
from bitsect.cli.tables import print_differences
from bitsect.images.differences import Difference

EVIL = "2.1\x1b[2J\x1b]0;owned\x07\x9b31m"


def written(*things: object) -> str:
    stream = io.StringIO()
    SafeConsole(file=stream, highlight=False, width=100).print(*things)
    return stream.getvalue()


def test_text_cannot_steer_the_terminal() -> None:
    assert "2.1\\x1b[2J" in written(Text(EVIL))
    assert written(Text(EVIL)).rstrip("\n").isprintable()


def test_nor_can_a_cell_of_a_table() -> None:
    table = Table("component")
    table.add_row(Text(EVIL))
    assert all(line.isprintable() for line in written(table).splitlines())


def test_colours_and_lines_of_our_own_stay() -> None:
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=True, color_system="standard", no_color=False)
    console.print(Text("one\ntwo", style="red"))
    assert stream.getvalue().count("\x1b[31m") == 2


def test_differences_of_two_stacks_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    print_differences([Difference(f"env:{EVIL}", EVIL, None, False, "image")])
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())
