"""Files on their way into a container, as one tar stream that is never whole in memory.

Whatever is lent by an image is checked while it passes against what the image was known to
hold. A donor that lies, or that changed, is noticed before anything is made of it.
"""

from __future__ import annotations

import hashlib
import posixpath
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO, cast

from docker.errors import NotFound

from bitsect.images.contents.errors import ArchiveError
from bitsect.images.contents.model import Entry
from bitsect.images.contents.tar_members import members
from bitsect.images.errors import InfrastructureError, UnbuildableError, host_faults
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.faults import every_fault
from bitsect.images.runtime.docker.files import archive

Piece = Iterator[bytes]

_BLOCK = 512
_CHUNK = 1 << 18
_END = bytes(2 * _BLOCK)
# The one kind of extended header that is content: all others say again what stands in the plain
# one, under the name that the file had elsewhere.
_ATTRIBUTE = "SCHILY.xattr."
_TYPES = {"file": tarfile.REGTYPE, "link": tarfile.SYMTYPE, "folder": tarfile.DIRTYPE}


def put(engine: Engine, container: str, pieces: Iterable[Piece]) -> None:
    """Write files into a container, each where it belongs from the root on.

    Whatever a piece raises passes. Raises InfrastructureError.
    """

    def stream() -> Iterator[bytes]:
        for piece in pieces:
            yield from piece
        yield _END

    with every_fault("writing files into a container"):
        engine.api.put_archive(container, "/", stream())


def texts(files: Mapping[str, tuple[Entry, bytes]]) -> Piece:
    """Files whose bytes are at hand."""
    for path, (entry, data) in sorted(files.items()):
        yield _header(_member(path, entry, len(data)))
        yield from _padded(iter([data]), len(data))


def from_folder(root: Path, wanted: Mapping[str, Entry]) -> Piece:
    """Files below a folder of this machine, which takes the place of the root."""
    for path, entry in sorted(wanted.items()):
        if entry.kind == "link":
            yield _header(_member(path, entry))
            continue
        source = root / path.lstrip("/")
        with host_faults(source), source.open("rb") as stream:
            yield _header(_member(path, entry, entry.size))
            data = _read(stream, entry.size)
            yield from _padded(_verified(data, path, entry), entry.size)


def from_image(
    engine: Engine, container: str, roots: Iterable[str], wanted: Mapping[str, Entry]
) -> Piece:
    """Files and links of another container, which need not have been started.

    Raises UnbuildableError for one that is not as the entry says, or not there.

    :param roots: below which the wanted paths lie; a root may be a wanted path itself.
    """
    missing = dict(wanted)
    for root in roots:
        yield from _below(engine, container, root, missing)
    # Second names of files that were not wanted themselves: alone, each is a file again.
    for path in sorted(missing):
        yield from _below(engine, container, path, missing)
    for path in missing:
        raise UnbuildableError(path, "the image that should lend it does not have it")


def _below(engine: Engine, container: str, root: str, missing: dict[str, Entry]) -> Piece:
    """Those missing paths that are at or below a root; they are missing no more."""
    known = missing.get(root)
    if engine.is_podman and known is not None and known.kind == "link":
        # It follows the link that it is asked for. All of a link stands in its entry.
        yield _header(_member(root, missing.pop(root)))
        return
    sent: dict[str, Entry] = {}
    for info, data in _lent(engine, container, root):
        path = _path_in(root, info.name)
        entry = missing.get(path)
        if entry is None:
            continue
        if info.islnk():
            first = _path_in(root, info.linkname)
            if first not in sent:
                continue
            yield _second_name(path, entry, first, sent[first])
        else:
            yield from _passed_on(info, data, path, entry)
        sent[path] = missing.pop(path)


def _lent(
    engine: Engine, container: str, root: str
) -> Iterator[tuple[tarfile.TarInfo, Iterator[bytes]]]:
    try:
        with archive(engine, container, root) as stream:
            yield from members(cast(BinaryIO, stream))
    except NotFound as error:
        reason = "the image that should lend it does not have it"
        raise UnbuildableError(root, reason) from error
    except ArchiveError as error:
        raise InfrastructureError("refused", f"the archive of {root}: {error.reason}") from error


def _passed_on(info: tarfile.TarInfo, data: Iterator[bytes], path: str, entry: Entry) -> Piece:
    _compare(path, entry, info)
    member = _member(path, entry, info.size)
    member.pax_headers = {
        name: value for name, value in info.pax_headers.items() if name.startswith(_ATTRIBUTE)
    }
    yield _header(member)
    if info.isreg():
        yield from _padded(_verified(data, path, entry), info.size)


def _second_name(path: str, entry: Entry, first: str, other: Entry) -> bytes:
    """One more name of a file that was passed on just before."""
    if entry.content != other.content:
        raise _changed(path, "content")
    member = _member(path, entry)
    member.type = tarfile.LNKTYPE
    member.linkname = first.lstrip("/")
    return _header(member)


def _member(path: str, entry: Entry, size: int = 0) -> tarfile.TarInfo:
    if entry.kind not in _TYPES:
        raise UnbuildableError(path, f"a {entry.kind} file cannot be moved")
    if not path.startswith("/") or posixpath.normpath(path) != path:
        raise UnbuildableError(path, "no path of an image")
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type = _TYPES[entry.kind]
    member.mode, member.uid, member.gid = entry.mode, entry.uid, entry.gid
    member.mtime, member.size = entry.mtime, size
    member.linkname = entry.target or ""
    return member


def _header(member: tarfile.TarInfo) -> bytes:
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _compare(path: str, entry: Entry, info: tarfile.TarInfo) -> None:
    """Everything but a file's bytes, which are seen only later."""
    found = {
        "kind": next((kind for kind, type_ in _TYPES.items() if info.type == type_), "special"),
        # A link has no permissions of its own.
        "mode": entry.mode if info.issym() else info.mode & 0o7777,
        "owner": (info.uid, info.gid),
        "size": info.size,
        "target": info.linkname if info.issym() else None,
    }
    known = {
        "kind": entry.kind,
        "mode": entry.mode,
        "owner": (entry.uid, entry.gid),
        "size": entry.size,
        "target": entry.target,
    }
    for name, value in known.items():
        if found[name] != value:
            raise _changed(path, name)


def _verified(data: Iterable[bytes], path: str, entry: Entry) -> Iterator[bytes]:
    """The bytes, which must turn out to be the entry's."""
    total = hashlib.sha256()
    for chunk in data:
        total.update(chunk)
        yield chunk
    if "sha256:" + total.hexdigest() != entry.digest:
        raise _changed(path, "content")


def _changed(path: str, what: str) -> UnbuildableError:
    return UnbuildableError(path, f"its {what} is not the one that its image was known to have")


def _read(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """At most so many bytes, in pieces."""
    while size and (chunk := stream.read(min(_CHUNK, size))):
        size -= len(chunk)
        yield chunk


def _padded(data: Iterable[bytes], size: int) -> Iterator[bytes]:
    """A member's bytes, up to the next full block."""
    yield from data
    yield bytes(-size % _BLOCK)


def _path_in(root: str, name: str) -> str:
    """The path of an archive's member; its name begins with the last part of the root's."""
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(root), name.lstrip("/")))
