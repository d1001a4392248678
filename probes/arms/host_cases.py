"""What the case tables of the data arm are made of. Imports NumPy: only for where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

import numpy as np

from bitsect.probes import exact

Array = np.ndarray
FLOATS = ("float32", "float64")


class HostCase(NamedTuple):
    """One operation on one set of inputs.

    ``run`` gets the inputs and returns an array, a number, a text, bytes, or a sequence of these.
    It must look up what it calls when it is called: a stack may lack it.
    """

    group: str
    dtype: str
    operation: str
    inputs: tuple[Array, ...]
    run: Callable[..., Any]


class Draw:
    """Exact arrays by name, the same object for the same question.

    :param seed: of the whole probe; another seed gives other arrays.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._made: dict[tuple[object, ...], Array] = {}

    def _once(self, key: tuple[object, ...], make: Callable[[], Array]) -> Array:
        if key not in self._made:
            made = make()
            made.setflags(write=False)
            self._made[key] = made
        return self._made[key]

    def floats(self, stream: str, shape: tuple[int, ...], dtype: str, exponent: int = 0) -> Array:
        """Values in [-2**exponent, 2**exponent)."""
        return self._once(
            ("floats", stream, shape, dtype, exponent),
            lambda: exact.numpy_floats(self.seed, stream, shape, dtype, exponent=exponent),
        )

    def spread(
        self, stream: str, shape: tuple[int, ...], dtype: str, lowest: int, highest: int
    ) -> Array:
        """Values of either sign with 2**lowest <= size < 2**(highest + 1)."""
        return self._once(
            ("spread", stream, shape, dtype, lowest, highest),
            lambda: exact.numpy_spread(
                self.seed, stream, shape, dtype, lowest=lowest, highest=highest
            ),
        )

    def below(self, stream: str, shape: tuple[int, ...], bound: int) -> Array:
        """int64 values from 0 to bound - 1."""
        return self._once(
            ("below", stream, shape, bound),
            lambda: exact.numpy_below(self.seed, stream, shape, bound),
        )

    def distinct(self, stream: str, count: int) -> Array:
        """A permutation of 0 to count - 1 that no sort of the stack had a hand in (int64)."""
        return self._once(("distinct", stream, count), lambda: self._permutation(stream, count))

    def _permutation(self, stream: str, count: int) -> Array:
        order = list(range(count))
        for place, draw in enumerate(exact.numpy_integers(self.seed, stream, (count,), 62)):
            other = place + int(draw) % (count - place)
            order[place], order[other] = order[other], order[place]
        return np.array(order, dtype=np.int64)


def backwards(values: Array) -> Array:
    """The values in reverse, in memory of their own.

    A view with a negative stride will not do: NumPy from 1.25 on multiplies complex numbers by
    another code path, with other bits, when the allocator happens to put the result right
    beside the memory of such a view.
    """
    copied = np.ascontiguousarray(values[::-1])
    copied.setflags(write=False)
    return copied


def named(name: str) -> Callable[..., Any]:
    """The function at a dotted path below ``numpy``, looked up when it is called."""

    def call(*arguments: Any, **options: Any) -> Any:
        function: Any = np
        for part in name.split("."):
            function = getattr(function, part)
        return function(*arguments, **options)

    return call


Cases = Iterator[HostCase]
