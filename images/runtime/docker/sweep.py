"""Clearing away what bitsect left on an engine, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docker.errors import APIError

from bitsect.images.layers import Record
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from bitsect.images.runtime.docker.files import remove_container, remove_volume
from bitsect.images.runtime.docker.marks import MADE, OWNER, ROOT, Marks

#: What the names of images that bitsect makes begin with.
OWN_NAMES = "bitsect/"


class Cleared(Record, frozen=True):
    """How many things were removed, and how many of bitsect's are left because they are in use."""

    containers: int
    volumes: int
    images: int
    left: int


def sweep(engine: Engine, marks: Marks) -> int:
    """Remove what this cache folder's processes that are gone have left; how many containers."""
    removed = 0
    for container in _containers(engine, marks, everyones=False):
        if marks.is_abandoned(_owner(container)):
            remove_container(engine, container["Id"])
            removed += 1
    for volume in _volumes(engine, marks, everyones=False):
        # Those without an owner are everyone's.
        if _owner(volume) and marks.is_abandoned(_owner(volume)):
            remove_volume(engine, volume["Name"])
    return removed


def clear(engine: Engine, marks: Marks, *, everyones: bool = False) -> Cleared:
    """Remove everything that bitsect made, except what a running process of it needs.

    :param everyones: also what belongs to other cache folders, whose processes are not known.
    """
    containers = _containers(engine, marks, everyones=everyones)
    gone = [each for each in containers if not _is_needed(each, marks)]
    for container in gone:
        remove_container(engine, container["Id"])
    left = len(containers) - len(gone)
    volumes, used_volumes = _clear_volumes(engine, marks, everyones=everyones)
    images, used_images = _clear_images(engine, marks, everyones=everyones)
    return Cleared(len(gone), volumes, images, left + used_volumes + used_images)


def _filters(marks: Marks, *, everyones: bool) -> dict[str, list[str]]:
    return {"label": [MADE] if everyones else [f"{ROOT}={marks.root}", MADE]}


def _is_marked(thing: Mapping[str, Any], marks: Marks, *, everyones: bool) -> bool:
    """Whether it is what was asked for. Some engines take one of several labels as enough."""
    labels = thing.get("Labels") or {}
    return MADE in labels and (everyones or labels.get(ROOT) == marks.root)


def _containers(engine: Engine, marks: Marks, *, everyones: bool) -> list[Mapping[str, Any]]:
    with engine_faults("listing containers"):
        found = engine.api.containers(all=True, filters=_filters(marks, everyones=everyones))
    return [each for each in found if _is_marked(each, marks, everyones=everyones)]


def _is_needed(container: Mapping[str, Any], marks: Marks) -> bool:
    labels = container.get("Labels") or {}
    return labels.get(ROOT) == marks.root and not marks.is_abandoned(_owner(container))


def _owner(thing: Mapping[str, Any]) -> str:
    return str((thing.get("Labels") or {}).get(OWNER, ""))


def _volumes(engine: Engine, marks: Marks, *, everyones: bool) -> list[Mapping[str, Any]]:
    with engine_faults("listing volumes"):
        found = engine.api.volumes(filters=_filters(marks, everyones=everyones))
    listed = found.get("Volumes") or ()
    return [each for each in listed if _is_marked(each, marks, everyones=everyones)]


def _clear_volumes(engine: Engine, marks: Marks, *, everyones: bool) -> tuple[int, int]:
    """(removed, left)."""
    own = _volumes(engine, marks, everyones=everyones)
    removed = sum(remove_volume(engine, volume["Name"]) for volume in own)
    return removed, len(own) - removed


def _clear_images(engine: Engine, marks: Marks, *, everyones: bool) -> tuple[int, int]:
    """(removed, left). One from which another was made goes after that one."""
    with engine_faults("listing images"):
        found = engine.api.images(filters=_filters(marks, everyones=everyones))
    own = [each for each in found if _is_marked(each, marks, everyones=everyones)]
    waiting = own
    while True:
        still = [image for image in waiting if not _remove_image(engine, image)]
        if len(still) in (0, len(waiting)):
            return len(own) - len(still), len(still)
        waiting = still


def _remove_image(engine: Engine, image: Mapping[str, Any]) -> bool:
    tags = [tag for tag in image.get("RepoTags") or () if "<none>" not in tag]
    own = [tag for tag in tags if OWN_NAMES in tag]
    try:
        with engine_faults("removing an image"):
            # Whoever gave it another name wants to keep it.
            for name in own if tags else [image["Id"]]:
                engine.api.remove_image(name, noprune=True)
    except APIError:
        # A container uses it, another image was made from it, or it is gone.
        return False
    return len(own) == len(tags)
