"""What the case tables of the kernels arm are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Union

import torch

from bitsect.probes import exact

Tensor = torch.Tensor
Result = Union[Tensor, "tuple[Tensor, ...]", "list[Tensor]"]


class Case(NamedTuple):
    """One operation on one set of inputs.

    ``run`` gets the inputs, leaves them as they are, and returns tensors. It must look up what
    it calls when it is called: a stack may lack it. With ``gradient`` the floating-point inputs
    are differentiated too, against exact gradients of the outputs.
    """

    group: str
    dtype: str
    operation: str
    inputs: tuple[Tensor, ...]
    run: Callable[..., Result]
    gradient: bool = False


Cases = Iterator[Case]


class Draw:
    """Exact tensors on one device, the same object for the same question.

    :param seed: of the whole probe; another seed gives other tensors.
    :param device: where they are made, ``cpu`` or ``cuda``.
    """

    def __init__(self, seed: int, device: str) -> None:
        self.seed = seed
        self.device = device
        self._made: dict[tuple[object, ...], Tensor] = {}

    def _once(self, key: tuple[object, ...], make: Callable[[], Tensor]) -> Tensor:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def floats(
        self, stream: str, shape: tuple[int, ...], dtype: torch.dtype, exponent: int = 0
    ) -> Tensor:
        """Values in [-2**exponent, 2**exponent)."""
        return self._once(
            ("floats", stream, shape, dtype, exponent),
            lambda: exact.floats(
                self.seed, stream, shape, dtype, exponent=exponent, device=self.device
            ),
        )

    def spread(
        self, stream: str, shape: tuple[int, ...], dtype: torch.dtype, lowest: int, highest: int
    ) -> Tensor:
        """Values of either sign with 2**lowest <= size < 2**(highest + 1)."""
        return self._once(
            ("spread", stream, shape, dtype, lowest, highest),
            lambda: exact.spread(
                self.seed, stream, shape, dtype, lowest=lowest, highest=highest, device=self.device
            ),
        )

    def below(self, stream: str, shape: tuple[int, ...], bound: int) -> Tensor:
        """int64 values from 0 to bound - 1."""
        return self._once(
            ("below", stream, shape, bound),
            lambda: exact.below(self.seed, stream, shape, bound, device=self.device),
        )

    def distinct(self, stream: str, count: int) -> Tensor:
        """A permutation of 0 to count - 1 that no sort of the stack had a hand in (int64)."""
        return self._once(("distinct", stream, count), lambda: self._permutation(stream, count))

    def _permutation(self, stream: str, count: int) -> Tensor:
        order = list(range(count))
        for place, draw in enumerate(exact.integers(self.seed, stream, (count,), 62).tolist()):
            other = place + draw % (count - place)
            order[place], order[other] = order[other], order[place]
        return torch.tensor(order, dtype=torch.int64, device=self.device)


def dtype_of(name: str) -> torch.dtype:
    """The dtype of this name; AttributeError where this torch has none."""
    found: torch.dtype = getattr(torch, name)
    return found


def named(path: str, **options: Any) -> Callable[..., Any]:
    """The function at a dotted path below ``torch``, looked up when it is called."""

    def call(*arguments: Any) -> Any:
        function: Any = torch
        for part in path.split("."):
            function = getattr(function, part)
        return function(*arguments, **options)

    return call
