"""How trials of images and their hybrids are judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from bitsect.images.contents.model import ABSENT
from bitsect.images.manifest import Manifest
from bitsect.images.mixing.loaded import still_loaded
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.rules import Used
from bitsect.images.runtime.protocol import Stack
from bitsect.probes.inventory import CONTROL_PREFIXES, KNOWN_CONTROLS, PREFIX

# The loader and the interpreter read these before any program could be watched.
_READ_EARLY = ("LD_", "PYTHON", "PATH")


class ImageRules:
    """Rules for the stacks of one space of images."""

    def __init__(self, space: ImageSpace) -> None:
        self._space = space
        owners: defaultdict[str, set[str]] = defaultdict(set)
        for axis in space.axes:
            for state in axis.states:
                for path in state.paths:
                    owners[path].add(axis.component)
        self._owners = {path: frozenset(names) for path, names in owners.items()}

    def contradiction(self, stack: Stack, manifest: Manifest) -> str:
        """Packages, distributions and variables that the inventory finds at another point."""
        there = _found(manifest)
        return "; ".join(
            f"{component}: asked for {point}, found {there.get(component) or 'nothing'}"
            for component, point in self._points(stack)
            if component.partition(":")[0] in ("apt", "pip")
            # One of several of its name, of which an import finds the first.
            and "@" not in component
            and not _is_at(there.get(component), point)
        )

    def unmoved(self, stack: Stack, manifest: Manifest, used: Used) -> str:
        """A library that was exchanged, and yet was mapped in its old state."""
        if stack.recipe is None:
            return ""
        prefix = str(manifest.evidence.get("prefix", ""))
        libraries = [
            msgspec.structs.replace(each, path=each.path.replace(PREFIX, prefix, 1))
            for each in used.libraries
        ]
        return still_loaded(self._space, stack.recipe, libraries) or ""

    def touched(self, stack: Stack, used: Used) -> tuple[str, ...]:
        """Components that own a file that was used, and variables that may have been read."""
        names = {name for path in used.files for name in self._owners.get(path, ())}
        read, distributions = set(used.variables), set(used.distributions)
        for axis in self._space.axes:
            kind, _, name = axis.component.partition(":")
            if kind == "env" and (name in read or _may_be_read(name)):
                names.add(axis.component)
            if kind == "pip" and name.partition("@")[0] in distributions:
                names.add(axis.component)
        return tuple(axis.component for axis in self._space.axes if axis.component in names)

    def shared(self, manifest: Manifest) -> Mapping[str, object]:
        """The machine alone: everything else is part of the images."""
        return {"hardware": manifest.digests.hardware}

    def _points(self, stack: Stack) -> Iterator[tuple[str, str]]:
        for axis in self._space.axes:
            yield axis.component, stack.components.get(axis.component, ABSENT)


def _found(manifest: Manifest) -> dict[str, str | None]:
    software = manifest.software
    found: dict[str, str | None] = {
        f"apt:{package.name}": package.version for package in software.os_packages
    }
    for each in software.distributions:
        if not each.shadowed:
            found[f"pip:{each.name}"] = each.version
    return found


def _is_at(version: str | None, point: str) -> bool:
    """Whether a version is a point's; a point's name may say more than the version."""
    return (version or ABSENT) == point.partition(" ")[0]


def _may_be_read(name: str) -> bool:
    if name in KNOWN_CONTROLS or name.startswith(CONTROL_PREFIXES):
        return True
    return name.startswith(_READ_EARLY)
