"""Files that take so many bytes and no more."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO


class Sink:
    """Keeps the first bytes of what a program writes.

    :param target: an unbuffered file, so that a person can follow a program while it runs.
    :param limit: bytes kept.
    :param heard: told what is kept, as it comes.
    """

    def __init__(
        self, target: IO[bytes], limit: int, heard: Callable[[bytes], object] | None = None
    ) -> None:
        self._target = target
        self._left = limit
        self._heard = heard

    def take(self, piece: bytes) -> bool:
        """Write what still fits; False if that was not all."""
        fitting = piece[: self._left]
        write_all(self._target, fitting)
        if self._heard is not None and fitting:
            self._heard(fitting)
        self._left -= len(fitting)
        return len(fitting) == len(piece)


def write_all(stream: IO[bytes], data: bytes) -> None:
    """Write all of it, in however many steps the system takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(stream.fileno(), view) :]
