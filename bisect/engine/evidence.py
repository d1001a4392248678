"""What has been observed, by vector, and what that says of one event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bitsect.bisect.engine.model import ABSENT, Outcome, Vector
from bitsect.bisect.verdicts import Verdict

#: The value of an event whose repetitions on one vector disagree.
UNSTABLE = "\0unstable"


class Evidence:
    """The observations of a session, folded.

    The fold is a set: telling the same observations in another order gives an equal
    Evidence. Per vector, repetitions are merged event by event: the digest where all
    repetitions agree, ``UNSTABLE`` where they do not. A vector of which any repetition failed
    says nothing: whether it runs at all is not settled.
    """

    def __init__(self) -> None:
        self._outcomes: dict[Vector, dict[int, Outcome]] = {}
        self._merged: dict[Vector, Mapping[str, str] | None] = {}

    def add(self, vector: Vector, repetition: int, outcome: Outcome) -> None:
        """Take in one observation.

        :raises ValueError: this repetition was told before, with another outcome.
        """
        told = self._outcomes.setdefault(vector, {})
        if repetition in told and told[repetition] != outcome:
            raise ValueError(f"repetition {repetition} of {vector} was told twice, differently")
        told[repetition] = outcome
        self._merged[vector] = _merge([told[index] for index in sorted(told)])

    def observed(self, vector: Vector) -> bool:
        """Whether anything is known of this vector, success or failure."""
        return vector in self._merged

    def events(self, vector: Vector) -> Mapping[str, str] | None:
        """The vector's merged events; None if it has not always run to its end."""
        return self._merged.get(vector)

    def value(self, vector: Vector, event: str) -> str:
        """One event's digest on a vector that ran; ABSENT if its trace lacks the event."""
        merged = self._merged[vector]
        assert merged is not None, "value() is for vectors that ran"
        return merged.get(event, ABSENT)

    def differing(self, reference: Vector, vector: Vector) -> tuple[str, ...]:
        """Events whose digests differ between two vectors, in trace order; none if one failed."""
        here, there = self.events(vector), self.events(reference)
        if here is None or there is None:
            return ()
        names = dict.fromkeys([*there, *here])
        return tuple(n for n in names if here.get(n, ABSENT) != there.get(n, ABSENT))

    def failure(self, vector: Vector) -> tuple[Verdict, str] | None:
        """Verdict and reason of a vector of which a repetition did not run to its end."""
        outcome = self.first_failed(vector)
        if outcome is None or outcome.failure is None:
            return None
        return outcome.failure, outcome.reason

    def first_failed(self, vector: Vector) -> Outcome | None:
        """The first repetition on this vector that did not run to its end, if any did not."""
        told = self._outcomes.get(vector, {})
        return next((told[i] for i in sorted(told) if told[i].failure is not None), None)

    def runs(self, vector: Vector) -> int:
        """Number of repetitions on this vector that ran to their end."""
        told = self._outcomes.get(vector, {})
        return sum(outcome.failure is None for outcome in told.values())

    def sightings(self, event: str, value: str) -> int:
        """In how many runs, on whichever vectors, an event had this digest."""
        return sum(
            self.runs(vector)
            for vector, merged in self._merged.items()
            if merged is not None and merged.get(event, ABSENT) == value
        )

    def repetitions(self, vector: Vector) -> frozenset[int]:
        """The repetitions that were told for this vector, failures included."""
        return frozenset(self._outcomes.get(vector, {}))

    def vectors(self) -> Iterator[Vector]:
        """Vectors that have always run to their end, in order."""
        return iter(sorted(v for v, merged in self._merged.items() if merged is not None))

    def tried(self) -> Iterator[Vector]:
        """Every vector that was told, failures included, in order."""
        return iter(sorted(self._outcomes))

    def unstable(self, vector: Vector) -> tuple[str, ...]:
        """Events whose repetitions on this vector disagree, in trace order."""
        merged = self._merged.get(vector) or {}
        return tuple(event for event, value in merged.items() if value == UNSTABLE)


def _merge(outcomes: Iterable[Outcome]) -> Mapping[str, str] | None:
    told = list(outcomes)
    if any(outcome.failure is not None for outcome in told):
        return None
    ran = [outcome.events for outcome in told]
    if len(ran) == 1:
        return ran[0]
    merged = dict(ran[0])
    for events in ran[1:]:
        for event in events:
            merged.setdefault(event, ABSENT)
        for event, value in merged.items():
            if events.get(event, ABSENT) != value:
                merged[event] = UNSTABLE
    # An event that only a later repetition has was set to ABSENT for the first, then found
    # to differ there, so it is UNSTABLE: appearing sometimes is not determinism.
    return merged
