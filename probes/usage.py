"""What a process opens and asks for: the files and variables that its Python code reads.

Python tells of every file that its own code opens, and the mapping behind ``os.environ`` can be
exchanged for one that remembers. What compiled code does by itself is not seen: a library that
calls ``getenv`` or ``fopen``, as OpenMP and BLAS libraries do when they are loaded. So a name
in these lists was read, and one that is missing may have been read too.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

#: Paths that are remembered at most; a process that opens more is told to have done so.
MOST_FILES = 8192

_WRITING = os.O_WRONLY | os.O_RDWR
_NOT_FILES = ("/proc/", "/sys/", "/dev/")
# Whoever asks what is installed reads all of it: that says nothing about what is used.
_INVENTORIES = (".dist-info", ".egg-info")


class Variables(dict):  # type: ignore[type-arg]  # os._Environ's own keys and values
    """A dict that remembers which keys were asked for.

    A copy of the whole, which asks for each key in order, asks for none in particular.
    """

    def __init__(self, content: dict[Any, Any]) -> None:
        super().__init__(content)
        self.read: set[Any] = set()
        self._sweep: list[Any] = []
        self._at = 0

    def __iter__(self) -> Iterator[Any]:
        self._end_sweep()
        self._sweep = list(super().__iter__())
        return iter(self._sweep)

    def __getitem__(self, key: Any) -> Any:
        if self._at < len(self._sweep) and self._sweep[self._at] == key:
            self._at += 1
            if self._at == len(self._sweep):
                self._sweep, self._at = [], 0
        else:
            self._end_sweep()
            self.read.add(key)
        return super().__getitem__(key)

    def names(self) -> list[str]:
        """The keys that were asked for, sorted."""
        self._end_sweep()
        return sorted(os.fsdecode(key) for key in self.read)

    def _end_sweep(self) -> None:
        """A sweep that stopped was no copy."""
        self.read.update(self._sweep[: self._at])
        self._sweep, self._at = [], 0


class Usage:
    """Watches this process from `watch` to `stop`. There is no way to take the hook out again."""

    def __init__(self) -> None:
        self._listening = False
        self._paths: dict[str, None] = {}
        self._variables: Variables | None = None

    def watch(self) -> None:
        """Begin to listen."""
        self._listening = True
        sys.addaudithook(self._hear)
        content = getattr(os.environ, "_data", None)
        if isinstance(content, dict):
            self._variables = Variables(content)
            # Two views of one mapping, of text and of bytes.
            for view in (os.environ, os.environb):
                setattr(view, "_data", self._variables)  # noqa: B010 - not a name of its type

    def stop(self) -> None:
        """Listen no more: what follows is the watcher's own doing."""
        self._listening = False

    def files(self, also: Iterable[str] = (), ignored: Iterable[str] = ()) -> list[str]:
        """Plain files that were opened for reading and are still there, sorted.

        A compiled module counts as its source. A link counts, and so does what it leads to.

        :param also: paths of more files that were used.
        :param ignored: folders whose files count for nothing.
        """
        without = tuple(folder + os.sep for folder in ignored) + _NOT_FILES
        found: set[str] = set()
        for used in (*self._paths, *also):
            path = _source_of(used)
            names = {path, os.path.realpath(path)}
            ignorable = any(name.startswith(without) or _is_inventory(name) for name in names)
            if not ignorable and os.path.isfile(path):
                found |= names
        return sorted(filter(_is_text, found))

    def variables(self) -> list[str]:
        """Names of environment variables that were read, sorted."""
        return [] if self._variables is None else self._variables.names()

    def problems(self) -> list[dict[str, str]]:
        """What could not be watched, as the inventory writes it."""
        found = []
        if len(self._paths) >= MOST_FILES:
            reason = f"more were opened than the {MOST_FILES} that are told"
            found.append({"what": "files", "reason": reason})
        if self._listening and self._variables is None:
            found.append({"what": "variables", "reason": "this Python keeps them elsewhere"})
        return found

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        # Whatever is raised here would be raised where the file is opened.
        if event != "open" or not (self._listening and arguments):
            return
        path, flags = arguments[0], arguments[-1]
        reading = isinstance(flags, int) and not flags & _WRITING
        if isinstance(path, (str, bytes)) and reading and len(self._paths) < MOST_FILES:
            with contextlib.suppress(OSError):  # relative to a folder that is gone
                self._paths.setdefault(os.path.abspath(os.fsdecode(path)))


#: The one of this process.
usage = Usage()


def _source_of(path: str) -> str:
    if path.endswith(".pyc"):
        try:
            return importlib.util.source_from_cache(path)
        except ValueError:  # not where compiled modules of sources lie: it stands for itself
            return path
    return path


def _is_text(path: str) -> bool:
    """Whether a path can be written down."""
    return path.isascii() or path == path.encode("utf-8", "replace").decode("utf-8")


def _is_inventory(path: str) -> bool:
    return os.path.dirname(path).endswith(_INVENTORIES)
