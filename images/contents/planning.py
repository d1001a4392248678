"""What to do to a file system so that components have other states than they have now.

Every path moves with one axis alone (see `chain_owners`), so the moves of different axes never
touch the same path, and their order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from bitsect.images.contents.chain_owners import Chain
from bitsect.images.contents.dpkg import STATUS, status_with
from bitsect.images.contents.model import ComponentAxis, Content, Contents
from bitsect.images.contents.noise import bytecode_source, is_noise
from bitsect.images.contents.paths import folders_above
from bitsect.images.contents.state_files import Donors, Source, StateFiles, refuse_clashes
from bitsect.images.layers import Record

_DEFAULT_MODE = 0o755
_NO_OFFERS: Mapping[str, Contents] = MappingProxyType({})

T = TypeVar("T", int, str)


class NewFolder(Record, frozen=True):
    """A folder that is made unless it is there."""

    path: str
    mode: int
    uid: int
    gid: int


class Plan(Record, frozen=True):
    """What changes some axes from one state to another; in this order.

    :param deletions: files and links to delete; that one is not there is no error.
    :param emptied: folders to remove afterwards where nothing is left in them, innermost first.
    :param folders: to make unless they are there, outermost first.
    :param copies: for an image of the chain, by its index, the files and links to take from it.
    :param offered: likewise for what an index offers, by the name of the offer.
    :param files: files to write, with all of their bytes.
    :param environment: variables to set; None removes one.
    :param bytes: that are copied.
    """

    deletions: tuple[str, ...]
    emptied: tuple[str, ...]
    folders: tuple[NewFolder, ...]
    copies: tuple[tuple[int, tuple[str, ...]], ...]
    offered: tuple[tuple[str, tuple[str, ...]], ...]
    files: dict[str, bytes]
    environment: dict[str, str | None]
    bytes: int


def plan(
    chain: Chain,
    axes: Sequence[ComponentAxis],
    base: Mapping[str, int],
    wanted: Mapping[str, int],
    offers: Mapping[str, Contents] = _NO_OFFERS,
) -> Plan:
    """How to change a file system from one choice of states to another.

    :param axes: all of those that `axes_between` found for this chain; states that an index
        offers may have been added to them.
    :param base: for each axis by name the index of the state that the file system has. One that
        is left out has the first image's.
    :param wanted: likewise for the state that it shall have.
    :param offers: by the `offer` of a state, the files that it consists of, at their places.

    Raises ClashError where the wanted states cannot be in one file system.
    """
    donors = Donors(chain, offers)
    refuse_clashes(donors, axes, wanted)
    moving = [axis for axis in axes if _index(base, axis) != _index(wanted, axis)]
    moves = [
        _Move(
            donors,
            donors.files(axis, _index(base, axis)),
            donors.files(axis, _index(wanted, axis)),
        )
        for axis in moving
    ]
    copies = {path: move.wanted for move in moves for path in sorted(move.copies)}
    deletions = {path for move in moves for path in move.deletions}
    emptied = {folder for move in moves for folder in move.emptied}
    return Plan(
        deletions=tuple(sorted(deletions)),
        emptied=tuple(sorted(emptied, key=lambda path: (-path.count("/"), path))),
        folders=tuple(_new_folders(donors, copies)),
        copies=_taken(copies, range(len(chain))),
        offered=_taken(copies, sorted(offers)),
        files=_package_database(chain, axes, moving, wanted),
        environment={
            axis.component.removeprefix("env:"): axis.states[_index(wanted, axis)].value
            for axis in moving
            if axis.component.startswith("env:")
        },
        bytes=sum(state.entries[path].size for path, state in copies.items()),
    )


def expected(
    chain: Chain,
    axes: Sequence[ComponentAxis],
    wanted: Mapping[str, int],
    offers: Mapping[str, Contents] = _NO_OFFERS,
) -> dict[str, Content | None]:
    """What a file system with these states has at every path that any axis moves.

    None where nothing is. What is only noise, bytecode among it, is left out.
    """
    donors = Donors(chain, offers)
    found: dict[str, Content | None] = {}
    for axis in axes:
        for index in range(len(axis.states)):
            found.update(dict.fromkeys(donors.files(axis, index).files))
        files = donors.files(axis, _index(wanted, axis)).files
        found.update((path, entry.content) for path, entry in files.items())
    return {path: found[path] for path in sorted(found) if not is_noise(path)}


def _index(choice: Mapping[str, int], axis: ComponentAxis) -> int:
    return choice.get(axis.component, 0)


class _Move:
    """One axis going from a state to another.

    :ivar copies: files that are not there yet as they shall be, and the bytecode of modules
        among them.
    :ivar deletions: files that are there before and not afterwards; also bytecode of modules
        that change, which Python may take for that of the new one, going by time and size alone.
    :ivar emptied: folders around what is deleted that the wanted state's own image lacks.
    """

    def __init__(self, donors: Donors, base: StateFiles, wanted: StateFiles) -> None:
        self.wanted = wanted
        self.copies = {
            path
            for path, entry in wanted.files.items()
            if path not in base.files or base.files[path].content != entry.content
        }
        self.copies |= {path for path in wanted.bytecode if bytecode_source(path) in self.copies}
        self.deletions = set(base.files) - set(wanted.files)
        for source in self.copies | self.deletions:
            self.deletions |= donors.bytecode.get(source, set())
        # Where a file takes the place of a folder, what is left in that is noise.
        replaced = donors.folders_among(self.copies)
        below = {path: entry for folder in replaced for path, entry in donors.below(folder)}
        self.deletions |= {path for path, entry in below.items() if entry.kind != "folder"}
        self.deletions -= self.copies
        self.emptied = {path for path in (*below, *replaced) if path not in self.deletions}
        for path in self.deletions:
            self.emptied |= {each for each in folders_above(path) if each not in wanted.entries}


def _new_folders(donors: Donors, copies: Mapping[str, StateFiles]) -> Iterator[NewFolder]:
    """Folders around what is copied, unless all images have them."""
    needed = {folder: state for path, state in copies.items() for folder in folders_above(path)}
    for folder in sorted(needed, key=lambda path: (path.count("/"), path)):
        if not donors.is_folder_in_all_images(folder):
            entry = needed[folder].entries.get(folder)
            if entry is None or entry.kind != "folder":
                yield NewFolder(folder, _DEFAULT_MODE, 0, 0)
            else:
                yield NewFolder(folder, entry.mode, entry.uid, entry.gid)


def _taken(
    copies: Mapping[str, StateFiles], sources: Iterable[T]
) -> tuple[tuple[T, tuple[str, ...]], ...]:
    """What is copied from each of the sources, for those that anything is copied from."""
    found: dict[Source | None, list[str]] = {}
    for path in sorted(copies):
        found.setdefault(copies[path].source, []).append(path)
    return tuple((each, tuple(found[each])) for each in sources if each in found)


def _package_database(
    chain: Chain,
    axes: Sequence[ComponentAxis],
    moving: Sequence[ComponentAxis],
    wanted: Mapping[str, int],
) -> dict[str, bytes]:
    """The file that says which packages are installed, where that changes."""
    if not any(state.packages for axis in moving for state in axis.states):
        return {}
    gone: set[str] = set()
    kept: dict[int, list[str]] = {}
    for axis in axes:
        state = axis.states[_index(wanted, axis)]
        gone.update(package for each in axis.states for package in each.packages)
        if state.donor is not None:
            kept.setdefault(state.donor, []).extend(state.packages)
    text = chain[0][0].texts.get(STATUS, b"")
    text = status_with(text, b"", gone.difference(*kept.values()))
    for donor, packages in sorted(kept.items()):
        text = status_with(text, chain[donor][0].texts.get(STATUS, b""), packages)
    return {STATUS: text}
