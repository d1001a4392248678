"""Minimal sets of units that show a change, where some mixtures cannot be run.

The search first supposes that one unit is to blame, which costs the logarithm of their number.
Where that is not so it finds one needed unit after another: the units that are known to be
unchanged stay moved, so the one that makes the change show is needed beside them, and the next
is searched among them.

A mixture that cannot run is neither unchanged nor a culprit. Where a half cannot run, its
complement and two other halves are tried: any two units that only run together lie on one
side of at least one of them. Then come smaller and smaller parts. From the first failure on
everything unchanged stays moved, so that whatever needs it can run. What could not be divided
remains whole, and of the result is taken away, together, what could not be taken away alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from bitsect.bisect.engine.asked import Asked, Unit

#: Some units, in the order in which they are suspected.
Units = tuple[Unit, ...]

#: Pairs that are tried for removal, per unit that could not be removed alone.
PAIRS_PER_UNIT = 3


def minimal_set(asked: Asked, candidates: Units, fixed: Units = ()) -> Units:
    """A small subset of the candidates that, moved with the fixed units, shows the change.

    All candidates together with the fixed units show it. If the change is monotone and every
    mixture runs, the result loses it when any one member is taken away.
    """
    one = _narrowed(asked, candidates, fixed, keep=False)
    if asked.shows(fixed + one.suspects):
        return one.suspects
    found, pool = (one.suspects, one.beside) if one.proven else ((), one.shown)
    while not asked.shows(fixed + found):
        next_one = _narrowed(asked, pool, fixed + found, keep=True)
        found += next_one.suspects
        pool = next_one.beside
    return found


def without_needless(asked: Asked, units: Units) -> Units:
    """The units less those that can be taken away, alone or together, with the change kept."""
    kept: Units | None = units
    while kept is not None:
        units = kept
        fewer = (_less(units, group) for group in _groups(asked, units))
        kept = next((rest for rest in fewer if asked.shows(rest)), None)
    return units


class _Narrowed(msgspec.Struct, frozen=True):
    """As few suspects as could be reached.

    :param beside: units that are unchanged without the suspects.
    :param shown: the fewest units that were seen to show the change.
    """

    suspects: Units
    beside: Units
    shown: Units

    @property
    def proven(self) -> bool:
        """Whether the suspects are known to be needed beside the others."""
        return bool(self.beside) and {*self.suspects, *self.beside} == set(self.shown)


def _narrowed(asked: Asked, pool: Units, context: Units, *, keep: bool) -> _Narrowed:
    """Narrow the pool, which shows the change in this context, down to one suspect if possible.

    :param keep: leave moved what is unchanged, instead of supposing that one unit is to blame.
        Done in any case once a mixture could not be run.
    """
    suspects = shown = pool
    beside: Units = ()
    while True:
        whole = suspects
        for each in _parts(whole):
            part = tuple(unit for unit in each if unit in suspects)
            if not part or part == suspects:
                continue
            answer = asked.shows(context + beside + part)
            if answer:
                suspects, shown = part, beside + part
                break
            if answer is None:
                keep = True
                continue
            suspects = _less(suspects, part)
            beside += part if keep else ()
        if suspects == whole:
            return _Narrowed(suspects, beside, shown)


def _parts(units: Units) -> Iterator[Units]:
    """Parts of some units, in the order in which they are tried: halves, then ever smaller."""
    first, second = _split(units)
    quarters = (*_split(first), *_split(second))
    yield from (first, second)
    if len(units) > 2:
        yield from (quarters[0] + quarters[2], quarters[0] + quarters[3])
    parts: Sequence[Units] = (first, second)
    while parts := [smaller for part in parts if len(part) > 1 for smaller in _split(part)]:
        yield from parts


def _split(units: Units) -> tuple[Units, Units]:
    """Two parts of some units: what was touched and what was not, or else two halves."""
    touched = sum(unit.touched for unit in units)
    cut = touched if 0 < touched < len(units) else len(units) // 2
    return units[:cut], units[cut:]


def _groups(asked: Asked, units: Units) -> Iterator[Units]:
    """What may be taken away: units that were never seen apart, single ones, then more at once.

    Whatever only runs together was never seen apart, and each of these that runs may tell more
    apart than were before.
    """
    yield from asked.never_apart(units)
    for unit in units:
        yield (unit,)
        yield from asked.never_apart(units)
    blocked = tuple(unit for unit in units if asked.shows(_less(units, (unit,))) is None)
    if len(blocked) > 1:
        yield blocked
    classes = asked.never_apart(blocked)
    pairs = (pair for members in classes for pair in itertools.combinations(members, 2))
    for pair in itertools.islice(pairs, PAIRS_PER_UNIT * len(blocked)):
        yield pair
        yield from asked.never_apart(units)


def _less(kept: Units, taken: Units) -> Units:
    return tuple(unit for unit in kept if unit not in taken)
