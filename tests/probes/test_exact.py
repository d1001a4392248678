"""Exact inputs: plain Python, torch and NumPy make the same bits from the same key."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bitsect.probes import exact

MASK = (1 << 64) - 1
SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)
SEEDS = st.integers(-5, 1 << 70)
STREAMS = st.one_of(st.integers(0, 99), st.text(max_size=8))
FORMATS = {  # digits, exponent bits, struct format of the carrier
    "float64": (53, 11, "<Q"),
    "float32": (24, 8, "<I"),
    "float16": (11, 5, "<H"),
    "bfloat16": (8, 8, "<H"),
    "float8_e4m3fn": (4, 4, "<B"),
    "float8_e5m2": (3, 5, "<B"),
}
NUMPY_TYPES = ("float64", "float32", "float16")

# Of seed 0 and stream "x".
KEY = 0x288EB8EB9FACFFA9
DRAWS = [0xC9F0001D8CD536B0, 0x7DF5A156AF2F4B0F, 0xA5024C8690F8A91A]
FLOATS = [-0.42236328125, 0.9840584993362427, -0.7108673453330994]
SPREAD = ["-0x1.aa6d600000000p+6", "-0x1.5e961e0000000p+7", "0x1.f152340000000p+1"]


def reference_draw(seed: int, stream: int | str, index: int) -> int:
    kind = "n" if isinstance(stream, int) else "s"
    key = hashlib.sha256(f"{seed}\n{kind}{stream}".encode()).digest()[:8]
    z = (int.from_bytes(key, "little") + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def draws(seed: int, stream: int | str, shape: Sequence[int]) -> list[int]:
    return [reference_draw(seed, stream, index) for index in range(math.prod(shape))]


def sign_extended(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def raw_bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""


def encoded(value: Fraction, name: str) -> int:
    """The bits of a value that is a normal number of the type, or zero."""
    digits, exponent_bits, _ = FORMATS[name]
    if value == 0:
        return 0
    exponent = math.floor(math.log2(abs(value)))
    significand = abs(value) / Fraction(2) ** exponent * (1 << (digits - 1))
    assert significand.denominator == 1
    assert 1 << (digits - 1) <= significand < 1 << digits
    biased = exponent + (1 << (exponent_bits - 1)) - 1
    assert 1 <= biased < (1 << exponent_bits)
    fraction = int(significand) - (1 << (digits - 1))
    sign = int(value < 0) << (digits - 1 + exponent_bits)
    return sign | biased << (digits - 1) | fraction


def test_known_answers_stand() -> None:
    assert exact.stream_key(0, "x") == KEY
    assert [reference_draw(0, "x", index) for index in range(3)] == DRAWS
    assert exact.integers(0, "x", (3,), 63).tolist() == [draw >> 1 for draw in DRAWS]
    assert exact.floats(0, "x", (3,)).tolist() == FLOATS
    assert [value.hex() for value in exact.spread(0, "x", (3,)).tolist()] == SPREAD


@settings(deadline=None)
@given(seed=SEEDS, stream=STREAMS, shape=SHAPES, bits=st.integers(1, 64))
def test_integers_are_the_high_bits_of_the_draws(
    seed: int, stream: int | str, shape: tuple[int, ...], bits: int
) -> None:
    expected = [draw >> (64 - bits) for draw in draws(seed, stream, shape)]
    signed = [sign_extended(value, bits) for value in expected]

    if bits < 64:
        tensor = exact.integers(seed, stream, shape, bits)
        array = exact.numpy_integers(seed, stream, shape, bits)
        assert tensor.reshape(-1).tolist() == array.reshape(-1).tolist() == expected
        assert tensor.shape == array.shape == shape
        assert (tensor.dtype, array.dtype) == (torch.int64, np.int64)
    tensor = exact.signed_integers(seed, stream, shape, bits)
    array = exact.numpy_signed_integers(seed, stream, shape, bits)
    assert tensor.reshape(-1).tolist() == array.reshape(-1).tolist() == signed
    assert tensor.shape == array.shape == shape
    assert isinstance(array, np.ndarray)


@settings(deadline=None)
@given(seed=SEEDS, stream=STREAMS, shape=SHAPES, bound=st.integers(1, 1 << 31))
def test_bounded_integers_come_from_the_same_draws(
    seed: int, stream: int | str, shape: tuple[int, ...], bound: int
) -> None:
    numbers = draws(seed, stream, shape)

    tensor = exact.below(seed, stream, shape, bound)
    array = exact.numpy_below(seed, stream, shape, bound)
    assert tensor.reshape(-1).tolist() == [(draw >> 1) % bound for draw in numbers]
    assert (array.tolist(), array.shape) == (tensor.tolist(), shape)


@settings(deadline=None)
@given(data=st.data(), seed=SEEDS, stream=STREAMS, shape=SHAPES, name=st.sampled_from([*FORMATS]))
def test_floats_are_whole_numbers_times_a_power_of_two(
    data: st.DataObject, seed: int, stream: int | str, shape: tuple[int, ...], name: str
) -> None:
    digits, exponent_bits, form = FORMATS[name]
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = data.draw(st.integers(1 - bias + digits, bias - 1))
    expected = b""
    for draw in draws(seed, stream, shape):
        whole = sign_extended(draw >> (63 - digits), digits + 1)
        value = Fraction(whole) * Fraction(2) ** (exponent - digits)
        expected += struct.pack(form, encoded(value, name))

    tensor = exact.floats(seed, stream, shape, getattr(torch, name), exponent=exponent)

    assert (raw_bytes(tensor), tensor.shape) == (expected, shape)
    assert tensor.dtype == getattr(torch, name)
    if name in NUMPY_TYPES:
        array = exact.numpy_floats(seed, stream, shape, name, exponent=exponent)
        assert (array.tobytes(), array.shape, array.dtype) == (expected, shape, np.dtype(name))


@settings(deadline=None)
@given(data=st.data(), seed=SEEDS, stream=STREAMS, shape=SHAPES, name=st.sampled_from([*FORMATS]))
def test_spread_values_are_put_together_from_fields(
    data: st.DataObject, seed: int, stream: int | str, shape: tuple[int, ...], name: str
) -> None:
    digits, exponent_bits, form = FORMATS[name]
    bias = (1 << (exponent_bits - 1)) - 1
    lowest = data.draw(st.integers(1 - bias, bias - 1))
    highest = data.draw(st.integers(lowest, bias - 1))
    expected = b""
    for draw in draws(seed, stream, shape):
        exponent = lowest + (draw >> 53) % (highest - lowest + 1)
        significand = Fraction((draw & ((1 << (digits - 1)) - 1)) + (1 << (digits - 1)))
        sign = -1 if draw >> 52 & 1 else 1
        value = sign * significand * Fraction(2) ** (exponent - digits + 1)
        expected += struct.pack(form, encoded(value, name))

    dtype = getattr(torch, name)
    tensor = exact.spread(seed, stream, shape, dtype, lowest=lowest, highest=highest)

    assert (raw_bytes(tensor), tensor.shape, tensor.dtype) == (expected, shape, dtype)
    if name in NUMPY_TYPES:
        array = exact.numpy_spread(seed, stream, shape, name, lowest=lowest, highest=highest)
        assert (array.tobytes(), array.shape, array.dtype) == (expected, shape, np.dtype(name))


@pytest.mark.parametrize("name", FORMATS)
def test_values_use_every_digit_and_both_signs(name: str) -> None:
    digits = FORMATS[name][0]
    wide = exact.floats(1, "digits", (4096,), getattr(torch, name)).to(torch.float64)

    scaled = (wide * 2.0**digits).to(torch.int64)

    assert (scaled & 1).sum() > 1500
    assert 1500 < (wide < 0).sum() < 2600
    assert wide.abs().max() > 0.9


def test_streams_and_seeds_do_not_share_values() -> None:
    streams: list[exact.Stream] = ["a", "b", "", "1", 1, 10]
    keys = [(seed, stream) for seed in (0, 1, 10) for stream in streams]
    values = {tuple(exact.integers(seed, stream, (4,), 63).tolist()) for seed, stream in keys}

    assert len(values) == len(keys)


def test_a_longer_shape_begins_with_the_same_values() -> None:
    assert torch.equal(exact.floats(2, 0, (1000,))[:10], exact.floats(2, 0, (2, 5)).view(10))


@pytest.mark.parametrize(
    "call",
    [
        lambda: exact.integers(0, 0, (1,), 0),
        lambda: exact.integers(0, 0, (1,), 64),
        lambda: exact.signed_integers(0, 0, (1,), 65),
        lambda: exact.numpy_integers(0, 0, (1,), 64),
        lambda: exact.numpy_signed_integers(0, 0, (1,), 0),
        lambda: exact.below(0, 0, (1,), 0),
        lambda: exact.numpy_below(0, 0, (1,), (1 << 31) + 1),
        lambda: exact.floats(0, 0, (1,), torch.int32),
        lambda: exact.numpy_floats(0, 0, (1,), "bfloat16"),
        lambda: exact.floats(0, 0, (1,), torch.float16, exponent=15),
        lambda: exact.floats(0, 0, (1,), torch.float16, exponent=-4),
        lambda: exact.spread(0, 0, (1,), torch.float32, lowest=3, highest=2),
        lambda: exact.numpy_spread(0, 0, (1,), "float16", lowest=-15),
    ],
)
def test_what_could_not_be_exact_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"must be|no exact|no normal"):
        call()
