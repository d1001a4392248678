from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bitsect.images.errors import BadReference
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.tags import TaggedImage, TagsFound, Unanswered, tags_between
from tests.images.docker_tags.fake_registry import FakeRegistry, Reply, challenge

#: At which nobody listens.
AWAY = "127.0.0.1:9/team/stack"


class Images:
    """The images that a make-believe engine has."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {}

    def add(
        self, image_id: str, created: str, *tags: str, digests: tuple[str, ...] = ()
    ) -> ImageIdentity:
        self._told[image_id] = {
            "Id": image_id,
            "Created": created,
            "RepoTags": list(tags),
            "RepoDigests": [f"x@{digest}" for digest in digests],
        }
        return identity(image_id, tags[0] if tags else image_id)

    @property
    def engine(self) -> Engine:
        api = SimpleNamespace(
            images=lambda: list(self._told.values()),
            inspect_image=self._told.__getitem__,
            info=lambda: {},
        )
        return cast(Engine, SimpleNamespace(api=api, platform="linux/amd64"))


def identity(image_id: str, requested: str) -> ImageIdentity:
    return ImageIdentity(
        requested=requested, repository="", engine_id=image_id, config_digest=image_id,
        manifest_digest=None, index_digest=None, diff_ids=(), platform="linux/amd64",
        environment={}, entrypoint=(), command=(), working_folder="", user="", labels={},
        store="graphdriver", engine="",
    )  # fmt: skip


def day(number: int) -> str:
    return f"2025-01-{number:02}T00:00:00Z"


def tags_of(found: TagsFound) -> list[str]:
    return [image.reference.rpartition(":")[2] for image in found.images]


@pytest.fixture
def images() -> Images:
    return Images()


@pytest.fixture
def ends(images: Images) -> tuple[ImageIdentity, ImageIdentity]:
    """A good end of the tenth and a bad one of the twentieth, in no repository."""
    return images.add("sha256:good", day(10)), images.add("sha256:bad", day(20))


Ends = tuple[ImageIdentity, ImageIdentity]


def test_images_between_come_in_the_order_in_which_they_were_made(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    # Given tags of which some are here and some in the registry
    images.add("sha256:b", day(12), f"{registry.name}:b")
    images.add("sha256:d", day(14), f"{registry.name}:d", "elsewhere:e")
    a, c = registry.image("a", day(13)), registry.image("c", day(11))
    # And some that are older than the one end, or newer than the other
    registry.image("old", day(9))
    registry.image("new", day(21))
    images.add("sha256:x", day(1), f"{registry.name}:x")

    found = tags_between(images.engine, registry.name, "*", *ends)

    assert tags_of(found) == ["c", "b", "a", "d"]
    assert found.unanswered == ()
    assert [image.digest for image in found.images] == [c, "sha256:b", a, "sha256:d"]
    assert found.images[1] == TaggedImage(f"{registry.name}:b", "2025-01-12T00:00:00Z", "sha256:b")
    assert found.images[0].manifest_digest is not None


def test_a_newer_good_end_comes_first_all_the_same(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    registry.image("a", day(12))
    registry.image("b", day(15))

    good, bad = ends
    assert tags_of(tags_between(images.engine, registry.name, "*", bad, good)) == ["b", "a"]


def test_images_of_one_moment_come_in_natural_order(registry: FakeRegistry, images: Images) -> None:
    # Given reproducible builds, which all bear one date
    for tag in ("v1.10", "v1.9", "v1.9.1", "v1.8", "v1.11"):
        registry.image(tag, "1970-01-01T00:00:00Z", salt=tag)
    good = images.add("sha256:good", "1970-01-01T00:00:00Z", f"{registry.name}:v1.8")
    bad = images.add("sha256:bad", "1970-01-01T00:00:00Z", f"{registry.name}:v1.11")

    found = tags_between(images.engine, registry.name, "v*", good, bad)

    assert tags_of(found) == ["v1.9", "v1.9.1", "v1.10"]


def test_an_end_is_not_between_whatever_its_tags(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    # Given tags of the two ends themselves, one here and one in the registry by its config
    images.add("sha256:good", day(10), f"{registry.name}:same")
    digest = registry.image("bad-again", day(20))
    bad = images.add(digest, day(20))

    found = tags_between(images.engine, registry.name, "*", ends[0], bad)

    assert found == TagsFound((), (), 2)


def test_several_tags_of_one_image_count_once(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    # Given an image with three tags there, and one whose tag there is another one than here
    for tag in ("latest", "26.03.1", "26.03"):
        registry.image(tag, day(12))
    _, entry = registry.entry(day(13), "linux/amd64")
    registry.index("27.01", [entry])
    images.add("sha256:kept", day(13), f"{registry.name}:mine", digests=(entry["digest"],))

    found = tags_between(images.engine, registry.name, "*", *ends)

    # Then the tag that tells most stands for it, or the one that is here
    assert tags_of(found) == ["26.03.1", "mine"]


def test_a_tag_means_what_it_means_here(registry: FakeRegistry, images: Images, ends: Ends) -> None:
    # Given a tag that the registry has moved since it was pulled
    images.add("sha256:pulled", day(12), f"{registry.name}:1.0")
    registry.image("1.0", day(15))

    found = tags_between(images.engine, registry.name, "1.*", *ends)

    assert [image.digest for image in found.images] == ["sha256:pulled"]
    assert [seen.path for seen in registry.seen] == [f"{registry.root}/tags/list"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("2*", ["2.0", "2.0-RC"]),
        ("2.?", ["2.0"]),
        ("*-RC", ["1.0-RC", "2.0-RC"]),
        ("*-rc", []),
        (".0", []),
        ("[!2]*", ["1.0-RC"]),
        ("2.0", ["2.0"]),
    ],
)
def test_a_pattern_is_for_the_whole_tag(
    registry: FakeRegistry, images: Images, ends: Ends, pattern: str, expected: list[str]
) -> None:
    registry.image("1.0-RC", day(11))
    registry.image("2.0", day(12))
    images.add("sha256:rc", day(13), f"{registry.name}:2.0-RC")

    assert tags_of(tags_between(images.engine, registry.name, pattern, *ends)) == expected


def test_nothing_is_fetched_for_a_tag_that_does_not_match(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    registry.image("other", day(12))

    tags_between(images.engine, registry.name, "2*", *ends)

    assert [seen.path for seen in registry.seen] == [f"{registry.root}/tags/list"]


def test_too_many_tags_are_refused_before_any_is_looked_at(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    registry.listed = [f"nightly-{number}" for number in range(3)]
    images.add("sha256:1", day(12), f"{registry.name}:nightly-here")

    with pytest.raises(BadReference, match=r"4 tags of .* match it; 3 are the most"):
        tags_between(images.engine, registry.name, "nightly-*", *ends, most=3)
    assert [seen.path for seen in registry.seen] == [f"{registry.root}/tags/list"]


@pytest.mark.parametrize(
    "text", ["", "Upper", "x:tag", "x@sha256:00", "https://x/y", "-x", "x:5000/y z"]
)
def test_what_is_no_repository_is_refused(images: Images, ends: Ends, text: str) -> None:
    with pytest.raises(BadReference, match="no repository"):
        tags_between(images.engine, text, "*", *ends)


# What cannot be asked


def test_without_the_registry_what_is_here_is_found_and_that_is_said(
    images: Images, ends: Ends
) -> None:
    images.add("sha256:a", day(12), f"{AWAY}:a")

    found = tags_between(images.engine, AWAY, "*", *ends)

    assert tags_of(found) == ["a"]
    assert found.unanswered == (Unanswered(AWAY, "Connection refused"),)


def test_a_registry_without_a_list_is_said(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    registry.on(f"{registry.root}/tags/list", Reply(404))

    found = tags_between(images.engine, registry.name, "*", *ends)

    assert found == TagsFound((), (Unanswered(registry.name, "it has no such repository"),), 0)


def test_a_tag_that_leads_to_nothing_is_said_and_passed_over(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    registry.image("arm", day(12), platform="linux/arm64")
    registry.image("fine", day(13))

    found = tags_between(images.engine, registry.name, "*", *ends)

    assert tags_of(found) == ["fine"]
    assert found.unanswered == (
        Unanswered(f"{registry.name}:arm", "it is no image for linux/amd64"),
    )


def test_a_registry_that_has_had_enough_is_left_alone(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    # Given a registry that refuses from the second tag on
    registry.image("1", day(12))
    registry.listed += ["2", "3", "4"]
    registry.on(f"{registry.root}/manifests/2", Reply(429))

    found = tags_between(images.engine, registry.name, "*", *ends)

    # Then the rest is not asked for, and what was found counts
    assert tags_of(found) == ["1"]
    assert found.unanswered == (Unanswered(registry.name, "it answers HTTP 429 Too Many Requests"),)
    assert registry.seen[-1].path.endswith("/manifests/2")


def test_a_registry_that_knows_us_not_is_said(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    registry.guard = lambda seen: challenge("Basic")

    found = tags_between(images.engine, registry.name, "*", *ends)

    assert found.unanswered == (
        Unanswered(registry.name, "it asks for a login, and none is stored"),
    )


def test_images_that_do_not_say_when_they_were_made_come_before_all_others(
    registry: FakeRegistry, images: Images, ends: Ends
) -> None:
    # Given a good end without a date; some engines give none, others that of the year 1
    good = images.add("sha256:first", "", f"{registry.name}:1")
    registry.image("2", None)
    images.add("sha256:3", "0001-01-01T00:00:00Z", f"{registry.name}:3")
    registry.image("4", day(5))

    found = tags_between(images.engine, registry.name, "*", good, ends[1])

    assert tags_of(found) == ["2", "3", "4"]
    assert found.images[0].created == "0001-01-01T00:00:00Z"
