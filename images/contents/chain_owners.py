"""For every path of several images, the one component that it moves with.

A file may belong to one component in one image and to another in the next: a package was
renamed, took over a file, or became the choice of an alternative. If both could move it, a
hybrid might hold both of its forms, or none. So each path moves with one component alone, in
all of its states: also where that component is absent, and the path is somebody else's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from bitsect.images.contents.model import Contents
from bitsect.images.contents.noise import is_noise
from bitsect.images.contents.ownership import ImageComponents
from bitsect.images.layers import Record

#: Images with their variables, the good end first.
Chain: TypeAlias = Sequence[tuple[Contents, Mapping[str, str]]]

# Kinds that own what they were found with, and nothing that somebody else installed.
_LEFT_OVER = ("file", "lib")


class ChainOwners(Record, frozen=True):
    """What moves with what.

    :param owners: component by path. A path that has one content everywhere but not one owner is
        left out: it stays where it is.
    :param changed: paths whose content is not the same in all images.
    :param contested: for each path that has several owners, all of them in the chain's order.
    """

    owners: dict[str, str]
    changed: frozenset[str]
    contested: dict[str, tuple[str, ...]]


def chain_owners(chain: Chain, images: Sequence[ImageComponents]) -> ChainOwners:
    """Decides for each path that any component of any image owns."""
    owners: dict[str, str] = {}
    changed: set[str] = set()
    contested: dict[str, tuple[str, ...]] = {}
    for path in sorted(set().union(*(image.owners for image in images))):
        held = [image.owners.get(path) for image in images]
        names = tuple(dict.fromkeys(name for name in held if name is not None))
        if _differs(path, chain, held):
            changed.add(path)
        if len(names) == 1:
            owners[path] = names[0]
        else:
            contested[path] = names
    moving = _moving(owners, changed, images)
    for path, names in contested.items():
        if path in changed:
            last = {name: _last(path, name, images) for name in names}
            owners[path] = max(names, key=lambda name: _claim(name, last[name], moving, images))
    return ChainOwners(owners, frozenset(changed), contested)


def _differs(path: str, chain: Chain, held: Sequence[str | None]) -> bool:
    contents = {
        None if owner is None else image.entries[path].content
        for (image, _), owner in zip(chain, held, strict=True)
    }
    return len(contents) > 1


def _moving(
    owners: Mapping[str, str], changed: set[str], images: Sequence[ImageComponents]
) -> set[str]:
    """Components that differ between the images by themselves."""
    names = {name for image in images for name in image.components}
    moving = {name for name in names if _comes_or_goes(name, images)}
    return moving | {owners[path] for path in changed if path in owners and not is_noise(path)}


def _comes_or_goes(name: str, images: Sequence[ImageComponents]) -> bool:
    return not all(name in image.components for image in images)


def _claim(
    name: str, last: int, moving: set[str], images: Sequence[ImageComponents]
) -> tuple[bool, bool, bool, int]:
    """How good a reason a component has to be what a contested path moves with.

    One that does not move cannot be why the path does. A package that comes or goes decides
    over one that only changes: an alternative falls back when its choice is removed. Of equals,
    the one that has it last.
    """
    installed = name.partition(":")[0] not in _LEFT_OVER
    return name in moving, installed, _comes_or_goes(name, images), last


def _last(path: str, name: str, images: Sequence[ImageComponents]) -> int:
    return max(i for i, image in enumerate(images) if image.owners.get(path) == name)
