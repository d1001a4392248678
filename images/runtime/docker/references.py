"""From what a person wrote to one image: what the engine has, or else what a registry offers.

A tag is looked up once. From then on the image is known by digests alone, so that whoever moves
the tag while a search runs changes nothing in it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from docker.errors import NotFound

from bitsect.images.errors import BadReference, InfrastructureError
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from bitsect.images.runtime.docker.identity import Identities, same_platform
from bitsect.images.runtime.docker.names import DEFAULT_TAG, SHA256, ImageName, same_repository
from bitsect.images.runtime.docker.pull import NotGiven, Progress, offered, pull

#: Fewer digits than this are taken for a name.
SHORTEST_ID = 6
#: Names that an error proposes.
_MOST_CANDIDATES = 8
_SHOWN = len(SHA256) + 12


@dataclass(frozen=True)
class LocalImage:
    """An image that the engine has.

    :param tags: ``REPOSITORY:TAG``.
    :param digests: ``REPOSITORY@DIGEST``.
    """

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]

    @property
    def title(self) -> str:
        """A reference to it, for people."""
        return next(iter((*self.tags, *self.digests)), self.id[:_SHOWN])

    def has_tag(self, repository: str, tag: str) -> bool:
        return any(
            same_repository(repository, name) and found == tag
            for name, found in self._split(self.tags, ":")
        )

    def is_of(self, repository: str) -> bool:
        """Whether it carries a name in a repository."""
        names = [*self._split(self.tags, ":"), *self._split(self.digests, "@")]
        return any(same_repository(repository, name) for name, _ in names)

    def has_digest(self, prefix: str) -> bool:
        """Whether its id, or a digest by which a registry has it, begins so."""
        known = (self.id, *(digest for _, digest in self._split(self.digests, "@")))
        return any(digest.removeprefix(SHA256).startswith(prefix) for digest in known)

    @staticmethod
    def _split(names: Iterable[str], mark: str) -> Iterator[tuple[str, str]]:
        for name in names:
            repository, _, rest = name.rpartition(mark)
            yield repository, rest


class ReferenceResolver:
    """Finds the images of one engine.

    :param progress: is told how far a pull has come.
    """

    def __init__(
        self, engine: Engine, identities: Identities, progress: Progress | None = None
    ) -> None:
        self._engine = engine
        self._identities = identities
        self._progress = progress

    def resolve(self, text: str) -> ImageIdentity:
        """The image that a reference names now, pulled if the engine does not have it.

        Raises BadReference if there is none, several, or one for another platform;
        InfrastructureError.
        """
        name = ImageName.of(text)
        images = self._local_images()
        here = self._here(text, name, images)
        if here is not None:
            repository = name.repository if here.is_of(name.repository) else ""
            identity = self._identities.of(here.id, text, repository)
        else:
            identity = self._pulled(text, name, images)
        self._check_platform(text, identity.platform)
        return identity

    def pull_again(self, identity: ImageIdentity) -> ImageIdentity:
        """Fetch an image that was resolved earlier and has been removed since.

        Raises InfrastructureError if that very image cannot be had.
        """
        digest = identity.index_digest or identity.manifest_digest
        gone = f"image {identity.requested} was removed from the engine"
        if not identity.repository or digest is None:
            raise InfrastructureError("refused", f"{gone}, and no registry is known to have it")
        try:
            pull(self._engine, identity.repository, digest, self._progress)
            name = f"{identity.repository}@{digest}"
            found = self._identities.of(name, identity.requested, identity.repository)
        except (NotGiven, NotFound) as error:
            raise InfrastructureError("refused", f"{gone}, and from its registry too") from error
        if found.config_digest != identity.config_digest:
            raise InfrastructureError("refused", f"{gone}, and its registry gives another one")
        return found

    def _local_images(self) -> list[LocalImage]:
        with engine_faults("listing images"):
            listed: list[dict[str, Any]] = self._engine.api.images()
        return [
            LocalImage(
                id=_with_algorithm(each["Id"]),
                tags=_real(each.get("RepoTags")),
                digests=_real(each.get("RepoDigests")),
            )
            for each in listed
        ]

    def _here(self, text: str, name: ImageName, images: list[LocalImage]) -> LocalImage | None:
        if name.at is not None:
            own = [image for image in images if image.is_of(name.repository)]
            return self._only(text, self._matching(name, own))
        tag = name.tag or DEFAULT_TAG
        tagged = [image for image in images if image.has_tag(name.repository, tag)]
        prefix = name.id_prefix
        if not tagged and prefix and len(prefix) >= SHORTEST_ID:
            tagged = [image for image in images if image.has_digest(prefix)]
        return self._only(text, tagged)

    def _matching(self, name: ImageName, images: list[LocalImage]) -> list[LocalImage]:
        """Those that ``@X`` can mean, by whichever of their names."""
        tag, prefix = name.remote_tag, name.digest_prefix
        found = [
            image
            for image in images
            if (tag and image.has_tag(name.repository, tag))
            or (prefix and image.has_digest(prefix))
        ]
        if found or not prefix or self._engine.store == "graphdriver":
            return found
        # Elsewhere a config's digest is not the image's id, and is costly to find.
        return [image for image in images if self._config(image).startswith(prefix)]

    def _config(self, image: LocalImage) -> str:
        return self._identities.config_digest(self._engine.image(image.id)).removeprefix(SHA256)

    def _only(self, text: str, found: list[LocalImage]) -> LocalImage | None:
        distinct = {image.id: image for image in found}
        if len(distinct) > 1:
            titles = sorted(f"{image.title} ({image.id[:_SHOWN]})" for image in distinct.values())
            raise BadReference(text, f"it may mean {len(distinct)} images", tuple(titles))
        return next(iter(distinct.values()), None)

    def _pulled(self, text: str, name: ImageName, images: list[LocalImage]) -> ImageIdentity:
        wanted = name.digest or name.remote_tag
        if wanted is None:
            raise BadReference(text, "no image here has such a digest", _near(name, images))
        mark = "@" if name.digest else ":"
        try:
            offer = offered(self._engine, f"{name.repository}{mark}{wanted}")
            if offer is not None:
                wanted, mark = offer.digest, "@"
                self._check_platform(text, *offer.platforms)
            pull(self._engine, name.repository, wanted, self._progress)
            index = offer.digest if offer is not None and offer.is_index else None
            pulled = f"{name.repository}{mark}{wanted}"
            return self._identities.of(pulled, text, name.repository, index)
        except NotGiven as error:
            reason = f"neither the engine nor its registry has it ({error.reason})"
            raise BadReference(text, reason, _near(name, images)) from error
        except InfrastructureError as error:
            near = ", ".join(_near(name, images))
            if error.kind != "registry" or not near:
                raise
            detail = f"{error.detail}; the engine itself has {near}"
            raise InfrastructureError("registry", detail) from error

    def _check_platform(self, text: str, *platforms: str) -> None:
        runs = self._engine.platform
        if platforms and not any(same_platform(each, runs) for each in platforms):
            reason = f"it is for {', '.join(platforms)}, and the engine runs {runs}"
            raise BadReference(text, reason)


def _near(name: ImageName, images: list[LocalImage]) -> tuple[str, ...]:
    """Names of local images that come near."""
    own = sorted(tag for image in images if image.is_of(name.repository) for tag in image.tags)
    if own:
        return tuple(own[:_MOST_CANDIDATES])
    every = sorted(tag for image in images for tag in image.tags)
    written = f"{name.repository}:{name.remote_tag or DEFAULT_TAG}"
    return tuple(difflib.get_close_matches(written, every, _MOST_CANDIDATES))


def _real(names: list[str] | None) -> tuple[str, ...]:
    """Without the engine's word for an image that has no name."""
    return tuple(name for name in names or () if "<none>" not in name)


def _with_algorithm(image: str) -> str:
    return image if image.startswith(SHA256) else SHA256 + image
