"""Logging in to a registry with what the docker command line has stored for it.

A registry that wants to know who asks answers with a challenge: either the credentials
themselves (Basic), or a token that another service gives for them (Bearer).
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

import docker.auth
import msgspec
from docker.errors import DockerException
from requests import PreparedRequest
from requests.auth import AuthBase
from requests.utils import parse_dict_header

#: By which a token service knows the program that asks.
_CLIENT = "bitsect"
_TOKEN = re.compile(r"[\x21-\x7e]+")


class RegistryFault(Exception):
    """A registry cannot be asked, now or at all.

    :param reason: a few words; none of them are the registry's own.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Credentials:
    """A user's: name and password, or an identity token that stands for both."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The header that shows name and password; empty without them."""
        if not self.username:
            return ""
        pair = f"{self.username}:{self.password}".encode()
        return "Basic " + base64.b64encode(pair).decode()


@dataclass(frozen=True)
class Challenge:
    """What a registry wants before it answers.

    :param realm: URL of the token service; empty for Basic.
    """

    scheme: Literal["basic", "bearer"]
    realm: str = ""
    service: str = ""


class Authorization(AuthBase):
    """Adds a header, or none. Given with each request, it keeps requests from reading .netrc."""

    def __init__(self, header: str = "") -> None:
        self.header = header

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        if self.header:
            request.headers["Authorization"] = self.header
        return request


def stored_credentials(registry: str) -> Credentials:
    """What the docker command line would use; empty if it has nothing for this registry.

    Raises RegistryFault if its configuration, or the helper that it names, cannot be read.

    :param registry: as it stands in an image's name.
    """
    try:
        found = docker.auth.load_config().resolve_authconfig(registry) or {}
    except (DockerException, OSError, ValueError) as error:
        raise RegistryFault("the stored credentials cannot be read") from error
    # A credential helper's answer and the file's own entries are spelt differently.
    stored = {str(name).lower(): str(value) for name, value in found.items() if value}
    return Credentials(
        username=stored.get("username", ""),
        password=stored.get("password", ""),
        identity_token=stored.get("identitytoken", ""),
    )


def read_challenge(header: str) -> Challenge | None:
    """A ``WWW-Authenticate`` header; None if it asks for nothing that is known here."""
    bearer = re.search(r"(?:^|,)\s*bearer\s+(.*)", header, re.IGNORECASE | re.DOTALL)
    if bearer:
        told = parse_dict_header(bearer[1])  # type: ignore[no-untyped-call]  # no stub
        return Challenge("bearer", told.get("realm") or "", told.get("service") or "")
    if re.search(r"(?:^|,)\s*basic\b", header, re.IGNORECASE):
        return Challenge("basic")
    return None


def is_fit_realm(realm: str, registry: str) -> bool:
    """Whether credentials may be shown there: encrypted, or on the registry's own machine.

    :param registry: URL at which the registry answered.
    """
    try:
        there, here = urlsplit(realm), urlsplit(registry)
    except ValueError:
        return False
    if there.scheme == "https":
        return bool(there.hostname)
    return there.scheme == here.scheme == "http" and there.hostname == here.hostname


def token_request(
    challenge: Challenge, repository: str, credentials: Credentials
) -> tuple[dict[str, str], dict[str, str] | None]:
    """The query, and the form if it is to be posted, with which a token is asked for.

    The scope is our own, never the challenge's: nothing but reading is wanted.
    """
    asked = {"service": challenge.service, "scope": f"repository:{repository}:pull"}
    if not credentials.identity_token:
        return asked, None
    return {}, {
        **asked,
        "grant_type": "refresh_token",
        "refresh_token": credentials.identity_token,
        "client_id": _CLIENT,
    }


def read_token(body: bytes) -> str:
    """The token in a token service's answer. Raises RegistryFault if there is none."""
    try:
        answer = msgspec.json.decode(body, type=_TokenAnswer)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RegistryFault("its login gave no token") from error
    token = answer.token or answer.access_token or ""
    if not _TOKEN.fullmatch(token):
        raise RegistryFault("its login gave no token")
    return token


class _TokenAnswer(msgspec.Struct):
    token: str | None = None
    access_token: str | None = None
