"""Python distributions, as installers leave them: from their metadata and lists of files."""

from __future__ import annotations

import csv
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import unquote, urlsplit

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

from bitsect.images.contents.model import Contents
from bitsect.images.contents.tree import Tree
from bitsect.images.layers import Origin, Record
from bitsect.probes.inventory import (
    Notes,
    header_fields,
    normalised,
    origin_of,
    record_digest,
    record_rows,
)

Rows = tuple[tuple[str, str, str], ...]

# Metadata in a folder of its own, and in a single file.
_FOLDER = re.compile(r"/.+\.(dist-info/METADATA|egg-info/PKG-INFO)")
_FILE = re.compile(r"/.+\.egg-(info|link)")


class PythonDistribution(Record, frozen=True):
    """An installed distribution.

    :param site: the folder that it is imported from.
    :param place: its folder or file of metadata.
    :param paths: what it is known to own, with links among the folders followed.
    :param rows: of its RECORD, less bytecode; None where it has none.
    :param source: for an editable one, the folder of its sources.
    :param requires: names of distributions that it always needs.
    :param pinned: of these, the ones it accepts in one version alone.
    """

    name: str
    version: str
    site: str
    place: str
    paths: tuple[str, ...]
    rows: Rows | None = None
    origin: Origin | None = None
    editable: bool = False
    source: str | None = None
    requires: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()

    @property
    def record(self) -> str | None:
        """Digest of RECORD that is equal for equal installations; None where it has none."""
        return None if self.rows is None else record_digest(self.rows)

    @property
    def point(self) -> str:
        """Its version, with the commit that it was built from where that is known."""
        commit = self.origin.commit if self.origin is not None else None
        return f"{self.version} (commit {commit[:12]})" if commit else self.version


def python_distributions(contents: Contents, tree: Tree) -> tuple[PythonDistribution, ...]:
    """All of them, by place: also those that lie inside others or belong to OS packages."""
    found = []
    for path in sorted(contents.texts):
        if _FOLDER.fullmatch(path):
            found.append(_of_folder(posixpath.dirname(path), contents, tree))
        elif path.endswith(".egg-link"):
            found.append(_of_link(path, contents))
        elif _FILE.fullmatch(path):
            found.append(_of_file(path, contents, tree))
    return tuple(found)


def _of_folder(place: str, contents: Contents, tree: Tree) -> PythonDistribution:
    kind = "METADATA" if place.endswith(".dist-info") else "PKG-INFO"
    metadata = _text(contents, f"{place}/{kind}")
    rows = _rows(contents.texts.get(f"{place}/RECORD"))
    origin, editable, source = _origin(contents.texts.get(f"{place}/direct_url.json"))
    site = posixpath.dirname(place)
    listed = [tree.placed(posixpath.join(site, path)) for path, _, _ in rows or ()]
    if rows is None:
        listed = _listed_otherwise(place, contents, tree)
    name, version = _name_and_version(place, metadata)
    requires, pinned = _requirements(metadata)
    return PythonDistribution(
        name=name,
        version=version,
        site=site,
        place=place,
        paths=(*listed, *tree.below(place)),
        rows=rows,
        origin=origin,
        editable=editable,
        source=source if editable else None,
        requires=requires,
        pinned=pinned,
    )


def _of_file(place: str, contents: Contents, tree: Tree) -> PythonDistribution:
    name, version = _name_and_version(place, _text(contents, place))
    guessed = _top_level(posixpath.dirname(place), [name.replace("-", "_")], tree)
    return PythonDistribution(name, version, posixpath.dirname(place), place, (*guessed, place))


def _of_link(place: str, contents: Contents) -> PythonDistribution:
    """An editable one of old: a file with the path of its sources, which have its metadata."""
    source = posixpath.normpath(_text(contents, place).partition("\n")[0])
    stem = posixpath.basename(place).removesuffix(".egg-link")
    metadata = _text(contents, f"{source}/{stem.replace('-', '_')}.egg-info/PKG-INFO")
    return PythonDistribution(
        name=normalised(stem),
        version=header_fields(metadata).get("version", "unknown"),
        site=posixpath.dirname(place),
        place=place,
        paths=(place,),
        editable=True,
        source=source if source.startswith("/") else None,
    )


def _name_and_version(place: str, metadata: str) -> tuple[str, str]:
    """From the metadata; what it does not say, from the name of its place."""
    fields = header_fields(metadata)
    stem = posixpath.basename(place).rpartition(".")[0].split("-")
    name = fields.get("name") or stem[0]
    version = fields.get("version") or (stem[1] if len(stem) > 1 else "unknown")
    return normalised(name), version


def _rows(record: bytes | None) -> Rows | None:
    """Rows of a RECORD without bytecode, which is no part of what was installed."""
    if record is None:
        return None
    try:
        rows = record_rows(record.decode("utf-8", "replace"))
    except csv.Error:
        return None
    return tuple(row for row in rows if not row[0].endswith(".pyc"))


def _listed_otherwise(place: str, contents: Contents, tree: Tree) -> list[str]:
    """Without a RECORD: what an older installer listed, or else what is called as it says."""
    listed = contents.texts.get(f"{place}/installed-files.txt")
    if listed is not None:
        lines = listed.decode("utf-8", "replace").splitlines()
        return [tree.placed(posixpath.join(place, line)) for line in lines if line]
    name = _name_and_version(place, "")[0].replace("-", "_")
    names = _text(contents, f"{place}/top_level.txt").split() or [name]
    return _top_level(posixpath.dirname(place), names, tree)


def _top_level(site: str, names: list[str], tree: Tree) -> list[str]:
    found = []
    for name in names:
        if re.fullmatch(r"\w+(/\w+)*", name):
            found += [*tree.below(f"{site}/{name}"), f"{site}/{name}.py"]
    return found


def _requirements(metadata: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(what it always needs, what it needs in one version alone), by name."""
    requires: dict[str, bool] = {}
    for requirement in _requirement_lines(metadata):
        if requirement.marker is not None and "extra" in str(requirement.marker):
            continue
        exact = any(
            each.operator in ("==", "===") and not each.version.endswith("*")
            for each in requirement.specifier
        )
        requires.setdefault(normalised(requirement.name), exact)
    return tuple(requires), tuple(name for name, exact in requires.items() if exact)


def _requirement_lines(metadata: str) -> Iterator[Requirement]:
    header = metadata.partition("\n\n")[0]
    for line in header.splitlines():
        field, _, value = line.partition(":")
        if field.lower() == "requires-dist":
            # What another tool could write and this one cannot read names no block.
            with suppress(InvalidRequirement):
                yield Requirement(value.strip())


class _DirectUrl(msgspec.Struct):
    """The one field of a direct_url.json that the inventory does not keep."""

    url: str


def _origin(text: bytes | None) -> tuple[Origin | None, bool, str | None]:
    """(what it was made from, whether it is editable, the folder that it was made from)."""
    if text is None:
        return None, False, None
    try:
        found, editable = origin_of(text.decode("utf-8", "replace"), "", Notes())
        url = urlsplit(msgspec.json.decode(text, type=_DirectUrl).url)
        origin = None if found is None else msgspec.convert(found, Origin)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None, False, None
    folder = posixpath.normpath(unquote(url.path)) if url.scheme == "file" else None
    return origin, editable, folder


def _text(contents: Contents, path: str) -> str:
    return contents.texts.get(path, b"").decode("utf-8", "replace")
