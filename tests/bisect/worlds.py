"""Synthetic worlds with a known answer, and a driver that plays a session in one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bitsect.bisect.engine.engine import Engine
from bitsect.bisect.engine.model import Axis, Finding, Outcome, Trial, Vector
from bitsect.bisect.verdicts import Verdict


@dataclass(frozen=True)
class World:
    """Axes of given lengths, a digest for every event on every vector, and what cannot run.

    :param broken: vectors that the resolver refuses.
    :param crashes: says of a vector whether the probe dies on it.
    :param touched: axes that the probe was seen to use; all of them if None.
    """

    sizes: tuple[int, ...]
    digest: Mapping[str, Callable[[Vector], str]]
    broken: frozenset[Vector] = frozenset()
    crashes: Callable[[Vector], bool] = lambda vector: False
    milestones: tuple[Vector, ...] = ()
    blocks: tuple[tuple[int, ...], ...] = ()
    touched: frozenset[int] | None = None

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(
            Axis(
                f"pip:package{i}",
                tuple(f"{i}.{p}" for p in range(size)),
                touched=self.touched is None or i in self.touched,
            )
            for i, size in enumerate(self.sizes)
        )

    def engine(self) -> Engine:
        return Engine(self.axes, milestones=self.milestones, blocks=self.blocks)

    def runs(self, vector: Vector) -> bool:
        return vector not in self.broken and not self.crashes(vector)

    def outcome(self, trial: Trial) -> Outcome:
        if trial.vector in self.broken:
            return Outcome(failure=Verdict.UNRESOLVED, reason="no such combination")
        if self.crashes(trial.vector):
            return Outcome(failure=Verdict.CRASH, reason="SIGSEGV")
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
    played = Played(world.engine())
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


def culprits_of(finding: Finding) -> set[int]:
    """The axes that a finding names."""
    return {int(culprit.component.removeprefix("pip:package")) for culprit in finding.culprits}


def moved(components: int, *axes: int) -> Vector:
    """A vector of two-point axes: these at the bad end, all others at the good end."""
    return tuple(int(axis in axes) for axis in range(components))


def requires(*clauses: tuple[int, int, int, int]) -> Callable[[Vector], bool]:
    """Crashes of mixtures: (a, i, b, j) means that a at i or above needs b at j or above."""
    return lambda vector: any(vector[a] >= i and vector[b] < j for a, i, b, j in clauses)


def inseparable(*groups: Sequence[int]) -> Callable[[Vector], bool]:
    """Crashes of mixtures in which some axes of a group have left the good end, but not all."""
    return lambda vector: any(len({vector[axis] > 0 for axis in group}) > 1 for group in groups)


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
