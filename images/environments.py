"""Virtual environments built once per lock, kept within a limit, and never half-made.

An environment appears under its final name only when it is complete. A lock file beside it is
held exclusively by whoever builds or removes it and shared by whoever uses it; the kernel
frees the lock when its holder dies, so what a killed build leaves behind is known to be dead.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import platformdirs
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from bitsect.images.bytecode import graft_bytecode, read_record
from bitsect.images.errors import BadReference, InfrastructureError, UnbuildableError, host_faults
from bitsect.images.file_lock import FileLock
from bitsect.images.interpreter import Interpreter
from bitsect.images.lock import Lock, LockedPackage, write_pylock
from bitsect.images.pip_settings import PipSettings
from bitsect.images.uv import Uv

DEFAULT_LIMIT = 10 * 2**30
SIDECAR = "bitsect-environment.json"
SCHEMA = 1
UNFINISHED = re.compile(r"\.(?:building|removing)-([0-9a-f]{64})-[0-9a-f]+")
COMPLETE = re.compile(r"[0-9a-f]{64}")
# Seconds between two looks at an environment that someone else has in hand.
PAUSE = 0.02
# So many environments are searched for compiled modules.
DONORS = 8
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


class Sidecar(msgspec.Struct, frozen=True):
    """What is kept inside an environment about it; the file's mtime is its last use.

    ``created`` is in seconds since 1970. ``sizes`` are bytes by package, with room for its
    compiled modules: a package that several environments share lies on the disk once.
    """

    schema: int
    created: int
    interpreter: str
    lock: Lock
    sizes: dict[str, int]


class Environment:
    """A complete environment in use: it is not removed until `release` or the process's end."""

    def __init__(self, path: Path, lock_digest: str, hold: FileLock) -> None:
        self.path = path
        self.lock_digest = lock_digest
        self._hold = hold

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.path / "bin" / "python"

    def release(self) -> None:
        """Allow it to be removed; a second time does nothing."""
        self._hold.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class EnvironmentCache:
    """Environments below one folder, shared by every process of the user.

    :param limit_bytes: what is least recently used goes when they take more than this;
        None for `default_limit_bytes`. The latest stays, whatever its size.
    :param allow_builds: let packages be built from source.
    """

    def __init__(
        self,
        root: Path,
        limit_bytes: int | None,
        settings: PipSettings,
        *,
        allow_builds: bool = False,
        uv: Uv | None = None,
    ) -> None:
        self.root = root.absolute()
        self.limit_bytes = default_limit_bytes() if limit_bytes is None else limit_bytes
        self._allow_builds = allow_builds
        self._settings = settings
        self._given_uv = uv

    def ensure(
        self, lock: Lock, interpreter: Interpreter, graft_from: Environment | None = None
    ) -> Environment:
        """The environment of a lock, built unless it is there.

        :param graft_from: where to look first for compiled modules that it shares.

        Raises UnbuildableError if the packages cannot be installed, or something else than
        the lock was; InfrastructureError for a full disk, an unreachable index and the like.
        Nothing half-made stays behind.
        """
        if lock.python != interpreter.identity:
            raise ValueError(f"the lock is for {lock.python}, not for {interpreter.identity}")
        with host_faults(self.root):
            try:
                self.root.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError) as error:
                detail = f"{self.root}: {error.strerror}"
                raise InfrastructureError("permission", detail) from error
            self._sweep()
            while True:
                hold = FileLock.shared(self._lock_path(lock.digest))
                path = self._path(lock.digest)
                if _is_complete(path):
                    # Explicit, because the kernel's own stamp moves on only every few ms.
                    now = time.time_ns()
                    os.utime(path / SIDECAR, ns=(now, now))
                    return Environment(path, lock.digest, hold)
                hold.release()
                if not self._built(lock, interpreter, graft_from):
                    # Not asked for with a waiting lock: those who use it would be waited for,
                    # and they may be waiting for us.
                    time.sleep(PAUSE)

    def remove(self, environment: Environment) -> bool:
        """Remove an environment that is not what it should be; False if someone uses it."""
        return self._remove(environment.path)

    def total_bytes(self) -> int:
        """What all environments take, a package that several share counted once."""
        return _total(sidecar for _, sidecar in self._entries())

    def _built(self, lock: Lock, interpreter: Interpreter, graft_from: Environment | None) -> bool:
        """Builds it unless it is there; False if someone else has it in hand."""
        path = self._path(lock.digest)
        hold = FileLock.try_exclusive(self._lock_path(lock.digest))
        if hold is None:
            return False
        with hold:
            if _is_complete(path):
                return True
            self._discard(path)
            try:
                self._build(lock, interpreter, graft_from, hold)
            except BaseException:
                hold.remove()
                raise
            self._trim()
        return True

    def _build(
        self, lock: Lock, interpreter: Interpreter, graft_from: Environment | None, hold: FileLock
    ) -> None:
        temporary = self._unfinished("building", _hex(lock.digest))
        try:
            self._install(lock, interpreter, temporary, hold)
            site = _site_packages(temporary)
            found = _verified(lock, site)
            sizes = self._graft(lock, site, found, graft_from)
            record = Sidecar(SCHEMA, int(time.time()), interpreter.path, lock, sizes)
            (temporary / SIDECAR).write_bytes(msgspec.json.encode(record))
            temporary.rename(self._path(lock.digest))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _install(self, lock: Lock, interpreter: Interpreter, folder: Path, hold: FileLock) -> None:
        uv = self._given_uv or Uv(self._settings, _uv_variables(self.root))
        # uv keeps the lock open too: if only we are killed, its work is not taken for dead.
        holding = (hold.descriptor,)
        what = f"environment {lock.digest}"
        uv.venv([f"--python={interpreter.path}", "--relocatable", str(folder)], what, holding)
        pylock = folder / "pylock.toml"
        pylock.write_text(write_pylock(lock), encoding="utf-8")
        arguments = [f"--python={folder / 'bin' / 'python'}", "--allow-empty-requirements"]
        arguments += [] if self._allow_builds else ["--no-build"]
        uv.sync([*arguments, str(pylock)], what, holding)

    def _graft(
        self,
        lock: Lock,
        site: Path,
        found: Mapping[str, Path],
        graft_from: Environment | None,
    ) -> dict[str, int]:
        """Takes over compiled modules; gives the sizes for the sidecar."""
        donors = list(itertools.islice(self._donors(lock, graft_from), DONORS))
        sizes: dict[str, int] = {}
        try:
            for package in lock.packages:
                files = read_record(found[package.name])
                sizes[f"{_key(package)} {_place(files, site)}"] = _expected_size(files)
                names = [name for name, _ in files]
                for folder, packages, _ in donors:
                    if package in packages and graft_bytecode(names, folder, site):
                        break
        finally:
            for _, _, hold in donors:
                hold.release()
        return sizes

    def _donors(
        self, lock: Lock, graft_from: Environment | None
    ) -> Iterator[tuple[Path, frozenset[LockedPackage], FileLock]]:
        """(site-packages, packages, lock to release) of environments, best first."""
        entries = sorted(self._entries(), key=lambda entry: _last_use(entry[0]), reverse=True)
        if graft_from is not None:
            entries.sort(key=lambda entry: entry[0] != graft_from.path)
        for path, sidecar in entries:
            if sidecar.lock.python != lock.python:
                continue
            hold = FileLock.try_shared(self.root / f"{path.name}.lock")
            if hold is None:
                continue
            if not _is_complete(path):
                hold.release()
                continue
            yield _site_packages(path), frozenset(sidecar.lock.packages), hold

    def _trim(self) -> None:
        entries = sorted(self._entries(), key=lambda entry: _last_use(entry[0]))
        # The newest is the one that was just built.
        while len(entries) > 1 and _total(each for _, each in entries) > self.limit_bytes:
            removable = (entry for entry in entries[:-1] if self._remove(entry[0]))
            removed = next(removable, None)
            if removed is None:
                return
            entries.remove(removed)

    def _remove(self, path: Path) -> bool:
        """False if it is in use."""
        hold = FileLock.try_exclusive(self.root / f"{path.name}.lock")
        if hold is None:
            return False
        with hold:
            self._discard(path)
            hold.remove()
        return True

    def _discard(self, path: Path) -> None:
        """Takes it away under another name first, so that it is never there in part."""
        if not path.exists():
            return
        doomed = self._unfinished("removing", path.name)
        path.rename(doomed)
        shutil.rmtree(doomed)

    def _sweep(self) -> None:
        """Removes what builds and removals left behind whose process is dead."""
        for path in self.root.iterdir():
            match = UNFINISHED.fullmatch(path.name)
            hold = FileLock.try_exclusive(self.root / f"{match[1]}.lock") if match else None
            if hold is None:
                continue
            with hold:
                shutil.rmtree(path, ignore_errors=True)
                if not (self.root / (match[1] if match else "")).exists():
                    hold.remove()

    def _entries(self) -> list[tuple[Path, Sidecar]]:
        found = []
        for path in self.root.iterdir():
            if COMPLETE.fullmatch(path.name) and (sidecar := _read_sidecar(path)):
                found.append((path, sidecar))
        return found

    def _path(self, digest: str) -> Path:
        return self.root / _hex(digest)

    def _lock_path(self, digest: str) -> Path:
        return self.root / f"{_hex(digest)}.lock"

    def _unfinished(self, word: str, name: str) -> Path:
        return self.root / f".{word}-{name}-{secrets.token_hex(4)}"


def default_cache_root() -> Path:
    """BITSECT_CACHE, or bitsect's folder among the user's caches."""
    chosen = os.environ.get("BITSECT_CACHE")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("bitsect"))


def default_limit_bytes() -> int:
    """BITSECT_CACHE_LIMIT (such as ``20GiB``, ``500MB`` or a number of bytes), or 10 GiB.

    Raises BadReference if it is no size.
    """
    text = os.environ.get("BITSECT_CACHE_LIMIT", "").strip()
    if not text:
        return DEFAULT_LIMIT
    match = SIZE.fullmatch(text)
    if match is None:
        raise BadReference(f"BITSECT_CACHE_LIMIT={text}", "it is no size", ("10GiB", "500MB"))
    power = " KMGT".index(match[2].upper() or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def _uv_variables(root: Path) -> dict[str, str]:
    """The environment for uv, with a package cache that hard links can come from."""
    variables = dict(os.environ)
    if "UV_CACHE_DIR" not in variables:
        usual = Path(variables.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "uv"
        while not usual.exists():
            usual = usual.parent
        if usual.stat().st_dev != root.stat().st_dev:
            variables["UV_CACHE_DIR"] = str(root / ".uv")
    return variables


def _verified(lock: Lock, site: Path) -> dict[str, Path]:
    """The dist-info folder per package; raises UnbuildableError if they are not the lock's."""
    found: dict[str, Path] = {}
    for folder in site.glob("*.dist-info"):
        found[canonicalize_name(folder.name.partition("-")[0])] = folder
    wrong = [f"{name} is there, unasked" for name in sorted(found.keys() - lock.by_name.keys())]
    for package in lock.packages:
        if package.name not in found:
            wrong.append(f"{package.name} is missing")
            continue
        version = found[package.name].name.removesuffix(".dist-info").partition("-")[2]
        if package.version is not None and not same_version(version, package.version):
            wrong.append(f"{package.name} is {version}, not {package.version}")
    if wrong:
        raise UnbuildableError(f"environment {lock.digest}", "; ".join(wrong))
    return found


def same_version(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def _site_packages(environment: Path) -> Path:
    return next(environment.glob("lib/python*/site-packages"))


def _is_complete(path: Path) -> bool:
    # Its python is a link: the interpreter behind it may have been uninstalled since.
    return (path / SIDECAR).is_file() and (path / "bin" / "python").exists()


def _read_sidecar(path: Path) -> Sidecar | None:
    try:
        sidecar = msgspec.json.decode((path / SIDECAR).read_bytes(), type=Sidecar)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        return None
    return sidecar if sidecar.schema == SCHEMA else None


def _last_use(path: Path) -> int:
    try:
        return (path / SIDECAR).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _expected_size(files: Iterable[tuple[str, int]]) -> int:
    # A compiled module is about as large as its source.
    return sum(size * 2 if name.endswith(".py") else size for name, size in files)


def _key(package: LockedPackage) -> str:
    return " ".join((package.name, package.version or "", *package.hashes))


def _place(files: Sequence[tuple[str, int]], site: Path) -> int:
    """The inode of a package's largest file: the same where two environments share it."""
    name = max(files, key=lambda file: file[1], default=("", 0))[0]
    try:
        return (site / name).stat().st_ino
    except OSError:
        return 0


def _total(sidecars: Iterable[Sidecar]) -> int:
    merged: dict[str, int] = {}
    for sidecar in sidecars:
        merged |= sidecar.sizes
    return sum(merged.values())


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
