"""Vectors, events and brackets in the words of whoever reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bitsect.bisect.engine.engine import Engine, State
from bitsect.bisect.engine.model import Axis, Vector
from bitsect.probes.trace import EventKey


def label_of(axes: Sequence[Axis], vector: Vector) -> str:
    """What a vector differs in from the good stack, in words."""
    moved = [
        f"{axis.component.partition(':')[2]} {axis.points[point]}"
        for axis, point in zip(axes, vector, strict=True)
        if point
    ]
    if not moved:
        return "the good end"
    if all(point == axis.top for axis, point in zip(axes, vector, strict=True)):
        return "the bad end"
    return ", ".join(moved)


def open_classes(engine: Engine, state: State) -> tuple[str, ...]:
    """Every open class in words: its operations, and the bracket it is in."""
    lines = []
    for bracket in state.brackets:
        axis = engine.axes[bracket.axis]
        lines.append(
            f"{short(operations_of(bracket.events))}: {axis.component.partition(':')[2]}"
            f" {axis.points[bracket.low]} .. {axis.points[bracket.high]}"
        )
    for question in state.set_questions:
        lines.append(
            f"{short(operations_of(question.events))}: one or more of {short(question.suspects)}"
        )
    return tuple(lines)


def operations_of(events: Iterable[str]) -> tuple[str, ...]:
    """What a person would call these events, e.g. ``data float64 power``, each once."""
    names: dict[str, None] = {}
    for event in events:
        key = EventKey.parse(event)
        arm, _, rest = key.scope.partition(".")
        dtype = rest.rpartition(".")[2]
        direction = " backward" if key.phase == "backward" else ""
        names[f"{arm} {dtype} {key.operation}{direction}".replace("  ", " ")] = None
    return tuple(names)


def short(names: Iterable[str], most: int = 4) -> str:
    """The first few names, and how many more there are."""
    listed = tuple(names)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")
