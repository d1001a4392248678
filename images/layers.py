"""The layers of a manifest, field by field.

Every field is identity: it stands here because two stacks that differ in it may differ in their
bits. None means that the value could not be read, or that there is none.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

Scalar: TypeAlias = bool | int | str | None


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An immutable record that knows all of its fields."""


class ImageLayer(Record, frozen=True):
    """The image that a stack was started from.

    Where it came from (repository, manifest and index digests, engine) is evidence: the same
    image may be had from many places.

    :param config: ``sha256:…`` of the config's bytes: the image's identity. None for a hybrid,
        whose commit carries the time.
    :param recipe: digest of what a hybrid was made of; None for any other image.
    :param diff_ids: of the layers, lowest first; of a hybrid, those of the image it begins with.
    :param environment: variables that the image sets.
    """

    config: str | None
    recipe: str | None
    diff_ids: tuple[str, ...]
    platform: str
    environment: dict[str, str]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    working_folder: str
    user: str


class Binary(Record, frozen=True):
    """An ELF file, or a script where a binary was looked for.

    :param path: in the stack; ``<prefix>`` stands for the environment's folder.
    :param size: bytes.
    :param build_id: GNU build-id, hexadecimal.
    :param sha256: of its bytes, where it has no build-id.
    :param owner: component that installed it, where that is known.
    """

    path: str
    size: int | None
    build_id: str | None
    soname: str | None = None
    sha256: str | None = None
    owner: str | None = None


class Compiler(Record, frozen=True):
    """A compiler that just-in-time compilation could reach; fields as those of `Binary`."""

    name: str
    path: str
    size: int | None
    build_id: str | None
    soname: str | None = None
    sha256: str | None = None


class Python(Record, frozen=True):
    """The interpreter and the C library under it."""

    version: str
    implementation: str
    build: str
    compiler: str
    cache_tag: str | None
    executable: Binary | None
    libc: str | None


class Origin(Record, frozen=True):
    """What a distribution that came from no index was made from."""

    kind: str
    url: str | None = None
    commit: str | None = None
    hash: str | None = None
    subdirectory: str | None = None


class Distribution(Record, frozen=True):
    """An installed Python distribution.

    :param record: digest over its RECORD, less what differs between equal installations.
    :param files: number of files that RECORD lists.
    :param altered: files that are not as RECORD says.
    :param shadowed: another one of this name comes before it on the import path.
    """

    name: str
    version: str | None
    location: str
    editable: bool
    origin: Origin | None
    record: str | None
    files: int | None
    altered: tuple[str, ...]
    missing: tuple[str, ...]
    unreadable: tuple[str, ...]
    shadowed: bool


class OsPackage(Record, frozen=True):
    """A package of the operating system's manager."""

    manager: str
    name: str
    version: str | None
    architecture: str | None


class Submodule(Record, frozen=True):
    """A git tree inside another one; ``commit`` is what is checked out, None if nothing is."""

    path: str
    commit: str | None


class GitTree(Record, frozen=True):
    """A folder of sources under git.

    :param commit: what is checked out.
    :param dirty: whether files differ from it; None where that could not be asked.
    :param changes: ``sha256:…`` of how they differ; None for a clean tree.
    :param submodules: by path.
    """

    path: str
    commit: str | None
    dirty: bool | None = None
    changes: str | None = None
    submodules: tuple[Submodule, ...] = ()


class Software(Record, frozen=True, omit_defaults=True):
    """What is installed, and what of it was loaded.

    A field with a default came later than the others. It is left out where it has its default,
    so that what was written down without it keeps its digest.

    :param python: None for an image that has none.
    :param libraries: ELF files mapped into the process that was looked at; None if it could
        not be told.
    :param torch: what torch says of itself; None while it is not imported.
    :param warm_up: whether libraries were in use when `libraries` was read.
    """

    python: Python | None
    distributions: tuple[Distribution, ...]
    os_packages: tuple[OsPackage, ...]
    alternatives: dict[str, str]
    compilers: tuple[Compiler, ...]
    libraries: tuple[Binary, ...] | None
    torch: dict[str, Scalar] | None
    warm_up: bool
    git_trees: tuple[GitTree, ...] = ()


class Controls(Record, frozen=True):
    """What steers the software.

    :param variables: environment variables that matter to numerics; None where unset.
    :param torch: effective flags; None while torch is not imported.
    """

    variables: dict[str, str | None]
    torch: dict[str, Scalar] | None


class Cpu(Record, frozen=True):
    """The processor; counts are of logical ones."""

    architecture: str
    vendor: str | None
    model_name: str | None
    family: str | None
    model: str | None
    stepping: str | None
    flags: tuple[str, ...] | None
    logical_cpus: int | None
    usable_cpus: int | None


class Gpu(Record, frozen=True):
    """A GPU, without what only tells it from another of its kind."""

    name: str | None
    compute_capability: str | None
    vbios: str | None
    mig: bool | None
    ecc: bool | None


class Hardware(Record, frozen=True):
    """What the software runs on. ``driver`` is the GPU driver's version."""

    cpu: Cpu
    gpus: tuple[Gpu, ...]
    driver: str | None
