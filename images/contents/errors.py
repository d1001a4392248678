"""Errors of the part that reads images' files and plans how to mix them."""

from __future__ import annotations

from bitsect.probes.errors import BitsectError


class ArchiveError(BitsectError):
    """The archive of an image's files cannot be read to its end: it is torn or malformed.

    :param reason: what is wrong with it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ClashError(BitsectError):
    """Two components at these points cannot be in one file system.

    :param path: what one of them has as a file or link, and the other one as a folder.
    :param component: the one that has the file or link.
    :param other: one that has a file below.
    """

    def __init__(self, path: str, component: str, other: str) -> None:
        super().__init__(path, component, other)
        self.path = path
        self.component = component
        self.other = other
