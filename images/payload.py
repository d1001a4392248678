"""The probe as it is taken into a stack: a folder of its own, named by its content.

The running code is never lent directly, because a developer may edit it while a search runs:
every trial of a search must be answered by one probe, the one whose digest stands in the trace.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bitsect
from bitsect.images.errors import InfrastructureError, host_faults
from bitsect.images.file_lock import FileLock
from bitsect.probes import identity

_PACKAGE = "bitsect"
_PART = "probes"
# A file of this name keeps Python, even the superuser's, from leaving compiled modules in the
# folder, where they could answer in place of the sources that are verified.
_NO_CACHE = "__pycache__"
_LOCK = "lock"


@dataclass(frozen=True)
class Payload:
    """A staged probe.

    :param folder: what the stack's PYTHONPATH must name.
    :param digest: ``sha256:…`` of the probe's sources.
    """

    folder: Path
    digest: str


def staged_probe(cache_root: Path) -> Payload:
    """The probe of this very installation, staged under the cache folder and verified.

    A folder that is there already is used only while every byte of it is right.
    """
    package = Path(bitsect.__file__).parent
    names = _source_names(package)
    digest = identity.digest_of_files(package, names)
    folder = cache_root / "probe" / digest.removeprefix("sha256:")
    if not _holds(folder, names, digest):
        with host_faults(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock.exclusive(folder.with_name(_LOCK)):
                # Someone else may have repaired it meanwhile, and be using it by now.
                if not _holds(folder, names, digest):
                    _stage(package, names, folder)
        if not _holds(folder, names, digest):
            raise InfrastructureError("disk", f"{folder} does not keep what is written to it")
    return Payload(folder, digest)


def _source_names(package: Path) -> list[str]:
    """The probe's source files, relative to the package's folder."""
    inner = [path.relative_to(package) for path in (package / _PART).rglob("*.py")]
    return ["__init__.py", *sorted(path.as_posix() for path in inner)]


def _cache_stops(names: list[str]) -> set[str]:
    """In each folder with a source file, and those above, the file that stops Python's cache."""
    folders = {parent for name in names for parent in Path(name).parents}
    return {(folder / _NO_CACHE).as_posix() for folder in folders}


def _holds(folder: Path, names: list[str], digest: str) -> bool:
    """Whether the folder has exactly these files, with exactly these bytes."""
    package = folder / _PACKAGE
    try:
        present = {path.relative_to(package).as_posix() for path in _files(package)}
        if present != {*names, *_cache_stops(names)}:
            return False
        return identity.digest_of_files(package, names) == digest
    except FileNotFoundError:
        # It is being repaired by someone else.
        return False


def _files(folder: Path) -> Iterator[Path]:
    """Every file below, and every link whatever it leads to."""
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        yield from (Path(place) / name for name in (*names, *links))


def _stage(package: Path, names: list[str], folder: Path) -> None:
    """Make the folder beside its place, and move it there in one step."""
    work = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        made = work / "made"
        for name in names:
            _write(made / _PACKAGE / name, (package / name).read_bytes())
        for name in _cache_stops(names):
            _write(made / _PACKAGE / name, b"")
        if folder.exists():
            folder.rename(work / "wrong")
        made.rename(folder)
    finally:
        shutil.rmtree(work)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o444)
