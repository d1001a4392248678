"""Loose files that differ, gathered into so many axes that a search can handle them."""

from __future__ import annotations

from collections.abc import Iterable

from bitsect.images.contents.folders import is_standard
from bitsect.images.contents.paths import folders_above

#: More files than this that differ below one folder move together.
MOST_LOOSE_FILES = 32


def grouped(paths: Iterable[str]) -> dict[str, list[str]]:
    """Sorted paths by the name of their axis: ``file:/path``, or ``file:/folder/`` for many.

    They are gathered in the deepest folder that holds too many of them, but never in one that
    belongs to the system's own layout.
    """
    left = set(paths)
    groups: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for path in left:
        for folder in folders_above(path):
            below.setdefault(folder, []).append(path)
    for folder in sorted(below, key=lambda folder: (-folder.count("/"), folder)):
        inside = left.intersection(below[folder])
        if len(inside) > MOST_LOOSE_FILES and not is_standard(folder):
            groups[f"file:{folder}/"] = sorted(inside)
            left -= inside
    groups.update((f"file:{path}", [path]) for path in left)
    return dict(sorted(groups.items()))
