"""An engine that says what a test wants, on a socket of its own."""

from __future__ import annotations

import json
import re
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_VERSION = re.compile(r"/v\d+\.\d+(?=/)")


@dataclass(frozen=True)
class Answer:
    """What is answered to one request.

    :param broken: the connection ends in the middle of it.
    """

    body: bytes
    status: int = 200
    broken: bool = False

    @classmethod
    def of(cls, value: object, status: int = 200) -> Answer:
        return cls(json.dumps(value).encode(), status)

    @classmethod
    def error(cls, status: int, message: str) -> Answer:
        return cls.of({"message": message}, status)


@dataclass
class FakeEngine:
    """The answers by method and path, such as ``GET /info``, and the requests that came.

    :param address: for DOCKER_HOST.
    """

    address: str
    answers: dict[str, Answer | Callable[[], Answer]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    bodies: dict[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which it is found."""
        return {"DOCKER_HOST": self.address}

    def introduce(self, api: str = "1.44", /, **info: object) -> None:
        """Have it say what it is; `info` adds to what ``GET /info`` says."""
        version = {"Version": "29.0", "ApiVersion": api, "Os": "linux", "Arch": "amd64"}
        self.answers["GET /version"] = Answer.of(version)
        said = {"MemTotal": 8 << 30, "NCPU": 4, "Driver": "overlay2", **info}
        self.answers["GET /info"] = Answer.of(said)


@contextmanager
def serving(folder: Path) -> Iterator[FakeEngine]:
    """A fake engine that listens until the block is left."""
    socket = folder / "fake.sock"
    fake = FakeEngine(f"unix://{socket}")
    fake.introduce()
    with _Server(str(socket), _handler(fake)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def _handler(fake: FakeEngine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._respond()

        def do_POST(self) -> None:
            self._respond()

        def do_DELETE(self) -> None:
            self._respond()

        def log_message(self, *_: object) -> None:
            pass

        def address_string(self) -> str:
            return "test"

        def _respond(self) -> None:
            path = _VERSION.sub("", unquote(urlsplit(self.path).path), count=1)
            request = f"{self.command} {path}"
            fake.requests.append(request)
            length = int(self.headers.get("Content-Length") or 0)
            if length:
                fake.bodies[request] = json.loads(self.rfile.read(length))
            found = fake.answers.get(request, Answer.error(404, f"nothing at {request}"))
            answer = found() if callable(found) else found
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.body) * (2 if answer.broken else 1)))
            self.end_headers()
            self.wfile.write(answer.body)
            self.close_connection = self.close_connection or answer.broken

    return Handler
