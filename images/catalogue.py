"""Which releases of a project a user's indexes offer, and the axis that they make.

All indexes and find-links places count together, as pip merges them. One that cannot be
reached is an error: an axis with holes would give an answer that another day contradicts.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from bitsect.images.errors import BadReference
from bitsect.images.index_client import IndexClient, IndexFile
from bitsect.images.interpreter import Interpreter
from bitsect.images.lock import normalised
from bitsect.images.pip_settings import PipSettings

NEAREST = 2


class Release(msgspec.Struct, frozen=True):
    """One version of a project, as offered for one interpreter.

    ``yanked`` if all usable files of it are. ``has_wheel`` and ``has_sdist`` count only files
    that the interpreter can use; a release with neither exists, but not for it.
    """

    version: str
    yanked: bool
    prerelease: bool
    has_wheel: bool
    has_sdist: bool


class AxisPoints(msgspec.Struct, frozen=True):
    """Versions of a project from the good end to the bad end.

    ``left_out`` counts, by reason, the releases between the ends that are no points:
    ``prerelease``, ``yanked``, ``source only``, ``incompatible``, ``other build``.
    ``forced`` are ends that would have been left out, or that no index offers.
    """

    name: str
    versions: tuple[str, ...]
    left_out: dict[str, int]
    forced: tuple[str, ...] = ()


def releases(name: str, interpreter: Interpreter, settings: PipSettings) -> tuple[Release, ...]:
    """Every release of a project, ascending; empty if no index knows the project.

    Fetched once per process. Raises InfrastructureError("index") if one is not reachable.
    """
    return _releases(
        normalised(name), interpreter.tags, interpreter.markers["python_full_version"], settings
    )


def pip_axis_points(
    name: str,
    good: str,
    bad: str,
    interpreter: Interpreter,
    settings: PipSettings,
    *,
    yanked: bool = False,
    prereleases: bool = False,
    sdists: bool = False,
) -> AxisPoints:
    """All releases between two versions, in version order from good to bad.

    Both ends are points whatever they are: yanked, pre-releases, local builds, or absent from
    every index. Of several builds of one release (``2.13.0``, ``2.13.0+cpu``) the one that is
    built like the ends is the point. Raises BadReference for an end that is no version.
    """
    first, last = _version(name, good), _version(name, bad)
    low, high = sorted((first, last))
    offered = releases(name, interpreter, settings)
    between = [each for each in offered if low < Version(each.version) < high]
    reasons: Counter[str] = Counter()
    kept: dict[str, list[Version]] = {}
    for release in between:
        reason = _reason_to_leave_out(release, yanked, prereleases, sdists)
        if reason:
            reasons[reason] += 1
        else:
            version = Version(release.version)
            kept.setdefault(version.public, []).append(version)
    builds = (first.local, last.local)
    # The ends' own releases are decided: their other builds are no steps between them.
    for end in (first, last):
        reasons["other build"] += len(kept.pop(end.public, ()))
    inner = []
    for candidates in kept.values():
        inner.append(min(candidates, key=lambda version: _build_rank(version, builds)))
        reasons["other build"] += len(candidates) - 1
    inner.sort(reverse=first > last)
    points = [good] if first == last else [good, *map(str, inner), bad]
    usual = {
        Version(each.version) for each in offered
        if not _reason_to_leave_out(each, yanked, prereleases, sdists)
    }  # fmt: skip
    forced = tuple(dict.fromkeys(end for end in (good, bad) if Version(end) not in usual))
    return AxisPoints(normalised(name), tuple(points), dict(+reasons), forced)


def nearest_versions(version: str, offered: Iterable[str]) -> tuple[str, ...]:
    """The offered versions around one that is not offered, ascending."""
    try:
        wanted = Version(version)
    except InvalidVersion:
        return tuple(offered)[-2 * NEAREST :]
    ordered = sorted(map(Version, offered))
    below = [each for each in ordered if each < wanted][-NEAREST:]
    above = [each for each in ordered if each > wanted][:NEAREST]
    return tuple(map(str, below + above))


@functools.cache
def _releases(
    name: str, tags: tuple[str, ...], python: str, settings: PipSettings
) -> tuple[Release, ...]:
    usable_tags = frozenset(tags)
    found: dict[Version, _Files] = {}
    for file in IndexClient(settings).files(name):
        parsed = _parse(name, file.filename)
        if parsed is None:
            continue
        version, wheel_tags = parsed
        files = found.setdefault(version, _Files())
        fits = _python_fits(file, python)
        if wheel_tags is None:
            files.sdist |= fits
        else:
            fits = fits and not usable_tags.isdisjoint(wheel_tags)
            files.wheel |= fits
        files.add(file.yanked, fits)
    return tuple(
        Release(str(version), files.yanked, version.is_prerelease, files.wheel, files.sdist)
        for version, files in sorted(found.items())
    )


class _Files:
    """What the files of one release add up to."""

    def __init__(self) -> None:
        self.wheel = False
        self.sdist = False
        self._states: dict[bool, list[bool]] = {True: [], False: []}

    def add(self, yanked: bool, fits: bool) -> None:
        self._states[fits].append(yanked)

    @property
    def yanked(self) -> bool:
        return all(self._states[True] or self._states[False])


def _parse(name: str, filename: str) -> tuple[Version, list[str] | None] | None:
    """(version, tags or None for a source archive); None for a file that is neither."""
    try:
        if filename.endswith(".whl"):
            project, version, _, tags = parse_wheel_filename(filename)
            return (version, [str(tag) for tag in tags]) if project == name else None
        project, version = parse_sdist_filename(filename)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        # Old archives with names of their own, eggs and installers: pip passes over them too.
        return None
    return (version, None) if project == name else None


def _python_fits(file: IndexFile, python: str) -> bool:
    if not file.requires_python:
        return True
    try:
        return SpecifierSet(file.requires_python).contains(python, prereleases=True)
    except InvalidSpecifier:
        return True


def _reason_to_leave_out(
    release: Release, yanked: bool, prereleases: bool, sdists: bool
) -> str | None:
    if not release.has_wheel and not release.has_sdist:
        return "incompatible"
    if not release.has_wheel and not sdists:
        return "source only"
    if release.prerelease and not prereleases:
        return "prerelease"
    if release.yanked and not yanked:
        return "yanked"
    return None


def _build_rank(version: Version, builds: tuple[str | None, ...]) -> tuple[int, str]:
    """Smaller is nearer to how the ends are built: like one of them, then plain, then any."""
    if version.local in builds:
        return builds.index(version.local), ""
    return (len(builds) if version.local is None else len(builds) + 1), version.local or ""


def _version(name: str, text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion as error:
        raise BadReference(f"{name}=={text}", f"{text!r} is no version") from error
