"""Folding many words into few, and few into two, so that every bit and its place count.

All arithmetic is exact, modulo 2**32 and 2**64, so no device, thread count or chunking can change
a result. The tests hold the definition in slow, plain Python.

A fold keeps ``lanes + 2`` words of 32 bits and takes the input in rows of ``lanes`` words:

* row ``i`` is multiplied by an odd factor and added to the state: to the lanes that start at
  byte 0 where ``i`` is even, at byte 2 where it is odd, so that rows overlap by halves;
* before every third, fifth, … row the state itself is multiplied, as lanes that start at byte 1
  and, the next time, at byte 3.

A product modulo 2**32 carries a difference towards higher bits only, and a change of a lane's top
bit stays what it is: a scheme that always cuts the state at the same places loses such changes in
pairs (negate every element: two of them in every lane). Hence the cuts that move. And a row is
multiplied before it is added: were it added first, its bit 15 would be the next row's top bit,
and two sign flips at the right distance would cancel.

Lanes of 32 bits, because vector units multiply them at full speed, which is what lets a fold keep
up with the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch

MASK64 = (1 << 64) - 1

# For each level four factors for rows and two for the state: SHA-256 of "bitsect fingerprint
# lanes", then of the same with ", second" and ", third" after it, cut into words of which the
# last three bits are made 3 or 5. Levels must differ, or a word's row at one level and its lane
# at the next could stand in for each other.
FACTORS = (
    (0x747169F5, 0xAB09E005, 0x8E91DAAB, 0xDB72317B, 0x3CA3D0D5, 0x36590115),
    (0x966ECF75, 0xA369CD3B, 0x0A154FAB, 0xBD39F94B, 0x9E85ED7B, 0x349B967B),
    (0x0A251F7B, 0xA6CD836B, 0x73448535, 0x160A1585, 0x82D1526B, 0xE58CDD7B),
)
ROW_STARTS = (0, 2)
STATE_STARTS = (1, 3)

# A level is used where there are more words than this many times its lanes.
ROWS_WORTH_A_FOLD = 4
LEVELS = (1 << 20, 1 << 16, 1 << 12)
_CACHE_LINE = 64

STEP = 0x9E3779B97F4A7C15
FIRST_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST_SHIFT = 31
SECOND_MIX = (0xD6E8FEB86659FD93, 32)


class Lanes(Protocol):
    """The state of one fold, on some device."""

    def begin(self, row: torch.Tensor, factor: int) -> None:
        """Forget everything and take the first row: int32, as many words as there are lanes."""

    def absorb(self, half: int, row: torch.Tensor, factor: int) -> None:
        """Add ``row * factor`` at ``ROW_STARTS[half]``; the row is int32 ``[<= lanes]``."""

    def turn(self, half: int, factor: int) -> None:
        """Multiply ``lanes + 1`` words of the state, from ``STATE_STARTS[half]`` on."""

    def words(self) -> torch.Tensor:
        """Return the state, int32 ``[lanes + 2]``; valid until the next :meth:`begin`."""


class InPlaceLanes:
    """Lanes on the CPU, where words may start at any byte: all the views lie on one memory."""

    def __init__(self, lanes: int) -> None:
        raw = bytearray(4 * lanes + 8 + _CACHE_LINE)
        # Most machines are slower at words that lie across two cache lines.
        margin = -torch.frombuffer(raw, dtype=torch.int8).data_ptr() % _CACHE_LINE

        def view(count: int, start: int) -> torch.Tensor:
            return torch.frombuffer(raw, dtype=torch.int32, count=count, offset=margin + start)

        self._lanes = lanes
        self._all = view(lanes + 2, 0)
        self._edge = self._all[lanes:]
        self._rows = [view(lanes, start) for start in ROW_STARTS]
        self._states = [view(lanes + 1, start) for start in STATE_STARTS]

    def begin(self, row: torch.Tensor, factor: int) -> None:
        self._edge.zero_()
        torch.mul(row, factor, out=self._rows[0])

    def absorb(self, half: int, row: torch.Tensor, factor: int) -> None:
        place = self._rows[half]
        if row.numel() != self._lanes:
            place = place[: row.numel()]
        torch.add(place, row, alpha=factor, out=place)

    def turn(self, half: int, factor: int) -> None:
        self._states[half].mul_(factor)

    def words(self) -> torch.Tensor:
        return self._all


class CopiedLanes:
    """Lanes on devices where a word must start at a multiple of its size: copied out and back."""

    def __init__(self, lanes: int, device: torch.device) -> None:
        self._lanes = lanes
        self._all = torch.zeros(lanes + 2, dtype=torch.int32, device=device)
        self._bytes = self._all.view(torch.int8)
        self._copy = torch.empty(lanes + 1, dtype=torch.int32, device=device)

    def begin(self, row: torch.Tensor, factor: int) -> None:
        self._all[self._lanes :].zero_()
        torch.mul(row, factor, out=self._all[: self._lanes])

    def absorb(self, half: int, row: torch.Tensor, factor: int) -> None:
        start, count = ROW_STARTS[half], row.numel()
        if start % 4 == 0:
            self._all[:count].add_(row, alpha=factor)
        else:
            self._take(start, count).add_(row, alpha=factor)
            self._put(start, count)

    def turn(self, half: int, factor: int) -> None:
        start, count = STATE_STARTS[half], self._lanes + 1
        self._take(start, count).mul_(factor)
        self._put(start, count)

    def words(self) -> torch.Tensor:
        return self._all

    def _take(self, start: int, count: int) -> torch.Tensor:
        copy = self._copy[:count]
        copy.view(torch.int8).copy_(self._bytes[start : start + 4 * count])
        return copy

    def _put(self, start: int, count: int) -> None:
        self._bytes[start : start + 4 * count].copy_(self._copy[:count].view(torch.int8))


def fold(rows: Iterable[torch.Tensor], lanes: Lanes, factors: Sequence[int]) -> torch.Tensor:
    """Absorb all rows and return the state, int32 ``[lanes + 2]``.

    There is at least one row, and every row but the last has a word for each lane.
    """
    signed_factors = [_signed32(factor) for factor in factors]
    for index, row in enumerate(rows):
        half, pair = index & 1, index >> 1 & 1
        factor = signed_factors[index & 3]
        if index == 0:
            lanes.begin(row, factor)
            continue
        if not half:
            lanes.turn(1 - pair, signed_factors[5 - pair])
        lanes.absorb(half, row, factor)
    return lanes.words()


def mix(words: torch.Tensor) -> torch.Tensor:
    """Return two sums modulo 2**64 over ``words`` (int64 ``[n]``), int64 ``[2]``.

    A word enters together with its place, after a bijection that no arithmetic on words undoes.
    """
    z = torch.arange(1, words.numel() + 1, dtype=torch.int64, device=words.device)
    z.mul_(_signed64(STEP)).add_(words)
    for shift, factor in FIRST_MIX:
        _xor_shift(z, shift)
        z.mul_(_signed64(factor))
    _xor_shift(z, LAST_SHIFT)
    first = z.sum()
    factor, shift = SECOND_MIX
    z.mul_(_signed64(factor))
    _xor_shift(z, shift)
    return torch.stack((first, z.sum()))


def finish(first: int, second: int, size: int) -> str:
    """Return the digest, 32 hex digits, from the two sums and the number of bytes."""
    first = _scatter(first + (size + 1) * STEP)
    return f"{first:016x}{_scatter(second + first):016x}"


def _scatter(word: int) -> int:
    word &= MASK64
    for shift, factor in FIRST_MIX:
        word = (word ^ word >> shift) * factor & MASK64
    return word ^ word >> LAST_SHIFT


def _xor_shift(z: torch.Tensor, shift: int) -> None:
    """Fold high bits onto low ones; the mask takes away the sign that torch shifts in."""
    shifted = z >> shift
    shifted &= (1 << (64 - shift)) - 1
    z ^= shifted


def _signed32(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _signed64(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
