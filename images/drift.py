"""What has changed about a stack since it was pinned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from bitsect.images.differences import Difference, diff_manifests
from bitsect.images.manifest import Manifest

# Whether a part of the stack was looked at by an inventory.
_LOOKED_AT = "inventory:"

Outcome = Literal["same", "drift", "unknown"]

# Two inventories of one stack never agree on these.
_ALWAYS_NEW = ("evidence:time", "evidence:durations_ms.", "evidence:placement.")


class Drift(msgspec.Struct, frozen=True):
    """How a stack differs from its manifest.

    :param reference: the stack that was looked at.
    :param pinned: root digest of the manifest.
    :param now: root digest of what is there.
    :param unseen: what the manifest tells and could not be looked at now, such as ``hardware``.
    :param differences: ``before`` is the manifest, ``after`` is what is there.
    """

    reference: str
    pinned: str
    now: str
    unseen: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def outcome(self) -> Outcome:
        """``drift`` for more than noise; ``unknown`` if there is none in what could be seen."""
        if any(not difference.noise for difference in self.differences):
            return "drift"
        return "unknown" if self.unseen else "same"


def drift_of(
    pinned: Manifest, now: Manifest, reference: str, moved: Difference | None = None
) -> Drift:
    """How a stack differs from its manifest.

    :param moved: that the name it was asked for by now leads elsewhere.
    """
    found = [] if moved is None else [moved]
    found += (
        _weighed(each)
        for each in diff_manifests(pinned, now)
        if not each.component.startswith(_ALWAYS_NEW)
    )
    return Drift(reference, pinned.root, now.root, tuple(_unseen(pinned, now)), tuple(found))


def moved_name(name: str, pinned: str, now: str) -> Difference | None:
    """That an image's name leads elsewhere than it did; None if it does not.

    :param pinned: config digest that it led to.
    :param now: config digest that it leads to.
    """
    return Difference(f"image:{name}", pinned, now, False, "image") if pinned != now else None


def _weighed(difference: Difference) -> Difference:
    """What was not looked at when the stack was pinned cannot have drifted since."""
    newly_seen = difference.component.startswith(_LOOKED_AT) and difference.before == "false"
    return msgspec.structs.replace(difference, noise=True) if newly_seen else difference


def _unseen(pinned: Manifest, now: Manifest) -> Iterator[str]:
    if pinned.hardware is not None and now.hardware is None:
        yield "hardware"
    if pinned.software.libraries is not None and now.software.libraries is None:
        yield "loaded libraries"
    if pinned.controls.torch is not None and now.controls.torch is None:
        yield "torch's flags"
