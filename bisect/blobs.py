"""A folder of files named by their content."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from bitsect.bisect.errors import StoreError

_PARTIAL = ".partial-"


def _holds(place: Path, content: bytes) -> bool:
    """Whether a file is there and whole; a damaged one is written again."""
    try:
        return place.read_bytes() == content
    except OSError:
        return False


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def alive(process: int) -> bool:
    """Whether a process of this number exists on this host."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class BlobFolder:
    """Keeps byte strings under their SHA-256, so that nothing kept can change unnoticed.

    :param root: the folder; made when the first blob comes.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, content: bytes) -> str:
        """Keep ``content``; its digest. On the disk before this returns."""
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        place = self.path(digest)
        if _holds(place, content):
            return digest
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=place.parent, prefix=f"{_PARTIAL}{os.getpid()}-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            Path(partial).rename(place)
            _sync(place.parent)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
        return digest

    def get(self, digest: str) -> bytes:
        """The content of a digest.

        :raises StoreError: it is gone, or is no longer what was kept.
        """
        place = self.path(digest)
        try:
            content = place.read_bytes()
        except OSError as error:
            raise StoreError(str(place), "damaged", found="nothing", known=digest) from error
        found = "sha256:" + hashlib.sha256(content).hexdigest()
        if found != digest:
            raise StoreError(str(place), "damaged", found=found, known=digest)
        return content

    def sweep(self) -> None:
        """Remove what processes that were killed left half-written."""
        for partial in self._root.glob(f"*/{_PARTIAL}*"):
            process = partial.name.removeprefix(_PARTIAL).partition("-")[0]
            if process.isdigit() and not alive(int(process)):
                partial.unlink(missing_ok=True)

    def path(self, digest: str) -> Path:
        """Where a digest's content lies."""
        name = digest.removeprefix("sha256:")
        return self._root / name[:2] / name[2:]
