"""What commands work with: runtimes, the staged probe, the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Self, cast

import msgspec

from bitsect.bisect.errors import NoSession
from bitsect.bisect.store import Store, data_root
from bitsect.images.contents.axes import Differences, axes_between
from bitsect.images.contents.cache import ContentsCache
from bitsect.images.contents.model import Contents
from bitsect.images.contents.reader import read_contents
from bitsect.images.environments import EnvironmentCache, default_cache_root
from bitsect.images.errors import BadReference
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.interpreter import Interpreter, describe_interpreter
from bitsect.images.payload import Payload, staged_probe
from bitsect.images.pip_settings import PipSettings, read_pip_settings
from bitsect.images.reference import Reference
from bitsect.images.resolver import Resolver
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.files import exported
from bitsect.images.runtime.docker.limits import ContainerOptions
from bitsect.images.runtime.docker.runtime import DockerRuntime
from bitsect.images.runtime.docker.tags import TagsFound, tags_between
from bitsect.images.runtime.host import HostRuntime
from bitsect.images.runtime.protocol import Runtime, Stack
from bitsect.images.runtime.venv import VenvRuntime


class Workshop:
    """Makes what a command needs, once and only when it needs it.

    :param python: the interpreter for virtual environments; this one if None.
    :param allow_builds: releases without a wheel are built from source.
    :param prereleases: pre-releases may be chosen.
    :param containers: how the containers of images are run.
    """

    def __init__(
        self,
        python: Path | None = None,
        *,
        allow_builds: bool = False,
        prereleases: bool = False,
        containers: ContainerOptions | None = None,
    ) -> None:
        self._containers = containers
        self._python = python
        self._allow_builds = allow_builds
        self._prereleases = prereleases

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the engine, if it was used."""
        images = self.__dict__.get("images")
        if images is not None:
            images.close()
            images.engine.close()

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

    @cached_property
    def images(self) -> DockerRuntime:
        """The runtime of images.

        :raises InfrastructureError: no engine can be used.
        """
        engine = Engine.connect()
        return DockerRuntime(engine, self.payload, default_cache_root(), self._containers)

    @property
    def conditions(self) -> dict[str, object]:
        """How containers are run, as text and whole numbers.

        How many run at a time decides how much memory each may use by default, and no bit.
        """
        options = msgspec.to_builtins(msgspec.structs.replace(self.images.options, share=1))
        return {
            name: str(value) if isinstance(value, float) else value
            for name, value in options.items()
        }

    def contents(self, stack: Stack) -> Contents:
        """The files of an image, read once and kept."""
        image = _image(stack)
        cache = ContentsCache(default_cache_root() / "contents")
        return cache.get(image.config_digest, lambda: self.read_image(image.engine_id))

    def read_image(self, engine_id: str) -> Contents:
        """The files of whatever the engine knows by this id."""
        with exported(self.images.engine, engine_id, self.images.marks) as stream:
            return read_contents(cast(BinaryIO, stream))

    def differences(self, chain: Sequence[Stack]) -> Differences:
        """What these images differ in."""
        return axes_between([(self.contents(each), _image(each).environment) for each in chain])

    def tagged_between(self, good: Stack, bad: Stack, pattern: str) -> TagsFound:
        """Images of the good one's repository that were made between the two."""
        ends = _image(good), _image(bad)
        return tags_between(self.images.engine, ends[0].repository, pattern, *ends)

    def runtime(self, reference: Reference) -> Runtime:
        """The runtime that a reference asks for.

        :raises BadReference: nothing can be started from it.
        """
        match reference.kind:
            case "venv":
                return self.venv
            case "host":
                return HostRuntime(self.scratch_root)
            case "image":
                return self.images
        reason = "a manifest describes a stack, and can only be compared"
        raise BadReference(reference.text, reason, ("venv:torch==2.13.0", "host:", "NAME:TAG"))

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


def _image(stack: Stack) -> ImageIdentity:
    assert stack.image is not None, "only images have contents"
    return stack.image
