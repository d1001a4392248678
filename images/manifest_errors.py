"""What can be wrong with a manifest, and with a value that should be hashed."""

from __future__ import annotations

from typing import Literal, TypeAlias

from bitsect.probes.errors import BitsectError

RebuildObstacle: TypeAlias = Literal["host", "image", "recipe"]


class CanonicalError(BitsectError):
    """A value has no canonical form, so it has no digest.

    :param place: where in the document, such as ``software.distributions[3].version``; empty
        for the document itself.
    :param reason: what stands there.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason


class ManifestError(BitsectError):
    """A manifest cannot be relied on: unreadable, of an unknown schema, or changed.

    :param path: the file, or None for a manifest that never was in one.
    :param place: layer and field, such as ``digests.software``; empty for the whole document.
    :param reason: what is wrong there.
    """

    def __init__(self, path: str | None, place: str, reason: str) -> None:
        super().__init__(path, place, reason)
        self.path = path
        self.place = place
        self.reason = reason


class InventoryError(BitsectError):
    """The inventory could not be taken in a stack.

    :param reference: the stack.
    :param reason: how the inventory ended.
    :param tail: last lines of what it printed.
    :param timed_out: it was ended because its time was over.
    """

    def __init__(self, reference: str, reason: str, tail: str, timed_out: bool = False) -> None:
        super().__init__(reference, reason, tail, timed_out)
        self.reference = reference
        self.reason = reason
        self.tail = tail
        self.timed_out = timed_out


class RebuildError(BitsectError):
    """The stack of a manifest cannot be made again.

    :param reference: what it was asked for by.
    :param obstacle: ``host`` (nothing says how the Python that ran was made), ``image`` (the
        image is neither here nor to be pulled) or ``recipe`` (a hybrid needs its images).
    :param needs: digests of the images that are needed.
    """

    def __init__(self, reference: str, obstacle: RebuildObstacle, needs: tuple[str, ...]) -> None:
        super().__init__(reference, obstacle, needs)
        self.reference = reference
        self.obstacle = obstacle
        self.needs = needs
