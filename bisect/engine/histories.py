"""What the observed histories of events have in common, and where they make no sense."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from bitsect.bisect.engine.evidence import UNSTABLE, Evidence
from bitsect.bisect.engine.model import ABSENT, Anomaly, Vector
from bitsect.bisect.engine.vectors import at_or_below


def classes_of(evidence: Evidence) -> list[tuple[str, ...]]:
    """Events grouped so that the members of a group agree in every observation.

    Two events agree when their digests are equal between the same pairs of vectors;
    the digests themselves differ, of course.
    """
    vectors = list(evidence.vectors())
    names = dict.fromkeys(name for v in vectors for name in evidence.events(v) or ())
    columns = [evidence.events(v) or {} for v in vectors]
    groups: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for name in names:
        seen: dict[str, int] = {}
        groups[
            tuple(seen.setdefault(column.get(name, ABSENT), len(seen)) for column in columns)
        ].append(name)
    return [tuple(events) for events in groups.values()]


def anomalies_in(evidence: Evidence) -> tuple[Anomaly, ...]:
    """Events that changed and changed back, as far as the evidence shows."""
    found: dict[tuple[Vector, Vector, Vector], list[str]] = defaultdict(list)
    vectors = list(evidence.vectors())
    for events in classes_of(evidence):
        value = {v: evidence.value(v, events[0]) for v in vectors}
        witness = _came_back(vectors, value)
        if witness is not None:
            found[witness].extend(events)
    return tuple(
        Anomaly(tuple(events), (low, high), middle) for (low, middle, high), events in found.items()
    )


def _came_back(
    vectors: Sequence[Vector], value: Mapping[Vector, str]
) -> tuple[Vector, Vector, Vector] | None:
    """Three vectors, each above the one before, of which only the middle one differs."""
    for low in vectors:
        above = [v for v in vectors if v != low and at_or_below(low, v)]
        for high in above:
            if value[high] != value[low]:
                continue
            for middle in above:
                if value[middle] not in (value[low], UNSTABLE) and at_or_below(middle, high):
                    return low, middle, high
    return None
