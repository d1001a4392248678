"""What an image of a container engine is, beyond the name by which it was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bitsect.images.canonical import digest
from bitsect.images.layers import Record

#: Hexadecimal digits of a digest that are shown to people.
SHOWN_DIGITS = 12


class ImageIdentity(Record, frozen=True):
    """One image, resolved.

    :param requested: the reference as a person wrote it.
    :param repository: repository part of the reference, without tag or digest; empty for an
        image that was named by its id.
    :param engine_id: the id by which this engine knows the image. It is no identity: it is the
        digest of the config on one storage backend, and of a manifest or index on another.
    :param config_digest: ``sha256:…`` of the config's bytes; the image's identity.
    :param manifest_digest: by which it is pulled; None for one that never was in a registry.
    :param index_digest: of the multi-platform index that it was chosen from, where there is one.
    :param diff_ids: ``sha256:…`` of each uncompressed layer, lowest first.
    :param platform: ``os/architecture[/variant]``.
    :param environment: variables that the image sets.
    :param store: ``graphdriver`` or ``containerd``.
    :param engine: name and version of the engine that answered.
    """

    requested: str
    repository: str
    engine_id: str
    config_digest: str
    manifest_digest: str | None
    index_digest: str | None
    diff_ids: tuple[str, ...]
    platform: str
    environment: dict[str, str]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    working_folder: str
    user: str
    labels: dict[str, str]
    store: str
    engine: str

    @property
    def short(self) -> str:
        """``NAME@sha256:0123456789ab``, which is also a reference to it."""
        digest = self.manifest_digest or self.config_digest
        shown = digest[: len("sha256:") + SHOWN_DIGITS]
        return f"{self.repository}@{shown}" if self.repository else shown


class Recipe(Record, frozen=True):
    """What a hybrid of images is made of. Equal recipes make equal files.

    :param chain: config digests of the images that lend components, good end first.
    :param states: for every component in which they differ, the digest of the state that the
        hybrid has; sorted by component.
    """

    chain: tuple[str, ...]
    states: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """``sha256:…``, the hybrid's identity: a commit's own digest changes with the clock."""
        return digest("bitsect/hybrid", {"chain": list(self.chain), "states": dict(self.states)})


def variables_of(pairs: Iterable[str]) -> dict[str, str]:
    """``NAME=value`` strings as an image's config has them; a later one wins."""
    return dict(pair.partition("=")[::2] for pair in pairs)


def pairs_of(variables: Mapping[str, str]) -> list[str]:
    """The reverse of `variables_of`, sorted."""
    return [f"{name}={value}" for name, value in sorted(variables.items())]
