"""Debian's package database, as it lies in an image."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from bitsect.images.contents.model import Contents
from bitsect.images.contents.tree import Tree
from bitsect.images.layers import Record
from bitsect.probes.inventory import header_fields

STATUS = "/var/lib/dpkg/status"

_INFO = "/var/lib/dpkg/info"
# Images without a package manager have one file for each package, and no list of its files
# other than the one with their checksums.
_SINGLE = "/var/lib/dpkg/status.d"
_DIVERSIONS = "/var/lib/dpkg/diversions"

# One package of a field such as Depends: ``name[:architecture] [(relation version)]``.
_WANTED = re.compile(r"\s*([a-z0-9][a-z0-9+.-]+)(?::\w+)?\s*(?:\(\s*([<>=]+)[^)]*\))?")


class Package(Record, frozen=True):
    """An installed package.

    :param paths: as it lists them, with links among the folders followed and diversions
        applied; folders and what is not there are among them.
    :param depends: names of packages, each of which it can work with.
    :param exact: of these, the ones it accepts in one version alone.
    :param checksums: digest of the checksums it came with.
    :param entry: ``name:architecture`` of its paragraph in the status file; None where its
        paragraph is a file of its own.
    :param foreign: it is for another architecture than most packages of the image.
    """

    name: str
    architecture: str
    version: str
    paths: tuple[str, ...]
    depends: tuple[str, ...]
    exact: tuple[str, ...]
    checksums: str | None
    entry: str | None
    foreign: bool = False

    @property
    def component(self) -> str:
        """What it is called among the components of an image."""
        return f"apt:{self.name}:{self.architecture}" if self.foreign else f"apt:{self.name}"


def installed_packages(contents: Contents, tree: Tree) -> tuple[Package, ...]:
    """All packages, those of the image's own architecture first, then by name."""
    found = [*_of_status(contents, tree), *_of_single_files(contents, tree)]
    own = ("all", _native_architecture(found))
    marked = [replace(each, foreign=each.architecture not in own) for each in found]
    return tuple(sorted(marked, key=lambda each: (each.foreign, each.name)))


def status_with(text: bytes, donor_text: bytes, packages: Iterable[str]) -> bytes:
    """A status file with the paragraphs of some packages as the donor's status file has them.

    :param packages: ``name:architecture``. One that the donor lacks is taken out, one that only
        the donor has comes last.
    """
    paragraphs = _paragraphs(text)
    donor = _paragraphs(donor_text)
    for package in packages:
        if package in donor:
            paragraphs[package] = donor[package]
        else:
            paragraphs.pop(package, None)
    return b"".join(each + b"\n\n" for each in paragraphs.values())


def _paragraphs(text: bytes) -> dict[str, bytes]:
    """Paragraphs of a status file by ``name:architecture``."""
    found = {}
    for paragraph in re.split(rb"\n\s*\n", text):
        fields = header_fields(paragraph.decode("utf-8", "replace"))
        if "package" in fields:
            key = f"{fields['package']}:{fields.get('architecture', '')}"
            found[key] = paragraph.strip(b"\n")
    return found


def _of_status(contents: Contents, tree: Tree) -> Iterator[Package]:
    diversions = _diversions(contents.texts.get(_DIVERSIONS, b""))
    records = _info_files(tree)
    for key, paragraph in _paragraphs(contents.texts.get(STATUS, b"")).items():
        fields = header_fields(paragraph.decode("utf-8", "replace"))
        if "installed" not in fields.get("status", "install ok installed").split():
            continue
        name, architecture = fields["package"], fields.get("architecture", "")
        stem = f"{name}:{architecture}" if f"{name}:{architecture}" in records else name
        listed = _lines(contents.texts.get(f"{_INFO}/{stem}.list", b""))
        moved = (_location(path, name, diversions) for path in listed)
        yield _package(
            fields,
            paths=[*map(tree.placed, moved), *records.get(stem, ())],
            checksums=contents.texts.get(f"{_INFO}/{stem}.md5sums"),
            entry=key,
        )


def _of_single_files(contents: Contents, tree: Tree) -> Iterator[Package]:
    for place in tree.below(_SINGLE):
        text = contents.texts.get(place)
        if text is None or place.endswith(".md5sums"):
            continue
        fields = header_fields(text.decode("utf-8", "replace"))
        if "package" in fields:
            checksums = contents.texts.get(f"{place}.md5sums")
            listed = [line.partition("  ")[2] for line in _lines(checksums or b"")]
            paths = [*(tree.placed(f"/{path}") for path in listed), place, f"{place}.md5sums"]
            yield _package(fields, paths, checksums, entry=None)


def _package(
    fields: Mapping[str, str], paths: list[str], checksums: bytes | None, entry: str | None
) -> Package:
    wanted = f"{fields.get('pre-depends', '')},{fields.get('depends', '')}"
    depends, exact = _wanted(wanted)
    return Package(
        name=fields["package"],
        architecture=fields.get("architecture", ""),
        version=fields.get("version", "unknown"),
        paths=tuple(paths),
        depends=depends,
        exact=exact,
        checksums=None if checksums is None else hashlib.sha256(checksums).hexdigest(),
        entry=entry,
    )


def _wanted(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names in a Depends field, and those among them that must have one exact version."""
    depends, exact = [], []
    for clause in text.split(","):
        choices = [match for each in clause.split("|") if (match := _WANTED.match(each))]
        depends += [match[1] for match in choices]
        exact += [match[1] for match in choices if match[2] == "=" and len(choices) == 1]
    return tuple(dict.fromkeys(depends)), tuple(dict.fromkeys(exact))


def _info_files(tree: Tree) -> dict[str, list[str]]:
    """Files of the database about each package, by ``name`` or ``name:architecture``."""
    found: dict[str, list[str]] = {}
    for path in tree.below(_INFO):
        stem = path.removeprefix(f"{_INFO}/").rpartition(".")[0]
        found.setdefault(stem, []).append(path)
    return found


def _diversions(text: bytes) -> dict[str, tuple[str, str]]:
    """Paths that packages list, each with where it was moved to and the package that moved it."""
    lines = _lines(text)
    triples = zip(lines[::3], lines[1::3], lines[2::3], strict=False)
    return {path: (elsewhere, diverter) for path, elsewhere, diverter in triples}


def _location(path: str, package: str, diversions: Mapping[str, tuple[str, str]]) -> str:
    """Where the file lies that a package lists: the one that diverts it has its own there."""
    elsewhere, diverter = diversions.get(path, (path, package))
    return path if package == diverter else elsewhere


def _native_architecture(packages: Iterable[Package]) -> str:
    counts = Counter(each.architecture for each in packages if each.architecture != "all")
    return max(counts, key=lambda each: (counts[each], each), default="")


def _lines(text: bytes) -> list[str]:
    return text.decode("utf-8", "replace").splitlines()
