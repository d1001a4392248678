"""The states of one axis, out of what it is in each image of a chain."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bitsect.images.contents.model import ComponentAxis, Entry, State, state_digest
from bitsect.images.contents.noise import is_noise
from bitsect.images.layers import Record
from bitsect.images.printable import in_one_line
from bitsect.probes.inventory import without_secrets

_SHOWN_DIGITS = 8


class Point(Record, frozen=True):
    """What a component is in one image.

    :param name: its point's name, where no other point needs the same one.
    :param digest: over what counts of it.
    """

    name: str
    digest: str
    paths: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    value: str | None = None


def files_digest(
    entries: Mapping[str, Entry], paths: Iterable[str], version: str | None = None
) -> str:
    """Digest over the content of paths, given in order, and a version; over no noise."""
    seen = hashlib.sha256()
    for path in paths:
        if not is_noise(path):
            # No part can hold a NUL byte.
            parts = (path, *map(str, entries[path].content), "")
            seen.update("\0".join(parts).encode())
    return state_digest("files", seen.hexdigest(), version)


def value_digest(name: str, value: str | None) -> str:
    """Digest of a variable's value; None for an unset one."""
    return state_digest("value", None if value is None else value_mark(name, value))


def value_mark(name: str, value: str) -> str:
    """What tells a value from others. One that holds a secret cannot be guessed from it."""
    # An image's config may hold text that is no Unicode.
    data = value.encode("utf-8", "surrogatepass")
    if without_secrets(name, value) == value:
        return hashlib.sha256(data).hexdigest()
    # Equal secrets must have equal marks in every search, so the salt is the name's.
    salt = f"bitsect/{name}".encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=1 << 14, r=8, p=1, dklen=32).hex()


def short_digest(digest: str) -> str:
    """The digits of a digest that people see."""
    return digest.removeprefix("sha256:")[:_SHOWN_DIGITS]


def axis_of(component: str, points: Sequence[Point]) -> ComponentAxis | None:
    """The axis of a component; None for one that is the same in all images.

    :param points: one for each image of the chain.

    A state that comes back later is a point of its own: a search goes along the chain.
    """
    at: list[int] = []
    donors: list[int] = []
    for image, point in enumerate(points):
        if image == 0 or point.digest != points[image - 1].digest:
            donors.append(image)
        at.append(len(donors) - 1)
    if len(donors) == 1:
        return None
    names = _names([points[image] for image in donors])
    states = [_state(name, points[image], image) for name, image in zip(names, donors, strict=True)]
    return ComponentAxis(component, tuple(states), tuple(at))


def _state(name: str, point: Point, image: int) -> State:
    return State(
        name=name,
        digest=point.digest,
        donor=image if point.paths else None,
        paths=point.paths,
        packages=point.packages,
        value=point.value,
    )


def _names(points: Sequence[Point]) -> list[str]:
    """A name for each, no two alike: by what tells equal names apart, then by their order."""
    told = {(in_one_line(point.name), point.digest) for point in points}
    digests = Counter(name for name, _ in told)
    names: list[str] = []
    for point in points:
        name = in_one_line(point.name)
        if digests[name] > 1:
            name = f"{name} (build {short_digest(point.digest)})"
        while name in names:
            name = f"{name} again"
        names.append(name)
    return names
