"""Reads from a registry over HTTP: bounded, and careful about whom it shows credentials.

Proxies and trusted certificates are those of requests, which takes them from the environment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from bitsect.images.runtime.docker.registry_login import (
    Authorization,
    Credentials,
    RegistryFault,
    is_fit_realm,
    read_challenge,
    read_token,
    token_request,
)
from bitsect.images.web_errors import innermost_reason

#: Seconds in which a whole answer must have come.
ANSWER_SECONDS = 60.0
_CONNECT_SECONDS = 10.0
_SILENT_SECONDS = 30.0
_MOST_REDIRECTS = 5
_CHUNK = 1 << 16
_TOKEN_BYTES = 1 << 20
_ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


class Answer(NamedTuple):
    """What came back: the bytes, and the URL of the next page or an empty string."""

    body: bytes
    following: str


class RegistryConnection:
    """A connection to one repository of one registry. Close it after use.

    :param host: name and port of the registry.
    :param repository: its name there; what tokens are asked for.
    :param insecure: it may be spoken to as the engine speaks to a registry that it lists as
        insecure: with an unknown certificate, or without encryption.
    """

    def __init__(
        self, host: str, repository: str, credentials: Credentials, *, insecure: bool
    ) -> None:
        self._repository = repository
        self._credentials = credentials
        self._unverified = urlsplit(f"//{host}").hostname if insecure else None
        self._origins = [f"https://{host}", *([f"http://{host}"] if insecure else [])]
        self._authorization = Authorization()
        self._session = requests.Session()
        if insecure:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def close(self) -> None:
        """Close the connections; may be repeated."""
        self._session.close()

    def get(self, path: str, limit: int, accept: str = "*/*") -> Answer | None:
        """What lies at a path of this registry; None if there is nothing.

        Raises RegistryFault if it does not answer, refuses, or sends more than `limit` bytes.
        """
        with _faults(), self._permitted(path, accept) as response:
            if response.status_code in _ABSENT:
                return None
            _require_ok(response, "it")
            following = response.links.get("next", {}).get("url", "")
            return Answer(_bounded(response, limit), following)

    @contextmanager
    def _permitted(self, path: str, accept: str) -> Iterator[requests.Response]:
        """The answer, after having logged in if that was asked for."""
        response = self._answer(path, accept)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            response.close()
            self._log_in(response.headers.get("WWW-Authenticate", ""))
            response = self._answer(path, accept)
        with response:
            yield response

    def _answer(self, path: str, accept: str) -> requests.Response:
        """The answer, from wherever the registry sends us; blobs often lie elsewhere."""
        response = self._first_answer(path, accept)
        origin = _origin(response.url)
        for _ in range(_MOST_REDIRECTS):
            target = response.headers.get("Location")
            if not response.is_redirect or target is None:
                return response
            response.close()
            url = urljoin(response.url, target)
            if urlsplit(response.url).scheme == "https" and urlsplit(url).scheme != "https":
                raise RegistryFault("it redirects to an unencrypted place")
            here = _origin(url) == origin
            response = self._send(url, accept, self._authorization if here else Authorization())
        response.close()
        raise RegistryFault("it redirects without end")

    def _first_answer(self, path: str, accept: str) -> requests.Response:
        """From the registry itself, whose scheme is found out by the first one."""
        while True:
            try:
                response = self._send(self._origins[0] + path, accept, self._authorization)
            except requests.ConnectionError:
                if len(self._origins) == 1:
                    raise
                del self._origins[0]
            else:
                del self._origins[1:]
                return response

    def _send(self, url: str, accept: str, authorization: Authorization) -> requests.Response:
        # Unpacked by nobody: what is compressed nonetheless is not understood, and refused.
        headers = {"Accept": accept, "Accept-Encoding": "identity"}
        return self._request("GET", url, authorization, headers=headers)

    def _request(
        self,
        method: str,
        url: str,
        authorization: Authorization,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
    ) -> requests.Response:
        return self._session.request(
            method,
            url,
            headers=headers,
            params=query,
            data=form,
            auth=authorization,
            verify=urlsplit(url).hostname != self._unverified,
            timeout=(_CONNECT_SECONDS, _SILENT_SECONDS),
            allow_redirects=False,
            stream=True,
        )

    def _log_in(self, asked: str) -> None:
        """Meet a challenge. Raises RegistryFault if that cannot be done."""
        challenge = read_challenge(asked)
        if challenge is None:
            raise RegistryFault("it asks for a login of an unknown kind")
        if challenge.scheme == "bearer":
            query, form = token_request(challenge, self._repository, self._credentials)
            token = self._token(challenge.realm, query, form)
            self._authorization = Authorization(f"Bearer {token}")
        elif self._credentials.basic:
            self._authorization = Authorization(self._credentials.basic)
        else:
            raise RegistryFault("it asks for a login, and none is stored")

    def _token(self, realm: str, query: Mapping[str, str], form: Mapping[str, str] | None) -> str:
        if not is_fit_realm(realm, self._origins[0]):
            raise RegistryFault("its login is at an unencrypted place")
        method = "GET" if form is None else "POST"
        # An identity token stands in the form; beside it nothing else is shown.
        shown = Authorization(self._credentials.basic if form is None else "")
        with self._request(method, realm, shown, query=query, form=form) as response:
            _require_ok(response, "its login")
            return read_token(_bounded(response, _TOKEN_BYTES))


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    # A ValueError comes from an address that is none.
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise RegistryFault(innermost_reason(error)) from error


def _require_ok(response: requests.Response, who: str) -> None:
    if response.status_code == HTTPStatus.OK:
        return
    known = {status.value: status.phrase for status in HTTPStatus}
    phrase = known.get(response.status_code, "")
    raise RegistryFault(f"{who} answers HTTP {response.status_code} {phrase}".rstrip())


def _bounded(response: requests.Response, limit: int) -> bytes:
    """The body as it was sent, if it ends in time and within the limit."""
    deadline = time.monotonic() + ANSWER_SECONDS
    body = bytearray()
    while chunk := response.raw.read1(_CHUNK, decode_content=False):
        body += chunk
        if len(body) > limit:
            raise RegistryFault(f"an answer has more than {limit} bytes")
        if time.monotonic() > deadline:
            raise RegistryFault(f"an answer takes more than {ANSWER_SECONDS:g} seconds")
    return bytes(body)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
