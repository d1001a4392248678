"""The two programs, `bitsect` and `bisect`, and what becomes of their errors."""

from __future__ import annotations

import sys

import typer

from bitsect import __version__
from bitsect.cli import bisect_commands, probe_commands, stack_commands
from bitsect.cli.console import (
    UsageError,
    explain_interrupt,
    report_error,
    report_refusal,
    report_usage,
)
from bitsect.cli.output import close_output
from bitsect.probes.errors import BitsectError

INTERRUPTED = 130

bisect_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Find which step between two stacks changed which bits.",
)
bisect_commands.register(bisect_app)

bitsect_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Approve a stack by its bits, and find what changed them after an upgrade.",
)
probe_commands.register(bitsect_app)
stack_commands.register(bitsect_app)
bitsect_app.add_typer(bisect_app, name="bisect")


@bitsect_app.callback()
def _bitsect(
    version: bool = typer.Option(False, "--version", help="Show the version and end."),
) -> None:
    if version:
        typer.echo(f"bitsect {__version__}")
        raise typer.Exit


def main() -> None:
    """`bitsect`."""
    sys.exit(_run(bitsect_app))


def bisect_main() -> None:
    """`bisect`, short for `bitsect bisect`."""
    sys.exit(_run(bisect_app))


def _run(app: typer.Typer) -> int:
    try:
        status = app(standalone_mode=False)
    except BitsectError as error:
        return report_error(error)
    except UsageError as error:
        return report_usage(error)
    except OSError as error:
        return report_refusal(error)
    except KeyboardInterrupt:
        status = INTERRUPTED
    # The parser turns most interrupts into this status.
    if status == INTERRUPTED:
        explain_interrupt()
    return close_output(status if isinstance(status, int) else 0)
