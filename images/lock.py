"""What will be installed, to the last byte: a lock and its digest.

A lock holds for one build of one interpreter, with one file chosen per package. Its digest
does not depend on where a file was found or on any order, so that two machines with different
mirrors agree on it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec
from packaging import pylock
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name

from bitsect.images.canonical import digest
from bitsect.images.errors import BadReference, InfrastructureError
from bitsect.images.interpreter import Interpreter

LOCK_DOMAIN = "bitsect/lock/1"
PackageKind = Literal["wheel", "sdist", "archive", "vcs", "directory"]
# Left by tools inside a source folder; they are no part of what gets installed.
SCRATCH_FOLDERS = frozenset({".git", ".hg", "__pycache__", ".venv", "build", "dist"})


class LockedPackage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One distribution.

    ``name`` is normalised. ``version`` is None only for a source tree that must be built to
    learn it. ``source`` is a URL, or an absolute path for ``directory``. ``hashes`` are such
    as ``sha256:…``, sorted; for a directory, of its contents.
    """

    name: str
    version: str | None
    kind: PackageKind
    source: str
    hashes: tuple[str, ...] = ()
    commit: str | None = None
    subdirectory: str | None = None

    @property
    def identity(self) -> list[str | list[str] | None]:
        """What the digest covers: where a file came from matters only if it has no hash."""
        place = None if self.hashes or self.commit else self.source
        return [
            self.name, self.version, self.kind, list(self.hashes), self.commit,
            self.subdirectory, place,
        ]  # fmt: skip


class Lock(msgspec.Struct, frozen=True, dict=True):
    """All distributions of one environment. ``python`` is an `Interpreter.identity`."""

    python: str
    packages: tuple[LockedPackage, ...]

    @functools.cached_property
    def digest(self) -> str:
        """``sha256:…``, independent of the order of the packages."""
        packages = sorted((package.identity for package in self.packages), key=json.dumps)
        return digest(LOCK_DOMAIN, {"python": self.python, "packages": packages})

    @functools.cached_property
    def by_name(self) -> dict[str, LockedPackage]:
        """The packages by normalised name."""
        return {package.name: package for package in self.packages}

    @property
    def versions(self) -> dict[str, str]:
        """Version by normalised name; ``unknown`` for a source tree not built yet."""
        return {package.name: package.version or "unknown" for package in self.packages}


def make_lock(interpreter: Interpreter, packages: Iterable[LockedPackage]) -> Lock:
    """A lock with its packages sorted by name."""
    return Lock(interpreter.identity, tuple(sorted(packages, key=lambda package: package.name)))


def read_pylock(file: Path, interpreter: Interpreter) -> Lock:
    """The part of a PEP 751 lock file that applies to the interpreter.

    Raises BadReference if the file is none, or has nothing for this interpreter.
    """
    try:
        content = file.read_bytes()
        document = pylock.Pylock.from_dict(tomllib.loads(content.decode()))
        chosen = list(
            document.select(
                environment=interpreter.markers,  # type: ignore[arg-type]  # its own keys
                tags=[tag for text in interpreter.tags for tag in parse_tag(text)],
            )
        )
    except (
        tomllib.TOMLDecodeError,
        UnicodeDecodeError,
        pylock.PylockValidationError,
        pylock.PylockSelectError,
    ) as error:
        raise BadReference(str(file), str(error)) from error
    except OSError as error:
        raise InfrastructureError("permission", f"{file}: {error.strerror}") from error
    folder = file.absolute().parent
    return make_lock(interpreter, (_locked(package, part, folder) for package, part in chosen))


def write_pylock(lock: Lock) -> str:
    """The lock as the text of a PEP 751 file that installs exactly it."""
    parts = ['lock-version = "1.0"', 'created-by = "bitsect"']
    parts += [] if lock.packages else ["packages = []"]
    for package in lock.packages:
        parts += ["", "[[packages]]", f"name = {_toml(package.name)}"]
        if package.version is not None:
            parts.append(f"version = {_toml(package.version)}")
        parts.append(_source_entry(package))
    return "\n".join(parts) + "\n"


def requirement_for(package: LockedPackage) -> str:
    """The PEP 508 requirement that asks for exactly this package.

    Only the version is asked for where an index offers the package: the file is compared
    afterwards.
    """
    if package.kind in ("wheel", "sdist"):
        return f"{package.name}=={package.version}"
    url = package.source
    if package.kind == "directory":
        url = Path(package.source).as_uri()
    if package.kind == "vcs":
        url = f"git+{url}@{package.commit}"
    suffix = f"#subdirectory={package.subdirectory}" if package.subdirectory else ""
    return f"{package.name} @ {url}{suffix}"


def _locked(
    package: pylock.Package,
    part: pylock.PackageVcs
    | pylock.PackageDirectory
    | pylock.PackageArchive
    | pylock.PackageWheel
    | pylock.PackageSdist,
    folder: Path,
) -> LockedPackage:
    version = str(package.version) if package.version else None
    if isinstance(part, pylock.PackageDirectory):
        # An editable installation would change under the digest: it is installed as a copy.
        path = (folder / part.path).resolve()
        return LockedPackage(
            package.name, version, "directory", str(path), (_tree_hash(path),),
            subdirectory=part.subdirectory,
        )  # fmt: skip
    source = part.url or (folder / (part.path or "")).resolve().as_uri()
    if isinstance(part, pylock.PackageVcs):
        return LockedPackage(
            package.name, version, "vcs", source,
            commit=part.commit_id, subdirectory=part.subdirectory,
        )  # fmt: skip
    hashes = tuple(sorted(f"{name}:{value}" for name, value in part.hashes.items()))
    if isinstance(part, pylock.PackageArchive):
        return LockedPackage(
            package.name, version, "archive", source, hashes, subdirectory=part.subdirectory
        )
    kind: PackageKind = "wheel" if isinstance(part, pylock.PackageWheel) else "sdist"
    return LockedPackage(package.name, version, kind, _without_login(source), hashes)


def _without_login(url: str) -> str:
    """A login belongs to the index's settings, from which uv takes it again."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _tree_hash(folder: Path) -> str:
    """Of every file's relative name and bytes."""
    total = hashlib.sha256()
    files = (
        path
        for path in folder.rglob("*")
        if path.is_file() and not _is_scratch(path.relative_to(folder).parts)
    )
    for path in sorted(files):
        name = path.relative_to(folder).as_posix().encode()
        content = hashlib.sha256(path.read_bytes()).digest()
        total.update(len(name).to_bytes(8, "big") + name + content)
    return f"sha256:{total.hexdigest()}"


def _is_scratch(parts: tuple[str, ...]) -> bool:
    """Whether a file is what tools leave behind: builds at the top, compiled files anywhere."""
    return parts[0] in SCRATCH_FOLDERS or "__pycache__" in parts


def _source_entry(package: LockedPackage) -> str:
    fields: dict[str, str] = {}
    if package.kind == "directory":
        fields["path"] = _toml(package.source)
    elif package.kind == "vcs":
        fields |= {
            "type": _toml("git"), "url": _toml(package.source),
            "commit-id": _toml(package.commit or ""),
        }  # fmt: skip
    else:
        fields |= _file_fields(package)
    if package.subdirectory:
        fields["subdirectory"] = _toml(package.subdirectory)
    table = "{ " + ", ".join(f"{key} = {value}" for key, value in fields.items()) + " }"
    return f"wheels = [{table}]" if package.kind == "wheel" else f"{package.kind} = {table}"


def _file_fields(package: LockedPackage) -> dict[str, str]:
    hashes = (text.partition(":") for text in package.hashes)
    table = ", ".join(f"{_toml(name)} = {_toml(value)}" for name, _, value in hashes)
    fields = {"url": _toml(package.source), "hashes": "{ " + table + " }"}
    if package.kind in ("wheel", "sdist"):
        filename = unquote(urlsplit(package.source).path.rpartition("/")[2])
        fields["name"] = _toml(filename)
    return fields


def _toml(text: str) -> str:
    """A TOML basic string: JSON's, which leaves only DEL unescaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def normalised(name: str) -> str:
    """A project's name as locks spell it."""
    return str(canonicalize_name(name))
