"""Reads all files of an image out of the archive that an engine exports, in one pass."""

from __future__ import annotations

import hashlib
import math
import tarfile
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from bitsect.images.contents.elf import MAGIC, read_elf
from bitsect.images.contents.errors import ArchiveError
from bitsect.images.contents.model import Contents, Elf, Entry, EntryKind
from bitsect.images.contents.paths import LONGEST_PATH, OddPath, check_text, normal_path, shown
from bitsect.images.contents.tar_members import members
from bitsect.images.contents.texts import LARGEST_TEXT, is_kept
from bitsect.images.errors import host_faults

#: Members of the largest archive that is read.
MOST_MEMBERS = 8_000_000

#: An ELF file up to this many bytes is looked at in memory, a larger one in a temporary file.
_IN_MEMORY = 16 << 20

# Mounted or written by the engine whenever a container is made: no part of the image.
_ENGINES_FOLDERS = ("/proc/", "/sys/", "/dev/")
_ENGINES_FILES = frozenset(
    ("/.dockerenv", "/etc/hostname", "/etc/hosts", "/etc/mtab", "/etc/resolv.conf")
)

# A time or number that a header states is kept within what every format can carry.
_LARGEST_NUMBER = 2**31 - 1
_LATEST_TIME = 2**53 - 1


def read_contents(stream: BinaryIO) -> Contents:
    """What a tar stream of a whole file system holds.

    Of members with one path the last one counts. Paths that no text format can carry, links to
    nowhere and files with holes are left out and named in `skipped`.

    Raises ArchiveError when the archive is torn or malformed, InfrastructureError when there is
    no room for a temporary file.
    """
    reader = _Reader()
    for count, (member, chunks) in enumerate(members(stream)):
        if count == MOST_MEMBERS:
            raise ArchiveError(f"more than {MOST_MEMBERS} members")
        reader.take(member, chunks)
    return Contents(reader.entries, reader.texts, tuple(reader.skipped))


class _Reader:
    """What was read so far."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.texts: dict[str, bytes] = {}
        self.skipped: list[tuple[str, str]] = []

    def take(self, member: tarfile.TarInfo, chunks: Iterator[bytes]) -> None:
        try:
            path = normal_path(member.name)
            if path == "/" or path in _ENGINES_FILES or path.startswith(_ENGINES_FOLDERS):
                return
            self._forget(path)
            self._add(path, member, chunks)
        except OddPath as odd:
            self.skipped.append((shown(member.name[:LONGEST_PATH]), str(odd)))

    def _forget(self, path: str) -> None:
        self.entries.pop(path, None)
        self.texts.pop(path, None)

    def _add(self, path: str, member: tarfile.TarInfo, chunks: Iterator[bytes]) -> None:
        if member.islnk():
            self._add_hard_link(path, normal_path(member.linkname))
        elif member.issym():
            check_text(member.linkname)
            self.entries[path] = _entry(member, "link", target=member.linkname)
        elif member.isreg():
            self._add_file(path, member, chunks)
        else:
            self.entries[path] = _entry(member, "folder" if member.isdir() else "special")

    def _add_hard_link(self, path: str, target: str) -> None:
        if target not in self.entries:
            raise OddPath("a hard link to what is not there")
        self.entries[path] = self.entries[target]
        if is_kept(path):
            if target not in self.texts:
                raise OddPath("its text could not be kept: a hard link to another kind of file")
            self.texts[path] = self.texts[target]

    def _add_file(self, path: str, member: tarfile.TarInfo, chunks: Iterator[bytes]) -> None:
        if member.issparse():
            raise OddPath("a file with holes")
        keep = is_kept(path)
        with host_faults(tempfile.gettempdir()):
            file = _read_file(chunks, keep)
        self.entries[path] = _entry(member, "file", file.size, file.digest, elf=file.elf)
        if file.text is not None:
            self.texts[path] = file.text
        elif keep:
            self.skipped.append((path, f"its text could not be kept: {file.size} bytes"))


class _FileRead(NamedTuple):
    """What is kept of a file."""

    size: int
    digest: str
    elf: Elf | None
    text: bytes | None


def _read_file(chunks: Iterator[bytes], keep_text: bool) -> _FileRead:
    """Everything about a file in one pass; its text where that is wanted and not too long."""
    digest = hashlib.sha256()
    size = 0
    is_elf = False
    text = bytearray()
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as copy:
        for chunk in chunks:
            is_elf = chunk.startswith(MAGIC) if size == 0 else is_elf
            digest.update(chunk)
            size += len(chunk)
            if is_elf:
                copy.write(chunk)
            if keep_text and size <= LARGEST_TEXT:
                text += chunk
        kept = bytes(text) if keep_text and size <= LARGEST_TEXT else None
        elf = read_elf(copy) if is_elf else None
        return _FileRead(size, f"sha256:{digest.hexdigest()}", elf, kept)


def _entry(
    member: tarfile.TarInfo,
    kind: EntryKind,
    size: int = 0,
    digest: str | None = None,
    target: str | None = None,
    elf: Elf | None = None,
) -> Entry:
    # Links have no permissions of their own; archives differ in what they say.
    mode = 0o777 if kind == "link" else member.mode & 0o7777
    return Entry(
        kind=kind,
        mode=mode,
        uid=_within(member.uid, _LARGEST_NUMBER),
        gid=_within(member.gid, _LARGEST_NUMBER),
        size=size,
        mtime=_within(member.mtime, _LATEST_TIME),
        digest=digest,
        target=target,
        elf=elf,
    )


def _within(number: float, largest: int) -> int:
    return int(min(max(number, 0), largest)) if math.isfinite(number) else 0
