"""What differs between images: the axes of a search, what is only noise, and what goes together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from bitsect.images.contents.blocks import find_blocks
from bitsect.images.contents.chain_owners import Chain, ChainOwners, chain_owners
from bitsect.images.contents.components import components_of_chain, file_version
from bitsect.images.contents.file_groups import MOST_LOOSE_FILES, grouped
from bitsect.images.contents.model import ABSENT, Component, ComponentAxis
from bitsect.images.contents.noise import bytecode_source, is_noise, noise_reason
from bitsect.images.contents.states import (
    Point,
    axis_of,
    files_digest,
    short_digest,
    value_digest,
)
from bitsect.images.layers import Record

# Components that somebody installed as a whole. Others are what is left over.
_INSTALLED = ("apt", "git", "pip", "python")


class Differences(Record, frozen=True):
    """All that a chain of images differs in.

    :param axes: by component. Each path of the images moves with one axis at most.
    :param noise: (component, why) of those that differ in nothing that can change a bit.
    :param blocks: components that probably cannot move without each other.
    :param moved: (component, component) for files that belong to the first one in an image and
        to the second one in a later image.
    """

    axes: tuple[ComponentAxis, ...]
    noise: tuple[tuple[str, str], ...]
    blocks: tuple[tuple[str, ...], ...]
    moved: tuple[tuple[str, str], ...]


def axes_between(chain: Chain) -> Differences:
    """What the images differ in.

    A component is an axis if it differs in its files, noise aside, or in its value. One that has
    the same version and build everywhere was edited after its installation: then each file
    that differs is an axis by itself.

    :param chain: at least two images with the variables that they set, the good end first.
    """
    comparison = _Comparison(chain)
    axes = tuple(sorted(comparison.axes(), key=lambda axis: axis.component))
    return Differences(
        axes=axes,
        noise=tuple(comparison.noise({axis.component for axis in axes})),
        blocks=find_blocks(chain, comparison.images, comparison.owners, axes),
        moved=tuple(sorted(_moved(comparison.owners))),
    )


def _moved(owners: ChainOwners) -> set[tuple[str, str]]:
    names = owners.contested.values()
    return {pair for each in names for pair in pairwise(each)}


class _Comparison:
    """A chain of images, component by component."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.images = components_of_chain(chain)
        self.owners = chain_owners(chain, self.images)
        self._paths: dict[str, list[str]] = {}
        for path, name in self.owners.owners.items():
            self._paths.setdefault(name, []).append(path)
        self._changed: dict[str, list[str]] = {}
        for path in sorted(self.owners.changed):
            self._changed.setdefault(self.owners.owners[path], []).append(path)
        self._edited: set[str] = set()

    def axes(self) -> Iterator[ComponentAxis]:
        loose: list[str] = []
        for name in sorted({name for image in self.images for name in image.components}):
            differing = [path for path in self._changed.get(name, ()) if not is_noise(path)]
            if name.startswith("file:") or self._is_edited(name, differing):
                self._edited.add(name)
                loose += differing
            elif differing or name.startswith("env:"):
                axis = axis_of(name, [self._point(name, at) for at in range(len(self._chain))])
                if axis is not None:
                    yield axis
        yield from self._loose_axes(loose)

    def noise(self, axes: set[str]) -> Iterator[tuple[str, str]]:
        """Installed components that are not the same everywhere, and yet are no axis."""
        for name in sorted({name for image in self.images for name in image.components}):
            if name in axes or name in self._edited or name.partition(":")[0] not in _INSTALLED:
                continue
            versions = {each.version if each else None for each in self._each(name)}
            if len(versions) > 1 or name in self._changed:
                yield name, self._why_noise(name)

    def _why_noise(self, name: str) -> str:
        reasons = {noise_reason(path) for path in self._changed.get(name, ())}
        if any(name in names for names in self.owners.contested.values()):
            reasons.add("files that belong to another component")
        return ", ".join(sorted(filter(None, reasons))) or "all of its files are the same"

    def _is_edited(self, name: str, differing: list[str]) -> bool:
        """Whether it is one build in all images, so that somebody else changed its files."""
        first, *others = self._each(name)
        if first is None or name.partition(":")[0] not in _INSTALLED:
            return False
        if any(other is None or _build(other) != _build(first) for other in others):
            return False
        # Without checksums, a few files are more likely edited, and many built anew.
        told = first.build is not None or name.startswith("git:")
        return bool(differing) and (told or len(differing) <= MOST_LOOSE_FILES)

    def _each(self, name: str) -> list[Component | None]:
        return [image.components.get(name) for image in self.images]

    def _point(self, name: str, image: int) -> Point:
        component = self.images[image].components.get(name)
        paths = self._present(self._paths.get(name, ()), image)
        version = component.version if component is not None else None
        value = component.value if component is not None else None
        if name.startswith("env:"):
            digest = value_digest(name, value)
        else:
            # A package of another version is another one, even where its files are the same. What
            # nobody installed is called after its content.
            told = version if name.partition(":")[0] in _INSTALLED else None
            digest = files_digest(self._chain[image][0].entries, paths, told)
        return Point(
            name=version if version is not None else ABSENT,
            digest=digest,
            paths=paths,
            packages=component.packages if component is not None else (),
            value=value,
        )

    def _present(self, paths: Iterable[str], image: int) -> tuple[str, ...]:
        return tuple(sorted(path for path in paths if path in self.images[image].owners))

    def _loose_axes(self, loose: list[str]) -> Iterator[ComponentAxis]:
        bytecode: dict[str, list[str]] = {}
        for path in self.owners.owners:
            if (source := bytecode_source(path)) is not None:
                bytecode.setdefault(source, []).append(path)
        for name, paths in grouped(loose).items():
            together = [*paths, *(each for path in paths for each in bytecode.get(path, ()))]
            images = range(len(self._chain))
            points = [self._loose_point(together, len(paths) == 1, image) for image in images]
            axis = axis_of(name, points)
            if axis is not None:
                yield axis

    def _loose_point(self, together: list[str], single: bool, image: int) -> Point:
        """Of files that move together, each with its bytecode, or of a single one."""
        entries = self._chain[image][0].entries
        paths = self._present(together, image)
        files = [path for path in paths if not is_noise(path)]
        digest = files_digest(entries, paths)
        if not files:
            name = ABSENT
        elif single:
            name = file_version(entries[files[0]])
        else:
            name = short_digest(digest)
        return Point(name=name, digest=digest, paths=paths)


def _build(component: Component) -> tuple[str, str | None]:
    return component.version, component.build
