"""What one search for components has asked so far, and what follows from the answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec


class Unit(msgspec.Struct, frozen=True):
    """Axes that are moved together.

    :param touched: whether the probe was seen to use one of them.
    """

    axes: tuple[int, ...]
    touched: bool


def axes_of(units: Iterable[Unit]) -> frozenset[int]:
    """All axes of some units."""
    return frozenset(axis for unit in units for axis in unit.axes)


class Asked:
    """The answers to one search's questions, each about a set of moved axes.

    An answer is True where the change shows, False where it does not, and None where the
    mixture could not be run. The search goes by its own questions alone, never by what else
    happens to be known: so its way, and its answer, are the same whatever runs beside it.

    :param ask: the answer for a set of moved axes; raises if it is not known yet.
    :param everything: all axes that may move; moved together they show the change.
    """

    def __init__(
        self, ask: Callable[[frozenset[int]], bool | None], everything: frozenset[int]
    ) -> None:
        self._ask = ask
        self._answers: dict[frozenset[int], bool | None] = {frozenset(): False, everything: True}
        self._patience = 0

    def grant(self, patience: int) -> None:
        """Allow this many questions from now on to be asked in vain."""
        self._patience = patience

    def shows(self, units: Iterable[Unit]) -> bool | None:
        """Whether these units moved, and nothing else, show the change.

        What is unchanged with more moved is unchanged with less. Once patience is used up,
        no more is asked, and what would be asked counts as not runnable.
        """
        moved = axes_of(units)
        if moved in self._answers:
            return self._answers[moved]
        if self._unchanged_above(moved):
            return False
        if not self._patience:
            return None
        answer = self._answers[moved] = self._ask(moved)
        if answer is None:
            self._patience -= 1
        return answer

    def in_vain(self, units: Iterable[Unit]) -> bool:
        """Whether these units were moved, and could not be run so."""
        return self._answers.get(axes_of(units), False) is None

    def never_apart(self, units: Iterable[Unit]) -> list[tuple[Unit, ...]]:
        """The units by classes: two of a class were moved both or neither in all that ran."""
        ran = [moved for moved, answer in self._answers.items() if answer is not None]
        classes: defaultdict[tuple[bool, ...], list[Unit]] = defaultdict(list)
        for unit in units:
            classes[tuple(unit.axes[0] in moved for moved in ran)].append(unit)
        return [tuple(members) for members in classes.values()]

    def nearest_in_vain(self, kept: Iterable[Unit], without: Unit) -> frozenset[int]:
        """Of the mixtures that could not be run, the one most like ``kept``.

        Those without the unit come first. There is one, or no answer would be missing.
        """
        wanted = axes_of(kept)

        def unlike(moved: frozenset[int]) -> tuple[bool, int, list[int]]:
            return not moved.isdisjoint(without.axes), len(moved ^ wanted), sorted(moved)

        return min((moved for moved, answer in self._answers.items() if answer is None), key=unlike)

    def smallest_shown(self) -> frozenset[int]:
        """The fewest axes that are known to show the change together."""
        shown = (moved for moved, answer in self._answers.items() if answer)
        return min(shown, key=lambda moved: (len(moved), sorted(moved)))

    def _unchanged_above(self, moved: frozenset[int]) -> bool:
        return any(moved <= other for other, answer in self._answers.items() if answer is False)
