"""From requirements to locks: what an end of a search means, and whether a hybrid can exist."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from bitsect.images.catalogue import nearest_versions, releases
from bitsect.images.errors import (
    BadReference,
    InfrastructureError,
    UnknownVersion,
    UnresolvedError,
    host_faults,
)
from bitsect.images.interpreter import Interpreter
from bitsect.images.lock import (
    Lock,
    LockedPackage,
    make_lock,
    normalised,
    read_pylock,
    requirement_for,
)
from bitsect.images.pip_settings import PipSettings
from bitsect.images.requirement_file import requirements_in
from bitsect.images.uv import Uv

NOT_FOUND = re.compile(r"(\S+) was not found in the package registry")


class PinnedLock(msgspec.Struct, frozen=True):
    """A hybrid's lock. ``added`` are packages that neither base nor pins named."""

    lock: Lock
    added: tuple[LockedPackage, ...]


class Resolver:
    """Resolves for one interpreter with one set of settings, and remembers what it found.

    :param allow_builds: also take releases that must be built from source.
    :param prereleases: also take pre-releases where a requirement does not name one.
    """

    def __init__(
        self,
        interpreter: Interpreter,
        settings: PipSettings,
        *,
        allow_builds: bool = False,
        prereleases: bool = False,
        uv: Uv | None = None,
    ) -> None:
        self.interpreter = interpreter
        self.settings = settings
        self._uv = uv or Uv(settings)
        self._options = [f"--python={interpreter.path}"]
        self._options += [] if allow_builds else ["--no-build"]
        self._options += ["--prerelease=allow"] if prereleases else []
        self._files: dict[tuple[str, str], LockedPackage] = {}
        self._hybrids: dict[tuple[str, tuple[str, ...], tuple[str, ...]], PinnedLock] = {}

    def resolve(self, requirements: Sequence[str] = (), file: Path | None = None) -> Lock:
        """The lock for requirements, or for a requirements or pylock file.

        Raises UnresolvedError, UnknownVersion (an exact version that no index offers),
        BadReference (an unreadable file), InfrastructureError.
        """
        try:
            lock = self._resolve(tuple(requirements), file)
        except UnresolvedError as error:
            self._blame_the_index(error)
            self._blame_unknown_versions(_exact_pins(requirements, file, self.interpreter))
            raise UnresolvedError(_asked(tuple(requirements), file), error.reason) from error
        self.remember(lock)
        return lock

    def resolve_pins(
        self,
        base: Lock,
        pins: Mapping[str, str | None],
        known: Iterable[Lock] = (),
    ) -> PinnedLock:
        """The base with some packages at other versions, everything else exactly as it is.

        :param pins: version by name; None where the package must be absent.
        :param known: locks whose files are taken before the index is asked again.

        Raises UnresolvedError with the resolver's reason where they do not fit together,
        UnknownVersion, InfrastructureError.
        """
        for lock in known:
            self.remember(lock)
        wanted = {normalised(name): version for name, version in pins.items()}
        asked = self._pinned_requirements(base, wanted)
        absent = tuple(sorted(name for name, version in wanted.items() if version is None))
        key = (base.digest, asked, absent)
        if key not in self._hybrids:
            self._hybrids[key] = self._resolve_pins(base, wanted, asked)
        return self._hybrids[key]

    def remember(self, lock: Lock) -> None:
        """Take this lock's files for its versions, unless others were seen before."""
        for package in lock.packages:
            if package.version is not None and package.kind in ("wheel", "sdist"):
                self._files.setdefault((package.name, package.version), package)

    def _resolve(self, requirements: tuple[str, ...], file: Path | None) -> Lock:
        if file is not None and file.suffix == ".toml":
            return read_pylock(file, self.interpreter)
        if file is not None:
            lock = self._compile_lock([str(file.absolute())], (str(file),))
            _check_hashes(lock, file, self.interpreter)
            return lock
        return self._from_known_files(requirements) or self._compile_requirements(requirements)

    def _from_known_files(self, requirements: tuple[str, ...]) -> Lock | None:
        """A lock without hashing again what is known; None where uv must write it whole.

        uv hashes each wheel of a local folder every time it writes a lock: a second for torch.
        """
        if not self._files:
            return None
        pairs = _pins(self._compile_plain(requirements))
        if pairs is None:
            return None
        return make_lock(self.interpreter, self._locked(pairs, {}))

    def _resolve_pins(
        self, base: Lock, wanted: Mapping[str, str | None], asked: tuple[str, ...]
    ) -> PinnedLock:
        try:
            text = self._compile_plain(asked)
        except UnresolvedError as error:
            self._blame_the_index(error)
            pins = {name: version for name, version in wanted.items() if version is not None}
            self._blame_unknown_versions(pins)
            raise
        direct = {
            package.name: package for package in base.packages
            if package.kind not in ("wheel", "sdist") and package.name not in wanted
        }  # fmt: skip
        lines = [line for line in text.splitlines() if _name(line) not in direct]
        _refuse_absent(lines, wanted, asked)
        pairs = _pins("\n".join(lines))
        if pairs is None:
            raise InfrastructureError("tool", f"uv pip compile wrote {text!r}")
        own = {
            (package.name, package.version): package
            for package in base.packages if package.version is not None
        }  # fmt: skip
        packages = [*direct.values(), *self._locked(pairs, own)]
        named = base.by_name.keys() | wanted.keys()
        added = tuple(package for package in packages if package.name not in named)
        return PinnedLock(make_lock(self.interpreter, packages), added)

    def _pinned_requirements(self, base: Lock, wanted: Mapping[str, str | None]) -> tuple[str, ...]:
        kept = [requirement_for(package) for package in base.packages if package.name not in wanted]
        chosen = [f"{name}=={version}" for name, version in wanted.items() if version is not None]
        for text in chosen:
            try:
                Requirement(text)
            except InvalidRequirement as error:
                raise BadReference(text, str(error).splitlines()[0]) from error
        return tuple(sorted(kept + chosen))

    def _locked(
        self,
        pairs: Sequence[tuple[str, str]],
        preferred: Mapping[tuple[str, str], LockedPackage],
    ) -> list[LockedPackage]:
        known = {**self._files, **preferred}
        missing = tuple(f"{pair[0]}=={pair[1]}" for pair in pairs if pair not in known)
        if missing:
            self.remember(self._compile_requirements(missing, "--no-deps"))
            known = {**self._files, **preferred}
        lost = [f"{name}=={version}" for name, version in pairs if (name, version) not in known]
        if lost:
            raise InfrastructureError("tool", f"uv locked no file for {', '.join(lost)}")
        return [known[pair] for pair in pairs]

    def _compile_plain(self, requirements: tuple[str, ...]) -> str:
        with _scratch() as folder:
            source = _write_requirements(folder, requirements)
            options = ["--annotation-style=line", "--no-strip-extras"]
            return self._uv.compile([*self._options, *options, source], requirements)

    def _compile_requirements(self, requirements: tuple[str, ...], *options: str) -> Lock:
        with _scratch() as folder:
            source = _write_requirements(folder, requirements)
            return self._compile_lock([*options, source], requirements)

    def _compile_lock(self, arguments: Sequence[str], asked: tuple[str, ...]) -> Lock:
        with _scratch() as folder:
            output = folder / "pylock.toml"
            options = ["--quiet", "--format=pylock.toml", f"--output-file={output}"]
            self._uv.compile([*self._options, *options, *arguments], asked)
            return read_pylock(output, self.interpreter)

    def _blame_the_index(self, error: UnresolvedError) -> None:
        """Raises InfrastructureError if uv took an index that refused us for an empty one."""
        for name in NOT_FOUND.findall(error.reason):
            releases(name, self.interpreter, self.settings)

    def _blame_unknown_versions(self, pins: Mapping[str, str]) -> None:
        """Raises UnknownVersion if one of the exact pins is offered nowhere."""
        for name, text in pins.items():
            offered = releases(name, self.interpreter, self.settings)
            try:
                version = Version(text)
            except InvalidVersion:
                continue
            public = version.local is None
            found = (Version(release.version) for release in offered)
            if any(version in (each, Version(each.public) if public else each) for each in found):
                continue
            usable = [release.version for release in offered if release.has_wheel]
            raise UnknownVersion(
                name, text, nearest_versions(text, usable), len(usable), self.interpreter.version
            )


class _scratch(tempfile.TemporaryDirectory[str]):
    """A scratch folder, as a Path; a full disk is the host's fault."""

    def __init__(self) -> None:
        with host_faults(tempfile.gettempdir()):
            super().__init__(prefix="bitsect-")

    def __enter__(self) -> Path:  # type: ignore[override]  # a Path is what everyone needs
        return Path(super().__enter__())


def _write_requirements(folder: Path, requirements: tuple[str, ...]) -> str:
    source = folder / "requirements.in"
    with host_faults(source):
        source.write_text("".join(f"{line}\n" for line in requirements))
    return str(source)


def _asked(requirements: tuple[str, ...], file: Path | None) -> tuple[str, ...]:
    return requirements if file is None else (str(file),)


def _pins(text: str) -> list[tuple[str, str]] | None:
    """(name, version) per line of uv's output; None if a line pins no version."""
    pairs = []
    for line in filter(None, map(_requirement_text, text.splitlines())):
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            return None
        specifiers = list(requirement.specifier)
        if requirement.url or len(specifiers) != 1 or specifiers[0].operator != "==":
            return None
        pairs.append((normalised(requirement.name), str(Version(specifiers[0].version))))
    return pairs


def _requirement_text(line: str) -> str:
    """A line of uv's output without its `# via` note."""
    return line.split("  #", 1)[0].strip() if not line.lstrip().startswith("#") else ""


def _name(line: str) -> str | None:
    try:
        return normalised(Requirement(_requirement_text(line)).name)
    except InvalidRequirement:
        return None


def _refuse_absent(
    lines: Sequence[str], wanted: Mapping[str, str | None], asked: tuple[str, ...]
) -> None:
    for line in lines:
        name = _name(line)
        if name is not None and name in wanted and wanted[name] is None:
            by = line.partition("# via ")[2].strip() or "another package"
            raise UnresolvedError(asked, f"{name} cannot be absent: {by} requires it")


def _exact_pins(
    requirements: Sequence[str], file: Path | None, interpreter: Interpreter
) -> dict[str, str]:
    """Version by name, of the requirements that apply here and name one version exactly."""
    if file is not None:
        found = [] if file.suffix == ".toml" else [each for each, _ in requirements_in(file)]
    else:
        found = [Requirement(text) for text in requirements]
    pins: dict[str, str] = {}
    for requirement in found:
        if not _applies(requirement, interpreter):
            continue
        for specifier in requirement.specifier:
            if specifier.operator == "==" and not specifier.version.endswith(".*"):
                pins.setdefault(normalised(requirement.name), specifier.version)
    return pins


def _applies(requirement: Requirement, interpreter: Interpreter) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(dict(interpreter.markers))


def _check_hashes(lock: Lock, file: Path, interpreter: Interpreter) -> None:
    for requirement, allowed in requirements_in(file):
        if not _applies(requirement, interpreter):
            continue
        package = lock.by_name.get(normalised(requirement.name))
        if allowed and package is not None and allowed.isdisjoint(package.hashes):
            found = ", ".join(package.hashes)
            raise BadReference(
                str(file), f"{package.name} {package.version} has {found}, not a hash given there"
            )
