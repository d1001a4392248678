"""The files that a component has in a state, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from bitsect.images.contents.chain_owners import Chain
from bitsect.images.contents.errors import ClashError
from bitsect.images.contents.model import ComponentAxis, Contents, Entry
from bitsect.images.contents.noise import bytecode_source
from bitsect.images.contents.paths import folders_above
from bitsect.images.layers import Record

#: Who has files: an image of the chain by its index, or an offer by its name.
Source = int | str


class StateFiles(Record, frozen=True):
    """The files and links of one state.

    :param source: who has them; None for a state that is made of nothing.
    :param entries: all entries of the image or offer where the component is in this state, as
        an example of the folders around it; empty where there is none.
    :param files: by path, without bytecode.
    :param bytecode: by path; it follows the modules that it was made from.
    """

    source: Source | None
    entries: dict[str, Entry]
    files: dict[str, Entry]
    bytecode: dict[str, Entry]


class Donors:
    """Looks up states in the images of a chain and in what an index offers.

    :param offers: by the `offer` of a state, the files that it consists of, at their places.
    """

    def __init__(self, chain: Chain, offers: Mapping[str, Contents]) -> None:
        self._images = [contents for contents, _ in chain]
        self._offers = offers

    def files(self, axis: ComponentAxis, index: int) -> StateFiles:
        """Those of the state with this index."""
        state = axis.states[index]
        if state.offer is not None:
            offer = self._offers[state.offer]
            entries, source = offer.entries, state.offer
            paths = [path for path, entry in entries.items() if entry.kind in ("file", "link")]
            return _split(source, entries, state.paths or paths)
        example = self._images[axis.at.index(index)].entries if index in axis.at else {}
        return _split(state.donor, example, state.paths)

    def _everywhere(self, path: str) -> Iterator[Entry]:
        for contents in (*self._images, *self._offers.values()):
            entry = contents.entries.get(path)
            if entry is not None:
                yield entry

    def is_folder_in_all_images(self, path: str) -> bool:
        entries = (image.entries.get(path) for image in self._images)
        return all(entry is not None and entry.kind == "folder" for entry in entries)

    def folders_among(self, paths: Iterable[str]) -> list[str]:
        """Of some paths, those where any image or offer has a folder."""
        return [path for path in paths if any(e.kind == "folder" for e in self._everywhere(path))]

    @cached_property
    def bytecode(self) -> dict[str, set[str]]:
        """All bytecode that any image has, by the module that it was made from."""
        found: dict[str, set[str]] = {}
        for image in self._images:
            for path in image.entries:
                if (source := bytecode_source(path)) is not None:
                    found.setdefault(source, set()).add(path)
        return found

    def below(self, folder: str) -> Iterator[tuple[str, Entry]]:
        """All that any image has in a folder, at any depth."""
        for image in self._images:
            for path, entry in image.entries.items():
                if path.startswith(f"{folder}/"):
                    yield path, entry


def refuse_clashes(
    donors: Donors, axes: Sequence[ComponentAxis], wanted: Mapping[str, int]
) -> None:
    """Raises ClashError where one state has a file and another one a folder at the same path."""
    chosen = [(axis.component, donors.files(axis, wanted.get(axis.component, 0))) for axis in axes]
    solid = {
        path: component for component, state in chosen for path in donors.folders_among(state.files)
    }
    if not solid:
        return
    for component, state in chosen:
        for path in state.files:
            for folder in folders_above(path):
                if folder in solid:
                    raise ClashError(folder, solid[folder], component)


def _split(source: Source | None, entries: dict[str, Entry], paths: Sequence[str]) -> StateFiles:
    files = {path: entries[path] for path in paths}
    bytecode = {path: files.pop(path) for path in paths if bytecode_source(path) is not None}
    return StateFiles(source, entries, files, bytecode)
