"""Stacks that are images of a container engine."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from docker.errors import APIError, NotFound
from docker.types import Mount

from bitsect.images.errors import BadReference, InfrastructureError
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.payload import Payload
from bitsect.images.reference import Reference
from bitsect.images.runtime.docker.container import Container, Plan
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from bitsect.images.runtime.docker.files import created_container, follow_links
from bitsect.images.runtime.docker.gpus import check_gpus, find_gpus
from bitsect.images.runtime.docker.identity import Identities
from bitsect.images.runtime.docker.limits import (
    HOST_NAME,
    ContainerOptions,
    host_config,
    image_volumes,
)
from bitsect.images.runtime.docker.marks import Marks
from bitsect.images.runtime.docker.probe_volume import probe_mount, probe_volume
from bitsect.images.runtime.docker.pull import Progress
from bitsect.images.runtime.docker.references import ReferenceResolver
from bitsect.images.runtime.docker.session import ContainerSession
from bitsect.images.runtime.docker.sweep import sweep
from bitsect.images.runtime.protocol import Handle, Stack

_PYTHONS = ("python3", "python")
# The engine's own, for an image that sets none.
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@runtime_checkable
class ImageHandle(Handle, Protocol):
    """A handle on an image that the engine has."""

    @property
    def engine_id(self) -> str:
        """The engine's id of the image."""
        ...


@dataclass(frozen=True)
class FoundImage:
    """An image that bitsect did not make, and leaves where it is."""

    stack: Stack
    python: Path
    engine_id: str

    @property
    def name(self) -> str:
        """A reference to it, by digest."""
        assert self.stack.image is not None, "it was resolved"
        return self.stack.image.short

    def discard(self) -> None:
        """It is not bitsect's to remove."""

    def release(self) -> None:
        """Nothing keeps it."""


class DockerRuntime:
    """Runs programs in containers of images.

    What earlier processes with the same cache folder left running is removed at once.

    :param payload: the probe that is lent to every container.
    :param cache_root: bitsect's cache folder.
    :param progress: is told how far a pull has come.

    Raises InfrastructureError, as all of its methods do.
    """

    name = "image"

    def __init__(
        self,
        engine: Engine,
        payload: Payload,
        cache_root: Path,
        options: ContainerOptions | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.engine = engine
        self.payload = payload
        self.options = options or ContainerOptions()
        self.marks = Marks(cache_root)
        self.identities = Identities(engine, self.marks.folder / "configs")
        self._resolver = ReferenceResolver(engine, self.identities, progress)
        self._volume: str | None = None
        self._lending = threading.Lock()
        sweep(engine, self.marks)

    def resolve(self, reference: Reference) -> Stack:
        """The image that a reference means now, pulled if need be; its components are not read.

        Raises BadReference.
        """
        if reference.kind != self.name:
            raise ValueError(f"not an image's reference: {reference.text}")
        identity = self._resolver.resolve(reference.text)
        return Stack(reference.text, self.name, None, {}, image=identity)

    def ensure(self, stack: Stack) -> FoundImage:
        """The image as it was resolved, pulled again by its digest if it was removed since.

        Raises BadReference if it has no Python.
        """
        if stack.image is None or stack.recipe is not None:
            raise ValueError(f"not of this runtime: {stack.reference}")
        identity = stack.image
        try:
            self.engine.image(identity.engine_id)
        except NotFound:
            identity = self._resolver.pull_again(identity)
        python = self.python_of(identity)
        if python is None:
            raise BadReference(stack.reference, "it has no Python on its PATH")
        return FoundImage(stack, python, identity.engine_id)

    def open(self, handle: Handle) -> ContainerSession:
        """A session in the image of an `ImageHandle`. Its container starts with the first use."""
        if not isinstance(handle, ImageHandle):
            raise ValueError(f"not of this runtime: {handle.stack.reference}")
        image, python = handle.engine_id, str(handle.python)
        return ContainerSession(
            handle.stack,
            handle.python,
            lambda: self._made(image, python),
            self._start,
            self.marks.scratch_root,
            self.payload.folder,
        )

    def python_of(self, identity: ImageIdentity) -> Path | None:
        """The Python that the image's PATH leads to first; None for an image without one."""
        folders = identity.environment.get("PATH", _DEFAULT_PATH).split(":")
        with created_container(self.engine, identity.engine_id, self.marks) as container:
            for name in _PYTHONS:
                for folder in folders:
                    path = f"{folder.rstrip('/')}/{name}"
                    if not path.startswith("/"):
                        continue
                    found = follow_links(self.engine, container, path)
                    if found is not None and found.is_executable:
                        return Path(path)
        return None

    def close(self) -> None:
        """Sessions must be closed before; may be repeated."""
        self.marks.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _made(self, image: str, python: str) -> Container:
        """A fresh container."""
        data = self._data_volumes(image)
        mounts = (probe_mount(self._lent(image)), *data)
        plan = Plan(
            image=image,
            python=python,
            labels=self.marks.on_container("session"),
            host_config=host_config(self.engine, self.options, mounts),
            host_name=HOST_NAME,
            volumes=tuple(mount["Source"] for mount in data),
        )
        return Container(self.engine, plan)

    def _start(self, container: Container) -> None:
        """Start a container, which must have the GPUs that it should have."""
        container.start()
        if self.options.gpus:
            try:
                check_gpus(self.options.gpus, find_gpus(container), self.engine)
            except BaseException:
                container.remove()
                raise

    def _lent(self, image: str) -> str:
        """The probe's volume. It may have been removed since it was last used, and the engine
        would then make an empty one of that name."""
        with self._lending:
            if self._volume is None or not self._is_there(self._volume):
                self._volume = probe_volume(self.engine, self.marks, self.payload, image)
            return self._volume

    def _is_there(self, volume: str) -> bool:
        try:
            with engine_faults("looking for the probe's volume"):
                self.engine.api.inspect_volume(volume)
        except APIError:
            return False
        return True

    def _data_volumes(self, image: str) -> tuple[Mount, ...]:
        try:
            return image_volumes(self.engine.image(image))
        except NotFound as error:
            raise InfrastructureError("refused", f"an image was removed: {image}") from error
