"""Versions of Debian packages that an image's own sources offer, lent by images made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from bitsect.images.contents.cache import ContentsCache
from bitsect.images.contents.components import components_of
from bitsect.images.contents.dpkg import STATUS
from bitsect.images.contents.model import ABSENT, ComponentAxis, Contents, State, state_digest
from bitsect.images.contents.paths import folders_above
from bitsect.images.errors import UnbuildableError
from bitsect.images.offers.debian_versions import between
from bitsect.images.offers.offer import Runs


class Sources(Protocol):
    """The package sources of an image."""

    def versions(self, packages: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """All versions of some packages that are offered."""
        ...

    def installed(self, package: str, version: str) -> AbstractContextManager[str]:
        """An image in which a package was put to a version, by the engine's id."""
        ...

    def key(self, package: str, version: str) -> str:
        """``sha256:…``, the identity of that image."""
        ...


class AptOffers:
    """Offers for the packages of one image.

    :param axes: of which some may be of packages; the sources are asked once for all of them.
    :param contents_of: reads an image, by the engine's id.
    :param cache: folder for what was learnt about versions.
    """

    kind = "apt"

    def __init__(
        self,
        sources: Sources,
        axes: Iterable[ComponentAxis],
        contents_of: Callable[[str], Contents],
        cache: Path,
    ) -> None:
        self._sources = sources
        self._contents_of = contents_of
        self._cache = ContentsCache(cache / "contents")
        wanted = {_package(axis) for axis in axes if axis.component.startswith("apt:")}
        self._offered = sources.versions(sorted(wanted)) if wanted else {}

    def between(self, axis: ComponentAxis) -> Runs:
        """Versions between those that images have."""
        package = _package(axis)
        offered = set(self._offered.get(package, ()))
        versions = [_version(state) for state in axis.states]
        return [
            [_state(package, each) for each in between(offered, good, bad)] if good and bad else []
            for good, bad in pairwise(versions)
        ]

    def contents(self, axis: ComponentAxis, state: State) -> Contents:
        """The package's files, and its part of the package database."""
        package = _package(axis)

        def read() -> Contents:
            with self.lent(axis, state) as image:
                return _only(self._contents_of(image), axis.component)

        return self._cache.get(self._sources.key(package, state.name), read)

    @contextmanager
    def lent(self, axis: ComponentAxis, state: State) -> Iterator[str]:
        """An image in which the package has the version."""
        with self._sources.installed(_package(axis), state.name) as image:
            yield image


def _only(contents: Contents, component: str) -> Contents:
    """What belongs to a component, with the folders around it."""
    found = components_of(contents, {}).get(component)
    if found is None:
        raise UnbuildableError(component, "it is not there after its installation")
    folders = {folder for path in found.paths for folder in folders_above(path)}
    kept = sorted({*found.paths, *folders} & contents.entries.keys())
    texts = {path: contents.texts[path] for path in (*kept, STATUS) if path in contents.texts}
    return Contents({path: contents.entries[path] for path in kept}, texts)


def _package(axis: ComponentAxis) -> str:
    """``NAME[:ARCHITECTURE]``, as apt takes it."""
    return axis.component.partition(":")[2].partition("@")[0]


def _version(state: State) -> str | None:
    """The version that an image has; a point's name may say more than that."""
    return None if state.name == ABSENT else state.name.partition(" ")[0]


def _state(package: str, version: str) -> State:
    offer = f"apt:{package}={version}"
    return State(name=version, digest=state_digest(offer), donor=None, offer=offer)
