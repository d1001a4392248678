"""Cases of the data arm that map each element alone: arithmetic, transcendental, conversions."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy as np

from bitsect.probes.arms.host_cases import FLOATS, Array, Cases, Draw, HostCase, backwards, named

COUNT = 4096


class Reach(NamedTuple):
    """Exponents that a type's cases cover: ordinary sizes, and arguments past every reduction."""

    lowest: int
    highest: int
    largest: int


REACHES = {
    "float16": Reach(-10, 2, 13),
    "float32": Reach(-30, 5, 120),
    "float64": Reach(-60, 8, 1000),
}

REAL = ("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "arctan", "arcsinh", "cbrt", "sinc", "i0")
PERIODIC = ("sin", "cos", "tan")
POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "reciprocal")
UNIT = ("arcsin", "arccos", "arctanh")
ABOVE_ONE = ("arccosh",)
BINARY = (
    "add", "multiply", "divide", "arctan2", "hypot", "logaddexp", "logaddexp2", "fmod",
    "remainder", "floor_divide", "nextafter", "copysign", "heaviside",
)  # fmt: skip
ROUNDING = ("rint", "floor", "ceil", "trunc", "spacing", "modf", "frexp", "square")


def real(draw: Draw, dtype: str, large: bool = False) -> tuple[Array, ...]:
    """(ordinary, many exponents[, large]) arguments of either sign."""
    reach = REACHES[dtype]
    near = draw.floats("near", (COUNT,), dtype, 2)
    wide = draw.spread("wide", (COUNT,), dtype, reach.lowest, reach.highest)
    if not large:
        return near, wide
    return near, wide, draw.spread("large", (COUNT,), dtype, reach.highest, reach.largest)


def positive(draw: Draw, dtype: str) -> tuple[Array, ...]:
    return tuple(np.abs(values) for values in real(draw, dtype, large=True))


def unit(draw: Draw, dtype: str) -> tuple[Array, ...]:
    reach = REACHES[dtype]
    wide = draw.spread("unit wide", (COUNT,), dtype, reach.lowest, -1)
    return draw.floats("unit", (COUNT,), dtype), wide


def above_one(draw: Draw, dtype: str) -> tuple[Array, ...]:
    reach = REACHES[dtype]
    return (np.abs(draw.spread("above one", (COUNT,), dtype, 0, reach.highest)),)


def with_layouts(values: tuple[Array, ...]) -> tuple[Array, ...]:
    """Adds what the vector loops treat apart: every other element, and a short unaligned tail."""
    return (*values, values[0][::2], values[0][1:14])


def transcendental(draw: Draw) -> Cases:
    for dtype in ("float16", *FLOATS):
        tables = (
            (REAL, real(draw, dtype)),
            (PERIODIC, real(draw, dtype, large=True)),
            (POSITIVE, positive(draw, dtype)),
            (UNIT, unit(draw, dtype)),
            (ABOVE_ONE, above_one(draw, dtype)),
        )
        for names, values in tables:
            for name in names:
                for argument in with_layouts(values):
                    yield HostCase("transcendental", dtype, name, (argument,), named(name))


def power_cases(draw: Draw, dtype: str) -> Cases:
    near = real(draw, dtype)[0]
    base, wide_base, _ = positive(draw, dtype)
    whole = draw.below("whole exponents", (COUNT,), 9).astype(dtype) - np.array(4, dtype)
    pairs = [(base, near), (wide_base, near), (near, whole), (base[::2], near[::2])]
    pairs.append((base[1:14], near[1:14]))
    for pair in pairs:
        yield HostCase("transcendental", dtype, "power", pair, named("power"))
    for exponent in (2, 3, 0.5, -1, 1.5):
        run = _power_of_scalar(exponent)
        yield HostCase("transcendental", dtype, "power.scalar", (wide_base,), run)
    yield HostCase("transcendental", dtype, "float_power", (base, near), named("float_power"))


def _power_of_scalar(exponent: float) -> Any:
    return lambda values: values**exponent


def binary(draw: Draw) -> Cases:
    for dtype in FLOATS:
        yield from power_cases(draw, dtype)
        near, wide = real(draw, dtype)
        other = draw.floats("other", (COUNT,), dtype, 2)
        for name in BINARY:
            for pair in ((near, other), (wide, other), (near[::2], other[::2])):
                yield HostCase("arithmetic", dtype, name, pair, named(name))
        for name in ROUNDING:
            yield HostCase("arithmetic", dtype, name, (wide,), named(name))
        yield HostCase("arithmetic", dtype, "clip", (near,), _clip)
        yield HostCase("arithmetic", dtype, "where", (near, other), _where)
        yield HostCase("arithmetic", dtype, "nan_to_num", (near,), _nan_to_num)
        yield HostCase("arithmetic", dtype, "round.decimals", (near,), lambda a: np.round(a, 3))
        yield HostCase("arithmetic", dtype, "normalize", (near, other), _normalize)


def _clip(values: Array) -> Array:
    return np.asarray(np.clip(values, values.dtype.type(-1.5), values.dtype.type(1.25)))


def _where(first: Array, second: Array) -> Array:
    return np.where(first > second, first, second * first)


def _nan_to_num(values: Array) -> Array:
    return np.nan_to_num(np.where(values > 1, np.nan, np.where(values < -1, np.inf, values)))


def _normalize(first: Array, second: Array) -> Array:
    """As features are standardised: several temporaries of one expression."""
    scale = np.abs(second) + first.dtype.type(0.5)
    return np.asarray((first - second) / scale * first + second)


def complex_numbers(draw: Draw) -> Cases:
    for dtype, part in (("complex64", "float32"), ("complex128", "float64")):
        values = draw.floats("real part", (COUNT,), part, 1) + np.array(1j, dtype) * draw.floats(
            "imaginary part", (COUNT,), part, 1
        )
        for name in ("abs", "exp", "log", "sqrt", "sin", "tanh", "square", "reciprocal", "angle"):
            yield HostCase("complex", dtype, name, (values,), named(name))
        pair = (values, backwards(values))
        yield HostCase("complex", dtype, "multiply", pair, named("multiply"))
        yield HostCase("complex", dtype, "power", pair, named("power"))


def conversions(draw: Draw) -> Cases:
    double = draw.spread("to convert", (COUNT,), "float64", -30, 14)
    single, half = double.astype("float32"), double.astype("float16")
    whole = draw.below("to float", (COUNT,), 1 << 31) * (1 << 31) + 12345
    targets = (
        (double, "float32"), (double, "float16"), (single, "float16"), (single, "float64"),
        (half, "float32"), (double, "int64"), (single, "int32"), (double, "int16"),
        (whole, "float64"), (whole, "float32"), (whole, "int32"), (double, "bool"),
    )  # fmt: skip
    for values, target in targets:
        run = _cast_to(target)
        yield HostCase("convert", str(values.dtype), "astype." + target, (values,), run)
    for values in (half, single, double):
        yield from _texts(values[:256])


def _cast_to(target: str) -> Any:
    return lambda values: values.astype(target)


def _texts(values: Array) -> Cases:
    dtype = str(values.dtype)
    runs = {
        "text.str": lambda a: " ".join(str(value) for value in a),
        "text.round_trip": lambda a: np.array([str(value) for value in a]).astype(a.dtype),
        "text.scientific": lambda a: " ".join(np.format_float_scientific(value) for value in a),
        "text.positional": lambda a: " ".join(
            np.format_float_positional(value, precision=6) for value in a
        ),
        "text.array": lambda a: np.array2string(a, threshold=10000, max_line_width=80),
        "text.savetxt": _savetxt,
        "text.loadtxt": lambda a: np.loadtxt(io.StringIO(_savetxt(a)), dtype=a.dtype),
        "bytes.save": _saved,
    }
    for name, run in runs.items():
        yield HostCase("convert", dtype, name, (values,), run)


def _savetxt(values: Array) -> str:
    stream = io.StringIO()
    np.savetxt(stream, values, fmt="%.9g")
    return stream.getvalue()


def _saved(values: Array) -> Any:
    stream = io.BytesIO()
    np.save(stream, values)
    stream.seek(0)
    return np.load(stream)


TABLES = (transcendental, binary, complex_numbers, conversions)
