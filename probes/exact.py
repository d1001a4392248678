"""Inputs whose bits no library can change.

Element ``i`` of a stream is one 64-bit draw: a splitmix64 finaliser over a counter, keyed by
``(seed, stream)``. Integers are cut from the draw; floating-point values are an integer that the
type holds exactly times a power of two, or bits put together field by field. So neither a random
number generator nor a math library of the stack has a say, and torch, NumPy and plain Python give
the same bits.

Every function exists twice: ``integers`` gives a torch tensor, ``numpy_integers`` the same values
as a NumPy array (NumPy is imported when first called). Shapes may be ``()`` and may hold zeros.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import torch

if TYPE_CHECKING:
    import numpy

Stream = Union[str, int]

_MASK64 = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31


class _Layout(NamedTuple):
    """Where a binary floating-point type keeps its fields."""

    digits: int
    exponent_bits: int
    carrier: str

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def fraction_bits(self) -> int:
        return self.digits - 1


_LAYOUTS = {
    "float64": _Layout(53, 11, "int64"),
    "float32": _Layout(24, 8, "int32"),
    "float16": _Layout(11, 5, "int16"),
    "bfloat16": _Layout(8, 8, "int16"),
    "float8_e4m3fn": _Layout(4, 4, "int8"),
    "float8_e5m2": _Layout(3, 5, "int8"),
}
_NUMPY_FLOATS = ("float64", "float32", "float16")


def stream_key(seed: int, stream: Stream) -> int:
    """Return the 64-bit key of a stream; ``"1"`` and ``1`` are different streams."""
    kind = "n" if isinstance(stream, int) else "s"
    digest = hashlib.sha256(f"{seed}\n{kind}{stream}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def _signed(word: int) -> int:
    word &= _MASK64
    return word - (1 << 64) if word >> 63 else word


def _draws(seed: int, stream: Stream, shape: Sequence[int], device: Any) -> torch.Tensor:
    count = math.prod(shape)
    words = torch.arange(1, count + 1, dtype=torch.int64, device=device)
    words.mul_(_signed(_STEP)).add_(_signed(stream_key(seed, stream)))
    for shift, factor in _ROUNDS:
        words ^= _shifted(words, shift)
        words.mul_(_signed(factor))
    words ^= _shifted(words, _LAST_SHIFT)
    return words.reshape(tuple(shape))


def _shifted(words: torch.Tensor, shift: int) -> torch.Tensor:
    """Shift right with zeros coming in: torch shifts int64 with its sign."""
    return (words >> shift) & ((1 << (64 - shift)) - 1)


def _check_bits(bits: int) -> None:
    if not 1 <= bits <= 63:
        raise ValueError(f"bits must be 1 to 63, not {bits}")


def _check_signed_bits(bits: int) -> None:
    if not 1 <= bits <= 64:
        raise ValueError(f"bits must be 1 to 64, not {bits}")


def integers(
    seed: int, stream: Stream, shape: Sequence[int], bits: int, *, device: Any = "cpu"
) -> torch.Tensor:
    """Return int64 values from 0 to ``2**bits - 1`` (``bits`` 1 to 63), of the given shape."""
    _check_bits(bits)
    return _shifted(_draws(seed, stream, shape, device), 64 - bits)


def signed_integers(
    seed: int, stream: Stream, shape: Sequence[int], bits: int, *, device: Any = "cpu"
) -> torch.Tensor:
    """Return int64 values from ``-2**(bits-1)`` to ``2**(bits-1) - 1`` (``bits`` 1 to 64)."""
    _check_signed_bits(bits)
    return _draws(seed, stream, shape, device) >> (64 - bits)


def below(
    seed: int, stream: Stream, shape: Sequence[int], bound: int, *, device: Any = "cpu"
) -> torch.Tensor:
    """Return int64 values from 0 to ``bound - 1`` (``bound`` 1 to ``2**31``)."""
    _check_bound(bound)
    return integers(seed, stream, shape, 63, device=device) % bound


def floats(
    seed: int,
    stream: Stream,
    shape: Sequence[int],
    dtype: torch.dtype = torch.float32,
    *,
    exponent: int = 0,
    device: Any = "cpu",
) -> torch.Tensor:
    """Return values in ``[-2**exponent, 2**exponent)`` that use every digit of ``dtype``.

    Each is an integer of as many bits as the type has digits, times a power of two, so it is
    exact in the type. Types: float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2.
    """
    name = str(dtype).replace("torch.", "")
    layout = _layout(name)
    _check_exponents(name, layout, exponent - layout.digits, exponent)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    whole = signed_integers(seed, stream, shape, layout.digits + 1, device=device)
    return (whole.to(wide) * 2.0 ** (exponent - layout.digits)).to(dtype)


def spread(
    seed: int,
    stream: Stream,
    shape: Sequence[int],
    dtype: torch.dtype = torch.float32,
    *,
    lowest: int = -14,
    highest: int = 14,
    device: Any = "cpu",
) -> torch.Tensor:
    """Return values whose sizes spread over powers of two.

    Sign, exponent (``lowest`` to ``highest``, each about equally often) and fraction are put
    together as bits: ``2**lowest <= |x| < 2**(highest + 1)``. Types as in :func:`floats`.
    """
    name = str(dtype).replace("torch.", "")
    layout = _layout(name)
    _check_exponents(name, layout, lowest, highest)
    draws = _draws(seed, stream, shape, device)
    fields = draws & ((1 << layout.fraction_bits) - 1)
    exponents = _shifted(draws, 53) % (highest - lowest + 1) + (lowest + layout.bias)
    fields |= exponents << layout.fraction_bits
    # The sign field is the carrier's own top bit, hence minus the weight of that bit.
    weight = 1 << (layout.fraction_bits + layout.exponent_bits)
    fields -= (_shifted(draws, 52) & 1) * weight
    return fields.to(getattr(torch, layout.carrier)).view(dtype)


def numpy_integers(
    seed: int, stream: Stream, shape: Sequence[int], bits: int
) -> numpy.ndarray[Any, Any]:
    """Return :func:`integers` as an int64 array."""
    import numpy as np

    _check_bits(bits)
    words = _numpy_draws(seed, stream, shape) >> np.uint64(64 - bits)
    return words.astype(np.int64).reshape(tuple(shape))


def numpy_signed_integers(
    seed: int, stream: Stream, shape: Sequence[int], bits: int
) -> numpy.ndarray[Any, Any]:
    """Return :func:`signed_integers` as an int64 array."""
    import numpy as np

    _check_signed_bits(bits)
    words = _numpy_draws(seed, stream, shape).view(np.int64) >> np.int64(64 - bits)
    return words.reshape(tuple(shape))


def numpy_below(
    seed: int, stream: Stream, shape: Sequence[int], bound: int
) -> numpy.ndarray[Any, Any]:
    """Return :func:`below` as an int64 array."""
    import numpy as np

    _check_bound(bound)
    words = numpy_integers(seed, stream, (math.prod(shape),), 63) % np.int64(bound)
    return words.reshape(tuple(shape))


def numpy_floats(
    seed: int, stream: Stream, shape: Sequence[int], dtype: str = "float64", *, exponent: int = 0
) -> numpy.ndarray[Any, Any]:
    """Return :func:`floats` as an array of ``float64``, ``float32`` or ``float16``."""
    import numpy as np

    layout = _layout(dtype, _NUMPY_FLOATS)
    _check_exponents(dtype, layout, exponent - layout.digits, exponent)
    whole = numpy_signed_integers(seed, stream, (math.prod(shape),), layout.digits + 1)
    scaled = whole.astype(np.float64) * np.float64(2.0 ** (exponent - layout.digits))
    return scaled.astype(dtype).reshape(tuple(shape))


def numpy_spread(
    seed: int,
    stream: Stream,
    shape: Sequence[int],
    dtype: str = "float64",
    *,
    lowest: int = -14,
    highest: int = 14,
) -> numpy.ndarray[Any, Any]:
    """Return :func:`spread` as an array of ``float64``, ``float32`` or ``float16``."""
    import numpy as np

    layout = _layout(dtype, _NUMPY_FLOATS)
    _check_exponents(dtype, layout, lowest, highest)
    draws = _numpy_draws(seed, stream, shape)
    fields = draws & np.uint64((1 << layout.fraction_bits) - 1)
    exponents = (draws >> np.uint64(53)) % np.uint64(highest - lowest + 1)
    exponents += np.uint64(lowest + layout.bias)
    fields |= exponents << np.uint64(layout.fraction_bits)
    signs = (draws >> np.uint64(52)) & np.uint64(1)
    fields |= signs << np.uint64(layout.fraction_bits + layout.exponent_bits)
    return fields.astype("u" + layout.carrier).view(dtype).reshape(tuple(shape))


def _numpy_draws(seed: int, stream: Stream, shape: Sequence[int]) -> numpy.ndarray[Any, Any]:
    """Return the draws as a flat uint64 array: NumPy turns 0-d arrays into scalars."""
    import numpy as np

    words = np.arange(1, math.prod(shape) + 1, dtype=np.uint64)
    words *= np.uint64(_STEP)
    words += np.uint64(stream_key(seed, stream))
    for shift, factor in _ROUNDS:
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(_LAST_SHIFT)
    return words


def _layout(name: str, allowed: Sequence[str] = tuple(_LAYOUTS)) -> _Layout:
    if name not in allowed:
        raise ValueError(f"no exact values for {name}: choose one of {', '.join(allowed)}")
    return _LAYOUTS[name]


def _check_bound(bound: int) -> None:
    if not 1 <= bound <= 1 << 31:
        raise ValueError(f"bound must be 1 to 2**31, not {bound}")


def _check_exponents(name: str, layout: _Layout, lowest: int, highest: int) -> None:
    """Keep every value among the normal numbers, where powers of two are exact."""
    if not 1 - layout.bias <= lowest <= highest <= layout.bias - 1:
        raise ValueError(f"{name} has no normal numbers for exponents {lowest} to {highest}")
