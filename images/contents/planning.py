"""What to do to a file system so that components have other states than they have now.

Every path moves with one axis alone (see `chain_owners`), so the moves of different axes never
touch the same path, and their order does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from bitsect.images.contents.chain_owners import Chain
from bitsect.images.contents.dpkg import STATUS, status_with
from bitsect.images.contents.model import ComponentAxis, Content, Contents
from bitsect.images.contents.noise import bytecode_source, is_noise
from bitsect.images.contents.paths import folders_above
from bitsect.images.contents.state_files import Donors, Source, StateFiles, refuse_clashes
from bitsect.images.layers import Record

_FOR_LOADER = re.compile(r".*/[^/]*\.so(\.[^/]*)?|/etc/ld\.so\.conf(\.d/.*)?")
_DEFAULT_MODE = 0o755
_NO_OFFERS: Mapping[str, Contents] = MappingProxyType({})


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
    :param loader_cache: whether the loader's cache must be made anew.
    :param bytes: that are copied.
    """

    deletions: tuple[str, ...]
    emptied: tuple[str, ...]
    folders: tuple[NewFolder, ...]
    copies: tuple[tuple[int, tuple[str, ...]], ...]
    offered: tuple[tuple[str, tuple[str, ...]], ...]
    files: dict[str, bytes]
    environment: dict[str, str | None]
    loader_cache: bool
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
        _Move(donors.files(axis, _index(base, axis)), donors.files(axis, _index(wanted, axis)))
        for axis in moving
    ]
    work = _Work(donors, moves)
    return Plan(
        deletions=tuple(sorted(work.deletions)),
        emptied=tuple(sorted(work.emptied(), key=lambda path: (-path.count("/"), path))),
        folders=tuple(work.new_folders()),
        copies=tuple((each, work.taken(each)) for each in range(len(chain)) if work.taken(each)),
        offered=tuple((each, work.taken(each)) for each in sorted(offers) if work.taken(each)),
        files=_package_database(chain, axes, moving, wanted),
        environment={
            axis.component.removeprefix("env:"): axis.states[_index(wanted, axis)].value
            for axis in moving
            if axis.component.startswith("env:")
        },
        loader_cache=any(map(_FOR_LOADER.fullmatch, (*work.copies, *work.deletions))),
        bytes=sum(state.entries[path].size for path, state in work.copies.items()),
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
    """One axis going from a state to another."""

    def __init__(self, base: StateFiles, wanted: StateFiles) -> None:
        self.wanted = wanted
        self.deletions = base.files.keys() - wanted.files.keys()
        self.copies = {
            path
            for path, entry in wanted.files.items()
            if path not in base.files or base.files[path].content != entry.content
        }
        self.copies |= {path for path in wanted.bytecode if bytecode_source(path) in self.copies}


class _Work:
    """All moves together.

    :ivar copies: by path, the state that has it.
    :ivar deletions: files that are there before and not afterwards, and bytecode of modules that
        change: Python may take it for that of the new module, going by time and size alone.
    """

    def __init__(self, donors: Donors, moves: Sequence[_Move]) -> None:
        self._donors = donors
        self._moves = moves
        self.copies = {path: move.wanted for move in moves for path in sorted(move.copies)}
        self.deletions = {path for move in moves for path in move.deletions}
        touched = {*self.copies, *self.deletions}
        self.deletions |= {path for path, source in donors.bytecode() if source in touched}
        # Where a file takes the place of a folder, whatever is left in that is noise.
        self._replaced = [path for path in self.copies if self._is_folder_somewhere(path)]
        below = [each for folder in self._replaced for each in donors.below(folder)]
        self.deletions |= {path for path, entry in below if entry.kind != "folder"}
        self.deletions -= self.copies.keys()
        self._replaced += [path for path, entry in below if entry.kind == "folder"]

    def _is_folder_somewhere(self, path: str) -> bool:
        return any(entry.kind == "folder" for entry in self._donors.everywhere(path))

    def emptied(self) -> set[str]:
        """Folders around what is deleted that the wanted states' own images do not have."""
        found = set(self._replaced)
        for move in self._moves:
            for path in move.deletions:
                found |= {each for each in folders_above(path) if each not in move.wanted.entries}
        return found

    def new_folders(self) -> Iterable[NewFolder]:
        """Folders around what is copied, unless all images have them."""
        needed = {
            (folder.count("/"), folder): state
            for path, state in self.copies.items()
            for folder in folders_above(path)
        }
        for (_, folder), state in sorted(needed.items(), key=lambda each: each[0]):
            if not self._donors.is_folder_in_all_images(folder):
                entry = state.entries.get(folder)
                known = entry is not None and entry.kind == "folder"
                yield NewFolder(
                    path=folder,
                    mode=entry.mode if entry is not None and known else _DEFAULT_MODE,
                    uid=entry.uid if entry is not None and known else 0,
                    gid=entry.gid if entry is not None and known else 0,
                )

    def taken(self, source: Source) -> tuple[str, ...]:
        """What is copied from an image or an offer."""
        return tuple(sorted(path for path, each in self.copies.items() if each.source == source))


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
