"""What the tool made on the engine for one cache folder and has not removed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import docker

from bitsect.images.runtime.docker.marks import ROOT


@dataclass(frozen=True)
class Remnants:
    """Ids of what is there.

    :param containers: none of which may outlive the program that made it.
    :param volumes: kept for the next program.
    :param images: likewise; the latest first, as it may stand on an earlier one.
    """

    containers: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    images: tuple[str, ...] = ()


def remnants(engine: docker.DockerClient, cache: Path) -> Remnants:
    """What is left for a cache folder."""
    try:
        root = (cache / "engine" / "id").read_text()
    except FileNotFoundError:
        return Remnants()
    label: dict[str, str | list[str] | bool] = {"label": f"{ROOT}={root}"}
    images = engine.images.list(filters=label)
    images.sort(key=lambda image: str(image.attrs["Created"]), reverse=True)
    return Remnants(
        tuple(str(each.id) for each in engine.containers.list(all=True, filters=label)),
        tuple(str(each.id) for each in engine.volumes.list(filters=label)),
        tuple(str(image.id) for image in images),
    )


def remove(engine: docker.DockerClient, found: Remnants) -> None:
    """Removes it all."""
    for container in found.containers:
        engine.api.remove_container(container, force=True, v=True)
    for image in found.images:
        engine.images.remove(image, force=True)
    for volume in found.volumes:
        engine.api.remove_volume(volume)
