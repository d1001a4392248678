"""The files of an image, as its file system shows them, and the components they make up."""

from __future__ import annotations

from typing import Literal

from bitsect.images.canonical import digest
from bitsect.images.layers import Record

EntryKind = Literal["file", "link", "folder", "special"]

#: Kind, permission bits, and digest or target: what two entries are compared by.
Content = tuple[str, int, int, int, str | None]

#: The point of a component that an image does not have.
ABSENT = "absent"


class Elf(Record, frozen=True):
    """What the dynamic loader goes by in an ELF file.

    :param needed: sonames that it asks for.
    :param provides: symbol versions that it defines, such as ``GLIBC_2.38``.
    :param requires: symbol versions that it asks for, as ``libc.so.6:GLIBC_2.38``.
    :param search: folders of DT_RUNPATH, or else of DT_RPATH, as they stand in the file.
    """

    build_id: str | None
    soname: str | None
    needed: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


class Entry(Record, frozen=True):
    """One path of an image.

    :param mode: permission bits.
    :param size: bytes; 0 for all but files.
    :param mtime: whole seconds. Evidence: not part of the content.
    :param digest: ``sha256:…`` of a file's bytes.
    :param target: of a symbolic link, as it stands there.
    """

    kind: EntryKind
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    digest: str | None = None
    target: str | None = None
    elf: Elf | None = None

    @property
    def content(self) -> Content:
        """What it is compared by; the time is no part of it."""
        return (self.kind, self.mode, self.uid, self.gid, self.digest or self.target)


class Contents(Record, frozen=True):
    """All files of one image.

    :param entries: by absolute path, normalised, without links resolved.
    :param texts: bytes of the small files that say what is installed: package databases,
        distributions' metadata, alternatives, git heads, the loader's configuration.
    :param skipped: paths of an image that were not taken in, and why.
    """

    entries: dict[str, Entry]
    texts: dict[str, bytes]
    skipped: tuple[tuple[str, str], ...] = ()


class Component(Record, frozen=True):
    """One replaceable piece of an image.

    :param name: ``kind:name``.
    :param version: its point's short name: a version, a commit, a value.
    :param paths: files and links that it owns, sorted; folders belong to nobody.
    :param packages: ``name:architecture`` of the package database's entries that it consists of.
    :param needs: other components that it asks for by name, such as a package's Depends.
    :param locked: of these, the ones that it accepts in this very version alone.
    :param value: for ``env:``, the variable's value.
    :param build: digest of the checksums that its installer left; None where it left none. Where
        two images have the same build, a file that differs was edited by somebody else.
    """

    name: str
    version: str
    paths: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    value: str | None = None
    build: str | None = None


class State(Record, frozen=True):
    """What a component is in one image of a chain, or in what an index offers.

    :param name: the point's name on its axis; unique there.
    :param digest: over content and version: equal for equal files, whoever lends them.
    :param donor: index of the first image of the chain that has it; None for a state that no
        image has (see `offer`) or that is made of nothing (absent, or a variable's value).
    :param paths: files and links that go with it. Where the component is absent, these may be
        those that other components have at its places, such as the links of an alternative.
    :param offer: what an index offers, such as ``pip:numpy==2.1.0``.
    """

    name: str
    digest: str
    donor: int | None
    paths: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    value: str | None = None
    offer: str | None = None


class ComponentAxis(Record, frozen=True):
    """A component in which the images of a chain differ.

    :param states: in order, the first image's first, the last image's last.
    :param at: for each image of the chain, which of the states it has.
    """

    component: str
    states: tuple[State, ...]
    at: tuple[int, ...]

    def index(self, name: str) -> int:
        """Position of the state with this name; ValueError if there is none."""
        return [state.name for state in self.states].index(name)


def state_digest(*parts: object) -> str:
    """Digest of what tells one state of a component from another."""
    return digest("bitsect/state", list(parts))
