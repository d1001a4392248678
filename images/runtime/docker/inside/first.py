"""The first process of a container: everything in the container lives as long as it does.

It is started as process 1, which the kernel shields from every signal of the others. Bitsect
holds its standard input open; when that ends, because bitsect closed it or died, so does this
process, and the kernel ends all the others.

Each line of input is a request; the answer is the number of processes that the kernel has
ended so far because the container had used up what it may use, or ``?``. The first answer comes
unasked, and says that this Python runs. Works on Python 3.6 and later.
"""

import contextlib
import os
import signal
import sys

END_PROGRAMS = b"end programs\n"
GROUP = "/sys/fs/cgroup"


def main() -> None:
    # Ignored, it makes the kernel clear away orphans, which end up as this process's children.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # The one signal for which Python itself installs a handler.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kills = Kills(GROUP)
    answer(kills)
    for line in sys.stdin.buffer:
        if line == END_PROGRAMS:
            end_programs()
        answer(kills)


class Kills:
    """The kernel's kills that are the container's own doing.

    The kernel also counts those that it made because the whole machine had no memory left. These
    are told apart by the group's limit, which was not reached meanwhile.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.own = 0
        self.last = counted(group)

    def so_far(self) -> "int | None":
        """None where the kernel does not tell."""
        now = counted(self.group)
        if now is None or self.last is None:
            return None
        if now[1] is None or now[1] > (self.last[1] or 0):
            self.own += now[0] - self.last[0]
        self.last = now
        return self.own


def counted(group: str) -> "tuple[int, int | None] | None":
    """How many processes of the group were killed, and how often it had reached its limit.

    The latter is None where it has reached it, but the kernel does not say how often.
    """
    events = numbers(os.path.join(group, "memory.events"))
    if "oom_kill" in events:
        return events["oom_kill"], events.get("oom", 0)
    # The first version of control groups. Where the engine limits memory and swap together, the
    # one that counts both is reached first.
    folder = os.path.join(group, "memory")
    events = numbers(os.path.join(folder, "memory.oom_control"))
    if "oom_kill" not in events:
        return None
    reached = number(folder, "memory.failcnt") + number(folder, "memory.memsw.failcnt")
    limit = number(folder, "memory.limit_in_bytes")
    if reached == 0 and 0 < limit <= number(folder, "memory.max_usage_in_bytes"):
        # Some kernels have these files, and never count.
        return events["oom_kill"], None
    return events["oom_kill"], reached


def number(folder: str, name: str) -> int:
    """The number that is all of a file; 0 if there is none."""
    return numbers(os.path.join(folder, name)).get("", 0)


def numbers(path: str) -> "dict[str, int]":
    """The numbers of a file by name, one a line; one that stands alone has an empty name."""
    try:
        with open(path) as stream:
            pairs = [line.rpartition(" ") for line in stream]
    except OSError:
        # The other version's, or none at all.
        return {}
    return {name: int(value) for name, _, value in pairs if value.strip().isdigit()}


def end_programs() -> None:
    """End every other process of the container; they all belong to the same user."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def answer(kills: Kills) -> None:
    count = kills.so_far()
    sys.stdout.write(f"{'?' if count is None else count}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
