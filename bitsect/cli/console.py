"""Standard error: progress, and what went wrong."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from bitsect.cli.messages import explain
from bitsect.probes.errors import BitsectError

console = Console(stderr=True, highlight=False)


def report_error(error: BitsectError) -> int:
    """Say in one line what is wrong; the exit status that goes with it."""
    message = explain(error)
    console.print(
        Text("error: ", style="bold red").append(message.text, style="default"), soft_wrap=True
    )
    return message.status


def explain_interrupt() -> None:
    """Say that Ctrl-C was heard and that nothing is lost."""
    console.print(
        Text("stopped. ", style="bold").append(
            "Everything observed is kept; the same command goes on from here.", style="default"
        ),
        soft_wrap=True,
    )
