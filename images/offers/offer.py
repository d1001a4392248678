"""Points of a component that no image of a chain has, but an index offers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from bitsect.images.contents.axes import Differences
from bitsect.images.contents.model import ComponentAxis, Contents, State

#: The states that lie between each state of an axis and the next one.
Runs = Sequence[Sequence[State]]


class Offers(Protocol):
    """What one index offers for the components of one kind."""

    @property
    def kind(self) -> str:
        """Of the components, such as ``pip``."""
        ...

    def between(self, axis: ComponentAxis) -> Runs:
        """What lies between the states of an axis, in the axis's own direction.

        An offered state has neither a donor nor paths before it was fetched. Raises
        InfrastructureError if the index is not reachable.
        """
        ...

    def contents(self, axis: ComponentAxis, state: State) -> Contents:
        """The files of an offered state, and the folders that lead to them.

        Raises UnbuildableError if it cannot be had, InfrastructureError.
        """
        ...

    def lent(self, axis: ComponentAxis, state: State) -> AbstractContextManager[Path | str]:
        """A folder of this machine that holds these files as if it were the root, or an image.

        Raises what `contents` raises.
        """
        ...


def offered(differences: Differences, offers: Iterable[Offers]) -> Differences:
    """The differences of a chain, with all that the indexes offer between its images.

    Raises InfrastructureError if an index is not reachable.
    """
    by_kind = {each.kind: each for each in offers}
    axes = []
    for axis in differences.axes:
        index = by_kind.get(axis.component.partition(":")[0])
        axes.append(with_offers(axis, index.between(axis)) if index else axis)
    return msgspec.structs.replace(differences, axes=tuple(axes))


def with_offers(axis: ComponentAxis, runs: Runs) -> ComponentAxis:
    """The axis with more states between its own; one that an image has needs no index."""
    if len(runs) != len(axis.states) - 1:
        raise ValueError(f"{len(runs)} runs between {len(axis.states)} states")
    known = {state.name for state in axis.states}
    states: list[State] = []
    places = []
    for state, run in zip(axis.states, [*runs, ()], strict=True):
        places.append(len(states))
        states.append(state)
        for offered in run:
            if offered.name not in known:
                known.add(offered.name)
                states.append(offered)
    return msgspec.structs.replace(
        axis, states=tuple(states), at=tuple(places[each] for each in axis.at)
    )
