"""Becomes the program that bitsect wants to run in a container.

An engine can add variables to a program's environment but take none away, it makes no working
folder, and does not tell a program that cannot be started from one that failed. This does.

One line of JSON on standard input says what to run. The token in it is written to standard
error just before, and once more with the reason if the program cannot be started; the program
itself never learns it. Works on Python 3.6 and later.
"""

import json
import os
import signal
import sys

CANNOT_START = 127
# The kernel ends this program, never the container's first process, when memory runs out.
FIRST_TO_GO = b"1000"


def main() -> int:
    line = sys.stdin.buffer.readline()
    if not line:
        # Whoever asked is gone.
        return 0
    order = json.loads(line.decode())
    token = order["token"]
    try:
        for folder in order["folders"]:
            os.makedirs(folder, exist_ok=True)
        os.chdir(order["folder"])
        go_first()
        restore_signals()
        environment = environment_of(order["environment"])
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.write(2, token.encode() + b"\n")
        os.execvpe(order["arguments"][0], order["arguments"], environment)
    except (OSError, ValueError) as error:
        reason = reason_of(error, order["arguments"][0])
        os.write(2, f"{token}{reason}\n".encode(errors="replace"))
    return CANNOT_START


def reason_of(error: Exception, program: str) -> str:
    """What went wrong, and with which path unless that is the program."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    place = error.filename
    # A program is looked for in many places, which are named as bytes.
    if not isinstance(place, str) or place == program:
        return error.strerror
    return f"{place}: {error.strerror}"


def environment_of(changes: "dict[str, str | None]") -> "dict[bytes, bytes]":
    """The container's variables with these changes; None removes one.

    They are read from the kernel, because Python adds to its own where the locale is plain C.
    """
    with open("/proc/self/environ", "rb") as stream:
        given = stream.read().split(b"\0")
    environment = dict(each.split(b"=", 1) for each in given if b"=" in each)
    for name, value in changes.items():
        if value is None:
            environment.pop(os.fsencode(name), None)
        else:
            environment[os.fsencode(name)] = os.fsencode(value)
    return environment


def go_first() -> None:
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except OSError:
        # Where the engine hides it, the kernel decides without advice.
        return
    try:
        os.write(descriptor, FIRST_TO_GO)
    finally:
        os.close(descriptor)


def restore_signals() -> None:
    """Python ignores these for itself, and what is ignored is handed on."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
