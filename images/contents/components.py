"""The components that an image consists of.

Whoever installed a file owns it: packages of the system first, then distributions, then those
that are found by what they look like. What nobody installed is a component by itself, so that
no file that may matter is overlooked.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from bitsect.images.contents.alternatives import chosen_alternatives
from bitsect.images.contents.distributions import PythonDistribution, python_distributions
from bitsect.images.contents.dpkg import installed_packages
from bitsect.images.contents.folders import is_standard
from bitsect.images.contents.git_trees import SHORT_COMMIT, git_trees
from bitsect.images.contents.model import Component, Contents, Entry
from bitsect.images.contents.noise import bytecode_source, is_noise
from bitsect.images.contents.ownership import ImageComponents, Key, Ownership, ambiguous, named
from bitsect.images.contents.python import DEFAULT_PATH, interpreters
from bitsect.images.contents.states import value_mark
from bitsect.images.contents.tree import Tree
from bitsect.probes.inventory import SECRET, without_secrets

#: Hexadecimal digits of a digest that name a point.
SHORT_DIGEST = 8

_LONGEST_VALUE = 60
_LIBRARY_FILE = re.compile(r"lib[^/]*\.so(\.[^/]*)?")
_FILE_VERSION = re.compile(r".*\.so\.(\d+(?:\.\d+)+)")


def components_of(contents: Contents, environment: Mapping[str, str]) -> dict[str, Component]:
    """Every component of an image, by name. No path has two owners.

    :param environment: variables that the image's config sets.

    Names are ``apt:NAME[:ARCHITECTURE]``, ``pip:NAME``, ``git:/FOLDER``, ``python:cpython``,
    ``lib:SONAME``, ``file:/PATH`` and ``env:NAME``. Where an image has several distributions,
    interpreters or libraries of a name, ``@/FOLDER`` tells them apart.
    """
    return components_of_chain([(contents, environment)])[0].components


def components_of_chain(
    chain: Sequence[tuple[Contents, Mapping[str, str]]],
) -> tuple[ImageComponents, ...]:
    """The components of several images, named alike: a name needs its folder in all or none."""
    found = [_Finder(contents, environment) for contents, environment in chain]
    told_apart = frozenset().union(*(ambiguous(each.ownership) for each in found))
    return tuple(named(each.ownership, each.switched, told_apart) for each in found)


class _Finder:
    """Finds the components of one image."""

    def __init__(self, contents: Contents, environment: Mapping[str, str]) -> None:
        self._contents = contents
        self._tree = Tree(contents.entries)
        self.ownership = Ownership(contents.entries)
        self.switched: frozenset[str] = frozenset()
        self._find_packages()
        sources = self._find_distributions()
        self._find_interpreters()
        self._find_git_trees()
        self._find_editable_sources(sources)
        self._find_alternatives()
        self._find_libraries()
        self._find_files()
        self._find_bytecode()
        # An engine sets PATH where the image does not.
        for name, value in {"PATH": DEFAULT_PATH, **environment}.items():
            shown = _shown_value(name, value)
            self.ownership.add(Component(f"env:{name}", shown, value=value))

    def _find_packages(self) -> None:
        for package in installed_packages(self._contents, self._tree):
            component = Component(
                name=package.component,
                version=package.version,
                packages=() if package.entry is None else (package.entry,),
                needs=tuple(f"apt:{name}" for name in package.depends),
                locked=tuple(f"apt:{name}" for name in package.exact),
                build=package.checksums,
            )
            self.ownership.claim(self.ownership.add(component), package.paths)

    def _find_distributions(self) -> list[tuple[Key, str]]:
        """Adds those that no package and no other distribution has in it.

        :returns: editable ones, each with the folder of its sources.
        """
        sources = []
        added: list[tuple[Key, PythonDistribution]] = []
        providers: dict[str, str] = {}
        # One that says exactly what it owns goes before one of which that is guessed.
        for each in sorted(
            python_distributions(self._contents, self._tree),
            key=lambda each: (each.rows is None, each.place.count("/"), each.place),
        ):
            places = [each.place, *self._tree.below(each.place)]
            owner = next(filter(None, map(self.ownership.owners.get, places)), None)
            if owner is not None:
                providers.setdefault(each.name, owner[0])
                continue
            key = self.ownership.add(Component(f"pip:{each.name}", each.point), each.site)
            self.ownership.claim(key, each.paths)
            added.append((key, each))
            if each.source is not None:
                sources.append((key, each.source))
        self._add_needs(added, providers)
        return sources

    def _add_needs(
        self, added: list[tuple[Key, PythonDistribution]], providers: Mapping[str, str]
    ) -> None:
        """What distributions ask for, wherever it comes from."""
        names = {**providers, **{each.name: key[0] for key, each in added}}
        for key, each in added:
            known = self.ownership.components[key]
            self.ownership.components[key] = Component(
                name=known.name,
                version=known.version,
                needs=tuple(names[name] for name in each.requires if name in names),
                locked=tuple(names[name] for name in each.pinned if name in names),
                build=each.record,
            )

    def _find_interpreters(self) -> None:
        for each in interpreters(self._contents, self._tree, self.ownership.is_owned):
            key = self.ownership.add(Component("python:cpython", each.version), each.prefix)
            self.ownership.take(key, each.paths)

    def _find_git_trees(self) -> None:
        # A tree inside another one comes first: it has its own commit.
        for each in sorted(git_trees(self._contents), key=lambda each: -len(each.root)):
            version = each.commit[:SHORT_COMMIT] if each.commit else "unknown"
            key = self.ownership.add(Component(f"git:{each.root}", version))
            for folder in (each.folder, each.root):
                self.ownership.take(key, self._tree.below(folder))
            self.ownership.take(key, [f"{each.root}/.git"])

    def _find_editable_sources(self, sources: list[tuple[Key, str]]) -> None:
        for key, folder in sources:
            if not is_standard(folder):
                self.ownership.take(key, self._tree.below(folder))

    def _find_alternatives(self) -> None:
        """The links of a choice belong to whoever has the file that was chosen."""
        switched: list[str] = []
        for each in chosen_alternatives(self._contents, self._tree):
            switched += each.paths
            places = (self._tree.placed(each.target), self._tree.resolve(each.target) or "")
            owner = next(filter(None, map(self.ownership.owners.get, places)), None)
            if owner is not None:
                self.ownership.take(owner, each.paths)
        self.switched = frozenset(switched)

    def _find_libraries(self) -> None:
        """Shared libraries that nobody owns, with the links that lead to them."""
        found: dict[str, Key] = {}
        links = []
        for path, entry in self._contents.entries.items():
            if self.ownership.is_owned(path) or is_noise(path):
                continue
            if entry.kind == "link":
                links.append(path)
            elif entry.elf is not None and (name := _library_name(path, entry)):
                component = Component(f"lib:{name}", _library_version(path, entry))
                found[path] = self.ownership.add(component, posixpath.dirname(path))
                self.ownership.claim(found[path], [path])
        for path in links:
            owner = found.get(self._tree.resolve(path) or "")
            if owner is not None:
                self.ownership.claim(owner, [path])

    def _find_files(self) -> None:
        for path, entry in self._contents.entries.items():
            unowned = entry.kind in ("file", "link") and not self.ownership.is_owned(path)
            if unowned and not is_noise(path):
                key = self.ownership.add(Component(f"file:{path}", file_version(entry)))
                self.ownership.claim(key, [path])

    def _find_bytecode(self) -> None:
        """Bytecode goes with the module that it was made from."""
        for path in self._contents.entries:
            source = bytecode_source(path)
            owner = self.ownership.owners.get(source) if source is not None else None
            if owner is not None:
                self.ownership.take(owner, [path])


def file_version(entry: Entry) -> str:
    """Where a link leads, or the first digits of a file's digest."""
    return entry.target or (entry.digest or "").removeprefix("sha256:")[:SHORT_DIGEST]


def _library_name(path: str, entry: Entry) -> str | None:
    """What the loader calls it; None for an ELF file that is no library."""
    name = posixpath.basename(path)
    soname = entry.elf.soname if entry.elf is not None else None
    return soname or (name if _LIBRARY_FILE.fullmatch(name) else None)


def _library_version(path: str, entry: Entry) -> str:
    """The number in its file's name, or else the start of its build-id or digest."""
    match = _FILE_VERSION.fullmatch(path)
    build_id = entry.elf.build_id if entry.elf is not None else None
    return match[1] if match else (build_id or "")[:SHORT_COMMIT] or file_version(entry)


def _shown_value(name: str, value: str) -> str:
    """A variable's value as its point's name: short, and without secrets."""
    mark = value_mark(name, value)[:SHORT_DIGEST]
    if SECRET.search(name):
        return f"withheld ({mark})"
    if (told := without_secrets(name, value)) != value:
        return f"{told[:_LONGEST_VALUE]} ({mark})"
    if len(value) > _LONGEST_VALUE:
        return f"{value[:_LONGEST_VALUE]}… ({mark})"
    return value or '""'
