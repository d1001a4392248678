"""Files of an image, read without starting anything in it."""

from __future__ import annotations

import base64
import posixpath
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, cast

import msgspec
from docker.errors import APIError, NotFound
from docker.types import Mount

from bitsect.images.errors import InfrastructureError
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from bitsect.images.runtime.docker.marks import Marks

_STAT = "X-Docker-Container-Path-Stat"
#: Links followed before a path counts as leading nowhere; as the kernel has it.
_MOST_LINKS = 40
_REMOVAL_SECONDS = 60.0
_POLL_SECONDS = 0.02
# Go's file mode has its own bits for what is no plain file.
_GO_FOLDER = 1 << 31
_GO_LINK = 1 << 27
_GO_SPECIAL = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19


class FoundPath(msgspec.Struct, frozen=True):
    """One path of a container, as the engine describes it; a link is not followed.

    :param mode: as Go has it: permission bits, and bits of its own above them.
    """

    mode: int
    size: int
    link_target: str = msgspec.field(name="linkTarget", default="")

    @property
    def is_link(self) -> bool:
        return bool(self.mode & _GO_LINK)

    @property
    def is_file(self) -> bool:
        return not self.mode & (_GO_FOLDER | _GO_LINK | _GO_SPECIAL)

    @property
    def is_executable(self) -> bool:
        return self.is_file and bool(self.mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH))


@contextmanager
def created_container(
    engine: Engine, image: str, marks: Marks, *, mounts: Sequence[Mount] = ()
) -> Iterator[str]:
    """The id of a container of an image that is never started, and removed on leaving.

    :param image: the engine's id of it, or a name.

    Raises InfrastructureError, or `docker.errors.NotFound` if there is no such image.
    """
    with engine_faults("creating a container to read files from"):
        container: str = engine.api.create_container(
            image,
            # Never run, but an image without a command of its own needs one.
            command=["true"],
            entrypoint=[],
            labels=marks.on_container("files"),
            host_config=engine.api.create_host_config(network_mode="none", mounts=list(mounts)),
        )["Id"]
    try:
        yield container
    finally:
        remove_container(engine, container)


def remove_container(engine: Engine, container: str) -> None:
    """Remove it, running or not, with its anonymous volumes; it may be gone already.

    Raises InfrastructureError.
    """
    patience = time.monotonic() + _REMOVAL_SECONDS
    why = ""
    while time.monotonic() < patience:
        try:
            with engine_faults("removing a container"):
                engine.api.remove_container(container, v=True, force=True)
        except NotFound:
            return
        except (APIError, InfrastructureError) as error:
            # Its first process has just ended, and the engine is removing it already (Docker) or
            # cannot end it once more (Podman).
            if isinstance(error, InfrastructureError):
                if error.kind != "refused" or not engine.is_podman:
                    raise
                why = error.detail
            else:
                why = str(error.explanation)
            time.sleep(_POLL_SECONDS)
    raise InfrastructureError("refused", f"it does not remove container {container[:12]}: {why}")


def remove_volume(engine: Engine, name: str) -> bool:
    """Remove a volume; False if a container has it. It may be gone already.

    Raises InfrastructureError.
    """
    try:
        with engine_faults("removing a volume"):
            engine.api.remove_volume(name)
    except NotFound:
        return True
    except APIError:
        return False
    return True


@contextmanager
def exported(engine: Engine, image: str, marks: Marks) -> Iterator[IO[bytes]]:
    """A tar stream of all files of an image, its layers merged.

    Raises InfrastructureError, also while it is read inside the block.
    """
    with (
        created_container(engine, image, marks) as container,
        engine_faults("exporting the files of an image"),
        engine.stream("GET", f"/containers/{container}/export") as answer,
    ):
        yield cast(IO[bytes], answer.raw)


@contextmanager
def archive(engine: Engine, container: str, path: str) -> Iterator[IO[bytes]]:
    """A tar stream of a file, or of a folder with all below it; a last link is not followed.

    Raises `docker.errors.NotFound` if there is no such path.
    """
    with (
        engine_faults(f"reading {path} from a container"),
        engine.stream("GET", f"/containers/{container}/archive", {"path": path}) as answer,
    ):
        yield cast(IO[bytes], answer.raw)


def find_path(engine: Engine, container: str, path: str) -> FoundPath | None:
    """What a path of a container is; None if there is nothing."""
    try:
        with (
            engine_faults(f"looking for {path} in a container"),
            engine.stream("HEAD", f"/containers/{container}/archive", {"path": path}) as answer,
        ):
            described = base64.b64decode(answer.headers[_STAT])
    except NotFound:
        return None
    return msgspec.json.decode(described, type=FoundPath)


def follow_links(engine: Engine, container: str, path: str) -> FoundPath | None:
    """What a path of a container leads to; None for nothing, and for links without end."""
    for _ in range(_MOST_LINKS):
        found = find_path(engine, container, path)
        if found is None or not found.is_link:
            return found
        # The engine resolves links in the folders above, and a relative target's dots, within
        # the container.
        path = posixpath.join(posixpath.dirname(path), found.link_target)
    return None
