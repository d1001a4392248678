"""Components of a manifest by name, and how their points are named.

A point is named by its version alone, unless the two that are compared have the same: then by
what tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from bitsect.images.layers import (
    Binary,
    Compiler,
    Distribution,
    GitTree,
    OsPackage,
    Python,
    Record,
)
from bitsect.images.printable import printable

_KINDS = {"dpkg": "apt"}
_COMMIT_DIGITS = 12
T = TypeVar("T")


class Point(msgspec.Struct, frozen=True):
    """A state of a component: its short name, and all else that it consists of, by label."""

    short: str
    details: tuple[tuple[str, str | None], ...]


Naming = Callable[[T], Point]


def point_names(before: Point | None, after: Point | None) -> tuple[str | None, str | None]:
    """The shortest names that tell the two apart; equal ones if they are the same."""
    if before is None or after is None or before.short != after.short:
        return before.short if before else None, after.short if after else None
    labels = [
        (label, old, new)
        for (label, old), (_, new) in zip(before.details, after.details, strict=True)
        if old != new
    ]
    if not labels:
        return before.short, after.short
    old_words = ", ".join(f"{label} {old or 'none'}" for label, old, _ in labels)
    new_words = ", ".join(f"{label} {new or 'none'}" for label, _, new in labels)
    return f"{before.short} ({old_words})", f"{after.short} ({new_words})"


def distributions(each: Iterable[Distribution], *, shadowed: bool) -> dict[str, Distribution]:
    """Those that are imported, or those that stand behind one of the same name."""
    return {f"pip:{one.name}": one for one in each if one.shadowed is shadowed}


def os_packages(packages: Iterable[OsPackage]) -> dict[str, OsPackage]:
    """By name; with the architecture for all but the first of a name."""
    found: dict[str, OsPackage] = {}
    for package in packages:
        name = f"{_KINDS.get(package.manager, package.manager)}:{package.name}"
        found[f"{name}:{package.architecture}" if name in found else name] = package
    return found


def compilers(each: Iterable[Compiler]) -> dict[str, Compiler]:
    """By name; with the path for all but the first of a name."""
    found: dict[str, Compiler] = {}
    for compiler in each:
        name = f"tool:{compiler.name}"
        found[f"{name}@{compiler.path}" if name in found else name] = compiler
    return found


def distribution_point(one: Distribution) -> Point:
    """Its version; then what it was made from and how it lies on the disk."""
    return Point(one.version or "unknown", _details(one, without=("name", "version")))


def os_package_point(package: OsPackage) -> Point:
    """Its version; then its architecture."""
    return Point(package.version or "unknown", (("architecture", package.architecture),))


def python_point(python: Python) -> Point:
    """Its version; then its build and its executable. The C library is no part of it."""
    return Point(python.version, _details(python, without=("version", "libc")))


def git_trees(trees: Iterable[GitTree]) -> dict[str, GitTree]:
    """By path."""
    return {f"git:{tree.path}": tree for tree in trees}


def git_tree_point(tree: GitTree) -> Point:
    """The start of its commit; then what differs from that, and its submodules."""
    return Point((tree.commit or "unknown")[:_COMMIT_DIGITS], _details(tree, without=("path",)))


def binary_point(binary: Binary | Compiler) -> Point:
    """Its build-id or the start of its checksum; then all else."""
    return Point(binary_name(binary), _details(binary, without=("name", "build_id", "owner")))


def libraries_point(libraries: Sequence[Binary]) -> Point:
    """As `binary_point`, for libraries of one name; sorted."""
    each = [binary_point(library) for library in libraries]
    details = zip(*(point.details for point in each), strict=True)
    return Point(
        " ".join(point.short for point in each),
        tuple((pairs[0][0], " ".join(text or "none" for _, text in pairs)) for pairs in details),
    )


def binary_name(binary: Binary | Compiler) -> str:
    """One word for its content."""
    return binary.build_id or (binary.sha256 or "unreadable")[:23]


def text_of(value: object) -> str | None:
    """A value in one line, None for None."""
    if value is None or isinstance(value, str):
        return value if value is None else printable(" ".join(value.split()))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Record):
        return text_of(msgspec.to_builtins(value))
    if isinstance(value, dict):
        return " ".join(f"{key}={text_of(inner)}" for key, inner in value.items() if inner)
    if isinstance(value, list | tuple):
        return " ".join(text_of(inner) or "none" for inner in value)
    return str(value)


def _details(record: Record, without: tuple[str, ...]) -> tuple[tuple[str, str | None], ...]:
    names = (name for name in record.__struct_fields__ if name not in without)
    return tuple((name, text_of(getattr(record, name))) for name in names)
