"""Which components probably cannot move without each other.

These are guesses, so that a search does not begin with states that cannot run: it tries the
mixed states of a block where it must know, and splits the block where they do run. Two
components are related when

- a file of one asks for a library, or a version of its symbols, that the other one provides
  beside it and not in all of the images;
- a link of one leads to a file that the other one has beside it and not in all of the images;
- one accepts the other only in the very version that stands beside it (packages of the system);
- they are an interpreter that changes its series, and what was compiled or installed for it;
- files of one belong to the other in another image, or both list a file that differs;
- one has a file where the other has a folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bitsect.images.contents.chain_owners import Chain, ChainOwners
from bitsect.images.contents.model import ComponentAxis, Elf, Entry
from bitsect.images.contents.noise import is_noise
from bitsect.images.contents.ownership import ImageComponents
from bitsect.images.contents.paths import folders_above
from bitsect.images.contents.tree import Tree

_INTERPRETER = re.compile(
    r"/.*/(bin/python3?(\.\d+[a-z]*)?|lib/python3\.\d+[a-z]*/os\.py|libpython3[^/]*\.so[^/]*)"
)
_SERIES = re.compile(r"/.*/lib/python(3\.\d+[a-z]*)/os\.py")
_DEFAULTS = ("/usr/bin/python3", "/usr/local/bin/python3")
_MADE_FOR_SERIES = re.compile(
    r"/.*(\.cpython-3\d+[^/]*\.so|/python3\.\d+[a-z]*/(site|dist)-packages/.*)"
)

Pair = tuple[str, str]


def find_blocks(
    chain: Chain,
    images: Sequence[ImageComponents],
    owners: ChainOwners,
    axes: Sequence[ComponentAxis],
) -> tuple[tuple[str, ...], ...]:
    """Groups of two and more axes, each sorted, in the order of their first names."""
    finder = _Finder(chain, images, owners, axes)
    relations = [
        *finder.libraries(),
        *finder.links(),
        *finder.exact_versions(),
        *finder.interpreters(),
        *finder.moved_files(),
        *finder.clashes(),
    ]
    return _connected(relations)


def _connected(relations: Iterable[Pair]) -> tuple[tuple[str, ...], ...]:
    groups: dict[str, set[str]] = {}
    for first, second in relations:
        group = groups.get(first, {first}) | groups.get(second, {second})
        groups.update((name, group) for name in group)
    return tuple(sorted({tuple(sorted(group)) for group in groups.values() if len(group) > 1}))


class _Finder:
    """Looks for relations between the axes of one chain."""

    def __init__(
        self,
        chain: Chain,
        images: Sequence[ImageComponents],
        owners: ChainOwners,
        axes: Sequence[ComponentAxis],
    ) -> None:
        self._entries = [contents.entries for contents, _ in chain]
        self._images = images
        self._owners = owners
        self._axes = axes
        self._names = {axis.component for axis in axes}
        self._axis = {
            path: axis.component for axis in axes for state in axis.states for path in state.paths
        }

    def libraries(self) -> Iterator[Pair]:
        """Who asks for a library that somebody else has beside it, but not everywhere."""
        providers = [_Providers(entries, self._axis) for entries in self._entries]
        for beside in providers:
            for path, elf in beside.files.items():
                name = self._axis.get(path)
                for soname, versions in _wanted(elf) if name is not None else ():
                    found = beside.of(soname, versions)
                    # What never moves, or moves along, is always there.
                    if name is None or name in found or None in found:
                        continue
                    for other in found - {None}:
                        if not all(other in each.of(soname, versions) for each in providers):
                            yield name, str(other)

    def links(self) -> Iterator[Pair]:
        """Whose links lead to files that somebody else has beside them, but not everywhere."""
        for entries, image in zip(self._entries, self._images, strict=True):
            tree = Tree(entries)
            for path in image.owners:
                name = self._axis.get(path)
                if name is None or entries[path].kind != "link" or is_noise(path):
                    continue
                target = tree.resolve(path) or ""
                other = self._axis.get(target)
                if other is not None and target in entries and not self._is_everywhere(target):
                    yield name, other

    def _is_everywhere(self, path: str) -> bool:
        return all(path in entries for entries in self._entries)

    def exact_versions(self) -> Iterator[Pair]:
        """Packages of the system that accept each other in one version alone."""
        for image in self._images:
            for name in self._names.intersection(image.components):
                for other in self._names.intersection(image.components[name].locked):
                    if name.startswith("apt:") and len(self._versions(other)) > 1:
                        yield name, other

    def _versions(self, name: str) -> set[str | None]:
        components = (image.components.get(name) for image in self._images)
        return {each.version if each is not None else None for each in components}

    def interpreters(self) -> Iterator[Pair]:
        """Pythons, and all that was made for one, where the images have different Pythons."""
        if len({_series(entries) for entries in self._entries}) == 1:
            return
        pythons = {name for path, name in self._axis.items() if _INTERPRETER.fullmatch(path)}
        bound = {name for path, name in self._axis.items() if _MADE_FOR_SERIES.fullmatch(path)}
        for python in sorted(pythons):
            yield from ((python, name) for name in sorted(pythons | bound))

    def moved_files(self) -> Iterator[Pair]:
        """Components that had the same file, in different images or in one.

        The links of an alternative are no reason: they go with the choice, whoever else stays.
        """
        switched = frozenset().union(*(image.switched for image in self._images))
        counts = self._owners.changed - switched
        listed = [pair for image in self._images for pair in image.shared]
        listed += [(path, name) for path, names in self._owners.contested.items() for name in names]
        for path, name in listed:
            other = self._axis.get(path)
            if path in counts and not is_noise(path) and other is not None and name in self._names:
                yield name, other

    def clashes(self) -> Iterator[Pair]:
        """Who has a file where somebody else has a folder."""
        solid = {
            path
            for entries in self._entries
            for path in self._axis
            if path in entries and entries[path].kind != "folder"
        }
        for path, name in self._axis.items():
            for folder in folders_above(path):
                if folder in solid:
                    yield self._axis[folder], name


class _Providers:
    """The libraries of one image, by what the loader calls them.

    :param axis: by path; of the others it is known that they are the same in all images.
    """

    def __init__(self, entries: Mapping[str, Entry], axis: Mapping[str, str]) -> None:
        self.files = {path: each.elf for path, each in entries.items() if each.elf is not None}
        self._found: dict[str, list[tuple[str | None, frozenset[str]]]] = {}
        for path, elf in self.files.items():
            offer = (axis.get(path), frozenset(elf.provides))
            for name in {elf.soname, posixpath.basename(path)} - {None}:
                self._found.setdefault(str(name), []).append(offer)

    def of(self, soname: str, versions: frozenset[str]) -> set[str | None]:
        """Axes that have this library with these versions; None for one that never moves."""
        return {axis for axis, provides in self._found.get(soname, ()) if versions <= provides}


def _wanted(elf: Elf) -> Iterator[tuple[str, frozenset[str]]]:
    """Libraries that a file asks for, each with the versions of symbols."""
    versions: dict[str, set[str]] = {soname: set() for soname in elf.needed}
    for each in elf.requires:
        soname, _, version = each.rpartition(":")
        versions.setdefault(soname, set()).add(version)
    return ((soname, frozenset(found)) for soname, found in versions.items())


def _series(entries: Mapping[str, Entry]) -> tuple[frozenset[str], frozenset[str | None]]:
    """The Pythons of an image, and which of them are the system's default ones."""
    installed = (match[1] for path in entries if (match := _SERIES.fullmatch(path)))
    defaults = (entries[path].target for path in _DEFAULTS if path in entries)
    return frozenset(installed), frozenset(defaults)
