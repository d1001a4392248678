"""Standard error: progress, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from bitsect.cli.messages import INVALID, explain
from bitsect.images.printable import printable
from bitsect.probes.errors import BitsectError


class SafeConsole(Console):
    """A console on which no text can steer the terminal: what a stack says may try to."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """What is to be written, piece by piece."""
        for segment in super().render(renderable, options):
            # Those with a control are rich's own, such as moves of a live display's cursor.
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


console = SafeConsole(stderr=True, highlight=False)

#: What the command line's own parser raises; typer names only this child of it.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def report_error(error: BitsectError) -> int:
    """Say in one line what is wrong; the exit status that goes with it."""
    message = explain(error)
    _say("error: ", message.text, "bold red")
    return message.status


def report_usage(error: Exception) -> int:
    """Say what is wrong with the command's words, or show its help if there are none."""
    context = getattr(error, "ctx", None)
    if not getattr(error, "message", "") and context is not None:
        # Nothing was asked for; the parser has shown the help by now.
        return INVALID
    help_command = f"{context.command_path} --help" if context is not None else "--help"
    message = getattr(error, "format_message", error.__str__)()
    _say("error: ", f"{message.rstrip('.')}. See `{help_command}`.", "bold red")
    return INVALID


def report_refusal(error: OSError) -> int:
    """Say what the system refused: a file that is not there, or may not be written."""
    place = f"{error.filename}: " if error.filename else ""
    _say("error: ", f"{place}{error.strerror or error}.", "bold red")
    return INVALID


def explain_interrupt() -> None:
    """Say that Ctrl-C was heard."""
    _say("stopped.", "", "bold")


def explain_what_is_kept() -> None:
    """Say that a search that was stopped has lost nothing."""
    kept = "everything observed is kept; the same command goes on from here."
    _say("", kept, "bold")


def _say(head: str, text: str, style: str) -> None:
    console.print(Text(head, style=style).append(text, style="default"), soft_wrap=True)
