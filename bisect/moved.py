"""References that lead to something else than they did in an earlier session."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bitsect.bisect.records import EndRecord, Milestone, SessionRecord, SessionSpec


class MovedReference(msgspec.Struct, frozen=True):
    """A name whose meaning changed: a tag that was pushed again, a range that allows more.

    :param then: digest of what it led to in `session`.
    :param now: digest of what it leads to.
    """

    reference: str
    session: int
    then: str
    now: str


def moved_since(sessions: Iterable[SessionRecord], spec: SessionSpec) -> tuple[MovedReference, ...]:
    """References of a question that led elsewhere in the latest session with the same ones.

    Such a session is another question, so the search does not go on with it.
    """
    asked = _references(spec)
    earlier = [each for each in sessions if _references(each.spec).keys() == asked.keys()]
    if not earlier:
        return ()
    latest = max(earlier, key=lambda session: session.number)
    then = _references(latest.spec)
    return tuple(
        MovedReference(reference, latest.number, then[reference], now)
        for reference, now in asked.items()
        if then[reference] != now
    )


def _references(spec: SessionSpec) -> dict[str, str]:
    stacks: tuple[EndRecord | Milestone, ...] = (spec.good, *spec.milestones, spec.bad)
    return {stack.reference: stack.lock for stack in stacks}
