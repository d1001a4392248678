"""What a trial can end as.

Only MISMATCH is ever "bad". The others say why there is no comparison, or that there is
one and it found nothing.
"""

from __future__ import annotations

import enum


class Verdict(enum.StrEnum):
    """The verdict on one trial, recomputed from its observations whenever it is shown."""

    MATCH = "MATCH"
    MISMATCH = "MISMATCH"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    UNRESOLVED = "UNRESOLVED"
    UNBUILDABLE = "UNBUILDABLE"
    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    INFRA = "INFRA"


#: Verdicts of a run that produced no trace: the vector says nothing about any event.
FAILURES = frozenset(
    {Verdict.UNRESOLVED, Verdict.UNBUILDABLE, Verdict.CRASH, Verdict.TIMEOUT, Verdict.INFRA}
)
