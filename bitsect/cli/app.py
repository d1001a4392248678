"""The two programs, `bitsect` and `bisect`, and what becomes of their errors."""

from __future__ import annotations

import signal
import sys
import traceback

import typer

from bitsect import __version__
from bitsect.cli import bisect_commands, engine_commands, probe_commands, stack_commands
from bitsect.cli.console import (
    UsageError,
    explain_interrupt,
    report_error,
    report_refusal,
    report_usage,
)
from bitsect.cli.output import close_output, prepare_output
from bitsect.probes.errors import BitsectError

INTERRUPTED = 130
#: A defect of bitsect itself (EX_SOFTWARE of sysexits.h).
DEFECT = 70

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
engine_commands.register(bitsect_app)
bitsect_app.add_typer(bisect_app, name="bisect")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bitsect {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Options of the program itself; each does its work when it is read."""


bisect_app.callback()(_options)
bitsect_app.callback()(_options)


def main() -> None:
    """`bitsect`."""
    sys.exit(_run(bitsect_app))


def bisect_main() -> None:
    """`bisect`, short for `bitsect bisect`."""
    sys.exit(_run(bisect_app))


def _run(app: typer.Typer) -> int:
    prepare_output()
    # A scheduler's or a closing terminal's wish is heard as Ctrl-C is, so that nothing is left.
    for wish in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(wish, signal.default_int_handler)
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
    except Exception:
        # 1 would say that two things differ.
        traceback.print_exc()
        return DEFECT
    # The parser turns most interrupts into this status.
    if status == INTERRUPTED:
        explain_interrupt()
    return close_output(status if isinstance(status, int) else 0)
