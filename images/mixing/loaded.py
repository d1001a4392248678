"""Whether what was exchanged is what ran."""

from __future__ import annotations

from collections.abc import Iterable

from bitsect.images.contents.model import Entry
from bitsect.images.image_identity import Recipe
from bitsect.images.layers import Binary
from bitsect.images.mixing.space import ImageSpace


def still_loaded(space: ImageSpace, recipe: Recipe, libraries: Iterable[Binary]) -> str | None:
    """A library that a hybrid's run had mapped in a state that the hybrid does not have.

    An exchange that did not reach the process is an error: it must never count as a proof that
    nothing changed. None if there is no such library.

    :param libraries: that were mapped.
    """
    mapped = {library.path: library for library in libraries}
    states = space.states_of(recipe)
    present: dict[str, Entry] = {}
    for state in states.values():
        present |= space.entries(state)
    for axis in space.axes:
        now = states[axis.component]
        if now.offer is not None:
            # Its files are known to whoever fetched them, not here.
            continue
        for former in axis.states:
            for path in mapped.keys() & set(former.paths) if former != now else ():
                if path not in present or not _is(mapped[path], present[path]):
                    return f"{axis.component}: {path} was loaded as it is in {former.name}"
    return None


def _is(library: Binary, entry: Entry) -> bool:
    """Whether a mapped library can be this file."""
    if library.build_id is None or entry.elf is None or entry.elf.build_id is None:
        return library.size is None or library.size == entry.size
    return library.build_id == entry.elf.build_id
