"""One start of a program through `inside/launcher.py`: the order, and what it answers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping

from bitsect.images.runtime.docker.container import Taker
from bitsect.images.runtime.docker.wire import STDERR, STDOUT
from bitsect.images.runtime.protocol import RunSpec
from bitsect.images.runtime.sink import Sink


class Launch:
    """Tells the launcher's own words from what the program writes.

    Standard error begins with a line that is a random token: the program is about to start. A
    line of the token and a reason says that it could not. The program does not know the token.

    :param stdout: for the program's standard output.
    :param stderr: for its standard error, without the launcher's lines.
    """

    def __init__(self, spec: RunSpec, stdout: Sink, stderr: Sink) -> None:
        self._spec = spec
        self._stderr = stderr
        self._token = secrets.token_hex(16)
        # What may still be the launcher's; None once all is the program's.
        self._head: bytes | None = b""
        self._began = time.monotonic()
        self.takers: Mapping[int, Taker] = {STDOUT: stdout.take, STDERR: self._take_stderr}
        #: Whether the program was started at all.
        self.started = False
        #: Why it was not, in the launcher's words.
        self.failure: str | None = None
        #: Seconds from its start to its end.
        self.duration = 0.0

    def order(
        self, changes: Mapping[str, str | None], folder: str, folders: list[str]
    ) -> Mapping[str, object]:
        """For the launcher.

        :param changes: of the image's variables; None removes one.
        :param folders: to be made unless they are there.
        """
        return {
            "token": self._token,
            "arguments": list(self._spec.arguments),
            "environment": dict(changes),
            "folder": folder,
            "folders": folders,
        }

    def finish(self) -> None:
        """No more will come."""
        self.duration = time.monotonic() - self._began
        head, self._head = self._head, None
        self._stderr.take(head or b"")

    def _take_stderr(self, piece: bytes) -> bool:
        if self._head is None:
            return self._stderr.take(piece)
        self._head += piece
        token = self._token.encode()
        while self._head.startswith(token):
            line, end, rest = self._head.partition(b"\n")
            if not end:
                return True
            self._hear(line.removeprefix(token))
            self._head = rest
        if token.startswith(self._head):
            # Perhaps the beginning of another.
            return True
        head, self._head = self._head, None
        return self._stderr.take(head)

    def _hear(self, reason: bytes) -> None:
        if reason:
            self.failure = reason.decode(errors="replace")
        else:
            self.started = True
            self._began = time.monotonic()
