"""From two references to a question that can be searched."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from packaging.version import Version

from bitsect.bisect.engine.model import Axis
from bitsect.bisect.errors import UnusableEnds
from bitsect.bisect.question_record import NOTHING, Question
from bitsect.bisect.records import EndRecord, SessionSpec
from bitsect.images.catalogue import AxisPoints
from bitsect.images.reference import Reference
from bitsect.images.runtime.protocol import Runtime, Stack

#: Lists the points of a distribution between two versions, as the user's indexes offer them.
PointSource = Callable[[str, str, str], AxisPoints]


#: Odds of a change at a new patch, minor and major release, relative to each other.
PATCH_ODDS, MINOR_ODDS, MAJOR_ODDS = 1, 4, 8


@dataclass(frozen=True)
class PointOptions:
    """Which releases between the ends are points, besides the ordinary ones."""

    prereleases: bool = False
    yanked: bool = False
    builds: bool = False


def ordered_ends(references: Sequence[Reference]) -> tuple[Reference, Reference]:
    """The good and the bad one of two references.

    :raises UnusableEnds: they do not name one good and one bad side, or name something that
        cannot be mixed.
    """
    sides = {reference.side: reference for reference in references}
    if len(references) != 2 or set(sides) != {"good", "bad"}:
        raise UnusableEnds("sides", *(reference.text for reference in references))
    good, bad = sides["good"], sides["bad"]
    if good.kind != bad.kind or good.kind not in ("venv", "image"):
        raise UnusableEnds("kind", good.text, bad.text)
    return good, bad


def ask_question(
    references: Sequence[Reference],
    runtime: Runtime,
    points_between: PointSource,
    options: PointOptions,
    probe: str,
    arguments: tuple[str, ...],
    circumstances_of: Callable[[Stack], str],
) -> Question:
    """Resolve both ends and list the points between them.

    :raises UnusableEnds: both are the same stack, or see ordered_ends.
    :raises UnknownVersion, UnresolvedError, InfrastructureError: an end cannot be resolved.
    """
    good, bad = (runtime.resolve(reference) for reference in ordered_ends(references))
    moved = list(_moved(good, bad))
    if not moved:
        raise UnusableEnds("same", good.reference, bad.reference)
    axes: list[Axis] = []
    left_out: dict[str, dict[str, int]] = {}
    for component, before, after in moved:
        if NOTHING in (before, after):
            axes.append(Axis(component, (before, after)))
            continue
        found = points_between(component.partition(":")[2], before, after)
        axes.append(Axis(component, found.versions, odds_of(found.versions)))
        if found.left_out:
            left_out[component] = dict(found.left_out)
    spec = SessionSpec(
        good=_end(good),
        bad=_end(bad),
        axes=tuple(axes),
        probe=probe,
        arguments=arguments,
        interpreter=_interpreter(good),
        circumstances=circumstances_of(good),
        options={
            "prereleases": options.prereleases,
            "yanked": options.yanked,
            "builds": options.builds,
        },
        left_out=left_out,
    )
    return Question(good, bad, spec)


def odds_of(versions: Sequence[str]) -> tuple[int, ...]:
    """How likely bits change at each step between versions: releases keep their promises.

    Patch releases seldom change results, new minor releases often, new major ones nearly
    always. The figures only shift the order of the search.
    """
    releases = [Version(version).release for version in versions]
    odds = []
    for one, other in itertools.pairwise(releases):
        if one[:1] != other[:1]:
            odds.append(MAJOR_ODDS)
        else:
            odds.append(MINOR_ODDS if one[:2] != other[:2] else PATCH_ODDS)
    return tuple(odds)


def _moved(good: Stack, bad: Stack) -> Iterator[tuple[str, str, str]]:
    for component in sorted({*good.components, *bad.components}):
        before = good.components.get(component, NOTHING)
        after = bad.components.get(component, NOTHING)
        if before != after:
            yield component, before, after
        elif _build(good, component) != _build(bad, component):
            # By version the two cannot be told apart, so no trial could hold one of them.
            raise UnusableEnds("builds", f"{component} {before}", good.reference, bad.reference)


def _build(stack: Stack, component: str) -> object:
    package = stack.lock.by_name.get(component.partition(":")[2]) if stack.lock else None
    return None if package is None else package.identity


def _interpreter(stack: Stack) -> str:
    assert stack.interpreter is not None, "an environment stands on a Python of this machine"
    return f"{stack.interpreter.path} ({stack.interpreter.version})"


def _end(stack: Stack) -> EndRecord:
    assert stack.lock is not None, "only a runtime that installs has hybrids"
    return EndRecord(stack.reference, dict(stack.components), stack.lock.digest)
