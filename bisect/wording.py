"""Vectors, events and brackets in the words of whoever reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from bitsect.bisect.engine.engine import Engine, State
from bitsect.bisect.engine.model import Axis, Vector
from bitsect.probes.trace import EventKey


def shown(component: str) -> str:
    """A component's name for people: a Python distribution needs no kind beside its name."""
    return component.removeprefix("pip:")


def label_of(axes: Sequence[Axis], vector: Vector) -> str:
    """What a vector differs in from the end that is nearer to it, in words."""
    moved = [(axis, point) for axis, point in zip(axes, vector, strict=True) if point]
    short_of_bad = [(a, p) for a, p in zip(axes, vector, strict=True) if p != a.top]
    if not moved:
        return "the good end"
    if not short_of_bad:
        return "the bad end"
    # Named by whichever is shorter, once naming all that moved would be too long.
    if len(moved) > 3 and len(short_of_bad) < len(moved):
        return f"the bad end but {_points(short_of_bad)}"
    return _points(moved)


def _points(points: Iterable[tuple[Axis, int]]) -> str:
    return short(f"{shown(axis.component)} {axis.points[point]}" for axis, point in points)


def open_brackets(engine: Engine, state: State) -> tuple[tuple[str, str], ...]:
    """Every open bracket, and the operations of the classes that are searched in it."""
    events: dict[str, list[str]] = {}
    for bracket in state.brackets:
        axis = engine.axes[bracket.axis]
        where = f"{axis.points[bracket.low]} .. {axis.points[bracket.high]}"
        where = f"{shown(axis.component)} {where}"
        events.setdefault(where, []).extend(bracket.events)
    for stacks in state.milestone_brackets:
        where = f"{label_of(engine.axes, stacks.stacks[0])} .. "
        where += label_of(engine.axes, stacks.stacks[-1])
        events.setdefault(where, []).extend(stacks.events)
    for question in state.set_questions:
        where = f"one or more of {short(map(shown, question.suspects))}"
        events.setdefault(where, []).extend(question.events)
    return tuple(
        (where, operations_text(operations_of(names), groups=1)) for where, names in events.items()
    )


class Operations(msgspec.Struct, frozen=True):
    """Events of one kind, by the names of their operations.

    :param kind: arm, group and types, such as ``data transcendental float32 float64``.
    :param names: operations, each once, variants under their common name.
    :param events: number of events.
    """

    kind: str
    names: tuple[str, ...]
    events: int


def operations_of(events: Iterable[str]) -> tuple[Operations, ...]:
    """What a person would call these events; the kinds with most events come first.

    Types for which the same operations are concerned share one kind.
    """
    names: dict[str, dict[str, None]] = {}
    counts: Counter[str] = Counter()
    for event in events:
        key = EventKey.parse(event)
        backward = " backward" if key.phase == "backward" else ""
        names.setdefault(key.scope, {})[key.operation.partition(".")[0] + backward] = None
        counts[key.scope] += 1
    alike: dict[tuple[str, frozenset[str]], list[str]] = {}
    for scope, operations in names.items():
        group = scope.rpartition(".")[0]
        alike.setdefault((group, frozenset(operations)), []).append(scope)
    found = [
        Operations(
            kind=" ".join([*group.split("."), *(scope.rpartition(".")[2] for scope in scopes)]),
            names=tuple(names[scopes[0]]),
            events=sum(counts[scope] for scope in scopes),
        )
        for (group, _), scopes in alike.items()
    ]
    return tuple(sorted(found, key=lambda operations: -operations.events))


def operations_text(
    operations: Sequence[Operations], groups: int = 3, names: int = 5, separator: str = "; "
) -> str:
    """Operations in a line or a few."""
    parts = [f"{group.kind}: {short(group.names, names)}" for group in operations[:groups]]
    rest = operations[groups:]
    if rest:
        parts.append(f"and {sum(group.events for group in rest)} events of {len(rest)} more kinds")
    return separator.join(parts)


def counted(number: int, what: str) -> str:
    """A number of things, in words."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def short(names: Iterable[str], most: int = 4) -> str:
    """The first few names, and how many more there are."""
    listed = tuple(names)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")
