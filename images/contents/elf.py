"""What the dynamic loader goes by, read out of an ELF file: never the whole file."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import IO, TypeVar

from bitsect.images.contents.model import Elf
from bitsect.probes.inventory import build_id_of_notes

MAGIC = b"\x7fELF"

_EXECUTABLE, _SHARED = 2, 3  # kinds of file that are loaded
_LOAD, _DYNAMIC, _NOTE = 1, 2, 4  # kinds of segment
_NEEDED, _STRINGS, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29  # tags of the dynamic section
_VERSIONS_DEFINED, _VERSIONS_NEEDED = 0x6FFFFFFC, 0x6FFFFFFE
_BASE, _WEAK = 1, 2  # flags of a version: the file's own name, and one that may be missing

# Far beyond real files; a file that lies costs no more than this.
_MOST_SEGMENTS = 512
_MOST_NAMES = 4096
_MOST_RECORDS = 8192
_LONGEST_SECTION = 1 << 20
_LONGEST_NAME = 4096

# What reading a file that is not as it says it is ends in.
_CONTRADICTIONS = (struct.error, ValueError, OverflowError, LookupError)

T = TypeVar("T")


def read_elf(stream: IO[bytes]) -> Elf | None:
    """The facts of an executable or shared library; None for any other file.

    :param stream: positioned anywhere; it must be able to seek.
    """
    try:
        file = _File(stream)
    except _CONTRADICTIONS:
        return None
    return file.facts() if file.kind in (_EXECUTABLE, _SHARED) else None


class _File:
    """An ELF file. Raises one of the contradictions when it ends too early or is none."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        head = self._read(0, 64)
        if head[:4] != MAGIC or head[4] not in (1, 2) or head[5] not in (1, 2):
            raise ValueError
        self._wide = head[4] == 2
        self._order = "<" if head[5] == 1 else ">"
        self.kind = self._unpack("H", head, 16)[0]
        table = self._unpack("Q" if self._wide else "I", head, 32 if self._wide else 28)[0]
        size, count = self._unpack("HH", head, 54 if self._wide else 42)
        self._segments = list(self._segment_table(table, size, min(count, _MOST_SEGMENTS)))
        self._tags: dict[int, list[int]] = {}
        self._records_left = _MOST_RECORDS

    def facts(self) -> Elf:
        """All of it; a fact that the file contradicts itself about is left empty."""
        self._tags = _attempt(self._dynamic, {})
        return Elf(
            build_id=_attempt(self._build_id, None),
            soname=_attempt(self._soname, None),
            needed=_attempt(self._needed, ()),
            provides=_attempt(lambda: tuple(self._defined()), ()),
            requires=_attempt(lambda: tuple(self._required()), ()),
            search=_attempt(self._search, ()),
        )

    def _soname(self) -> str | None:
        names = self._tags.get(_SONAME)
        return self._string(names[0]) if names else None

    def _needed(self) -> tuple[str, ...]:
        return tuple(self._string(at) for at in self._tags.get(_NEEDED, ())[:_MOST_NAMES])

    def _search(self) -> tuple[str, ...]:
        places = self._tags.get(_RUNPATH) or self._tags.get(_RPATH) or []
        folders = self._string(places[0]).split(":") if places else []
        return tuple(folder for folder in folders if folder)

    def _build_id(self) -> str | None:
        for kind, start, _, length in self._segments:
            if kind == _NOTE:
                notes = self._read(start, min(length, _LONGEST_SECTION))
                if found := build_id_of_notes(notes, self._order):
                    return found
        return None

    def _segment_table(
        self, start: int, size: int, count: int
    ) -> Iterator[tuple[int, int, int, int]]:
        """(kind, offset, address, length in the file) of each segment."""
        table = self._read(start, size * count)
        for at in range(0, size * count, size):
            if self._wide:
                kind, _, offset, address, _, length = self._unpack("IIQQQQ", table, at)
            else:
                kind, offset, address, _, length = self._unpack("IIIII", table, at)
            yield kind, offset, address, length

    def _dynamic(self) -> dict[int, list[int]]:
        """Values of the dynamic section by tag."""
        found: dict[int, list[int]] = {}
        pair = struct.Struct(self._order + ("qQ" if self._wide else "iI"))
        for kind, start, _, length in self._segments:
            if kind == _DYNAMIC:
                data = self._read(start, min(length, _LONGEST_SECTION))
                for tag, value in pair.iter_unpack(data[: len(data) - len(data) % pair.size]):
                    if tag == 0:
                        break
                    found.setdefault(tag, []).append(value)
        return found

    def _defined(self) -> Iterator[str]:
        """Versions in the order of the file, less the one that is the file's own name."""
        for address in self._tags.get(_VERSIONS_DEFINED, ())[:1]:
            for at in self._chain(self._offset(address), "HHHHIII", 6):
                _, flags, _, _, _, first, _ = self._fields(at, "HHHHIII")
                if not flags & _BASE:
                    yield self._string(self._fields(at + first, "II")[0])

    def _required(self) -> Iterator[str]:
        """``soname:version`` of each version without which the loader refuses the file."""
        for address in self._tags.get(_VERSIONS_NEEDED, ())[:1]:
            for at in self._chain(self._offset(address), "HHIII", 4):
                _, _, file, first, _ = self._fields(at, "HHIII")
                for inner in self._chain(at + first, "IHHII", 4):
                    _, flags, _, name, _ = self._fields(inner, "IHHII")
                    if not flags & _WEAK:
                        yield f"{self._string(file)}:{self._string(name)}"

    def _chain(self, at: int, layout: str, link: int) -> Iterator[int]:
        """Offsets of records, each of which says how far away the next one is."""
        step = -1
        while step != 0:
            self._records_left -= 1
            if self._records_left < 0:
                raise ValueError
            yield at
            step = self._fields(at, layout)[link]
            at += step

    def _string(self, at: int) -> str:
        """A name in the dynamic string table."""
        start = self._offset(self._tags[_STRINGS][0])
        return self._read(start + at, _LONGEST_NAME).partition(b"\0")[0].decode("utf-8", "replace")

    def _offset(self, address: int) -> int:
        """Where in the file an address lies that it has in memory."""
        for kind, start, base, length in self._segments:
            if kind == _LOAD and base <= address < base + length:
                return start + address - base
        raise ValueError

    def _fields(self, at: int, layout: str) -> tuple[int, ...]:
        size = struct.calcsize(self._order + layout)
        return self._unpack(layout, self._read(at, size), 0)

    def _unpack(self, layout: str, data: bytes, at: int) -> tuple[int, ...]:
        return struct.unpack_from(self._order + layout, data, at)

    def _read(self, at: int, size: int) -> bytes:
        self._stream.seek(at)
        return self._stream.read(size)


def _attempt(read: Callable[[], T], otherwise: T) -> T:
    try:
        return read()
    except _CONTRADICTIONS:
        return otherwise
