"""The members of a tar stream, one after the other, in bounded memory.

The standard library's reader takes a damaged header for the end of the archive, keeps every
header, and reads extension headers of any size. An engine that dies in the middle of an export
must not pass for a smaller image, so here all of these are errors.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import BinaryIO, Self

from bitsect.images.contents.errors import ArchiveError

#: Bytes of the longest header that may carry a long name or extended attributes.
LONGEST_EXTENSION = 1 << 20

# Larger reads make the reader copy more for each small file; smaller ones make more calls.
_READ_SIZE = 1 << 16
_CHUNK = 1 << 20

_EXTENSIONS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)

# What the reader raises for headers that contradict themselves.
_MALFORMED = (tarfile.TarError, ValueError, LookupError, ArithmeticError, RecursionError)


class _Header(tarfile.TarInfo):
    """A header that is whole, or else the block of zeros that ends an archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                raise
            raise ArchiveError(str(error)) from error
        if header.size < 0 or (header.type in _EXTENSIONS and header.size > LONGEST_EXTENSION):
            raise ArchiveError(f"a header of {header.size} bytes")
        return header


def members(stream: BinaryIO) -> Iterator[tuple[tarfile.TarInfo, Iterator[bytes]]]:
    """Each member with its bytes, which must be read before the next member is asked for.

    There are bytes for regular files alone, and none for files with holes.

    Raises ArchiveError, as does reading the bytes, when the archive ends too early or cannot be
    understood.
    """
    try:
        with tarfile.open(
            fileobj=stream,
            mode="r|",
            bufsize=_READ_SIZE,
            tarinfo=_Header,
            encoding="utf-8",
            errors="surrogateescape",
        ) as archive:
            while (member := archive.next()) is not None:
                # It would keep them all.
                archive.members.clear()  # type: ignore[attr-defined]
                yield member, _chunks(archive, member)
    except _MALFORMED as error:
        raise ArchiveError(str(error) or type(error).__name__) from error


def _chunks(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    if not member.isreg() or member.issparse():
        return
    try:
        stream = archive.extractfile(member)
        while stream is not None and (chunk := stream.read(_CHUNK)):
            yield chunk
    except _MALFORMED as error:
        raise ArchiveError(str(error) or type(error).__name__) from error
