"""What the findings of a finished search prove about everything else.

The last question of a search over several components is the bad end with the culprits of all
findings at their good points. Where it equals the good end in every event, no other component
changes any of them: the culprits are necessary, and everything else is innocent. Where it does
not, something is left that the findings do not explain.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bitsect.bisect.engine.evidence import Evidence
from bitsect.bisect.engine.model import Finding, Vector
from bitsect.bisect.engine.space import Space
from bitsect.bisect.engine.vectors import mixed


class Clearing(msgspec.Struct, frozen=True):
    """What the last question says.

    :param vector: the question; None if the culprits are all components, or there are none.
    :param cleared: components that were shown to change no event.
    :param uncleared: events that are not as at the good end though no culprit moved.
    """

    vector: Vector | None = None
    cleared: tuple[str, ...] = ()
    uncleared: tuple[str, ...] = ()


def clearing(space: Space, evidence: Evidence, findings: Iterable[Finding]) -> Clearing:
    """The last question, and what its answer says as far as there is one."""
    wanted = _last_questions(space, findings)
    vector = next((each for each in wanted if evidence.failure(each) is None), None)
    if vector is None:
        return Clearing(next(iter(wanted), None))
    uncleared = evidence.differing(space.good, vector)
    if uncleared or not evidence.observed(vector):
        return Clearing(vector, (), uncleared)
    kept = [axis for axis, point in enumerate(vector) if point]
    return Clearing(vector, space.components(kept))


def proven(space: Space, evidence: Evidence, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with what was shown of their sufficiency and their necessity."""
    found = tuple(findings)
    none_moved = mixed(space.bad, space.good, _culprits(space, found))
    return tuple(
        msgspec.structs.replace(
            finding,
            sufficient=_sufficient(space, evidence, finding),
            necessary=_necessary(space, evidence, finding, none_moved),
        )
        for finding in found
    )


def _last_questions(space: Space, findings: Iterable[Finding]) -> list[Vector]:
    """The bad end with all culprits taken back; should that not run, with all their blocks."""
    culprits = _culprits(space, findings)
    blocks = {member for axis in culprits for member in space.block_of(axis)}
    taken_back = (mixed(space.bad, space.good, axes) for axes in (culprits, blocks) if axes)
    return [vector for vector in dict.fromkeys(taken_back) if vector != space.good]


def _sufficient(space: Space, evidence: Evidence, finding: Finding) -> bool | None:
    alone = mixed(space.good, space.bad, _culprits(space, [finding]))
    if evidence.events(alone) is None:
        return None
    return set(finding.events) <= set(evidence.differing(space.good, alone))


def _necessary(
    space: Space, evidence: Evidence, finding: Finding, none_moved: Vector
) -> bool | None:
    if evidence.events(none_moved) is None:
        return None
    return set(finding.events).isdisjoint(evidence.differing(space.good, none_moved))


def _culprits(space: Space, findings: Iterable[Finding]) -> set[int]:
    return {space.index(culprit.component) for found in findings for culprit in found.culprits}
