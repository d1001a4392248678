"""What the evidence says of one event's departure from a digest."""

from __future__ import annotations

from bitsect.bisect.engine.evidence import UNSTABLE, Evidence
from bitsect.bisect.engine.model import Vector
from bitsect.bisect.engine.vectors import at_or_below
from bitsect.bisect.verdicts import Verdict


class Change:
    """The change that one step looks for: away from the digest that its base has.

    :param base: a vector that ran.
    """

    def __init__(self, evidence: Evidence, event: str, base: Vector) -> None:
        self._evidence = evidence
        self._event = event
        self._reference = evidence.value(base, event)

    def observed(self, vector: Vector) -> bool:
        """Whether the vector was tried, in vain or not."""
        return self._evidence.observed(vector)

    def shows(self, vector: Vector) -> bool | None:
        """Whether the vector shows the change; None if it was not tried, or in vain."""
        if self._evidence.events(vector) is None:
            return None
        value = self._evidence.value(vector, self._event)
        return None if value == UNSTABLE else value != self._reference

    def tried_in_vain(self, vector: Vector) -> bool:
        """Whether the vector was tried and cannot tell: it failed, or does not repeat itself."""
        return self.observed(vector) and self.shows(vector) is None

    def unchanged_above(self, vector: Vector) -> bool:
        """Whether a vector above this one is unchanged: then so is this one, if monotone.

        Saves a trial; what an answer is called exact for has always been run.
        """
        return any(
            at_or_below(vector, above) and self.shows(above) is False
            for above in self._evidence.vectors()
        )

    def why(self, vector: Vector) -> Verdict:
        """Why a vector that was tried in vain cannot tell."""
        failure = self._evidence.failure(vector)
        return Verdict.NONDETERMINISTIC if failure is None else failure[0]
