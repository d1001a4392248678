"""A line to the real engine that can be cut, as if the engine had been killed."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PIECE = 1 << 16


class Line(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Passes everything on to another socket until it is cut."""

    daemon_threads = True

    def __init__(self, path: Path, engine: str) -> None:
        super().__init__(str(path), _Passage)
        self.path = path
        self.engine = engine
        self.open: set[socket.socket] = set()
        self._is_cut = False

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which the engine is found at this end."""
        return {"DOCKER_HOST": f"unix://{self.path}"}

    def cut(self) -> None:
        """End all connections, and take no more."""
        if not self._is_cut:
            self._is_cut = True
            self.shutdown()
            self.server_close()
            self.path.unlink()
            for each in list(self.open):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


class _Passage(socketserver.BaseRequestHandler):
    server: Line
    request: socket.socket

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self.server.engine)
            both = {self.request, engine}
            self.server.open |= both
            back = threading.Thread(target=_pass, args=(engine, self.request), daemon=True)
            back.start()
            _pass(self.request, engine)
            back.join()
            self.server.open -= both


def _pass(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def line_to(engine: str, folder: Path) -> Iterator[Line]:
    """A line to the engine's socket that lies in a folder."""
    line = Line(folder / "line.sock", engine)
    thread = threading.Thread(target=line.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield line
    finally:
        line.cut()
        thread.join()
