"""What commands work with: runtimes, the staged probe, the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from bitsect.bisect.errors import NoSession
from bitsect.bisect.store import Store, data_root
from bitsect.images.environments import EnvironmentCache, default_cache_root
from bitsect.images.errors import BadReference
from bitsect.images.interpreter import Interpreter, describe_interpreter
from bitsect.images.payload import Payload, staged_probe
from bitsect.images.pip_settings import PipSettings, read_pip_settings
from bitsect.images.reference import Reference
from bitsect.images.resolver import Resolver
from bitsect.images.runtime.host import HostRuntime
from bitsect.images.runtime.protocol import Runtime
from bitsect.images.runtime.venv import VenvRuntime


class Workshop:
    """Makes what a command needs, once and only when it needs it.

    :param python: the interpreter for virtual environments; this one if None.
    :param allow_builds: releases without a wheel are built from source.
    :param prereleases: pre-releases may be chosen.
    """

    def __init__(
        self,
        python: Path | None = None,
        *,
        allow_builds: bool = False,
        prereleases: bool = False,
    ) -> None:
        self._python = python
        self._allow_builds = allow_builds
        self._prereleases = prereleases

    @cached_property
    def interpreter(self) -> Interpreter:
        """The Python that virtual environments stand on."""
        return describe_interpreter(self._python)

    @cached_property
    def settings(self) -> PipSettings:
        """The user's own pip settings."""
        return read_pip_settings()

    @cached_property
    def payload(self) -> Payload:
        """The probe, staged for stacks."""
        return staged_probe(default_cache_root())

    @property
    def scratch_root(self) -> Path:
        """Where folders lie that are gone when a command has ended."""
        return default_cache_root() / "scratch"

    @cached_property
    def venv(self) -> VenvRuntime:
        """The runtime of virtual environments."""
        cache = EnvironmentCache(
            default_cache_root() / "environments",
            None,
            self.settings,
            allow_builds=self._allow_builds,
        )
        resolver = Resolver(
            self.interpreter,
            self.settings,
            allow_builds=self._allow_builds,
            prereleases=self._prereleases,
        )
        return VenvRuntime(self.interpreter, self.settings, cache, resolver)

    def runtime(self, reference: Reference) -> Runtime:
        """The runtime that a reference asks for.

        :raises BadReference: nothing can be started from it.
        """
        match reference.kind:
            case "venv":
                return self.venv
            case "host":
                return HostRuntime(self.scratch_root)
        reason = (
            "a manifest describes a stack, and can only be compared"
            if reference.kind == "manifest"
            else "NAME:TAG is a container image, which this version cannot start"
        )
        raise BadReference(reference.text, reason, ("venv:torch==2.13.0", "host:"))

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The user's store, made if it is not there."""
        store = Store(data_root())
        try:
            yield store
        finally:
            store.close()

    @staticmethod
    @contextmanager
    def existing_store() -> Iterator[Store]:
        """The user's store, for reading.

        :raises NoSession: there is none yet.
        """
        if not (data_root() / "store.sqlite").exists():
            raise NoSession(None, ())
        store = Store(data_root())
        try:
            yield store
        finally:
            store.close()
