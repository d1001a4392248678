"""Folders that live as long as a session, and are cleared away after one that was killed."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from bitsect.images.errors import host_faults
from bitsect.images.file_lock import FileLock

_LOCK_SUFFIX = ".lock"


class ScratchFolder:
    """A fresh folder below a root that several processes share.

    A lock beside it is held while it is in use. The kernel frees the lock of a killed process,
    which is how the next one knows what to clear away.
    """

    def __init__(self, root: Path) -> None:
        with host_faults(root):
            root.mkdir(parents=True, exist_ok=True)
            _clear_abandoned(root)
            self.path = root / secrets.token_hex(6)
            self._lock = FileLock.exclusive(_lock_path(self.path))
            self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Delete it with all that is in it; a second time does nothing."""
        _remove(self.path)
        self._lock.remove()
        self._lock.release()


def _clear_abandoned(root: Path) -> None:
    for path in root.iterdir():
        if path.name.endswith(_LOCK_SUFFIX):
            lock = FileLock.try_exclusive(path)
            if lock is not None:
                with lock:
                    _remove(path.with_suffix(""))
                    lock.remove()


def _lock_path(folder: Path) -> Path:
    return folder.with_name(folder.name + _LOCK_SUFFIX)


def _remove(folder: Path) -> None:
    """Programs may leave folders that even their owner cannot enter; those stay."""
    shutil.rmtree(folder, ignore_errors=True)
