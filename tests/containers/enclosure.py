"""A place for mounts and daemons of a test's own, which the kernel clears away with the tests.

It consists of a mount, a network and a process namespace, which end with the first process in
them; and that one ends with the tests, however these end. A second engine needs a network of its
own, because one that is told to make no bridge removes the one that is there.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Written as soon as the namespaces are there. Ignoring SIGCHLD clears away orphans.
_FIRST = "echo ready; exec env --ignore-signal=CHLD sleep infinity"


class Enclosure:
    """Running namespaces; made by `enclosure`.

    :param first: number, outside, of the first process in them.
    """

    def __init__(self, first: int) -> None:
        self._first = first

    def command(self, *arguments: str | Path) -> list[str]:
        """What runs a program in there, from the same working folder."""
        where = f"--target={self._first}"
        enter = ["nsenter", where, "--mount", "--net", "--pid", f"--wd={Path.cwd()}", "--"]
        return [*enter, *map(str, arguments)]

    def run(self, *arguments: str | Path) -> None:
        """Run a program in there to its end, which must be a good one."""
        subprocess.run(self.command(*arguments), check=True, capture_output=True)

    @property
    def processes(self) -> int:
        """How many are in there, those of containers included."""
        seen = Path(f"/proc/{self._first}/root/proc")
        return sum(entry.name.isdigit() for entry in seen.iterdir())

    def mounting(self, command: Sequence[str]) -> list[str]:
        """What runs a program outside, but for the mounts: it can be ended from outside."""
        return ["nsenter", f"--target={self._first}", "--mount", "--", *command]


@contextmanager
def enclosure() -> Iterator[Enclosure]:
    """Namespaces with nothing in them yet."""
    command = [
        "setpriv", "--pdeathsig=KILL",
        "unshare", "--mount", "--net", "--pid", "--mount-proc", "--fork", "--kill-child=KILL",
        "sh", "-c", _FIRST,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"ready\n"
            children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text()
            yield Enclosure(int(children))
        finally:
            holder.kill()


class SmallDisk:
    """A file system of few bytes, in a file.

    :param inside: where it is mounted, and nowhere else.
    :param folder: of this machine, for its file and for where it is mounted.
    """

    def __init__(self, inside: Enclosure, folder: Path, size: int) -> None:
        self._inside = inside
        image = folder / "disk"
        with image.open("wb") as stream:
            stream.truncate(size)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        self.root = folder / "mounted"
        self.root.mkdir()
        inside.run("mount", "-o", "loop", image, self.root)

    @property
    def free(self) -> int:
        """Bytes."""
        command = self._inside.command("stat", "-f", "--format=%a %S", self.root)
        free, size = subprocess.run(command, check=True, capture_output=True).stdout.split()
        return int(free) * int(size)

    @contextmanager
    def filled(self, leaving: int) -> Iterator[None]:
        """Full but for some bytes, until the block is left."""
        filler = self.root / "filler"
        self._inside.run("fallocate", "--length", str(self.free - leaving), filler)
        try:
            yield
        finally:
            self._inside.run("rm", filler)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Not to be written to until the block is left."""
        self._inside.run("mount", "-o", "remount,ro", self.root)
        try:
            yield
        finally:
            self._inside.run("mount", "-o", "remount,rw", self.root)
