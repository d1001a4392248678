"""What differs from one kind of stack to another when a trial of it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from bitsect.images.environments import same_version
from bitsect.images.layers import Binary
from bitsect.images.manifest import Manifest
from bitsect.images.runtime.protocol import Stack


class Used(Protocol):
    """What a run of the probe used; see `runner.Touched`."""

    @property
    def libraries(self) -> tuple[Binary, ...]:
        """ELF files that were mapped."""
        ...

    @property
    def distributions(self) -> tuple[str, ...]:
        """Normalised names of Python distributions of which a file was used."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """Absolute paths of files that were mapped, imported or opened."""
        ...

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of environment variables that were read."""
        ...


class Rules(Protocol):
    """How trials of one kind of stack are judged."""

    def contradiction(self, stack: Stack, manifest: Manifest) -> str:
        """Where what is there is not what was asked for; empty if it is.

        The inventory is believed, not the installer: a trial is filed under what really ran.
        """
        ...

    def unmoved(self, stack: Stack, manifest: Manifest, used: Used) -> str:
        """Which library was used in its old state although it was exchanged; empty if none."""
        ...

    def touched(self, stack: Stack, used: Used) -> tuple[str, ...]:
        """Components that a run used."""
        ...

    def shared(self, manifest: Manifest) -> Mapping[str, object]:
        """What all stacks of a search have in common, whatever is mixed."""
        ...


class EnvironmentRules:
    """Rules for virtual environments."""

    def contradiction(self, stack: Stack, manifest: Manifest) -> str:
        """Versions other than locked, distributions too many, altered files."""
        there = {
            f"pip:{each.name}": each.version
            for each in manifest.software.distributions
            if not each.shadowed
        }
        wrong = [
            f"{component}: asked for {point}, found {there.get(component) or 'nothing'}"
            for component, point in sorted(stack.components.items())
            if component.startswith("pip:") and not same_version(there.get(component) or "", point)
        ]
        wrong += [
            f"{name}: not asked for, yet there"
            for name in sorted(there.keys() - stack.components.keys())
        ]
        wrong += [
            f"pip:{each.name}: {(each.altered + each.missing)[0]} is not as installed"
            for each in manifest.software.distributions
            if each.altered or each.missing
        ]
        return "; ".join(wrong)

    def unmoved(self, stack: Stack, manifest: Manifest, used: Used) -> str:
        """An environment is built whole, so no earlier state of a distribution is in it."""
        return ""

    def touched(self, stack: Stack, used: Used) -> tuple[str, ...]:
        """Distributions of which a file was used."""
        return tuple(f"pip:{name}" for name in used.distributions)

    def shared(self, manifest: Manifest) -> Mapping[str, object]:
        """The machine, its settings, its system and its Python."""
        software = msgspec.to_builtins(manifest.software)
        names = ("python", "os_packages", "alternatives")
        return {
            "hardware": manifest.digests.hardware,
            "controls": manifest.digests.controls,
            **{name: software[name] for name in names},
        }
