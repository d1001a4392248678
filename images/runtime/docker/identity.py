"""What an image is, read from the engine that has it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, cast

from bitsect.images.errors import InfrastructureError, host_faults
from bitsect.images.image_identity import ImageIdentity, variables_of
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from bitsect.images.runtime.docker.names import SHA256, same_repository

#: Largest config that is looked at, in bytes; a real one has a few thousand.
LARGEST_CONFIG = 4 << 20

_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{64})")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_INDEXES = ("manifest.list", "image.index")


class Identities:
    """Identities of one engine's images.

    :param cache: folder of this machine for config digests that are costly to find.
    """

    def __init__(self, engine: Engine, cache: Path) -> None:
        self._engine = engine
        self._cache = cache

    def of(
        self, image: str, requested: str, repository: str, index: str | None = None
    ) -> ImageIdentity:
        """Raises `docker.errors.NotFound` if the engine has no such image, InfrastructureError.

        :param image: the engine's id of it, or a name.
        :param requested: as a person wrote it.
        :param repository: as a person wrote it; empty for an image named by its id.
        :param index: digest of the index that it was just chosen from, where that is known.
        """
        found = self._engine.image(image)
        config: Mapping[str, Any] = found.get("Config") or {}
        described = _index_digest(found)
        return ImageIdentity(
            requested=requested,
            repository=repository,
            engine_id=_with_algorithm(str(found["Id"])),
            config_digest=self.config_digest(found),
            manifest_digest=_manifest_digest(found, repository),
            index_digest=described or index,
            diff_ids=tuple((found.get("RootFS") or {}).get("Layers") or ()),
            platform=platform_of(found["Os"], found["Architecture"], found.get("Variant")),
            environment=variables_of(config.get("Env") or ()),
            entrypoint=_words(config.get("Entrypoint")),
            command=_words(config.get("Cmd")),
            working_folder=config.get("WorkingDir") or "",
            user=config.get("User") or "",
            labels=dict(config.get("Labels") or {}),
            store=self._engine.store,
            engine=self._engine.title,
        )

    def config_digest(self, found: Mapping[str, Any]) -> str:
        """Digest of an image's config.

        It is the image's id where the engine keeps images in its own way. In containerd's store
        the id is another digest, and the config is found in what the engine exports.

        Raises InfrastructureError if it is not there.

        :param found: the image as the engine describes it.
        """
        image = _with_algorithm(str(found["Id"]))
        if self._engine.store == "graphdriver":
            return image
        place = self._cache / image.removeprefix(SHA256)
        with host_faults(place):
            known = place.read_text() if place.exists() else ""
        if _DIGEST.fullmatch(known):
            return known
        layers = (found.get("RootFS") or {}).get("Layers") or ()
        with (
            engine_faults(f"reading the config of image {image}"),
            self._engine.stream("GET", f"/images/{image}/get") as answer,
        ):
            digest = _find_config(cast(IO[bytes], answer.raw), layers)
        if digest is None:
            raise InfrastructureError(
                "refused", f"{self._engine.title} exports no config of {image}"
            )
        _keep(place, digest)
        return digest


def platform_of(system: str, architecture: str, variant: str | None = None) -> str:
    """``os/architecture[/variant]``."""
    return "/".join(part for part in (system, architecture, variant) if part)


def same_platform(image: str, engine: str) -> bool:
    """Whether an image is for what the engine runs. Variants of an architecture all count."""
    return image.split("/")[:2] == engine.split("/")[:2]


def is_index(media_type: object) -> bool:
    """Whether this kind of document lists one image for each of several platforms."""
    return any(part in str(media_type) for part in _INDEXES)


def _find_config(stream: IO[bytes], layers: Iterable[str]) -> str | None:
    """The digest of the config with these layers, in an exported image."""
    wanted = list(layers)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as members:
            for member in members:
                name = _BLOB.fullmatch(member.name)
                if name is None or not member.isreg() or member.size > LARGEST_CONFIG:
                    continue
                data = cast(IO[bytes], members.extractfile(member)).read()
                digest = hashlib.sha256(data).hexdigest()
                if digest == name[1] and _layers_of(data) == wanted:
                    return SHA256 + digest
    except tarfile.TarError as error:
        raise InfrastructureError("refused", f"it exports no archive: {error}") from error
    return None


def _layers_of(data: bytes) -> object:
    """The layers that a config names; None for anything else."""
    if not data.startswith(b"{"):
        return None
    try:
        document = json.loads(data)
    except ValueError:
        return None
    root = document.get("rootfs")
    return root.get("diff_ids") if isinstance(root, dict) else None


def _keep(place: Path, text: str) -> None:
    with host_faults(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
        fresh.write_text(text)
        os.replace(fresh, place)


def _index_digest(found: Mapping[str, Any]) -> str | None:
    """Of the index, where the engine keeps it beside the image and says so."""
    descriptor: Mapping[str, Any] = found.get("Descriptor") or {}
    return str(descriptor["digest"]) if is_index(descriptor.get("mediaType")) else None


def _manifest_digest(found: Mapping[str, Any], repository: str) -> str | None:
    """The digest by which its repository has the image, or any repository where none is named."""
    known = [str(each).partition("@") for each in found.get("RepoDigests") or ()]
    digests = (
        digest for name, _, digest in known if not repository or same_repository(repository, name)
    )
    return min(digests, default=None)


def _words(value: object) -> tuple[str, ...]:
    """A command as engines have it: a list, nothing, or a bare string in old images."""
    if isinstance(value, str):
        return (value,)
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _with_algorithm(image: str) -> str:
    return image if image.startswith(SHA256) else SHA256 + image
