"""The first process of a container: everything in the container lives as long as it does.

It is started as process 1, which the kernel shields from every signal of the others. Bitsect
holds its standard input open; when that ends, because bitsect closed it or died, so does this
process, and the kernel ends all the others.

Each line of input is a request; the answer is the number of processes that the kernel has
ended so far because the container had no memory left, or ``?``. The first answer comes
unasked, and says that this Python runs. Works on Python 3.6 and later.
"""

import contextlib
import os
import signal
import sys

END_PROGRAMS = b"end programs\n"
# Of control groups in their second and their first version.
COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def main() -> None:
    # Ignored, it makes the kernel clear away orphans, which end up as this process's children.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # The one signal for which Python itself installs a handler.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer()
    for line in sys.stdin.buffer:
        if line == END_PROGRAMS:
            end_programs()
        answer()


def end_programs() -> None:
    """End every other process of the container; they all belong to the same user."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def answer() -> None:
    sys.stdout.write(f"{memory_kills()}\n")
    sys.stdout.flush()


def memory_kills() -> str:
    for path in COUNTERS:
        try:
            with open(path) as stream:
                for line in stream:
                    name, _, value = line.partition(" ")
                    if name == "oom_kill":
                        return value.strip()
        except OSError:
            # The other version's, or none at all.
            continue
    return "?"


if __name__ == "__main__":
    main()
