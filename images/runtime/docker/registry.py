"""The tags of a repository in a registry, and the images behind them.

Speaks the registry HTTP API, version 2, as Docker and the OCI describe it. A registry is not
trusted: every answer is bounded, typed, and checked against the digest by which it was asked
for.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import urljoin, urlsplit

import docker.auth
import msgspec

from bitsect.images.layers import Record
from bitsect.images.runtime.docker.registry_connection import RegistryConnection
from bitsect.images.runtime.docker.registry_login import RegistryFault, stored_credentials

#: Bytes of all pages of a repository's tags together.
LIST_BYTES = 16 << 20
#: Bytes of one manifest, or of one image's config.
DOCUMENT_BYTES = 4 << 20

_PAGE = 1000
_MOST_PAGES = 200
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)

#: A point in time that names its zone.
Moment = Annotated[datetime.datetime, msgspec.Meta(tz=True)]
#: What engines say of an image that does not say when it was made.
UNKNOWN_MOMENT = datetime.datetime.min.replace(tzinfo=datetime.UTC)

T = TypeVar("T")


class UnusableTag(Exception):
    """A tag leads to no image that could be run here.

    :param reason: a few words; none of them are the registry's own.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RepositoryName(Record, frozen=True):
    """A repository's whole name, however it is abbreviated.

    :param registry: as the docker command line calls it.
    """

    registry: str
    path: str

    @classmethod
    def of(cls, text: str) -> RepositoryName:
        """Reads a repository's name as it stands in an image's name.

        Raises `docker.errors.InvalidRepository`.
        """
        registry, path = docker.auth.resolve_repository_name(text)
        # The default registry keeps what has no owner under this one.
        alone = registry == docker.auth.INDEX_NAME and "/" not in path
        return cls(registry, f"library/{path}" if alone else path)

    @property
    def host(self) -> str:
        """Name and port at which the registry answers."""
        default = self.registry == docker.auth.INDEX_NAME
        return urlsplit(docker.auth.INDEX_URL).netloc if default else self.registry


class RegistryImage(Record, frozen=True):
    """An image in a registry.

    :param manifest_digest: of the platform's own manifest.
    :param index_digest: of the multi-platform index that leads to it, where there is one.
    """

    config_digest: str
    manifest_digest: str
    index_digest: str | None
    created: datetime.datetime


class RegistryRepository:
    """One repository of a registry, for reading. Close it after use.

    Raises RegistryFault if the user's stored credentials cannot be read.

    :param told: what the engine says of registries (``RegistryConfig``).
    :param platform: ``os/architecture`` of the images that are wanted.
    """

    def __init__(self, name: RepositoryName, told: Mapping[str, Any], platform: str) -> None:
        self._root = f"/v2/{name.path}"
        self._platform = platform
        self._connection = RegistryConnection(
            name.host,
            name.path,
            stored_credentials(name.registry),
            insecure=is_insecure(name.host, told),
        )

    def close(self) -> None:
        """Close the connections; may be repeated."""
        self._connection.close()

    def tags(self) -> list[str]:
        """All tags, in the registry's order. Raises RegistryFault if it does not list them."""
        found: list[str] = []
        path, room = f"{self._root}/tags/list?n={_PAGE}", LIST_BYTES
        for _ in range(_MOST_PAGES):
            answer = self._connection.get(path, room)
            if answer is None:
                raise RegistryFault("it has no such repository")
            room -= len(answer.body)
            try:
                page = _decoded(answer.body, _TagPage)
            except UnusableTag as error:
                raise RegistryFault("it gives no list of tags") from error
            # Whatever is no tag could be no reference either.
            found += [tag for tag in page.tags or () if _TAG.fullmatch(tag)]
            if not answer.following:
                return found
            path = self._next_page(answer.following)
        raise RegistryFault(f"its list of tags has more than {_MOST_PAGES} pages")

    def image(self, tag: str) -> RegistryImage:
        """The image that a tag leads to on this platform.

        Raises UnusableTag if there is none, RegistryFault if the registry does not answer.
        """
        index_digest = None
        digest, manifest = self._manifest(tag)
        if manifest.manifests is not None:
            index_digest = digest
            digest, manifest = self._manifest(self._chosen(manifest.manifests))
        if manifest.config is None:
            raise UnusableTag("it leads to no image")
        config_digest = _digest(manifest.config.digest)
        config = _decoded(self._document("blobs", config_digest)[1], _Config)
        if f"{config.os}/{config.architecture}" != self._platform:
            raise UnusableTag(f"it is no image for {self._platform}")
        return RegistryImage(config_digest, digest, index_digest, in_utc(config.created))

    def _manifest(self, reference: str) -> tuple[str, _Manifest]:
        digest, body = self._document("manifests", reference)
        return digest, _decoded(body, _Manifest)

    def _document(self, kind: str, reference: str) -> tuple[str, bytes]:
        """Digest and bytes of what a tag or a digest leads to."""
        answer = self._connection.get(f"{self._root}/{kind}/{reference}", DOCUMENT_BYTES, _ACCEPT)
        if answer is None:
            raise UnusableTag("it leads to nothing")
        digest = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        if _DIGEST.fullmatch(reference) and digest != reference:
            raise UnusableTag("its digest does not fit")
        return digest, answer.body

    def _chosen(self, manifests: list[_Descriptor]) -> str:
        for each in manifests:
            platform = each.platform
            if platform and f"{platform.os}/{platform.architecture}" == self._platform:
                return _digest(each.digest)
        raise UnusableTag(f"it has no image for {self._platform}")

    def _next_page(self, link: str) -> str:
        """The path of a link. Behind a proxy a registry may not know its own scheme and name,
        and credentials go nowhere else, so the rest of the link does not count."""
        try:
            parts = urlsplit(urljoin(f"{self._root}/tags/list", link))
        except ValueError as error:
            raise RegistryFault("its list of tags goes on nowhere") from error
        return f"/{parts.path.lstrip('/')}?{parts.query}"


def is_insecure(host: str, told: Mapping[str, Any]) -> bool:
    """Whether the engine would speak to a registry without encryption.

    :param host: name and port.
    :param told: the engine's ``RegistryConfig``.
    """
    listed = (told.get("IndexConfigs") or {}).get(host)
    if listed is not None:
        return not listed.get("Secure", True)
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    networks = map(ipaddress.ip_network, told.get("InsecureRegistryCIDRs") or ())
    return address.is_loopback or any(address in network for network in networks)


def in_utc(moment: datetime.datetime | None) -> datetime.datetime:
    """The same moment in UTC; `UNKNOWN_MOMENT` for None and for what no calendar has."""
    try:
        return UNKNOWN_MOMENT if moment is None else moment.astimezone(datetime.UTC)
    except OverflowError:
        return UNKNOWN_MOMENT


def _digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise UnusableTag("it leads to a digest of an unknown kind")
    return text


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnusableTag("what it leads to cannot be read") from error


class _TagPage(msgspec.Struct):
    tags: list[str] | None = None


class _Platform(msgspec.Struct):
    os: str = ""
    architecture: str = ""


class _Descriptor(msgspec.Struct):
    digest: str
    platform: _Platform | None = None


class _Manifest(msgspec.Struct):
    """An image's manifest, or an index of them; only one of the two fields is there."""

    config: _Descriptor | None = None
    manifests: list[_Descriptor] | None = None


class _Config(msgspec.Struct):
    os: str = ""
    architecture: str = ""
    created: Moment | None = None
