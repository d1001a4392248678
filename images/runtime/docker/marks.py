"""How what bitsect makes on an engine is told from everything else, and who still needs it.

Everything that is made carries labels. Nothing without them is ever touched, because an engine
is shared with people and tools that know nothing of bitsect.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from bitsect.images.errors import host_faults
from bitsect.images.file_lock import FileLock
from bitsect.images.runtime.scratch import ScratchFolder

#: What kind of thing it is: ``session``, ``files``, ``probe``, ``hybrid``.
MADE = "bitsect.made"
#: Which cache folder it belongs to; several users may share an engine.
ROOT = "bitsect.root"
#: Which process needs it; on containers alone.
OWNER = "bitsect.owner"

_FOLDER = "engine"
_ID = "id"


class Marks:
    """The labels of one process that works with one cache folder.

    It holds a lock for as long as it lives. The kernel frees the lock of a killed process,
    which is how the next one knows what was left behind.

    :param cache_root: bitsect's cache folder.
    """

    def __init__(self, cache_root: Path) -> None:
        self.folder = cache_root / _FOLDER
        with host_faults(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.root = _root_id(self.folder / _ID)
        self._scratch = ScratchFolder(self.scratch_root)
        self.owner = self._scratch.path.name

    @property
    def scratch_root(self) -> Path:
        """Below which this process's folders on this machine lie."""
        return self.folder / "scratch"

    def on_container(self, kind: str) -> dict[str, str]:
        """Labels of a container, which goes with this process at the latest."""
        return {MADE: kind, ROOT: self.root, OWNER: self.owner}

    def on_kept(self, kind: str) -> dict[str, str]:
        """Labels of an image or a volume, which other processes may use too."""
        return {MADE: kind, ROOT: self.root}

    def is_abandoned(self, owner: str) -> bool:
        """Whether the process with this label is gone."""
        if not owner or Path(owner).name != owner:
            return False
        lock_file = self.scratch_root / f"{owner}.lock"
        # Its lock was made before its first container, so without one it is gone.
        if not lock_file.exists():
            return True
        lock = FileLock.try_exclusive(lock_file)
        if lock is None:
            return False
        with lock:
            lock.remove()
        return True

    def release(self) -> None:
        """This process needs nothing any more; may be repeated."""
        self._scratch.remove()


def _root_id(path: Path) -> str:
    """The folder's own random id, made by whoever comes first."""
    try:
        return path.read_text()
    except FileNotFoundError:
        fresh = path.with_name(f".{_ID}-{secrets.token_hex(8)}")
        fresh.write_text(secrets.token_hex(8))
        try:
            os.link(fresh, path)
        except FileExistsError:
            # Someone else came first.
            pass
        finally:
            fresh.unlink()
        return path.read_text()
