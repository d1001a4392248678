"""Images that were made here: found again, held while in use, and removed to make room.

They are a cache. What was made from images can be made from them again, so the least recently
used go first. Nothing goes that is in use, that another one was made from, or that does not
carry this cache folder's own labels; and nothing else goes along with what does.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from bitsect.images.errors import InfrastructureError, host_faults
from bitsect.images.file_lock import FileLock
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from bitsect.images.runtime.docker.marks import MADE, ROOT, Marks
from bitsect.images.runtime.docker.names import same_repository

#: What identifies a made image, ``sha256:…``: the digest of its recipe.
RECIPE = "bitsect.recipe"
#: Identity of what it was made from, and the size of that in bytes.
BASE = "bitsect.base"
BASE_SIZE = "bitsect.base-size"

#: Bytes that made images may take by default, where the engine's disk has plenty of room.
LIMIT = 20 * 10**9
#: Part of the room on the engine's disk that they may take otherwise.
SHARE = 4
TAG_DIGITS = 16
#: Seconds between two looks at an image that someone else makes.
PAUSE = 0.02


@dataclass(frozen=True)
class MadeImage:
    """An image that was made here.

    :param id: by which the engine knows it.
    :param key: digest of its recipe.
    :param base: key of the image it was made from.
    :param size: bytes that it takes beyond that one.
    """

    id: str
    key: str
    kind: str
    base: str
    size: int
    labels: Mapping[str, str] = field(hash=False)
    tags: tuple[str, ...]

    @property
    def own_name(self) -> str:
        """Repository and tag that it was made under."""
        return _name(self.kind, self.key, self.labels.get(ROOT, ""))

    @property
    def has_own_name(self) -> bool:
        """What was made from it has the labels too, but not the name."""
        return has_name(self.tags, self.own_name)


class MadeImages:
    """The made images of one cache folder.

    :param folder: for the locks that say which of them are in use; a lock's time is that of the
        last use.
    :param limit: bytes that they may take; None for `default_limit`. The latest stays, whatever
        its size.
    """

    def __init__(
        self, engine: Engine, marks: Marks, folder: Path, limit: int | None = None
    ) -> None:
        self._engine = engine
        self._marks = marks
        self._folder = folder
        self._limit = limit
        with host_faults(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def lock_path(self, key: str) -> Path:
        """Of the file that whoever uses or makes an image holds locked."""
        return self._folder / f"{key.removeprefix('sha256:')}.lock"

    def all(self, kind: str | None = None) -> list[MadeImage]:
        """Those that the engine has, of one kind or of every kind."""
        # By one label: of several, engines take one as enough (Docker's of old), or find nothing
        # (Podman's, where one has no value).
        with engine_faults("listing images"):
            listed = self._engine.api.images(filters={"label": f"{ROOT}={self._marks.root}"})
        made = [_made(each) for each in listed]
        return [each for each in made if self._is_own(each) and kind in (None, each.kind)]

    def find(self, kind: str, key: str) -> MadeImage | None:
        """The image of a recipe, if it is there."""
        try:
            found = self._engine.image(_name(kind, key, self._marks.root))
        except NotFound:
            return None
        image = _made({**found, "Labels": (found.get("Config") or {}).get("Labels")})
        # A tag is only a name: what it names must be what was made under it.
        return image if self._is_own(image) and image.key == key else None

    def ensure(self, kind: str, key: str, make: Callable[[], None]) -> tuple[MadeImage, FileLock]:
        """The image of a recipe, and a lock that keeps it.

        Of all who ask for it at a time, one makes it. Raises what `make` raises.

        :param make: leaves the image on the engine under its name.
        """
        while True:
            held = self.hold(kind, key)
            if held is not None:
                return held
            # Not asked for with a waiting lock: those who use an image would be waited for.
            lock = FileLock.try_exclusive(self.lock_path(key))
            if lock is None:
                time.sleep(PAUSE)
                continue
            with lock:
                if self.find(kind, key) is None:
                    self._make(lock, make)
                    self._require(kind, key)

    def _require(self, kind: str, key: str) -> None:
        # What is made and not found would be made for ever.
        if self.find(kind, key) is None:
            name = _name(kind, key, self._marks.root)
            detail = f"{self._engine.title} does not have the image {name} that it has just made"
            raise InfrastructureError("refused", detail)

    def _make(self, lock: FileLock, make: Callable[[], None]) -> None:
        try:
            make()
        except BaseException:
            lock.remove()
            raise
        _mark_as_used(lock)
        self.trim()

    def hold(self, kind: str, key: str) -> tuple[MadeImage, FileLock] | None:
        """The image of a recipe, and a lock that keeps it; None if it is not there now."""
        lock = FileLock.try_shared(self.lock_path(key))
        if lock is None:
            return None
        image = self.find(kind, key)
        if image is None:
            lock.release()
            self._forget(kind, key)
            return None
        _mark_as_used(lock)
        return image, lock

    def _forget(self, kind: str, key: str) -> None:
        """Leave no lock of an image that is not there."""
        lock = FileLock.try_exclusive(self.lock_path(key))
        if lock is not None:
            with lock:
                if self.find(kind, key) is None:
                    lock.remove()

    def remove(self, image: MadeImage) -> bool:
        """Remove an image; False if it is in use."""
        lock = FileLock.try_exclusive(self.lock_path(image.key))
        if lock is None:
            return False
        with lock:
            removed = self._untag(image.own_name)
            if removed:
                lock.remove()
        return removed

    def trim(self) -> None:
        """Remove what is least recently used until the rest is within the limit."""
        images = self.all()
        limit = self._limit
        if limit is None:
            limit = default_limit(self._engine, sum(image.size for image in images))
        last_uses = {image.key: _time_of(self.lock_path(image.key)) for image in images}
        kept: set[str] = set()
        while (image := doomed(images, last_uses, limit, kept)) is not None:
            if self.remove(image):
                images.remove(image)
            else:
                kept.add(image.key)

    def _is_own(self, image: MadeImage) -> bool:
        """Some engines take one of several labels as enough."""
        return image.labels.get(ROOT) == self._marks.root and image.has_own_name

    def _untag(self, name: str) -> bool:
        try:
            with engine_faults("removing an image"):
                # Without noprune, images without a name that it was made from would go too.
                self._engine.api.remove_image(name, noprune=True)
        except NotFound:
            return True
        except APIError:
            # A container uses it, or another image was made from it.
            return False
        return True


def name_of(kind: str, key: str, root: str) -> tuple[str, str]:
    """Repository and tag of a made image.

    :param root: of the cache folder, because two folders may make the same image on one engine.
    """
    return f"bitsect/{kind}", f"{key.removeprefix('sha256:')[:TAG_DIGITS]}-{root}"


def has_name(tags: Iterable[str], name: str) -> bool:
    """Whether an engine lists an image under a name that was given without a registry.

    Podman lists it with the one that it would be looked for in.
    """
    repository, _, tag = name.rpartition(":")
    listed = (each.rpartition(":") for each in tags)
    return any(found == tag and same_repository(repository, place) for place, _, found in listed)


def _name(kind: str, key: str, root: str) -> str:
    return ":".join(name_of(kind, key, root))


def doomed(
    images: Sequence[MadeImage],
    last_uses: Mapping[str, int],
    limit: int,
    kept: Collection[str] = (),
) -> MadeImage | None:
    """Which image to remove next; None if all take no more than the limit, or none may go.

    One that others were made from takes no room of its own before these are gone. The one used
    last stays.

    :param last_uses: by key.
    :param kept: keys of those that stay whatever they take.
    """
    if sum(image.size for image in images) <= limit:
        return None

    def last_use(image: MadeImage) -> tuple[int, str]:
        return last_uses.get(image.key, 0), image.key

    newest = max(images, key=last_use, default=None)
    staying = {*kept, *(image.base for image in images)}
    free = [image for image in images if image != newest and image.key not in staying]
    return min(free, key=last_use, default=None)


def default_limit(engine: Engine, taken: int) -> int:
    """Bytes that made images may take on an engine's disk, of which they take some already."""
    with engine_faults("asking where the engine keeps its images"):
        root = str(engine.api.info().get("DockerRootDir") or "")
    # An engine on another machine does not tell how much room it has.
    if not engine.address.startswith("/") or not os.path.isdir(root):
        return LIMIT
    return min(LIMIT, (shutil.disk_usage(root).free + taken) // SHARE)


def _made(described: Mapping[str, Any]) -> MadeImage:
    labels: dict[str, str] = dict(described.get("Labels") or {})
    size, base_size = int(described.get("Size") or 0), labels.get(BASE_SIZE, "")
    return MadeImage(
        id=described["Id"],
        key=labels.get(RECIPE, ""),
        kind=labels.get(MADE, ""),
        base=labels.get(BASE, ""),
        size=max(0, size - (int(base_size) if base_size.isdecimal() else 0)),
        labels=labels,
        # The engine's word for an image without a name.
        tags=tuple(tag for tag in described.get("RepoTags") or () if tag != "<none>:<none>"),
    )


def _mark_as_used(lock: FileLock) -> None:
    # Explicit, because the kernel's own stamp moves on only every few ms.
    now = time.time_ns()
    with host_faults(lock.path):
        os.utime(lock.path, ns=(now, now))


def _time_of(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
