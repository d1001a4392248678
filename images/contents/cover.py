"""Which archives to ask an engine for, so that few requests fetch many files."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from bitsect.images.contents.model import Contents
from bitsect.images.contents.paths import folders_above

#: A request takes as long as this many bytes of a larger one; measured.
REQUEST_BYTES = 10_000_000


def cover(
    paths: Iterable[str], contents: Contents, overhead_bytes: int = REQUEST_BYTES
) -> list[str]:
    """The cheapest files and whole folders that hold all of the paths, sorted.

    A request costs `overhead_bytes` and all bytes that it fetches, wanted or not. The root is
    never asked for: it holds what is mounted there.

    :param paths: files and links of `contents`.
    """
    wanted = set(paths)
    children: dict[str, set[str]] = {}
    for path in wanted:
        *above, last = [*folders_above(path), path]
        for parent, child in zip(["", *above], [*above, last], strict=True):
            children.setdefault(parent, set()).add(child)
    sizes = _Sizes(contents)
    best: dict[str, tuple[int, list[str]]] = {}
    for place in sorted({*children, *wanted}, key=lambda each: -each.count("/")):
        apart = [best[child] for child in sorted(children.get(place, ()))]
        cost = sum(each for each, _ in apart)
        whole = overhead_bytes + sizes.of(place)
        if place in wanted or (place and whole < cost):
            best[place] = (whole, [place])
        else:
            best[place] = (cost, [request for _, requests in apart for request in requests])
    return sorted(best[""][1]) if wanted else []


class _Sizes:
    """Bytes at and below the paths of an image."""

    def __init__(self, contents: Contents) -> None:
        self._entries = contents.entries
        self._paths = sorted(contents.entries)
        sizes = (contents.entries[path].size for path in self._paths)
        self._until = list(accumulate(sizes, initial=0))

    def of(self, place: str) -> int:
        own = self._entries[place].size if place in self._entries else 0
        # "0" is what follows "/" in the order of characters.
        first = bisect_left(self._paths, f"{place}/")
        return own + self._until[bisect_left(self._paths, f"{place}0")] - self._until[first]
