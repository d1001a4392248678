"""Cases of the kernels arm on elements and along axes: functions, casts, reductions, indices."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.nn import functional

from bitsect.probes.arms.kernel_cases import Case, Cases, Draw, Tensor, dtype_of, named

COUNT = 4096
EXPONENTS = {"float32": (-30, 5, 120), "float64": (-60, 8, 1000), "bfloat16": (-20, 3, 100)}

REAL = (
    "exp", "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "asinh", "erf",
    "erfc", "sigmoid", "special.i0", "special.expit",
)  # fmt: skip
POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "lgamma", "digamma")
UNIT = ("asin", "acos", "atanh", "erfinv")


def transcendental(draw: Draw) -> Cases:
    for name, (lowest, highest, largest) in EXPONENTS.items():
        dtype = dtype_of(name)
        near = draw.floats("near", (COUNT,), dtype, 2)
        wide = draw.spread("wide", (COUNT,), dtype, lowest, highest)
        large = draw.spread("large", (COUNT,), dtype, highest, largest)
        unit = draw.spread("unit", (COUNT,), dtype, lowest, -1)
        tables = (
            (REAL, (near, wide, near[::2])),
            (("sin", "cos", "tan"), (large,)),
            (POSITIVE, (near.abs(), wide.abs(), large.abs())),
            (UNIT, (unit,)),
        )
        for operations, arguments in tables:
            for operation in operations:
                for argument in arguments:
                    yield Case("transcendental", name, operation, (argument,), named(operation))
        pairs = ((near.abs(), near), (wide.abs(), near), (near[::2].abs(), near[1::2]))
        for operation in ("pow", "atan2", "hypot", "fmod", "remainder", "logaddexp", "xlogy"):
            for pair in pairs:
                yield Case("transcendental", name, operation, pair, named(operation))


def casts(draw: Draw) -> Cases:
    """Rounding to narrower types: ties, subnormal numbers, overflow."""
    double = draw.spread("to cast", (COUNT,), torch.float64, -30, 17)
    single = draw.spread("to cast", (COUNT,), torch.float32, -30, 17)
    narrow = draw.spread("to cast", (COUNT,), torch.bfloat16, -20, 9)
    # Sixteen bits below the last one that bfloat16 keeps: half of these are ties.
    ties = (draw.below("ties", (COUNT,), 1 << 9).float() * 2.0**-9) + 1
    targets = (
        (double, "float32"), (double, "bfloat16"), (double, "float16"), (single, "bfloat16"),
        (ties, "bfloat16"), (single, "float16"), (single, "float8_e4m3fn"),
        (single, "float8_e5m2"), (narrow, "float8_e4m3fn"), (narrow, "float8_e5m2"),
        (narrow, "float32"), (narrow, "float16"), (single, "float8_e8m0fnu"), (single, "int32"),
        (single, "int8"), (narrow, "int64"),
    )  # fmt: skip
    for values, target in targets:
        source = str(values.dtype).replace("torch.", "")
        yield Case("cast", source, "to." + target, (values,), _cast(target))


def _cast(target: str) -> Callable[..., Any]:
    return lambda values: values.to(dtype_of(target))


REDUCTIONS = ("sum", "mean", "var", "std", "amax", "linalg.vector_norm", "prod", "logsumexp")


def reductions(draw: Draw) -> Cases:
    for name in ("float32", "float64", "bfloat16", "float16"):
        dtype = dtype_of(name)
        table = draw.floats("table", (67, 129), dtype)
        line = draw.floats("line", (70001,), dtype)
        for operation in REDUCTIONS:
            near_one = operation == "prod"
            values = (table * 2.0**-4 + 1) if near_one else table
            for suffix, argument, dim in (
                (".axis0", values, 0),
                (".axis1", values, 1),
                (".axis1", values.t(), 1),
                (".strided", values[::2, ::3], 1),
            ):
                run = named(operation, dim=dim)
                yield Case("reduction", name, operation + suffix, (argument,), run, gradient=True)
        for operation in ("sum", "mean", "var", "norm", "linalg.vector_norm"):
            for argument in (line, line[:8193], line[:129], table.t()):
                yield Case("reduction", name, operation, (argument,), named(operation))
        narrow = (line[:8193],)
        wide_sum = named("sum", dtype=torch.float64)
        yield Case("reduction", name, "sum.float64", narrow, wide_sum)


def scans(draw: Draw) -> Cases:
    for name in ("float32", "float64"):
        table = draw.floats("table", (67, 129), dtype_of(name))
        for operation in ("cumsum", "logcumsumexp", "cumprod"):
            for dim in (0, 1):
                run = named(operation, dim=dim)
                yield Case("scan", name, operation, (table,), run, gradient=True)
    whole = draw.below("whole", (67, 129), 1000)
    yield Case("scan", "int64", "cumsum", (whole,), named("cumsum", dim=1))


def ordering(draw: Draw) -> Cases:
    """Where equal keys have no order of their own, the keys are distinct."""
    order = draw.distinct("order", 2000)
    tied = draw.below("tied", (2000,), 150)
    for name in ("float32", "bfloat16", "int64"):
        dtype = dtype_of(name)
        # Numbers up to 256 are all that bfloat16 tells apart.
        single = (order[order < 256] if name == "bfloat16" else order).to(dtype)
        many = tied.to(dtype)
        cases: tuple[tuple[str, Tensor, Callable[..., Any]], ...] = (
            ("sort", single, named("sort")),
            ("sort.stable", many, named("sort", stable=True, dim=0)),
            ("argsort.stable", many, named("argsort", stable=True)),
            ("topk", single, lambda x: torch.topk(x, 37)),
            ("kthvalue", single, lambda x: torch.kthvalue(x, 100)),
            ("unique", many, named("unique", return_inverse=True, return_counts=True)),
            ("searchsorted", single, lambda x: torch.searchsorted(torch.sort(x).values, x)),
        )
        for operation, values, run in cases:
            yield Case("order", name, operation, (values,), run)
    yield Case("order", "int64", "bincount", (tied,), named("bincount"))


ROWS, WIDTH, PLACES = 300, 64, 97


def indexing(draw: Draw) -> Cases:
    """Many rows to few places: the order of addition is what may differ."""
    index = draw.below("places", (ROWS,), PLACES)
    wide_index = index[:, None].expand(ROWS, WIDTH)
    for name in ("float32", "bfloat16"):
        dtype = dtype_of(name)
        rows = draw.floats("rows", (ROWS, WIDTH), dtype)
        target = draw.floats("target", (PLACES, WIDTH), dtype)
        cases: tuple[tuple[str, tuple[Tensor, ...], Callable[..., Any]], ...] = (
            ("embedding", (target, index), lambda t, i: functional.embedding(i, t)),
            ("scatter_add", (target, rows, wide_index), lambda t, r, i: t.scatter_add(0, i, r)),
            ("index_add", (target, rows, index), lambda t, r, i: t.index_add(0, i, r)),
            ("index_put.accumulate", (target, rows, index), _index_put),
            ("gather", (rows, wide_index), lambda r, i: r.gather(0, i)),
            ("index_select", (rows, index), lambda r, i: r.index_select(0, i)),
            ("scatter_reduce.amax", (target, rows, wide_index), _scatter_amax),
            ("where", (rows, rows.flip(0)), lambda a, b: torch.where(a > b, a, b * a)),
            ("repeat_interleave", (target,), lambda t: t.repeat_interleave(3, dim=0)),
        )
        for operation, inputs, run in cases:
            yield Case("index", name, operation, inputs, run, gradient=True)


def _index_put(target: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    return target.index_put((index,), rows, accumulate=True)


def _scatter_amax(target: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    return target.scatter_reduce(0, index, rows, reduce="amax")


def random_numbers(draw: Draw) -> Cases:
    """Streams of a seeded generator, which training draws masks and initial weights from."""
    seed = 1234 + draw.seed
    device = draw.device
    weights = draw.floats("weights", (5, 64), torch.float32).abs()
    values = draw.floats("values", (65, 129), torch.float32)
    seeds = torch.tensor(seed, device=device)
    cases: tuple[tuple[str, tuple[Tensor, ...], Callable[..., Any]], ...] = (
        ("rand", (seeds,), lambda _: torch.rand(2000, device=device)),
        ("randn", (seeds,), lambda _: torch.randn(2000, device=device)),
        ("randn.odd", (seeds,), lambda _: torch.randn(13, device=device)),
        ("randint", (seeds,), lambda _: torch.randint(0, 50257, (2000,), device=device)),
        ("randperm", (seeds,), lambda _: torch.randperm(2000, device=device)),
        ("bernoulli", (weights,), named("bernoulli")),
        ("multinomial", (weights,), lambda w: torch.multinomial(w, 20)),
        ("multinomial.replace", (weights,), lambda w: torch.multinomial(w, 99, replacement=True)),
        ("dropout", (values,), lambda x: functional.dropout(x, 0.1)),
        ("exponential", (seeds,), lambda _: torch.empty(2000, device=device).exponential_()),
        ("truncated_normal", (seeds,), lambda _: _truncated(device)),
        ("kaiming_uniform", (seeds,), lambda _: _kaiming(device)),
    )
    for operation, inputs, run in cases:
        yield Case("random", "float32", operation, inputs, _seeded(seed, run))
    yield Case("random", "bfloat16", "randn", (seeds,), _seeded(seed, _narrow_normal(device)))


def _narrow_normal(device: str) -> Callable[..., Any]:
    return lambda _: torch.randn(2000, device=device, dtype=torch.bfloat16)


def _seeded(seed: int, run: Callable[..., Any]) -> Callable[..., Any]:
    def call(*inputs: Tensor) -> Any:
        torch.manual_seed(seed)
        return run(*inputs)

    return call


def _truncated(device: str) -> Tensor:
    return torch.nn.init.trunc_normal_(torch.empty(33, 65, device=device), std=0.02)


def _kaiming(device: str) -> Tensor:
    return torch.nn.init.kaiming_uniform_(torch.empty(33, 65, device=device), a=5**0.5)


TABLES = (transcendental, casts, reductions, scans, ordering, indexing, random_numbers)
