"""Running one program safely: bounded in time and output, and gone with all its children.

Every way out, be it the program's end, a timeout, an error, Ctrl-C or `kill -9` of bitsect
itself, leaves no process of the program behind; `supervisor` sees to that.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from bitsect.images.runtime.errors import ProgramError, SessionClosedError
from bitsect.images.runtime.protocol import DEFAULT_OUTPUT_LIMIT, Completed
from bitsect.images.runtime.sink import Sink, write_all

SUPERVISOR = Path(__file__).with_name("supervisor.py")
# Only a program stuck inside the kernel outlives SIGKILL; its supervisor is not waited for
# longer than this.
LAST_WAIT_SECONDS = 10.0
_PIECE = 1 << 16

_Cause = Literal["time", "output", "closed"]


class Halt:
    """Ends every program that runs under it, and lets no other start."""

    def __init__(self) -> None:
        self._heard, tell = os.pipe()
        self._close_tell = weakref.finalize(self, os.close, tell)
        # Every running program holds the halt, so this cannot happen under its eyes.
        weakref.finalize(self, os.close, self._heard)

    @property
    def is_set(self) -> bool:
        return not self._close_tell.alive

    def fileno(self) -> int:
        """Readable once the halt is set."""
        return self._heard

    def set(self) -> None:
        """May be called from any thread, and repeatedly."""
        self._close_tell()


@dataclass(frozen=True)
class Program:
    """What to run. Nothing else of bitsect's own surroundings reaches it.

    :param arguments: program and arguments.
    :param environment: all of its environment variables.
    :param folder: working folder.
    :param stdout: file for its standard output, made new.
    :param stderr: file for its standard error, made new.
    :param timeout: seconds.
    :param output_limit: bytes kept of each of the two; more of either ends the program.
    :param heard: told what is kept of either, as it comes.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(hash=False)
    folder: Path
    stdout: Path
    stderr: Path
    timeout: float
    output_limit: int = DEFAULT_OUTPUT_LIMIT
    heard: Callable[[bytes], object] | None = field(default=None, compare=False)


def run_program(program: Program, halt: Halt | None = None) -> Completed:
    """Run a program to its end and return how it ended.

    Raises ProgramError if it cannot be started, SessionClosedError if `halt` was set.
    """
    if halt is not None and halt.is_set:
        raise SessionClosedError(program.arguments[0])
    # Unbuffered, so that a person can follow a program while it runs.
    with program.stdout.open("wb", 0) as stdout, program.stderr.open("wb", 0) as stderr:
        watch = _Watch(program, halt)
        try:
            cause = watch.until_end(stdout, stderr)
        finally:
            watch.end()
    return _completed(program, watch.report, cause)


def _completed(program: Program, report: bytes, cause: _Cause | None) -> Completed:
    if not report:
        raise ProgramError(program.arguments[0], "it was lost: its supervisor ended too early")
    record: dict[str, Any] = json.loads(report)
    if "failed" in record:
        raise ProgramError(program.arguments[0], record["failed"])
    stopped = record["stopped"]
    if stopped and cause == "closed":
        raise SessionClosedError(program.arguments[0])
    if stopped and cause is None:
        raise ProgramError(program.arguments[0], "its supervisor was told to stop")
    returncode = os.waitstatus_to_exitcode(record["status"])
    return Completed(
        arguments=program.arguments,
        returncode=returncode,
        signal=signal_name(-returncode) if returncode < 0 else None,
        timed_out=stopped and cause == "time",
        overflowed=cause == "output",
        duration=record["duration"],
        stdout=program.stdout,
        stderr=program.stderr,
    )


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; the number alone for a real-time signal without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Watch:
    """One supervisor, and what comes out of it."""

    def __init__(self, program: Program, halt: Halt | None) -> None:
        self._program = program
        self._halt = halt
        self._deadline = time.monotonic() + program.timeout
        self._report, told = os.pipe()
        self._cause: _Cause | None = None
        self.report = b""
        try:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SUPERVISOR), str(told)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(told,),
                # Ctrl-C in the terminal is for bitsect, which then ends its programs in order.
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            os.close(self._report)
            raise ProgramError(sys.executable, error.strerror or str(error)) from error
        finally:
            os.close(told)

    def until_end(self, stdout: IO[bytes], stderr: IO[bytes]) -> _Cause | None:
        """Copy what the program writes until all of it is over; why it was ended, if it was."""
        self._give_order()
        limit, heard = self._program.output_limit, self._program.heard
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ, Sink(stdout, limit, heard).take)
            selector.register(self._err, selectors.EVENT_READ, Sink(stderr, limit, heard).take)
            selector.register(self._report, selectors.EVENT_READ, self._take_report)
            if self._halt is not None:
                selector.register(self._halt, selectors.EVENT_READ)
            open_streams = 3
            while open_streams and not self._is_over():
                patience = max(0.0, self._deadline - time.monotonic())
                for key, _ in selector.select(patience):
                    if key.data is None:
                        self._stop("closed")
                        selector.unregister(key.fileobj)
                    elif piece := os.read(key.fd, _PIECE):
                        if not key.data(piece):
                            self._stop("output")
                    else:
                        selector.unregister(key.fileobj)
                        open_streams -= 1
        return self._cause

    def end(self) -> None:
        """Let the supervisor end whatever is left, and wait for it."""
        self._close_control()
        for stream in (self._out, self._err):
            stream.close()
        os.close(self._report)
        try:
            self._supervisor.wait(LAST_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()

    @property
    def _out(self) -> IO[bytes]:
        assert self._supervisor.stdout is not None
        return self._supervisor.stdout

    @property
    def _err(self) -> IO[bytes]:
        assert self._supervisor.stderr is not None
        return self._supervisor.stderr

    def _give_order(self) -> None:
        order = {
            "arguments": list(self._program.arguments),
            "environment": dict(self._program.environment),
            "folder": str(self._program.folder),
        }
        assert self._supervisor.stdin is not None
        try:
            write_all(self._supervisor.stdin, json.dumps(order).encode() + b"\n")
        except BrokenPipeError:
            # Its end shows as an empty report.
            return

    def _take_report(self, piece: bytes) -> bool:
        self.report += piece
        return True

    def _is_over(self) -> bool:
        """Whether waiting has no more sense. The first time, that is the program's timeout."""
        if time.monotonic() < self._deadline:
            return False
        if self._cause is not None:
            return True
        self._stop("time")
        return False

    def _stop(self, cause: _Cause) -> None:
        if self._cause is None:
            self._cause = cause
            self._deadline = time.monotonic() + LAST_WAIT_SECONDS
            self._close_control()

    def _close_control(self) -> None:
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
