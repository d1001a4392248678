"""A connection that an engine has given up to the streams of a container or a program."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

STDOUT = 1
STDERR = 2
_PIECE = 1 << 16
# Stream, three bytes of nothing, length of what follows.
_HEADER = struct.Struct(">BxxxL")


class Wire:
    """Sends to the standard input, and receives from the other two streams.

    :param stream: as the SDK returns it where it is asked for a socket.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        # The SDK wraps the real socket, except where it is of another kind, as over ssh.
        self._socket = getattr(stream, "_sock", stream)
        self._frames = Frames()

    def send(self, data: bytes) -> None:
        """Raises OSError if the other side is gone."""
        self._socket.sendall(data)

    def pieces(self, deadline: float) -> Iterator[tuple[int, bytes]]:
        """What arrives, each time with the number of its stream, until the other side ends it.

        Raises TimeoutError at the deadline; a later call goes on where this one stopped.

        :param deadline: on `time.monotonic`.
        """
        while piece := self._receive(deadline):
            yield from self._frames.feed(piece)

    def close(self) -> None:
        """Hang up; may be repeated, and wakes whoever waits in `pieces`."""
        with contextlib.suppress(OSError, AttributeError):
            self._socket.shutdown(socket.SHUT_RDWR)
        # The SDK hangs the answer onto its stream so that both live equally long.
        getattr(self._stream, "_response", self._stream).close()

    def _receive(self, deadline: float) -> bytes:
        patience = deadline - time.monotonic()
        if patience <= 0:
            raise TimeoutError
        try:
            self._socket.settimeout(patience)
            return bytes(self._socket.recv(_PIECE))
        except TimeoutError:
            raise
        except (OSError, ValueError):
            # The engine died, or this side hung up in another thread: either way it is over,
            # and what that means is found out elsewhere.
            return b""


class Frames:
    """Takes the engine's framing apart, however it was cut in transit."""

    def __init__(self) -> None:
        self._header = b""
        self._left = 0
        self._number = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """What the data completes or continues."""
        while data:
            if self._left:
                piece, data = data[: self._left], data[self._left :]
                self._left -= len(piece)
                yield self._number, piece
            else:
                missing = _HEADER.size - len(self._header)
                self._header += data[:missing]
                data = data[missing:]
                if len(self._header) == _HEADER.size:
                    self._number, self._left = _HEADER.unpack(self._header)
                    self._header = b""
