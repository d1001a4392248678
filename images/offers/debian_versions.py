"""The order of Debian's package versions."""

from __future__ import annotations

import re

_Parts = tuple[tuple[tuple[int, ...], int], ...]
VersionKey = tuple[int, _Parts, _Parts]

_PART = re.compile(r"(\D*)(\d*)")


def version_key(version: str) -> VersionKey:
    """What versions are sorted by: epoch, upstream version, revision.

    As Debian's policy has it: a tilde sorts before the end, the end before letters, letters
    before everything else, and digits as numbers.
    """
    epoch, colon, rest = version.partition(":")
    if not colon or not epoch.isdecimal():
        epoch, rest = "0", version
    upstream, hyphen, revision = rest.rpartition("-")
    if not hyphen:
        upstream, revision = rest, "0"
    return int(epoch), _parts(upstream), _parts(revision)


def between(versions: set[str], first: str, last: str) -> list[str]:
    """Those strictly between two versions, in the direction from the first to the last."""
    low, high = sorted((version_key(first), version_key(last)))
    found = [each for each in versions if low < version_key(each) < high]
    return sorted(found, key=version_key, reverse=version_key(first) > version_key(last))


def _parts(text: str) -> _Parts:
    parts = [(_letters(letters), int(digits or 0)) for letters, digits in _PART.findall(text)]
    # The end is a part too, so that what follows it elsewhere is compared with it.
    return (*parts, (_letters(""), 0))


def _letters(text: str) -> tuple[int, ...]:
    return (*map(_rank, text), 0)


def _rank(letter: str) -> int:
    if letter == "~":
        return -1
    return ord(letter) if letter.isalpha() else ord(letter) + 256
