"""The probe, lent to containers as a volume of the engine.

A folder of this machine cannot be lent: the engine may be another machine's, or bitsect itself
may run in a container. A volume is filled once, never refilled, compared byte by byte with the
staged probe before this process first uses it, and mounted read-only. So everyone on the engine
can share it.
"""

from __future__ import annotations

import io
import posixpath
import secrets
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docker.errors import NotFound
from docker.types import Mount

from bitsect.images.errors import InfrastructureError, host_faults
from bitsect.images.file_lock import FileLock
from bitsect.images.payload import Payload
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from bitsect.images.runtime.docker.files import archive, created_container, remove_volume
from bitsect.images.runtime.docker.limits import PROBE
from bitsect.images.runtime.docker.marks import Marks

#: Which probe a volume holds.
_DIGEST = "bitsect.probe"
# Its content without the folder itself, which engines name in different ways.
_CONTENT = f"{PROBE}/."
_SHOWN = len("sha256:") + 12


def probe_volume(engine: Engine, marks: Marks, payload: Payload, image: str) -> str:
    """Name of a volume with exactly this probe, made unless it is there.

    Raises InfrastructureError.

    :param image: any image of the engine; containers of it are made to reach the volume, and
        never started.
    """
    wanted = _files(payload.folder)
    with FileLock.exclusive(marks.folder / "probe.lock"):
        for name in _volumes(engine, payload):
            if _holds(engine, marks, name, image, wanted):
                return name
            # It was left half filled by a process that was killed, is just being filled, and then
            # in use and not removed, or was changed.
            remove_volume(engine, name)
        name = _filled(engine, marks, payload, image, wanted)
        if not _holds(engine, marks, name, image, wanted):
            remove_volume(engine, name)
            detail = f"volume {name} does not keep what is written to it"
            raise InfrastructureError("refused", detail)
        return name


def probe_mount(volume: str, *, read_only: bool = True) -> Mount:
    """What to add to a container for it. Nothing of the image's gets into the volume."""
    return Mount(target=PROBE, source=volume, type="volume", read_only=read_only, no_copy=True)


def _volumes(engine: Engine, payload: Payload) -> list[str]:
    """Volumes that should hold this probe, whoever made them."""
    with engine_faults("looking for the probe's volume"):
        found: Mapping[str, Any] = engine.api.volumes(
            filters={"label": f"{_DIGEST}={payload.digest}"}
        )
    return sorted(str(each["Name"]) for each in found.get("Volumes") or ())


def _filled(
    engine: Engine, marks: Marks, payload: Payload, image: str, files: Mapping[str, bytes]
) -> str:
    name = f"bitsect-probe-{payload.digest[7:_SHOWN]}-{secrets.token_hex(4)}"
    with engine_faults("making the probe's volume"):
        labels = {**marks.on_kept("probe"), _DIGEST: payload.digest}
        engine.api.create_volume(name, driver="local", labels=labels)
    with (
        _mounted(engine, marks, name, image) as container,
        engine_faults("filling the probe's volume"),
    ):
        engine.api.put_archive(container, PROBE, _packed(files))
    return name


@contextmanager
def _mounted(engine: Engine, marks: Marks, volume: str, image: str) -> Iterator[str]:
    """A container with the volume, never started."""
    mount = probe_mount(volume, read_only=False)
    with created_container(engine, image, marks, mounts=(mount,)) as container:
        yield container


def _holds(
    engine: Engine, marks: Marks, volume: str, image: str, wanted: Mapping[str, bytes]
) -> bool:
    """Whether a volume has these files with these bytes, and no others."""
    missing = dict(wanted)
    try:
        with (
            _mounted(engine, marks, volume, image) as container,
            archive(engine, container, _CONTENT) as stream,
            tarfile.open(fileobj=stream, mode="r|") as members,
        ):
            for member in members:
                if member.isdir():
                    continue
                inner = posixpath.normpath(member.name)
                expected = missing.pop(inner, None)
                if expected is None or not member.isreg() or member.size != len(expected):
                    return False
                data = members.extractfile(member)
                if data is None or data.read() != expected:
                    return False
    except (NotFound, tarfile.TarError):
        return False
    return not missing


def _files(folder: Path) -> dict[str, bytes]:
    """Every file of the staged probe, by its path relative to the folder."""
    with host_faults(folder):
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


def _packed(files: Mapping[str, bytes]) -> bytes:
    """A tar archive of them, readable by everyone and writable by nobody."""
    packed = io.BytesIO()
    folders = {parent for name in files for parent in _parents(name)}
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive_:
        for name in sorted(folders):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive_.addfile(folder)
        for name, data in sorted(files.items()):
            file = tarfile.TarInfo(name)
            file.size, file.mode = len(data), 0o444
            archive_.addfile(file, io.BytesIO(data))
    return packed.getvalue()


def _parents(name: str) -> Iterator[str]:
    while name := posixpath.dirname(name):
        yield name
