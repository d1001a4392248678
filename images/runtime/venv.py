"""Stacks that are virtual environments: no engine, no root, no GPU needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bitsect.images.environments import Environment, EnvironmentCache
from bitsect.images.errors import BadReference
from bitsect.images.interpreter import Interpreter
from bitsect.images.lock import Lock
from bitsect.images.pip_settings import PipSettings
from bitsect.images.reference import Reference
from bitsect.images.resolver import Resolver
from bitsect.images.runtime.local import LocalSession
from bitsect.images.runtime.protocol import Handle, Stack

_KIND = "pip:"


@dataclass(frozen=True)
class VenvHandle:
    """A built environment. It stays on the disk until it is released."""

    stack: Stack
    environment: Environment
    cache: EnvironmentCache

    @property
    def python(self) -> Path:
        return self.environment.python

    @property
    def name(self) -> str:
        return str(self.python)

    def release(self) -> None:
        self.environment.release()

    def discard(self) -> None:
        self.environment.release()
        self.cache.remove(self.environment)


class VenvRuntime:
    """Resolves with uv, builds into a cache, runs on this machine.

    :param settings: of the user's pip.
    :param resolver: by default one for `interpreter` and `settings` that builds nothing.
    """

    name = "venv"

    def __init__(
        self,
        interpreter: Interpreter,
        settings: PipSettings,
        cache: EnvironmentCache,
        resolver: Resolver | None = None,
    ) -> None:
        self.interpreter = interpreter
        self.settings = settings
        self.resolver = resolver or Resolver(interpreter, settings)
        self._cache = cache

    def resolve(self, reference: Reference) -> Stack:
        """The stack of a ``venv:`` reference; the errors are those of `Resolver.resolve`."""
        if reference.kind != self.name:
            raise ValueError(f"not a venv reference: {reference.text}")
        lock = self.resolver.resolve(reference.requirements, reference.file)
        if not lock.packages:
            raise BadReference(reference.text, "it names no requirement")
        return self._stack(reference.text, lock)

    def hybrid(self, base: Stack, pins: Mapping[str, str | None]) -> Stack:
        """The base with ``pip:`` components at other versions; None removes one.

        Raises UnresolvedError when they do not fit together, BadReference for a component
        that an environment cannot exchange.
        """
        if base.lock is None:
            raise ValueError(f"not of this runtime: {base.reference}")
        pinned = self.resolver.resolve_pins(
            base.lock, {_package(component): point for component, point in pins.items()}
        )
        changes = " ".join(f"{component}={pins[component]}" for component in sorted(pins))
        stack = self._stack(f"{base.reference} with {changes}", pinned.lock)
        return replace(stack, added=tuple(_KIND + package.name for package in pinned.added))

    def rebuilt(self, stack: Stack) -> Stack:
        """Every environment is built whole from its lock."""
        return stack

    def ensure(self, stack: Stack, near: Handle | None = None) -> VenvHandle:
        """Build the environment unless it is there.

        :param near: a similar one, whose compiled modules can be taken over.

        Raises UnbuildableError, InfrastructureError.
        """
        if stack.lock is None or stack.interpreter is None:
            raise ValueError(f"not of this runtime: {stack.reference}")
        donor = near.environment if isinstance(near, VenvHandle) else None
        environment = self._cache.ensure(stack.lock, stack.interpreter, donor)
        return VenvHandle(stack, environment, self._cache)

    def open(self, handle: Handle) -> LocalSession:
        """A session in the environment; its own programs come first on the search path."""
        programs = str(handle.python.parent)
        user = dict(os.environ)
        user["PATH"] = os.pathsep.join((programs, user.get("PATH", os.defpath)))
        scratch = self._cache.root / ".scratch"
        return LocalSession(handle.stack, handle.python, scratch, own_python=True, user=user)

    def _stack(self, text: str, lock: Lock) -> Stack:
        components = {_KIND + name: version for name, version in lock.versions.items()}
        components[f"python:{self.interpreter.implementation}"] = self.interpreter.version
        return Stack(text, self.name, self.interpreter, components, lock)


def _package(component: str) -> str:
    if not component.startswith(_KIND):
        raise BadReference(component, "an environment exchanges pip: components alone")
    return component.removeprefix(_KIND)
