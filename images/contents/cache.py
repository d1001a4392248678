"""Contents that were read once, kept on the disk by the image they belong to."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from bitsect.images.contents.model import Contents
from bitsect.images.errors import host_faults
from bitsect.images.file_lock import FileLock

#: Raised by one whenever the same image would be read differently.
SCHEMA = 1

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_PARTIAL = ".partial-"
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Contents)


class ContentsCache:
    """Keeps contents by config digest: the same image always has the same files.

    A file that is damaged, or written by another version of this program, counts as absent.

    :param root: a folder for nothing else; made when the first contents come.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, config_digest: str, make: Callable[[], Contents]) -> Contents:
        """What is kept, or else what `make` returns, which is kept from then on.

        Raises what `make` raises, InfrastructureError when there is no room, and ValueError for
        what is no digest.
        """
        place = self.path(config_digest)
        found = _load(place)
        if found is None:
            found = make()
            with host_faults(place):
                _save(place, found)
        return found

    def path(self, config_digest: str) -> Path:
        """The file of an image, whether it is there or not."""
        match = _DIGEST.fullmatch(config_digest)
        if match is None:
            raise ValueError(f"not a digest: {config_digest!r}")
        return self._root / f"{match[1]}.contents"


def _load(place: Path) -> Contents | None:
    try:
        kept = place.read_bytes()
    except OSError:
        return None  # absent or unreadable: it is made again, and saving says what is wrong
    head, body = kept[: len(_head(b""))], memoryview(kept)[len(_head(b"")) :]
    if head != _head(body):
        return None
    try:
        return _DECODER.decode(body)
    except msgspec.MsgspecError:
        return None


def _save(place: Path, contents: Contents) -> None:
    body = _ENCODER.encode(contents)
    place.parent.mkdir(parents=True, exist_ok=True)
    # One writer at a time: whatever else is half written was left by one that was killed.
    with FileLock.exclusive(place.parent / ".lock"):
        for left in place.parent.glob(f"{_PARTIAL}*"):
            left.unlink(missing_ok=True)
        handle, partial = tempfile.mkstemp(dir=place.parent, prefix=_PARTIAL)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(_head(body))
                stream.write(body)
            Path(partial).replace(place)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise


def _head(body: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return f"bitsect contents {SCHEMA} {digest}\n".encode()
