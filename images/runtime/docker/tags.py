"""Images between two ends: the tags of a repository that match a pattern, oldest first.

The engine knows the images that it has; the registry knows the rest. A registry that cannot be
asked is no error, because what is here may be all that is wanted; but it is said.
"""

from __future__ import annotations

import datetime
import fnmatch
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
from docker.errors import InvalidRepository
from docker.utils import parse_repository_tag

from bitsect.images.errors import BadReference
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.layers import Record
from bitsect.images.reference import IMAGE
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from bitsect.images.runtime.docker.registry import (
    Moment,
    RegistryRepository,
    RepositoryName,
    UnusableTag,
    in_utc,
)
from bitsect.images.runtime.docker.registry_login import RegistryFault

#: Tags that are looked at. Each costs two or three questions, which registries count.
MOST_TAGS = 100


class TaggedImage(Record, frozen=True):
    """An image that a tag leads to.

    :param reference: ``REPOSITORY:TAG``, with the repository as it was asked for.
    :param created: when it was made, by its own account: RFC 3339, in UTC; the year 1 if it
        does not say.
    :param digest: of its config; for an image that only the engine has, and keeps by another
        digest, that one.
    :param manifest_digest: by which the registry has it; None if the registry was not asked.
    """

    reference: str
    created: str
    digest: str
    manifest_digest: str | None = None


class Unanswered(Record, frozen=True):
    """What could not be found out: a repository's or a tag's name, and why."""

    what: str
    reason: str


class TagsFound(Record, frozen=True):
    """The images between two ends, from the good one on, and what could not be asked.

    :param matching: how many tags match, wherever their images stand.
    """

    images: tuple[TaggedImage, ...]
    unanswered: tuple[Unanswered, ...]
    matching: int


def tags_between(
    engine: Engine,
    repository: str,
    pattern: str,
    good: ImageIdentity,
    bad: ImageIdentity,
    most: int = MOST_TAGS,
) -> TagsFound:
    """The images that were made between two others, in the order in which they were made.

    Images made at the same moment, as reproducible builds are, come in the natural order of
    their tags. Several tags of one image count once, under the tag with most digits in it. A
    tag that the engine has is what the engine has, as everywhere.

    Raises BadReference for what is no repository and for a pattern that matches more than
    `most` tags, InfrastructureError if the engine cannot be asked.

    :param pattern: as the shell has them, for the whole tag, case-sensitive.
    :param good: the end to begin with; the engine has it, as it has the other.
    """
    name = _repository(repository)
    here = _tags_here(engine, name, pattern)
    _limit(pattern, repository, len(here), most)
    found = [_look(engine, tag, image) for tag, image in here.items()]
    there, unanswered = _tags_there(engine, name, repository, pattern, here, most)
    found += there
    start, end = (_end(engine, name, each) for each in (good, bad))
    between = _between(_once(found), start, end)
    images = tuple(tag.image(repository) for tag in between)
    return TagsFound(images, tuple(unanswered), len(found))


class _Tag(NamedTuple):
    """A tag and what is known of its image.

    :param names: every digest by which the image is known.
    """

    tag: str
    created: datetime.datetime
    names: frozenset[str]
    digest: str
    manifest_digest: str | None = None

    @property
    def place(self) -> tuple[datetime.datetime, list[tuple[int, str]]]:
        """By which tags are put in order."""
        return self.created, _natural(self.tag)

    @property
    def rank(self) -> tuple[bool, int, list[tuple[int, str]]]:
        """By which the best of an image's tags comes first: here, and telling much."""
        digits = sum(character.isdigit() for character in self.tag)
        return self.manifest_digest is not None, -digits, _natural(self.tag)

    def image(self, repository: str) -> TaggedImage:
        created = str(msgspec.to_builtins(self.created))
        return TaggedImage(f"{repository}:{self.tag}", created, self.digest, self.manifest_digest)


def _repository(text: str) -> RepositoryName:
    if IMAGE.fullmatch(text) and parse_repository_tag(text)[1] is None:
        try:
            return RepositoryName.of(text)
        except InvalidRepository as error:
            raise BadReference(text, "it is no repository's name", ("NAME",)) from error
    raise BadReference(text, "it is no repository's name", ("NAME",))


def _limit(pattern: str, repository: str, count: int, most: int) -> None:
    if count > most:
        reason = f"{count} tags of {repository} match it; {most} are the most"
        raise BadReference(pattern, reason, ("a narrower pattern",))


def _tags_here(engine: Engine, name: RepositoryName, pattern: str) -> dict[str, str]:
    """The engine's own tags that match, and the ids of their images."""
    with engine_faults("listing images"):
        images = engine.api.images()
    return {
        tag: str(image["Id"])
        for image in images
        for tag in _tags_of(image, name)
        if fnmatch.fnmatchcase(tag, pattern)
    }


def _tags_of(image: dict[str, Any], name: RepositoryName) -> Iterable[str]:
    for text in image.get("RepoTags") or ():
        repository, tag = parse_repository_tag(text)
        if tag is not None and "<" not in repository and RepositoryName.of(repository) == name:
            yield tag


def _look(engine: Engine, tag: str, image: str) -> _Tag:
    with engine_faults("looking at an image"):
        told = engine.api.inspect_image(image)  # type: ignore[no-untyped-call]  # decorated
    digests = [text.partition("@")[2] for text in told.get("RepoDigests") or ()]
    engine_id = str(told["Id"])
    return _Tag(tag, _moment(told.get("Created")), frozenset((engine_id, *digests)), engine_id)


def _tags_there(
    engine: Engine,
    name: RepositoryName,
    repository: str,
    pattern: str,
    here: Collection[str],
    most: int,
) -> tuple[list[_Tag], list[Unanswered]]:
    """The registry's tags that match and are not here, and what could not be asked."""
    with engine_faults("asking about registries"):
        told = engine.api.info().get("RegistryConfig") or {}
    found: list[_Tag] = []
    unanswered: list[Unanswered] = []
    try:
        with closing(RegistryRepository(name, told, engine.platform)) as registry:
            matching = {tag for tag in registry.tags() if fnmatch.fnmatchcase(tag, pattern)}
            wanted = sorted(matching.difference(here), key=_natural)
            _limit(pattern, repository, len(here) + len(wanted), most)
            for tag in wanted:
                try:
                    found.append(_ask(registry, tag))
                except UnusableTag as error:
                    unanswered.append(Unanswered(f"{repository}:{tag}", error.reason))
    except RegistryFault as error:
        unanswered.append(Unanswered(repository, error.reason))
    return found, unanswered


def _ask(registry: RegistryRepository, tag: str) -> _Tag:
    image = registry.image(tag)
    names = _digests(image.config_digest, image.manifest_digest, image.index_digest)
    return _Tag(tag, image.created, names, image.config_digest, image.manifest_digest)


def _end(engine: Engine, name: RepositoryName, image: ImageIdentity) -> _Tag:
    """An end as a place in the order. It has a tag if it was asked for by one."""
    repository, tag = parse_repository_tag(image.requested)
    same = tag is not None and ":" not in tag and RepositoryName.of(repository) == name
    seen = _look(engine, tag if same and tag else "", image.engine_id)
    digests = _digests(image.config_digest, image.manifest_digest, image.index_digest)
    return seen._replace(names=seen.names | digests)


def _digests(*digests: str | None) -> frozenset[str]:
    return frozenset(each for each in digests if each)


def _once(tags: Iterable[_Tag]) -> list[_Tag]:
    """One tag for each image: two are of one image if they share a digest."""
    chosen: list[_Tag] = []
    for tag in sorted(tags, key=lambda each: each.rank):
        if all(tag.names.isdisjoint(other.names) for other in chosen):
            chosen.append(tag)
    return chosen


def _between(tags: Iterable[_Tag], start: _Tag, end: _Tag) -> Sequence[_Tag]:
    ends = start.names | end.names
    first, last = sorted((start.place, end.place))
    inner = sorted(
        (tag for tag in tags if first < tag.place < last and tag.names.isdisjoint(ends)),
        key=lambda tag: tag.place,
    )
    return inner if start.place <= end.place else inner[::-1]


def _natural(tag: str) -> list[tuple[int, str]]:
    """A sort key that puts 1.9 before 1.10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", tag)
    return [(int(part), "") if part[0].isdigit() else (-1, part) for part in parts]


def _moment(text: object) -> datetime.datetime:
    """An engine's account of when an image was made."""
    try:
        return in_utc(msgspec.convert(text or None, Moment | None))
    except msgspec.ValidationError:
        return in_utc(None)
