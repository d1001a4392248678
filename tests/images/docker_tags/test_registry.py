from __future__ import annotations

import itertools
from typing import Any

import docker.auth
import pytest

from bitsect.images.runtime.docker import registry as module
from bitsect.images.runtime.docker import registry_connection
from bitsect.images.runtime.docker.registry import (
    UNKNOWN_MOMENT,
    RegistryRepository,
    RepositoryName,
    UnusableTag,
    is_insecure,
)
from bitsect.images.runtime.docker.registry_login import RegistryFault
from tests.images.docker_tags.conftest import Opened
from tests.images.docker_tags.fake_registry import (
    FakeRegistry,
    Reply,
    Seen,
    digest_of,
    encoded,
    json_reply,
)

CREATED = "2025-03-01T10:00:00.123456789Z"


# What a repository is called


@pytest.mark.parametrize(
    ("text", "registry", "path"),
    [
        ("stack", docker.auth.INDEX_NAME, "library/stack"),
        ("team/stack", docker.auth.INDEX_NAME, "team/stack"),
        (f"{docker.auth.INDEX_NAME}/stack", docker.auth.INDEX_NAME, "library/stack"),
        ("localhost/stack", "localhost", "stack"),
        ("registry.example:5000/team/stack", "registry.example:5000", "team/stack"),
    ],
)
def test_a_repository_has_one_name_however_it_is_written(
    text: str, registry: str, path: str
) -> None:
    assert RepositoryName.of(text) == RepositoryName(registry, path)


def test_the_default_registry_answers_where_the_sdk_says() -> None:
    assert RepositoryName.of("stack").host in docker.auth.INDEX_URL
    assert RepositoryName.of("localhost:5000/stack").host == "localhost:5000"


@pytest.mark.parametrize(
    ("host", "insecure"),
    [
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("127.9.9.9", True),
        ("[::1]:5000", True),
        ("10.1.2.3:5000", True),
        ("10.2.0.1:5000", False),
        ("plain.example:5000", True),
        ("plain.example", False),
        ("example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_only_loopback_and_what_the_engine_lists_is_insecure(host: str, insecure: bool) -> None:
    # Given an engine that lists one registry by name and one network
    told = {
        "InsecureRegistryCIDRs": ["10.1.0.0/16"],
        "IndexConfigs": {"plain.example:5000": {"Secure": False}},
    }
    assert is_insecure(host, told) is insecure


def test_an_engine_that_says_nothing_of_registries_leaves_loopback_alone_insecure() -> None:
    assert is_insecure("localhost", {"InsecureRegistryCIDRs": None, "IndexConfigs": None})
    assert not is_insecure("10.1.2.3", {})


# Listing tags


def test_pages_are_followed(registry: FakeRegistry, opened: Opened) -> None:
    # Given tags in three pages, whose links are relative, absolute, and wrong about the scheme
    links = {
        None: f"<{registry.root}/tags/list?n=1&last=a>",
        "a": f"<https://{registry.host}{registry.root}/tags/list?n=1&last=b>",
    }
    pages = {None: ["a"], "a": ["b"], "b": ["c"]}

    def page(seen: Seen) -> Reply:
        last = seen.query["last"][0] if "last" in seen.query else None
        headers = {"Link": f'{links[last]}; rel="next"'} if last in links else {}
        return json_reply({"tags": pages[last]}, **headers)

    registry.on(f"{registry.root}/tags/list", page)

    # Then all of them come, in order
    assert opened().tags() == ["a", "b", "c"]


def test_a_page_at_another_host_is_looked_for_here(registry: FakeRegistry, opened: Opened) -> None:
    link = '<http://elsewhere.invalid/more?last=a>; rel="next"'
    registry.on(f"{registry.root}/tags/list", json_reply({"tags": ["a"]}, Link=link))
    registry.on("/more", json_reply({"tags": ["b"]}))

    assert opened().tags() == ["a", "b"]


def test_pages_without_end_are_refused(
    registry: FakeRegistry, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_PAGES", 5)
    link = f'<{registry.root}/tags/list?last=a>; rel="next"'
    registry.on(f"{registry.root}/tags/list", json_reply({"tags": ["a"]}, Link=link))

    with pytest.raises(RegistryFault, match="more than 5 pages"):
        opened().tags()
    assert len(registry.seen) == 5


def test_pages_share_one_limit(
    registry: FakeRegistry, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given pages of which each is small enough, but not all of them together
    monkeypatch.setattr(module, "LIST_BYTES", 1000)
    link = f'<{registry.root}/tags/list?last=a>; rel="next"'
    registry.on(f"{registry.root}/tags/list", json_reply({"tags": ["a" * 100] * 3}, Link=link))

    with pytest.raises(RegistryFault, match="more than"):
        opened().tags()


def test_what_is_no_tag_is_passed_over(registry: FakeRegistry, opened: Opened) -> None:
    registry.listed = ["1.0", "", "../up", "a b", "a@b", "x/y", "\x1b[2J", "t" * 129, "_ok-2"]

    assert opened().tags() == ["1.0", "_ok-2"]


def test_a_repository_without_tags_has_none(registry: FakeRegistry, opened: Opened) -> None:
    registry.on(f"{registry.root}/tags/list", json_reply({"name": "x", "tags": None}))

    assert opened().tags() == []


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"<html>", b"\xff\xfe", b'{"tags": "a"}', b'{"tags": [1]}',
        b'{"x":' + b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_list_of_tags_is_a_fault(
    registry: FakeRegistry, opened: Opened, body: bytes
) -> None:
    registry.on(f"{registry.root}/tags/list", Reply(200, body))

    with pytest.raises(RegistryFault, match="gives no list of tags"):
        opened().tags()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (404, "it has no such repository"),
        (429, "it answers HTTP 429 Too Many Requests"),
        (503, "it answers HTTP 503 Service Unavailable"),
        (299, "it answers HTTP 299"),
    ],
)
def test_a_registry_that_refuses_is_a_fault_with_its_status(
    registry: FakeRegistry, opened: Opened, status: int, reason: str
) -> None:
    registry.on(f"{registry.root}/tags/list", Reply(status, b"\x1b[2Jboo"))

    with pytest.raises(RegistryFault) as caught:
        opened().tags()
    assert caught.value.reason == reason


def test_a_registry_that_is_not_there_is_a_fault() -> None:
    # Given a port at which nobody listens
    name = RepositoryName.of("127.0.0.1:9/stack")
    repository = RegistryRepository(name, {}, "linux/amd64")

    with pytest.raises(RegistryFault, match="Connection refused"):
        repository.tags()
    repository.close()


def test_an_answer_without_end_is_cut_off(
    registry: FakeRegistry, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIST_BYTES", 1 << 20)
    registry.on(
        f"{registry.root}/tags/list", lambda seen: Reply(200, itertools.repeat(b"x" * 65536))
    )

    with pytest.raises(RegistryFault, match="more than 1048576 bytes"):
        opened().tags()


def test_an_answer_that_takes_forever_is_given_up(
    registry: FakeRegistry, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a registry that goes on sending, and no time left when its first bytes have come
    monkeypatch.setattr(registry_connection, "ANSWER_SECONDS", 0.0)
    registry.on(f"{registry.root}/tags/list", lambda seen: Reply(200, itertools.repeat(b"x")))

    with pytest.raises(RegistryFault, match="more than 0 seconds"):
        opened().tags()


def test_what_is_compressed_unasked_is_not_unpacked(registry: FakeRegistry, opened: Opened) -> None:
    # Given an answer that would fill the memory once it was unpacked
    reply = Reply(200, b"\x1f\x8b\x08", {"Content-Encoding": "gzip"})
    registry.on(f"{registry.root}/tags/list", reply)

    with pytest.raises(RegistryFault, match="gives no list of tags"):
        opened().tags()


# The image behind a tag


def test_a_tag_leads_to_a_config_with_a_time(registry: FakeRegistry, opened: Opened) -> None:
    digest = registry.image("1.0", CREATED)

    image = opened().image("1.0")

    assert image.config_digest == digest
    assert image.index_digest is None
    assert image.created.isoformat() == "2025-03-01T10:00:00.123457+00:00"


def test_an_index_leads_to_the_engines_platform(registry: FakeRegistry, opened: Opened) -> None:
    # Given an index with an attestation, another platform and ours
    arm = registry.entry("2024-01-01T00:00:00Z", "linux/arm64")[1]
    wanted, amd = registry.entry(CREATED, "linux/amd64")
    attestation = {**arm, "platform": {"os": "unknown", "architecture": "unknown"}}
    registry.index("1.0", [attestation, arm, amd])

    image = opened().image("1.0")

    assert image.config_digest == wanted
    assert image.manifest_digest == amd["digest"]
    assert image.index_digest not in (None, image.manifest_digest)


def test_an_index_without_our_platform_is_of_no_use(registry: FakeRegistry, opened: Opened) -> None:
    registry.index("1.0", [registry.entry(CREATED, "linux/arm64")[1], {"digest": "sha256:1"}])

    with pytest.raises(UnusableTag, match="no image for linux/amd64"):
        opened().image("1.0")


def test_an_image_for_another_platform_is_of_no_use(registry: FakeRegistry, opened: Opened) -> None:
    registry.image("1.0", CREATED, platform="linux/s390x")

    with pytest.raises(UnusableTag, match="no image for linux/amd64"):
        opened().image("1.0")


@pytest.mark.parametrize("created", [None, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+05:00"])
def test_an_image_may_not_say_when_it_was_made(
    registry: FakeRegistry, opened: Opened, created: str | None
) -> None:
    registry.image("1.0", created)

    assert opened().image("1.0").created == UNKNOWN_MOMENT


@pytest.mark.parametrize(
    "manifest",
    [
        b"", b"[]", b"\x00", b'{"config": 1}', b'{"config": {}}', b'{"manifests": {}}',
        b'{"manifests": [{"digest": 1}]}', b'{"x":' + b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_manifest_that_cannot_be_read_is_of_no_use(
    registry: FakeRegistry, opened: Opened, manifest: bytes
) -> None:
    registry.tag("1.0", manifest)

    with pytest.raises(UnusableTag, match="cannot be read"):
        opened().image("1.0")


@pytest.mark.parametrize(
    "config", [b"", b"[]", b'{"created": "yesterday"}', b'{"created": "2025-03-01T10:00:00"}']
)
def test_a_config_that_cannot_be_read_is_of_no_use(
    registry: FakeRegistry, opened: Opened, config: bytes
) -> None:
    digest = registry.document("blobs", config)
    registry.tag("1.0", encoded({"config": {"digest": digest}}))

    with pytest.raises(UnusableTag, match="cannot be read"):
        opened().image("1.0")


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ({"schemaVersion": 1, "fsLayers": [], "history": []}, "leads to no image"),
        ({"config": {"digest": "sha256:../../secret"}}, "of an unknown kind"),
        ({"config": {"digest": "md5:" + "0" * 32}}, "of an unknown kind"),
        ({"config": {"digest": "sha256:" + "0" * 64}}, "leads to nothing"),
        ({"manifests": []}, "has no image for"),
    ],
)
def test_a_manifest_that_leads_nowhere_is_of_no_use(
    registry: FakeRegistry, opened: Opened, manifest: dict[str, Any], reason: str
) -> None:
    registry.tag("1.0", encoded(manifest))

    with pytest.raises(UnusableTag, match=reason):
        opened().image("1.0")


def test_a_tag_that_is_gone_is_of_no_use(registry: FakeRegistry, opened: Opened) -> None:
    with pytest.raises(UnusableTag, match="leads to nothing"):
        opened().image("gone")


@pytest.mark.parametrize("kind", ["blobs", "manifests"])
def test_bytes_that_do_not_fit_their_digest_are_of_no_use(
    registry: FakeRegistry, opened: Opened, kind: str
) -> None:
    # Given an index whose image, or whose image's config, was replaced
    config, entry = registry.entry(CREATED, "linux/amd64")
    registry.index("1.0", [entry])
    digest = config if kind == "blobs" else entry["digest"]
    other = encoded({"os": "linux", "architecture": "amd64", "created": CREATED, "config": {}})
    assert digest_of(other) != digest
    registry.on(f"{registry.root}/{kind}/{digest}", Reply(200, other))

    with pytest.raises(UnusableTag, match="digest does not fit"):
        opened().image("1.0")


def test_a_document_without_end_is_cut_off(
    registry: FakeRegistry, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DOCUMENT_BYTES", 1000)
    registry.on(
        f"{registry.root}/manifests/1.0", lambda seen: Reply(200, itertools.repeat(b"x" * 500))
    )

    with pytest.raises(RegistryFault, match="more than 1000 bytes"):
        opened().image("1.0")
