"""How trials of images and their hybrids are judged."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from bitsect.images.contents.model import ABSENT, ComponentAxis
from bitsect.images.manifest import Manifest
from bitsect.images.mixing.loaded import still_loaded
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.rules import Used
from bitsect.images.runtime.protocol import Stack
from bitsect.probes.inventory import CONTROL_PREFIXES, KNOWN_CONTROLS, PREFIX

_INFO = re.compile(r"(?P<site>/.*)/[^/]+\.dist-info/METADATA")
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
        """Packages and distributions that the inventory finds at another point."""
        found = _Found(manifest)
        wrong = []
        for axis in self._space.axes:
            point = stack.components.get(axis.component, ABSENT)
            there = found.versions(axis)
            if there is not None and point.partition(" ")[0] not in (there or {ABSENT}):
                seen = ", ".join(sorted(there)) or "nothing"
                wrong.append(f"{axis.component}: asked for {point}, found {seen}")
        return "; ".join(wrong)

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


class _Found:
    """What an inventory found, by component.

    It sees the distributions on its Python's import path alone, and all packages.
    """

    def __init__(self, manifest: Manifest) -> None:
        prefix = str(manifest.evidence.get("prefix", ""))
        self._packages: dict[str, str | None] = {}
        for package in manifest.software.os_packages:
            self._packages[f"{package.name}:{package.architecture}"] = package.version
        self._distributions: defaultdict[str, dict[str, str | None]] = defaultdict(dict)
        for each in manifest.software.distributions:
            folder = each.location.replace(PREFIX, prefix, 1)
            self._distributions[folder][each.name] = each.version

    def versions(self, axis: ComponentAxis) -> set[str] | None:
        """Those of an axis's component that are there; None if it could not be seen."""
        kind, _, name = axis.component.partition(":")
        if kind == "apt":
            keys = {package for state in axis.states for package in state.packages}
            return {version for key in keys if (version := self._packages.get(key))}
        if kind == "pip":
            sites = {match["site"] for path in _paths(axis) if (match := _INFO.fullmatch(path))}
            if not sites or not sites <= self._distributions.keys():
                return None
            plain = name.partition("@")[0]
            found = (self._distributions[site].get(plain) for site in sites)
            return {version for version in found if version}
        return None


def _paths(axis: ComponentAxis) -> Iterator[str]:
    return (path for state in axis.states for path in state.paths)


def _may_be_read(name: str) -> bool:
    if name in KNOWN_CONTROLS or name.startswith(CONTROL_PREFIXES):
        return True
    return name.startswith(_READ_EARLY)
