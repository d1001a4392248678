"""Synthetic worlds with a known answer, and a driver that plays a session in one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bitsect.bisect.engine.engine import Engine
from bitsect.bisect.engine.model import Axis, Outcome, Trial, Vector
from bitsect.bisect.verdicts import Verdict


@dataclass(frozen=True)
class World:
    """Axes of given lengths, a digest for every event on every vector, and broken vectors."""

    sizes: tuple[int, ...]
    digest: Mapping[str, Callable[[Vector], str]]
    broken: frozenset[Vector] = frozenset()

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(
            Axis(f"pip:package{i}", tuple(f"{i}.{p}" for p in range(size)))
            for i, size in enumerate(self.sizes)
        )

    def outcome(self, trial: Trial) -> Outcome:
        if trial.vector in self.broken:
            return Outcome(failure=Verdict.UNRESOLVED, reason="no such combination")
        return Outcome({name: digest(trial.vector) for name, digest in self.digest.items()})

    def vectors(self) -> Iterable[Vector]:
        return itertools.product(*(range(size) for size in self.sizes))


@dataclass
class Played:
    engine: Engine
    trials: list[Trial] = field(default_factory=list)

    @property
    def vectors(self) -> set[Vector]:
        return {trial.vector for trial in self.trials}


def play(
    world: World,
    workers: int = 1,
    finish: Callable[[Sequence[Trial]], int] = lambda running: 0,
    limit: int = 5000,
) -> Played:
    """Run a session to its end. ``finish`` picks which of the running trials ends next."""
    played = Played(Engine(world.axes))
    running: list[Trial] = []
    for _ in range(limit):
        asked = played.engine.ask(workers - len(running), running)
        assert not set(asked) & set(running), "a running trial was asked for again"
        running += asked
        played.trials += asked
        if not running:
            return played
        trial = running.pop(finish(running))
        played.engine.tell(trial, world.outcome(trial))
    raise AssertionError("the session does not end")


def staircase(values: Sequence[str]) -> Callable[[Vector], str]:
    """An event of a one-axis world: its digest at each point."""
    return lambda vector: values[vector[0]]


def up_closed(minimal: Iterable[Vector]) -> Callable[[Vector], str]:
    """An event that is changed exactly on the vectors above one of the minimal ones."""
    chosen = tuple(minimal)
    return lambda vector: (
        "changed"
        if any(all(v >= m for v, m in zip(vector, low, strict=True)) for low in chosen)
        else "as before"
    )
