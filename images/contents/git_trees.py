"""Git trees in an image, and the commits that they stand at."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from bitsect.images.contents.model import Contents
from bitsect.images.layers import Record

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_MARK = "/.git"

#: Hexadecimal digits of a commit that name a point.
SHORT_COMMIT = 12

# A reference may name another one; git itself stops here.
_MOST_REFERENCES = 5


class GitTree(Record, frozen=True):
    """A folder of sources under git.

    :param root: the folder.
    :param folder: where git keeps what it knows of it; inside another tree for a submodule.
    :param commit: what is checked out; None where that cannot be told.
    """

    root: str
    folder: str
    commit: str | None


def git_trees(contents: Contents) -> tuple[GitTree, ...]:
    """All of them, by root. One at the root of the whole image is none."""
    found = {}
    for path, text in contents.texts.items():
        if path.endswith(f"{_MARK}/HEAD"):
            found[path.removesuffix(f"{_MARK}/HEAD")] = path.removesuffix("/HEAD")
        elif path.endswith(_MARK):
            word, _, target = text.decode("utf-8", "replace").partition(":")
            root = path.removesuffix(_MARK)
            if word == "gitdir":
                found[root] = posixpath.normpath(posixpath.join(root, target.strip()))
    return tuple(
        GitTree(root, folder, _commit(folder, contents.texts))
        for root, folder in sorted(found.items())
        if root
    )


def _commit(folder: str, texts: Mapping[str, bytes]) -> str | None:
    """What HEAD leads to, by loose and packed references."""

    def line(*place: str) -> str:
        text = texts.get(posixpath.normpath(posixpath.join(*place)), b"")
        return text.decode("utf-8", "replace").strip()

    # A worktree shares its references with the tree that it was made from.
    shared = posixpath.normpath(posixpath.join(folder, line(folder, "commondir")))
    packed = {}
    for row in line(shared, "packed-refs").splitlines():
        commit, _, name = row.partition(" ")
        packed[name] = commit
    text = line(folder, "HEAD")
    for _ in range(_MOST_REFERENCES):
        if text.startswith("ref:"):
            name = text.removeprefix("ref:").strip()
            text = line(folder, name) or line(shared, name) or packed.get(name, "")
    return text if _COMMIT.fullmatch(text) else None
