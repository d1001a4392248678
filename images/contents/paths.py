"""Paths inside an image, as they are written in archives."""

from __future__ import annotations

import re
from itertools import accumulate

LONGEST_PATH = 4096
DEEPEST_PATH = 256

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class OddPath(ValueError):
    """A path that is not taken in; its text says why."""


def normal_path(name: str) -> str:
    """The absolute form of an archive member's name; ``/`` for the root itself.

    Raises OddPath for one that leaves its folder or that no text format can carry.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise OddPath("it leaves its folder")
    if len(name) > LONGEST_PATH or len(parts) > DEEPEST_PATH:
        raise OddPath("it is too long or too deep")
    check_text(name)
    return "/" + "/".join(parts)


def check_text(name: str) -> None:
    """Raises OddPath for what is not UTF-8 or holds control characters."""
    if _CONTROL.search(name):
        raise OddPath("it holds a control character")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise OddPath("it is not UTF-8") from None


def shown(name: str) -> str:
    """The name with everything escaped that a terminal or a text format could trip over."""
    return name.encode("unicode_escape").decode("ascii") if not name.isprintable() else name


def folders_above(path: str) -> list[str]:
    """All folders that lead to an absolute path, less the root, outermost first."""
    parts = path.split("/")[1:-1]
    return list(accumulate(parts, lambda above, part: f"{above}/{part}", initial=""))[1:]


def is_below(path: str, folder: str) -> bool:
    """Whether a path lies in a folder, at any depth."""
    return path.startswith(folder.rstrip("/") + "/")
