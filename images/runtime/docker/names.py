"""Names of images: what a person writes, and when two of them mean the same repository."""

from __future__ import annotations

import re
from dataclasses import dataclass

from docker.auth import resolve_repository_name
from docker.utils import parse_repository_tag

#: What a name without a tag means.
DEFAULT_TAG = "latest"
#: The one hash function that engines use.
SHA256 = "sha256:"

_FULL_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HEX = re.compile(r"[0-9a-f]+")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
# Where an engine of Podman's keeps images that came from nowhere.
_NOWHERE = "localhost"
# Left out of the names of a default registry's own images.
_OFFICIAL = "library/"


@dataclass(frozen=True)
class ImageName:
    """A reference taken apart: ``REPOSITORY[:TAG][@AT]``.

    :param tag: None if none was written.
    :param at: what follows the ``@``: a digest, the beginning of one, or a tag; None without.
    """

    repository: str
    tag: str | None
    at: str | None

    @classmethod
    def of(cls, text: str) -> ImageName:
        """Takes apart what `reference.IMAGE` matches."""
        name, _, at = text.partition("@")
        repository, tag = parse_repository_tag(name)
        return cls(repository, tag or None, at or None)

    @property
    def digest(self) -> str | None:
        """The whole digest that it names, if it does."""
        return self.at if self.at and _FULL_DIGEST.fullmatch(self.at) else None

    @property
    def remote_tag(self) -> str | None:
        """The tag that a registry could be asked for, unless it names a digest."""
        if self.at is None:
            return self.tag or DEFAULT_TAG
        return self.at if _TAG.fullmatch(self.at) else None

    @property
    def id_prefix(self) -> str | None:
        """Hexadecimal digits, if it could be a bare image id or the beginning of one."""
        if self.at is not None:
            return None
        digits = self.repository if self.tag is None else ""
        if f"{self.repository}:" == SHA256 and self.tag:
            digits = self.tag
        return digits if _HEX.fullmatch(digits) else None

    @property
    def digest_prefix(self) -> str | None:
        """Hexadecimal digits after the ``@``, if they could begin a digest."""
        digits = (self.at or "").removeprefix(SHA256)
        return digits if _HEX.fullmatch(digits) else None


def same_repository(written: str, listed: str) -> bool:
    """Whether the repository that a person wrote is the one that an engine lists.

    Engines leave out the default registry, and Podman adds where an image of no registry is.
    """
    host, path = _place(written)
    other_host, other_path = _place(listed)
    if path != other_path:
        return False
    return host == other_host or (other_host == _NOWHERE and written == path)


def _place(repository: str) -> tuple[str, str]:
    """Registry and path."""
    host, path = resolve_repository_name(repository)
    return host, path.removeprefix(_OFFICIAL)
