from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from bitsect.images.runtime.docker.registry_connection import RegistryConnection
from bitsect.images.runtime.docker.registry_login import (
    Challenge,
    Credentials,
    RegistryFault,
    is_fit_realm,
    read_challenge,
    stored_credentials,
)
from tests.images.docker_tags.conftest import Opened
from tests.images.docker_tags.fake_registry import (
    FakeRegistry,
    Reply,
    Seen,
    challenge,
    json_reply,
    serving,
)

BASIC = "Basic " + base64.b64encode(b"ada:s\xc3\xa9same").decode()
BEARER = "Bearer let-me-in"
CREATED = "2025-03-01T10:00:00Z"


def log_in(config: Path, registry: FakeRegistry) -> None:
    """Stores credentials as `docker login` does."""
    auth = BASIC.removeprefix("Basic ")
    config.write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))


def ask_for_token(registry: FakeRegistry, realm: str = "", token: str = "let-me-in") -> None:
    """Has the registry want a token, which it gives itself."""
    realm = realm or f"http://{registry.host}/token"
    wanted = challenge(f'Bearer realm="{realm}",service="shop, inc",scope="repository:all:*"')
    registry.on("/token", json_reply({"token": token}))
    registry.guard = lambda seen: (
        None if seen.path == "/token" or seen.authorization == BEARER else wanted
    )


def ask_for_password(registry: FakeRegistry) -> None:
    wanted = challenge('Basic realm="stacks"')
    registry.guard = lambda seen: None if seen.authorization == BASIC else wanted


def token_questions(registry: FakeRegistry) -> list[Seen]:
    return [seen for seen in registry.seen if seen.path == "/token"]


# Challenges


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Bearer realm="https://a/t",service="s"', Challenge("bearer", "https://a/t", "s")),
        ("bearer realm=https://a/t", Challenge("bearer", "https://a/t", "")),
        (
            'Basic realm="x", Bearer realm="https://a/t",service="a, b"',
            Challenge("bearer", "https://a/t", "a, b"),
        ),
        ('Basic realm="Bearer of news"', Challenge("basic")),
        ("BASIC", Challenge("basic")),
        ("Negotiate", None),
        ("", None),
    ],
)
def test_a_challenge_is_read(header: str, expected: Challenge | None) -> None:
    assert read_challenge(header) == expected


@pytest.mark.parametrize(
    ("realm", "registry", "fit"),
    [
        ("https://login.example/token", "https://registry.example", True),
        ("https://login.example/token", "http://127.0.0.1:5000", True),
        ("http://127.0.0.1:5001/token", "http://127.0.0.1:5000", True),
        ("http://login.example/token", "https://registry.example", False),
        ("http://registry.example/token", "https://registry.example", False),
        ("http://login.example/token", "http://127.0.0.1:5000", False),
        ("file:///etc/passwd", "http://127.0.0.1:5000", False),
        ("https://[", "https://registry.example", False),
        ("https:///token", "https://registry.example", False),
        ("", "http://127.0.0.1:5000", False),
    ],
)
def test_credentials_are_shown_only_where_they_stay_secret(
    realm: str, registry: str, fit: bool
) -> None:
    assert is_fit_realm(realm, registry) is fit


# Logging in


def test_a_token_is_asked_for_with_the_stored_credentials(
    registry: FakeRegistry, opened: Opened, docker_config: Path
) -> None:
    log_in(docker_config, registry)
    ask_for_token(registry)
    registry.image("1.0", CREATED)

    # When the registry is asked several things
    repository = opened()
    assert repository.tags() == ["1.0"]
    repository.image("1.0")

    # Then one token was asked for, for reading this repository and nothing more
    (question,) = token_questions(registry)
    assert question.authorization == BASIC
    assert question.query == {"service": ["shop, inc"], "scope": ["repository:team/stack:pull"]}


def test_without_credentials_a_token_is_asked_for_all_the_same(
    registry: FakeRegistry, opened: Opened
) -> None:
    ask_for_token(registry)
    registry.listed = ["1.0"]

    assert opened().tags() == ["1.0"]
    assert token_questions(registry)[0].authorization is None


def test_a_token_that_is_over_is_replaced(registry: FakeRegistry, opened: Opened) -> None:
    # Given a registry that takes a token for one answer only
    ask_for_token(registry)
    patient = registry.guard
    registry.image("1.0", CREATED)
    turns = iter(range(100))

    def guard(seen: Seen) -> Reply | None:
        tired = seen.authorization == BEARER and next(turns) % 2 == 1
        return challenge(f'Bearer realm="http://{registry.host}/token"') if tired else patient(seen)

    registry.guard = guard

    # Then reading goes on
    repository = opened()
    repository.tags()
    repository.image("1.0")
    assert len(token_questions(registry)) == 3


def test_a_password_is_shown_to_a_registry_that_wants_one(
    registry: FakeRegistry, opened: Opened, docker_config: Path
) -> None:
    log_in(docker_config, registry)
    ask_for_password(registry)
    registry.listed = ["1.0"]

    assert opened().tags() == ["1.0"]
    # And not before it asked
    assert [seen.authorization for seen in registry.seen] == [None, BASIC]


def test_a_registry_that_wants_a_password_that_is_not_stored_is_a_fault(
    registry: FakeRegistry, opened: Opened
) -> None:
    ask_for_password(registry)

    with pytest.raises(RegistryFault, match="asks for a login, and none is stored"):
        opened().tags()


def test_a_registry_that_is_never_content_is_a_fault(
    registry: FakeRegistry, opened: Opened, docker_config: Path
) -> None:
    log_in(docker_config, registry)
    registry.guard = lambda seen: challenge("Basic")

    with pytest.raises(RegistryFault, match="HTTP 401 Unauthorized"):
        opened().tags()
    assert len(registry.seen) == 2


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b""), Reply(200, b"[]"), json_reply({}), json_reply({"token": 1}),
        json_reply({"token": "two\r\nX-Lines: 1"}), json_reply({"token": "schlüssel"}),
        Reply(403), Reply(302, headers={"Location": "/elsewhere"}),
    ],
)  # fmt: skip
def test_a_login_that_gives_no_token_is_a_fault(
    registry: FakeRegistry, opened: Opened, docker_config: Path, reply: Reply
) -> None:
    log_in(docker_config, registry)
    ask_for_token(registry)
    registry.on("/token", reply)

    with pytest.raises(RegistryFault, match="its login"):
        opened().tags()
    assert [seen.path for seen in registry.seen][1:] == ["/token"]


def test_credentials_are_not_shown_to_an_unencrypted_login_elsewhere(
    registry: FakeRegistry, opened: Opened, docker_config: Path
) -> None:
    log_in(docker_config, registry)
    ask_for_token(registry, realm="http://login.invalid/token")

    with pytest.raises(RegistryFault, match="at an unencrypted place"):
        opened().tags()
    assert len(registry.seen) == 1


def test_an_unknown_kind_of_login_is_a_fault(registry: FakeRegistry, opened: Opened) -> None:
    registry.guard = lambda seen: challenge("Negotiate")

    with pytest.raises(RegistryFault, match="of an unknown kind"):
        opened().tags()


# Where else credentials could go


def test_a_redirect_to_another_host_takes_no_credentials_along(
    registry: FakeRegistry, opened: Opened, docker_config: Path
) -> None:
    # Given a registry whose blobs lie on another server
    log_in(docker_config, registry)
    ask_for_password(registry)
    digest = registry.image("1.0", CREATED)
    with serving() as storage:
        blob = f"{registry.root}/blobs/{digest}"
        body = registry.answer(Seen("GET", blob, {}, BASIC, {})).body
        storage.on("/blob", Reply(200, body))
        registry.on(blob, Reply(307, headers={"Location": f"http://{storage.host}/blob"}))

        # Then they are fetched there, by nobody in particular
        assert opened().image("1.0").config_digest == digest
        assert [seen.authorization for seen in storage.seen] == [None]


def test_a_redirect_to_the_same_host_does(
    registry: FakeRegistry, opened: Opened, docker_config: Path
) -> None:
    log_in(docker_config, registry)
    ask_for_password(registry)
    registry.on(f"{registry.root}/tags/list", Reply(302, headers={"Location": "/moved"}))
    registry.on("/moved", json_reply({"tags": ["1.0"]}))

    assert opened().tags() == ["1.0"]


@pytest.mark.parametrize("target", ["/v2/team/stack/tags/list", "http://[", "gopher://x/", "http:"])
def test_a_redirect_that_leads_nowhere_is_a_fault(
    registry: FakeRegistry, opened: Opened, target: str
) -> None:
    registry.on(f"{registry.root}/tags/list", Reply(301, headers={"Location": target}))

    with pytest.raises(RegistryFault):
        opened().tags()
    assert len(registry.seen) <= 6


def test_the_netrc_file_is_not_for_registries(
    registry: FakeRegistry, opened: Opened, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login eve password secret\n")
    registry.listed = ["1.0"]

    assert opened().tags() == ["1.0"]
    assert registry.seen[0].authorization is None


def test_a_secure_registry_is_never_asked_in_the_open(registry: FakeRegistry) -> None:
    # Given a registry that answers without encryption, though the engine does not allow it
    connection = RegistryConnection(
        registry.host, registry.repository, Credentials("ada", "x"), insecure=False
    )

    with pytest.raises(RegistryFault):
        connection.get("/v2/", 1000)
    assert registry.seen == []
    connection.close()


# What is stored


def test_nothing_stored_is_nothing_shown(registry: FakeRegistry) -> None:
    assert stored_credentials(registry.host) == Credentials()


def test_an_identity_token_is_posted_in_exchange(
    registry: FakeRegistry, opened: Opened, docker_config: Path
) -> None:
    entry = {"auth": "", "identitytoken": "me"}
    docker_config.write_text(json.dumps({"auths": {registry.host: entry}}))
    ask_for_token(registry)
    registry.on("/token", json_reply({"access_token": "let-me-in"}))
    registry.listed = ["1.0"]

    assert opened().tags() == ["1.0"]
    (question,) = token_questions(registry)
    assert (question.method, question.authorization) == ("POST", None)
    assert question.form["grant_type"] == ["refresh_token"]
    assert question.form["refresh_token"] == ["me"]
    assert question.form["scope"] == ["repository:team/stack:pull"]


def test_a_credential_helper_is_asked(
    registry: FakeRegistry, docker_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a helper that hands out a password for whatever it is asked
    helper = tmp_path / "bin" / "docker-credential-vault"
    helper.parent.mkdir()
    helper.write_text('#!/bin/sh\ncat > /dev/null\necho \'{"Username": "ada", "Secret": "x"}\'\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:/usr/bin:/bin")
    docker_config.write_text(json.dumps({"credHelpers": {registry.host: "vault"}}))

    assert stored_credentials(registry.host) == Credentials("ada", "x")


@pytest.mark.filterwarnings("ignore:docker-credential-no-such-helper")
@pytest.mark.parametrize(
    "config",
    [
        {"credsStore": "no-such-helper"},
        {"auths": {"127.0.0.1:5000": {"auth": "%%%"}}},
        {"auths": {"127.0.0.1:5000": 1}},
    ],
)
def test_credentials_that_cannot_be_read_are_a_fault(
    docker_config: Path, config: dict[str, object]
) -> None:
    docker_config.write_text(json.dumps(config))

    with pytest.raises(RegistryFault, match="stored credentials cannot be read"):
        stored_credentials("127.0.0.1:5000")


def test_credentials_do_not_show_in_a_listing() -> None:
    assert "secret" not in repr(Credentials("ada", "secret", "secret"))
