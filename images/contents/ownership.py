"""Which component of an image each of its files belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from bitsect.images.contents.model import Component, Entry
from bitsect.images.layers import Record

#: A component before it has its final name: what it is called, and the folder that tells it from
#: others that are called the same; empty where there can be no other.
Key = tuple[str, str]


class Ownership:
    """Gives out the files and links of one image: who claims one first owns it.

    :param entries: of the image.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self.components: dict[Key, Component] = {}
        self.owners: dict[str, Key] = {}
        self.shared: set[tuple[str, Key]] = set()

    def add(self, component: Component, place: str = "") -> Key:
        """Make a component known; of two with one key the first one counts."""
        key = (component.name, place)
        self.components.setdefault(key, component)
        return key

    def claim(self, key: Key, paths: Iterable[str]) -> None:
        """Paths that are no files or links of the image, or have an owner, stay as they are."""
        for path in paths:
            entry = self._entries.get(path)
            if entry is None or entry.kind not in ("file", "link"):
                continue
            owner = self.owners.setdefault(path, key)
            if owner != key:
                self.shared.add((path, key))

    def take(self, key: Key, paths: Iterable[str]) -> None:
        """As `claim`, for paths that are only what is left over."""
        self.claim(key, (path for path in paths if path not in self.owners))

    def is_owned(self, path: str) -> bool:
        return path in self.owners


class ImageComponents(Record, frozen=True):
    """The components of one image.

    :param components: by name.
    :param owners: for each path that belongs to one, the component's name.
    :param shared: (path, component) of each that lists a path which another one owns.
    :param switched: paths that update-alternatives makes: they follow a choice.
    """

    components: dict[str, Component]
    owners: dict[str, str]
    shared: frozenset[tuple[str, str]]
    switched: frozenset[str]


def ambiguous(ownership: Ownership) -> frozenset[str]:
    """Names that more than one component of an image has."""
    counts = Counter(name for name, _ in ownership.components)
    return frozenset(name for name, count in counts.items() if count > 1)


def named(
    ownership: Ownership, switched: frozenset[str], told_apart: frozenset[str]
) -> ImageComponents:
    """The components with their final names and their paths.

    :param told_apart: names that go with a folder, since there are several of them.
    """
    names = {
        key: f"{key[0]}@{key[1]}" if key[1] and key[0] in told_apart else key[0]
        for key in ownership.components
    }
    owners = {path: names[key] for path, key in ownership.owners.items()}
    paths: dict[str, list[str]] = {name: [] for name in names.values()}
    for path, name in owners.items():
        paths[name].append(path)
    by_base: dict[str, list[str]] = {}
    for key, name in names.items():
        by_base.setdefault(key[0], []).append(name)
    components = {
        names[key]: replace(
            each,
            name=names[key],
            paths=tuple(sorted(paths[names[key]])),
            needs=_known(each.needs, by_base),
            locked=_known(each.locked, by_base),
        )
        for key, each in ownership.components.items()
    }
    shared = frozenset((path, names[key]) for path, key in ownership.shared)
    return ImageComponents(dict(sorted(components.items())), owners, shared, switched)


def _known(wanted: tuple[str, ...], names: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Of components that are asked for, those that are there, by their final names."""
    if not wanted:
        return ()
    return tuple(sorted({name for each in wanted for name in names.get(each, ())}))
