"""Clearing away what bitsect left on an engine, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docker.errors import APIError

from bitsect.images.layers import Record
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from bitsect.images.runtime.docker.files import remove_container, remove_volume
from bitsect.images.runtime.docker.marks import MADE, OWNER, ROOT, Marks
from bitsect.images.runtime.docker.pruning import RECIPE, has_name, name_of


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

    :param everyones: also what belongs to other cache folders, but for what runs: their
        processes are not known.
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
    # Not by both labels: engines differ in what several mean.
    return {"label": [MADE if everyones else f"{ROOT}={marks.root}"]}


def _is_marked(thing: Mapping[str, Any], marks: Marks, *, everyones: bool) -> bool:
    """Whether it is what was asked for."""
    labels = thing.get("Labels") or {}
    return MADE in labels and (everyones or labels.get(ROOT) == marks.root)


def _containers(engine: Engine, marks: Marks, *, everyones: bool) -> list[Mapping[str, Any]]:
    with engine_faults("listing containers"):
        found = engine.api.containers(all=True, filters=_filters(marks, everyones=everyones))
    return [each for each in found if _is_marked(each, marks, everyones=everyones)]


def _is_needed(container: Mapping[str, Any], marks: Marks) -> bool:
    if (container.get("Labels") or {}).get(ROOT) != marks.root:
        # Nobody here knows whose process needs it.
        return container.get("State") == "running"
    return not marks.is_abandoned(_owner(container))


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
    """(removed, left). One from which another was made goes after that one.

    Whatever was made from one of these has its labels too, but never its name.
    """
    with engine_faults("listing images"):
        found = engine.api.images(filters=_filters(marks, everyones=everyones))
    own = [
        name
        for image in found
        if _is_marked(image, marks, everyones=everyones)
        and has_name(image.get("RepoTags") or (), name := _own_name(image))
    ]
    waiting = own
    while True:
        still = [name for name in waiting if not _untag(engine, name)]
        if len(still) in (0, len(waiting)):
            return len(own) - len(still), len(still)
        waiting = still


def _own_name(image: Mapping[str, Any]) -> str:
    """The name under which an image with these labels was made."""
    labels = image.get("Labels") or {}
    repository, tag = name_of(labels.get(MADE, ""), labels.get(RECIPE, ""), labels.get(ROOT, ""))
    return f"{repository}:{tag}"


def _untag(engine: Engine, name: str) -> bool:
    """Take its name away, and with its last name the image."""
    try:
        with engine_faults("removing an image"):
            engine.api.remove_image(name, noprune=True)
    except APIError:
        # A container uses it, another image was made from it, or it is gone.
        return False
    return True
