"""A registry on the loopback interface that answers as a test wants it to."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True)
class Seen:
    """A request that came in."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    authorization: str | None
    form: Mapping[str, list[str]]


@dataclass(frozen=True)
class Reply:
    """What goes back; a body that is no bytes is sent piece by piece, without a length."""

    status: int = 200
    body: bytes | Iterable[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[Seen], Reply]


class FakeRegistry:
    """Holds one repository, ``team/stack``, and remembers what it was asked."""

    repository = "team/stack"

    def __init__(self, port: int) -> None:
        self.host = f"127.0.0.1:{port}"
        self.name = f"{self.host}/{self.repository}"
        self.seen: list[Seen] = []
        self.listed: list[str] = []
        self._replies: dict[str, Answer] = {}
        #: Whether a request may be answered; a reply that is given instead if not.
        self.guard: Callable[[Seen], Reply | None] = lambda seen: None

    @property
    def root(self) -> str:
        return f"/v2/{self.repository}"

    def on(self, path: str, reply: Reply | Answer) -> None:
        """What is answered at a path."""
        self._replies[path] = (lambda seen: reply) if isinstance(reply, Reply) else reply

    def answer(self, seen: Seen) -> Reply:
        self.seen.append(seen)
        if refused := self.guard(seen):
            return refused
        if seen.path in self._replies:
            return self._replies[seen.path](seen)
        if seen.path == f"{self.root}/tags/list":
            return json_reply({"name": self.repository, "tags": self.listed})
        return Reply(404)

    def image(
        self, tag: str, created: str | None = None, platform: str = "linux/amd64", **more: Any
    ) -> str:
        """Puts an image behind a tag, and lists the tag; its config's digest.

        :param more: further fields of the config.
        """
        digest, manifest = self.manifest(created, platform, **more)
        self.tag(tag, manifest, MANIFEST)
        return digest

    def index(self, tag: str, entries: Iterable[Mapping[str, Any]]) -> None:
        """Puts a multi-platform index behind a tag, and lists the tag."""
        self.tag(tag, encoded({"schemaVersion": 2, "manifests": list(entries)}), INDEX)

    def entry(self, created: str, platform: str) -> tuple[str, dict[str, Any]]:
        """An image for an index: its config's digest, and what the index says of it."""
        config, manifest = self.manifest(created, platform)
        system, _, architecture = platform.partition("/")
        described = {"os": system, "architecture": architecture}
        return config, {"digest": self.document("manifests", manifest), "platform": described}

    def manifest(
        self, created: str | None, platform: str = "linux/amd64", **more: Any
    ) -> tuple[str, bytes]:
        """An image that no tag leads to: its config's digest, and its manifest."""
        system, _, architecture = platform.partition("/")
        config: dict[str, Any] = {"os": system, "architecture": architecture, **more}
        if created is not None:
            config["created"] = created
        digest = self.document("blobs", encoded(config))
        return digest, encoded({"schemaVersion": 2, "config": {"digest": digest, "size": 1}})

    def document(self, kind: str, body: bytes) -> str:
        """Keeps bytes under their digest, and gives it."""
        digest = digest_of(body)
        self.on(f"{self.root}/{kind}/{digest}", Reply(200, body))
        return digest

    def tag(self, tag: str, manifest: bytes, kind: str = MANIFEST) -> None:
        """Puts a manifest behind a tag, and lists the tag."""
        self.listed.append(tag)
        self.on(f"{self.root}/manifests/{tag}", Reply(200, manifest, {"Content-Type": kind}))


@contextmanager
def serving() -> Iterator[FakeRegistry]:
    """A registry that answers until the end of the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        registry = FakeRegistry(server.server_port)
        _Handler.registries[server.server_port] = registry
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
            del _Handler.registries[server.server_port]


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def json_reply(value: object, **headers: str) -> Reply:
    return Reply(200, encoded(value), headers)


def challenge(text: str) -> Reply:
    """A refusal that says how to log in."""
    return Reply(401, b"{}", {"WWW-Authenticate": text})


class _Handler(BaseHTTPRequestHandler):
    registries: ClassVar[dict[int, FakeRegistry]] = {}

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        seen = Seen(
            method=self.command,
            path=parts.path,
            query=parse_qs(parts.query),
            authorization=self.headers.get("Authorization"),
            form=parse_qs(self.rfile.read(length).decode()),
        )
        reply = self.registries[self.server.server_address[1]].answer(seen)  # type: ignore[index]
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        pieces = [reply.body] if isinstance(reply.body, bytes) else reply.body
        if isinstance(reply.body, bytes):
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        try:
            for piece in pieces:
                self.wfile.write(piece)
        except ConnectionError:
            # Whoever asked has heard enough.
            self.close_connection = True

    do_POST = do_GET

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # its name
        """Tests look at what came, not at a log."""
