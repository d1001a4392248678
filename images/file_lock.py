"""Locks between processes and threads, which the kernel drops when their holder dies."""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path
from types import TracebackType
from typing import Self

from bitsect.images.errors import host_faults


class FileLock:
    """A held lock on a file that exists for nothing else.

    Made by `shared`, `exclusive` or `try_exclusive`. Whoever holds it exclusively may
    `remove` the file: waiters notice and lock its successor.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._finalizer = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def shared(cls, path: Path) -> Self:
        """Waits until no one holds it exclusively."""
        lock = cls._acquire(path, fcntl.LOCK_SH)
        assert lock is not None
        return lock

    @classmethod
    def exclusive(cls, path: Path) -> Self:
        """Waits until no one holds it."""
        lock = cls._acquire(path, fcntl.LOCK_EX)
        assert lock is not None
        return lock

    @classmethod
    def try_exclusive(cls, path: Path) -> Self | None:
        """None if anyone holds it."""
        return cls._acquire(path, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @classmethod
    def try_shared(cls, path: Path) -> Self | None:
        """None if someone holds it exclusively."""
        return cls._acquire(path, fcntl.LOCK_SH | fcntl.LOCK_NB)

    @classmethod
    def _acquire(cls, path: Path, operation: int) -> Self | None:
        while True:
            with host_faults(path):
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            lock = cls(path, descriptor)
            try:
                fcntl.flock(descriptor, operation)
            except BlockingIOError:
                lock.release()
                return None
            except BaseException:
                lock.release()
                raise
            if _is_same_file(path, descriptor):
                return lock
            # It was removed while we waited: this is a lock on nothing.
            lock.release()

    def remove(self) -> None:
        """Deletes the lock's file; only for an exclusive holder."""
        self.path.unlink(missing_ok=True)

    def release(self) -> None:
        """Gives the lock up; a second time does nothing."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
