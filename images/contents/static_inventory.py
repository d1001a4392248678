"""What is installed in an image, told from its files alone: nothing of it is started."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Iterator, Mapping

from bitsect.images import layers
from bitsect.images.contents.alternatives import CHOSEN
from bitsect.images.contents.distributions import PythonDistribution, python_distributions
from bitsect.images.contents.dpkg import installed_packages
from bitsect.images.contents.git_trees import GitTree, git_trees
from bitsect.images.contents.model import Contents, Entry
from bitsect.images.contents.paths import is_below
from bitsect.images.contents.python import find_python, is_executable, program_folders
from bitsect.images.contents.tree import Tree
from bitsect.probes.inventory import COMPILERS

_SITES = ("site-packages", "dist-packages")
_CUDA = "/usr/local/cuda"
# Triton brings an assembler of its own.
_BUNDLED = ("ptxas", "ptxas-blackwell")


def static_software(contents: Contents, environment: Mapping[str, str]) -> layers.Software:
    """The software of an image that has no Python or cannot start.

    What only a running process can tell is None: its interpreter, what it has loaded, and what
    torch says of itself.

    :param environment: variables that the image's config sets.
    """
    tree = Tree(contents.entries)
    return layers.Software(
        python=None,
        distributions=_distributions(contents, tree, environment),
        os_packages=_os_packages(contents, tree),
        alternatives=_alternatives(contents, tree),
        compilers=_compilers(contents, tree, environment),
        libraries=None,
        torch=None,
        warm_up=False,
        git_trees=_git_trees(contents),
    )


def _distributions(
    contents: Contents, tree: Tree, environment: Mapping[str, str]
) -> tuple[layers.Distribution, ...]:
    """By name; those that the image's own Python finds first shadow others of the name."""
    python = find_python(contents, environment)
    prefix = posixpath.dirname(posixpath.dirname(python)) if python is not None else ""
    found = [
        each
        for each in python_distributions(contents, tree)
        if posixpath.basename(each.site) in _SITES
    ]
    found.sort(key=lambda each: (not is_below(each.site, prefix), each.site, each.place))
    sites: dict[str, str] = {}
    described = [
        _distribution(each, tree, sites.setdefault(each.name, each.site) != each.site)
        for each in found
    ]
    return tuple(sorted(described, key=lambda each: (each.name, each.shadowed, each.location)))


def _distribution(each: PythonDistribution, tree: Tree, shadowed: bool) -> layers.Distribution:
    altered, missing = [], []
    for path, digest, size in each.rows or ():
        file = tree.file(posixpath.join(each.site, path))
        if file is None:
            missing.append(path)
        elif not _is_as_recorded(file, digest, size):
            altered.append(path)
    return layers.Distribution(
        name=each.name,
        version=each.version,
        location=each.site,
        editable=each.editable,
        origin=each.origin,
        record=each.record,
        files=None if each.rows is None else len(each.rows),
        altered=tuple(sorted(altered)),
        missing=tuple(sorted(missing)),
        unreadable=(),
        shadowed=shadowed,
    )


def _is_as_recorded(file: Entry, digest: str, size: str) -> bool:
    """Whether a file is as RECORD says; what RECORD does not say of it may be anything."""
    if size and size != str(file.size):
        return False
    algorithm, _, value = digest.partition("=")
    if algorithm != "sha256" or file.digest is None:
        return True
    actual = base64.urlsafe_b64encode(bytes.fromhex(file.digest.removeprefix("sha256:")))
    return actual.rstrip(b"=").decode() == value


def _os_packages(contents: Contents, tree: Tree) -> tuple[layers.OsPackage, ...]:
    found = [
        layers.OsPackage("dpkg", each.name, each.version, each.architecture or None)
        for each in installed_packages(contents, tree)
    ]
    return tuple(sorted(found, key=lambda each: (each.name, each.architecture or "")))


def _alternatives(contents: Contents, tree: Tree) -> dict[str, str]:
    links = ((path, contents.entries[path].target) for path in tree.below(CHOSEN))
    return {posixpath.basename(path): target for path, target in links if target is not None}


def _compilers(
    contents: Contents, tree: Tree, environment: Mapping[str, str]
) -> tuple[layers.Compiler, ...]:
    """Those that a just-in-time compilation could reach, by name and path."""
    found: dict[tuple[str, str], layers.Compiler] = {}
    for path in _compiler_places(contents, environment):
        real = tree.resolve(path) or ""
        file = tree.file(path)
        if file is not None and is_executable(file):
            name = posixpath.basename(path)
            found[name, real] = _compiler(name, real, file)
    return tuple(found[key] for key in sorted(found))


def _compiler_places(contents: Contents, environment: Mapping[str, str]) -> Iterator[str]:
    home = environment.get("CUDA_HOME") or environment.get("CUDA_PATH") or _CUDA
    for folder in (*program_folders(environment), f"{home}/bin"):
        yield from (posixpath.join(folder, name) for name in COMPILERS)
    for path in contents.entries:
        folder, _, name = path.rpartition("/")
        if name in _BUNDLED and folder.endswith("/triton/backends/nvidia/bin"):
            yield path


def _compiler(name: str, path: str, file: Entry) -> layers.Compiler:
    """A script is identified by its content, as is a program without a build-id."""
    build_id = file.elf.build_id if file.elf is not None else None
    return layers.Compiler(
        name=name,
        path=path,
        size=file.size,
        build_id=build_id,
        soname=file.elf.soname if file.elf is not None else None,
        sha256=file.digest if build_id is None else None,
    )


def _git_trees(contents: Contents) -> tuple[layers.GitTree, ...]:
    """Trees by path, those that are submodules of others inside them."""
    found = git_trees(contents)
    return tuple(
        layers.GitTree(
            path=tree.root,
            commit=tree.commit,
            submodules=tuple(
                layers.Submodule(each.root.removeprefix(f"{tree.root}/"), each.commit)
                for each in found
                if _is_submodule(each, tree)
            ),
        )
        for tree in found
        if not any(_is_submodule(tree, each) for each in found)
    )


def _is_submodule(inner: GitTree, outer: GitTree) -> bool:
    """A tree inside another one, of which git keeps its records inside the other's."""
    return is_below(inner.root, outer.root) and is_below(inner.folder, outer.folder)
