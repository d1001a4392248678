"""Runs one program and leaves nothing of it behind; started by `process.run_program`.

It is a process of its own because only the parent of a program can see all of it end: orphans
of the program, even those that left its session, are handed to the nearest subreaper, and that
must not be a process that has other children to look after. Standard library alone, and few
modules of it, since every program that bitsect runs waits for this file to load.

Standard input carries one line of JSON that says what to run, and then nothing: its end means
that whoever asked is gone or wants a stop, so a killed bitsect takes its programs along. The
descriptor in the first argument takes one line of JSON about how it went.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CONTROL = 0
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    report = int(sys.argv[1])
    os.set_inheritable(report, False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake = _wake_on_signals()
    order = _read_order()
    if order is None:
        return 0
    began = time.monotonic()
    child, failure = _start(order)
    if failure is not None:
        os.waitpid(child, 0)
        _report(report, {"failed": failure})
        return 0
    status, stopped = _watch(child, wake)
    duration = time.monotonic() - began
    _end_all_children()
    _report(report, {"status": status, "stopped": stopped, "duration": duration})
    return 0


def prctl(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def _wake_on_signals() -> int:
    """A descriptor that gets the number of each signal that should be looked at."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *STOPS):
        signal.signal(number, lambda *_: None)
    return readable


def _read_order() -> dict[str, Any] | None:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(CONTROL, 1 << 16)
        if not piece:
            return None
        line += piece
    order: dict[str, Any] = json.loads(line)
    return order


def _start(order: dict[str, Any]) -> tuple[int, str | None]:
    """Start the program: its process id, and why it could not be executed."""
    heard, tell = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become(order, parent)
        except BaseException as error:
            os.write(tell, str(getattr(error, "strerror", None) or error).encode()[:500])
        finally:
            os._exit(127)
    os.close(tell)
    # Ends without a byte when the program was executed: the descriptor closes by itself then.
    reason = b""
    while piece := os.read(heard, 512):
        reason += piece
    os.close(heard)
    # Held by the program alone from here on, so that a reader sees its end.
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    return child, reason.decode(errors="replace") if reason else None


def _become(order: dict[str, Any], parent: int) -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    os.setsid()
    signal.set_wakeup_fd(-1)
    # Python ignores the first two; a program expects all as the system has them.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *STOPS):
        signal.signal(number, signal.SIG_DFL)
    # A crash of torch would write gigabytes that nobody asked for.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.chdir(order["folder"])
    os.execvpe(order["arguments"][0], order["arguments"], order["environment"])


def _watch(child: int, wake: int) -> tuple[int, bool]:
    """Wait for the program, or end it when asked: its wait status, and whether asked."""
    while True:
        readable, _, _ = select.select([wake, CONTROL], [], [])
        signals = os.read(wake, 1 << 12) if wake in readable else b""
        status = _reap(child)
        if status is not None:
            return status, False
        if CONTROL in readable or any(number in signals for number in STOPS):
            os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1], True


def _reap(child: int) -> int | None:
    """Collect whatever ended, adopted orphans included; the status of the program if it did."""
    found = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if ended == 0:
            return found
        if ended == child:
            found = status


def _end_all_children() -> None:
    """Kill what is left. The children of each that dies become ours, until there are none."""
    while True:
        for child in _children():
            os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    own = os.getpid()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                # The command's name stands in brackets and may hold anything.
                fields = stream.read().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == own:
            found.append(int(name))
    return found


def _report(descriptor: int, record: dict[str, Any]) -> None:
    # Whoever asked may be gone, which is no reason to fail at the very end.
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptor, json.dumps(record).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
