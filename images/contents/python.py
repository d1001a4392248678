"""The Pythons of an image: the one that a container would start, and those nobody packaged."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping

from bitsect.images.contents.model import Contents, Entry
from bitsect.images.contents.tree import Tree
from bitsect.images.layers import Record

#: Where programs are looked for in an image that does not say so itself.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_EXECUTABLE = 0o111
_LIBRARY = re.compile(r"(?P<prefix>(?:/.*)?)/lib/python(?P<series>3\.\d+[a-z]*)/os\.py")
_VERSION = re.compile(rb'#define\s+PY_VERSION\s+"([^"]+)"')
_SERIES = re.compile(r"3\.\d+[a-z]*")
_PROGRAMS = r"(idle|pydoc|python|2to3)(-?3(\.\d+[a-z]*)?)?(-config)?"


class Interpreter(Record, frozen=True):
    """An installation of CPython.

    :param prefix: the folder with its ``bin`` and ``lib``.
    :param series: ``3.12``, or ``3.13t`` for one without the lock.
    :param version: in full where its headers say it, else the series.
    :param paths: its programs, library, headers and modules, without what was installed later.
    """

    prefix: str
    series: str
    version: str
    paths: tuple[str, ...]


def program_folders(environment: Mapping[str, str]) -> list[str]:
    """The folders of PATH, in order."""
    path = environment.get("PATH") or DEFAULT_PATH
    return [folder for folder in path.split(":") if folder.startswith("/")]


def is_executable(file: Entry) -> bool:
    """Whether anybody may execute it."""
    return bool(file.mode & _EXECUTABLE)


def find_program(name: str, tree: Tree, environment: Mapping[str, str]) -> str | None:
    """The first file of this name on PATH that can be executed, as PATH spells it."""
    for folder in program_folders(environment):
        path = posixpath.join(folder, name)
        file = tree.file(path)
        if file is not None and is_executable(file):
            return path
    return None


def find_python(contents: Contents, environment: Mapping[str, str]) -> str | None:
    """The Python that a container of the image would start; None where it has none.

    The path is the one on PATH: a virtual environment is known by it, and not by what its link
    leads to.
    """
    tree = Tree(contents.entries)
    found = (find_program(name, tree, environment) for name in ("python3", "python"))
    return next((path for path in found if path is not None), None)


def interpreters(
    contents: Contents, tree: Tree, is_owned: Callable[[str], bool]
) -> tuple[Interpreter, ...]:
    """Those that belong to no package, by prefix and series.

    A virtual environment is none, even with a copy of the program: it has no library.
    """
    found = []
    for path in sorted(contents.entries):
        match = _LIBRARY.fullmatch(path) if path.endswith("/os.py") else None
        if match is None or is_owned(path):
            continue
        prefix, series = match["prefix"], match["series"]
        program = f"{prefix}/bin/python{series}"
        if tree.file(program) is not None and not is_owned(program):
            version = _version(contents, prefix, series)
            found.append(Interpreter(prefix, series, version, _paths(tree, prefix, series)))
    return tuple(found)


def _version(contents: Contents, prefix: str, series: str) -> str:
    header = contents.texts.get(f"{prefix}/include/python{series}/patchlevel.h", b"")
    match = _VERSION.search(header)
    return match[1].decode("ascii", "replace") if match else series


def _paths(tree: Tree, prefix: str, series: str) -> tuple[str, ...]:
    library = f"{prefix}/lib/python{series}"
    installed = (f"{library}/site-packages/", f"{library}/dist-packages/")
    own = [path for path in tree.below(library) if not path.startswith(installed)]
    own += tree.below(f"{prefix}/include/python{series}")
    own += _beside(tree, f"{prefix}/lib", r"libpython3.*", series)
    own += _beside(tree, f"{prefix}/lib/pkgconfig", r"python-?3.*\.pc", series)
    own += _beside(tree, f"{prefix}/share/man/man1", r"python.*\.1(\.gz)?", series)
    own += _beside(tree, f"{prefix}/bin", _PROGRAMS, series)
    return tuple(own)


def _beside(tree: Tree, folder: str, names: str, series: str) -> list[str]:
    """Files right in a folder whose names fit and name no other series."""
    found = []
    for path in tree.below(folder):
        above, _, name = path.rpartition("/")
        named = _SERIES.search(name)
        own = named is None or named[0] == series
        if above == folder and own and re.fullmatch(names, name):
            found.append(path)
    return found
