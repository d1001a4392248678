"""Turns a container whose files are arranged into an image, in one step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from docker.errors import NotFound

from bitsect.images.errors import InfrastructureError, UnbuildableError
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.layers import Record
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.faults import every_fault
from bitsect.images.runtime.docker.marks import MADE, OWNER, Marks
from bitsect.images.runtime.docker.pruning import BASE, BASE_SIZE, RECIPE, name_of


class BaseImage(Record, frozen=True):
    """What an image is made from, as the engine describes it.

    :param id: by which the engine knows it.
    :param key: digest of the recipe that it is.
    :param size: bytes.
    :param layers: number of them.
    :param environment: its variables as its config has them: ``NAME=value``, or ``NAME`` alone
        for one that is unset.
    :param labels: names of its labels.
    :param volumes: folders whose files are no part of what is made from it.
    """

    id: str
    key: str
    size: int
    layers: int
    environment: tuple[str, ...]
    labels: tuple[str, ...]
    volumes: tuple[str, ...]


def described(engine: Engine, image: str, key: str) -> BaseImage:
    """Asks the engine. Raises InfrastructureError for an image that is there no more."""
    try:
        found = engine.image(image)
    except NotFound as error:
        raise InfrastructureError("refused", f"an image was removed: {image}") from error
    config: Mapping[str, Any] = found.get("Config") or {}
    return BaseImage(
        id=found["Id"],
        key=key,
        size=int(found.get("Size") or 0),
        layers=len(found["RootFS"].get("Layers") or ()),
        environment=tuple(config.get("Env") or ()),
        labels=tuple(config.get("Labels") or ()),
        volumes=tuple(config.get("Volumes") or ()),
    )


class Carried(Record, frozen=True):
    """What a container has from the start because the image that is made of it is to have it.

    Podman takes an image's variables and labels from the container, whatever it is told when the
    image is made.
    """

    environment: tuple[str, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)


def carried(
    engine: Engine, base: BaseImage, changes: Mapping[str, str | None], labels: Mapping[str, str]
) -> Carried:
    """What a container has to have for `commit` to make the image.

    Raises UnbuildableError for a variable that cannot be taken away.

    :param labels: all that the image gets.
    """
    if not engine.is_podman:
        return Carried()
    present = {pair.partition("=")[0] for pair in base.environment}
    for name, value in changes.items():
        if value is None and name in present:
            reason = f"{engine.title} cannot take a variable away from what an image is made from"
            raise UnbuildableError(f"env:{name}", reason)
    variables = (f"{name}={value}" for name, value in changes.items() if value is not None)
    return Carried(tuple(variables), dict(labels))


def commit(
    engine: Engine,
    marks: Marks,
    container: str,
    config: Mapping[str, Any],
    labels: Mapping[str, str],
) -> str:
    """Make an image of a container that was created with what `carried` says; gives its id.

    :param config: that the image gets, less its labels; see `config_like`.
    :param labels: see `all_labels`.
    """
    repository, tag = name_of(labels[MADE], labels[RECIPE], marks.root)
    instructions = [
        f"ENTRYPOINT {json.dumps(config['Entrypoint'])}",
        f"CMD {json.dumps(config['Cmd'])}",
        f"WORKDIR {config['WorkingDir']}",
        f"USER {config['User'] or '0'}",
        f"LABEL {MADE}={labels[MADE]}",
        # What somebody makes of the image has its labels, and belongs to no process of bitsect.
        f'LABEL {OWNER}=""',
    ]
    with every_fault("making an image"):
        made = engine.api.commit(
            container,
            repository=repository,
            tag=tag,
            conf={**config, "Labels": dict(labels)},
            # The other engines have all of it from the config.
            changes=instructions if engine.is_podman else None,
        )
    return str(made["Id"])


def all_labels(labels: Mapping[str, str], key: str, base: BaseImage) -> dict[str, str]:
    """Labels with those that say what an image was made from.

    :param key: digest of its recipe.
    :param labels: that say more of it than that.
    """
    return {**labels, RECIPE: key, BASE: base.key, BASE_SIZE: str(base.size)}


def config_like(
    image: ImageIdentity, base: BaseImage, changes: Mapping[str, str | None]
) -> dict[str, Any]:
    """How containers of the new image start: like those of an image, with changed variables.

    A commit adds whatever is missing from the container's own config, so nothing is left out.
    """
    return {
        "Env": changed_environment(base.environment, changes),
        "Entrypoint": list(image.entrypoint),
        "Cmd": list(image.command),
        "User": image.user,
        "WorkingDir": image.working_folder or "/",
    }


def changed_environment(pairs: tuple[str, ...], changes: Mapping[str, str | None]) -> list[str]:
    """Variables of a config with some set to values, or unset.

    A variable cannot be taken out of a config that a commit inherits. Its bare name stands there
    instead, which engines take for a variable that is not to be set.
    """
    found = {pair.partition("=")[0]: pair for pair in pairs}
    for name, value in changes.items():
        if value is not None:
            found[name] = f"{name}={value}"
        elif name in found:
            found[name] = name
    return list(found.values())


def own_labels(marks: Marks, kind: str, image: ImageIdentity, base: BaseImage) -> dict[str, str]:
    """Labels as an image has them, and what was made here besides.

    What the base has besides cannot be taken away, only emptied; the same goes for the name of
    the process that the container belonged to.
    """
    return {
        **dict.fromkeys(base.labels, ""),
        **image.labels,
        OWNER: "",
        **marks.on_kept(kind),
    }
