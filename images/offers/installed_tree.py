"""One fetched Python distribution, laid out as pip installs it into an image.

What uv installs into a folder of this machine names this machine's Python in its scripts and
uv as its installer. Both would be differences that no index made.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from bitsect.images.contents.elf import read_elf
from bitsect.images.contents.model import Contents, Entry
from bitsect.images.contents.texts import is_kept
from bitsect.images.errors import UnbuildableError
from bitsect.images.layers import Record

#: Seconds since 1970 that every file has as its time, so that equal releases are equal files.
TIME = 315532800  # 1980, the earliest that a wheel can say

_OWN = frozenset({"RECORD.jws", "RECORD.p7s", "uv_cache.json"})
# Python as a script's program, directly or in the form that allows for long paths.
_SCRIPT = re.compile(
    rb"#!(?:[^\n]*python[^\n]*\n|/bin/sh\n'''exec' [^\n]*python[^\n]*\n' '''\n)", re.IGNORECASE
)


class Place(Record, frozen=True):
    """Where a distribution goes in an image.

    :param site: folder that its modules lie in.
    :param prefix: folder that its scripts and data lie below.
    :param python: for its scripts.
    """

    site: str
    prefix: str
    python: str
    uid: int = 0
    gid: int = 0


def arranged(fetched: Path, root: Path, place: Place) -> Path:
    """Move what uv installed with ``--prefix`` to where it goes below `root`; gives `root`.

    Raises UnbuildableError if it is no distribution.
    """
    # Others may lie deeper: distributions that this one carries within itself.
    found = sorted(fetched.rglob("*.dist-info"), key=lambda path: len(path.parts))
    if not found:
        raise UnbuildableError(place.site, "what was fetched is no distribution")
    info, site = found[0], found[0].parent
    for path in _files(fetched):
        if path.parent == fetched or path.name in _OWN:
            continue
        target = root / _inner(path, fetched, site, place).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.parent == fetched / "bin":
            _copy_script(path, target, place)
        else:
            path.rename(target)
    _sign(root, root / place.site.lstrip("/") / info.name, place)
    return root


def described(root: Path, place: Place) -> Contents:
    """All that lies below the root, as it will be in the image."""
    entries: dict[str, Entry] = {}
    texts: dict[str, bytes] = {}
    for path in _files(root):
        inner = "/" + path.relative_to(root).as_posix()
        for parent in PurePosixPath(inner).parents:
            entries.setdefault(str(parent), Entry("folder", 0o755, place.uid, place.gid, 0, TIME))
        entries[inner] = _entry(path, place)
        if is_kept(inner):
            texts[inner] = path.read_bytes()
    entries.pop("/", None)
    return Contents(entries, texts)


def _entry(path: Path, place: Place) -> Entry:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        status = os.fstat(stream.fileno())
        return Entry(
            kind="file",
            mode=0o755 if status.st_mode & stat.S_IXUSR else 0o644,
            uid=place.uid,
            gid=place.gid,
            size=status.st_size,
            mtime=TIME,
            digest="sha256:" + digest,
            elf=read_elf(stream),
        )


def _inner(path: Path, fetched: Path, site: Path, place: Place) -> str:
    if path.is_relative_to(site):
        return f"{place.site}/{path.relative_to(site).as_posix()}"
    return f"{place.prefix.rstrip('/')}/{path.relative_to(fetched).as_posix()}"


def _copy_script(source: Path, target: Path, place: Place) -> None:
    data = source.read_bytes()
    head = _SCRIPT.match(data)
    rest = data[head.end() :] if head else data
    # uv shares files with its cache, which must stay as it is.
    target.write_bytes((f"#!{place.python}\n".encode() if head else b"") + rest)
    target.chmod(source.stat().st_mode)


def _sign(root: Path, info: Path, place: Place) -> None:
    """Name pip as the installer, and list every file anew."""
    for name in ("INSTALLER", "RECORD"):
        (info / name).unlink(missing_ok=True)
    (info / "INSTALLER").write_bytes(b"pip\n")
    record = info / "RECORD"
    table = io.StringIO()
    lines = csv.writer(table, lineterminator="\n")
    rows = [_row(path, root, place) for path in _files(root)]
    own = _name(record, root, place)
    lines.writerows(sorted([*rows, (own, "", "")]))
    record.write_text(table.getvalue(), encoding="utf-8")


def _row(path: Path, root: Path, place: Place) -> tuple[str, str, str]:
    with path.open("rb") as stream:
        hashed = hashlib.file_digest(stream, "sha256").digest()
    digest = base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
    return _name(path, root, place), f"sha256={digest}", str(path.stat().st_size)


def _name(path: Path, root: Path, place: Place) -> str:
    return os.path.relpath("/" + path.relative_to(root).as_posix(), place.site)


def _files(folder: Path) -> Iterator[Path]:
    """Regular files below a folder, in order; a wheel brings no others."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path
