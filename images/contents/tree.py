"""A file system as its entries make it: links are followed inside it and nowhere else."""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Mapping

from bitsect.images.contents.model import Entry

# As many as Linux follows.
_MOST_LINKS = 40


class Tree:
    """Looks things up in the entries of one image.

    :param entries: by absolute path; they must not change.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.entries = entries
        self._sorted: list[str] | None = None
        self._folders: dict[str, str] = {}

    def resolve(self, path: str) -> str | None:
        """Where a path leads with all links followed, whether something is there or not.

        None for a path that goes round in circles.
        """
        return self._walk(path, follow_last=True)

    def file(self, path: str) -> Entry | None:
        """The regular file that a path leads to, if it leads to one."""
        entry = self.entries.get(self.resolve(path) or "")
        return entry if entry is not None and entry.kind == "file" else None

    def placed(self, path: str) -> str:
        """The path with the links among its folders followed: as `entries` knows it."""
        folder, _, name = posixpath.normpath(path).rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = self._walk(folder, follow_last=True) or folder
        return f"{self._folders[folder].rstrip('/')}/{name}"

    def below(self, folder: str) -> list[str]:
        """All paths in a folder, at any depth, sorted."""
        if self._sorted is None:
            self._sorted = sorted(self.entries)
        start = folder.rstrip("/")
        first = bisect_left(self._sorted, f"{start}/")
        # "0" is what follows "/" in the order of characters.
        return self._sorted[first : bisect_left(self._sorted, f"{start}0")]

    def _walk(self, path: str, follow_last: bool) -> str | None:
        ahead = path.split("/")[::-1]
        at = ""
        links = 0
        while ahead:
            part = ahead.pop()
            if part in ("", "."):
                continue
            if part == "..":
                at = at.rpartition("/")[0]
                continue
            entry = self.entries.get(f"{at}/{part}")
            if entry is None or entry.target is None or not (ahead or follow_last):
                at = f"{at}/{part}"
                continue
            links += 1
            if links > _MOST_LINKS:
                return None
            at = "" if entry.target.startswith("/") else at
            ahead.extend(entry.target.split("/")[::-1])
        return at or "/"
