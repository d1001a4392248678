"""Vectors, and what can be done with them."""

from __future__ import annotations

from collections.abc import Container

#: One index per axis, 0 at the good end. The good stack is all zeros.
Vector = tuple[int, ...]


def replaced(vector: Vector, axis: int, point: int) -> Vector:
    """The vector with one coordinate at another point."""
    return (*vector[:axis], point, *vector[axis + 1 :])


def mixed(base: Vector, top: Vector, moved: Container[int]) -> Vector:
    """The base with the coordinates in ``moved`` taken from the top."""
    return tuple(top[i] if i in moved else base[i] for i in range(len(base)))


def moved_between(base: Vector, top: Vector) -> tuple[int, ...]:
    """The coordinates that are higher in the top than in the base."""
    return tuple(i for i, point in enumerate(top) if point > base[i])


def at_or_below(low: Vector, high: Vector) -> bool:
    """Whether no coordinate of ``low`` is higher than that of ``high``."""
    return all(a <= b for a, b in zip(low, high, strict=True))
