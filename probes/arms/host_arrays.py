"""Cases of the data arm that combine elements: reductions, scans, order, BLAS, linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitsect.probes.arms.host_cases import FLOATS, Array, Cases, Draw, HostCase, backwards, named

# Both sides of the lengths where summation changes its way: vector widths, the unrolled loop,
# the pairwise block of 128, the buffer of 8192 elements.
LENGTHS = (7, 8, 9, 15, 16, 17, 127, 128, 129, 1000, 8191, 8192, 8193, 65537)
TABLE = (67, 129)
COMPLEX = {"float32": "complex64", "float64": "complex128"}
REDUCTIONS = (
    "sum", "mean", "var", "std", "prod", "min", "max", "median", "ptp", "nansum", "nanmean",
)  # fmt: skip


def _reduce(name: str, **options: Any) -> Any:
    function = named(name)
    return lambda values: function(values, **options)


def reductions(draw: Draw) -> Cases:
    for dtype in ("float16", *FLOATS):
        line = draw.floats("line", (LENGTHS[-1],), dtype)
        table = draw.floats("table", TABLE, dtype)
        cube = draw.floats("cube", (13, 33, 17), dtype)
        for name in REDUCTIONS:
            # The product of many numbers below one is zero: a product near one says more.
            scale = _near_one if name == "prod" else _unchanged
            for length in LENGTHS if name in ("sum", "mean") else (9, 129, 8193):
                yield HostCase("reduction", dtype, name, (scale(line[:length]),), _reduce(name))
            whole, box = scale(table), scale(cube)
            places = (
                (".axis0", whole, 0), (".axis1", whole, 1), (".axis0", whole.T, 0),
                (".axis1", whole.T, 1), (".strided", whole[:, ::2], 1), (".strided", whole[::2], 0),
                (".strided", line[::3], None) if name != "prod" else (".strided", whole[::3], None),
                (".axes", box, (0, 2)), (".axes", box, (1, 2)), (".all", box, None),
                (".all", whole.T, None),
            )  # fmt: skip
            for suffix, values, axis in places:
                run = _reduce(name, axis=axis)
                yield HostCase("reduction", dtype, name + suffix, (values,), run)
        yield from _special_sums(dtype, line, table)


def _unchanged(values: Array) -> Array:
    return values


def _near_one(values: Array) -> Array:
    return np.asarray(values * values.dtype.type(2.0**-4) + values.dtype.type(1))


def _special_sums(dtype: str, line: Array, table: Array) -> Cases:
    weights = np.abs(line[:8193])
    starts = np.array([0, 5, 128, 300, 4096])
    runs: tuple[tuple[str, tuple[Array, ...], Any], ...] = (
        ("sum.float64", (line[:8193],), lambda a: np.sum(a, dtype=np.float64)),
        ("mean.float64", (line[:8193],), lambda a: np.mean(a, dtype=np.float64)),
        ("sum.where", (line[:8193],), lambda a: np.sum(a, where=a > 0)),
        ("add.reduceat", (line[:8193], starts), np.add.reduceat),
        ("average", (line[:8193], weights), lambda a, w: np.average(a, weights=w)),
        ("cov", (table[:8],), np.cov),
        ("corrcoef", (table[:8],), np.corrcoef),
        ("add.at", (line[:64], np.arange(512) % 64, line[:512]), _add_at),
    )
    for name, inputs, run in runs:
        yield HostCase("reduction", dtype, name, inputs, run)


def _add_at(target: Array, index: Array, values: Array) -> Array:
    result = target.copy()
    np.add.at(result, index, values)
    return result


def scans(draw: Draw) -> Cases:
    for dtype in FLOATS:
        line = draw.floats("line", (8193,), dtype)
        table = draw.floats("table", TABLE, dtype)
        for name in ("cumsum", "nancumsum", "diff", "logaddexp.accumulate", "maximum.accumulate"):
            yield HostCase("scan", dtype, name, (line,), named(name))
            for axis in (0, 1):
                yield HostCase("scan", dtype, name + ".axis", (table,), _reduce(name, axis=axis))
        near_one = _near_one(line)
        yield HostCase("scan", dtype, "cumprod", (near_one,), named("cumprod"))
        yield HostCase("scan", dtype, "cumsum.strided", (line[::3],), named("cumsum"))
        yield HostCase("scan", dtype, "gradient", (line[:1000],), named("gradient"))
        yield HostCase("scan", dtype, "ediff1d", (line[:1000],), named("ediff1d"))


def ordering(draw: Draw) -> Cases:
    keys = draw.below("tied keys", (5000,), 300)
    order = draw.distinct("order", 5000)
    edges = np.arange(0, 300, 7)
    for dtype in ("int32", "int64", *FLOATS):
        tied, single = keys.astype(dtype), order.astype(dtype)
        # Where ties have no order of their own, only keys without ties are asked.
        runs: tuple[tuple[str, tuple[Array, ...], Any], ...] = (
            ("sort", (tied,), np.sort),
            ("sort.stable", (tied,), lambda a: np.sort(a, kind="stable")),
            ("sort.axis0", (tied.reshape(50, 100),), lambda a: np.sort(a, axis=0)),
            ("argsort", (single,), np.argsort),
            ("argsort.stable", (tied,), lambda a: np.argsort(a, kind="stable")),
            ("partition", (single,), lambda a: _halves(np.partition(a, 1234), 1234)),
            ("argpartition", (single,), lambda a: _halves(np.argpartition(a, 1234), 1234)),
            ("searchsorted", (np.sort(tied), single), np.searchsorted),
            ("searchsorted.right", (np.sort(tied), single), _searchsorted_right),
            ("unique", (tied,), _unique),
            ("lexsort", (backwards(tied), tied), lambda a, b: np.lexsort((a, b))),
            ("histogram", (tied,), lambda a: np.histogram(a, bins=37)),
            ("digitize", (tied, edges.astype(dtype)), np.digitize),
            ("argmax", (tied,), lambda a: (np.argmax(a), np.argmin(a))),
            ("isin", (tied, tied[:40]), named("isin")),
        )
        for name, inputs, run in runs:
            yield HostCase("order", dtype, name, inputs, run)
    weights = draw.floats("line", (5000,), "float64")
    yield HostCase("order", "int64", "bincount", (keys,), np.bincount)
    yield HostCase("order", "float64", "bincount.weights", (keys, weights), np.bincount)
    yield HostCase("order", "float64", "histogram.weights", (weights, weights), _weighted_histogram)
    yield HostCase("order", "float64", "histogram2d", (weights, backwards(weights)), _histogram2d)


def _halves(values: Array, middle: int) -> tuple[Array, Array, Array]:
    return np.sort(values[:middle]), values[middle], np.sort(values[middle + 1 :])


def _searchsorted_right(table: Array, values: Array) -> Any:
    return np.searchsorted(table, values, side="right")


def _unique(values: Array) -> Any:
    return np.unique(values, return_index=True, return_inverse=True, return_counts=True)


def _weighted_histogram(values: Array, weights: Array) -> Any:
    return np.histogram(values, bins=29, weights=weights)


def _histogram2d(first: Array, second: Array) -> Any:
    return np.histogram2d(first, second, bins=7)


def products(draw: Draw) -> Cases:
    for dtype in FLOATS:
        for size in (7, 64, 129):
            a = draw.floats("left", (size, size), dtype)
            b = draw.floats("right", (size, size), dtype)
            runs: tuple[tuple[str, tuple[Array, ...], Any], ...] = (
                ("matmul.nn", (a, b), lambda x, y: x @ y),
                ("matmul.nt", (a, b), lambda x, y: x @ y.T),
                ("matmul.tn", (a, b), lambda x, y: x.T @ y),
                ("matmul.gram", (a,), lambda x: x @ x.T),
                ("matmul.vector", (a, b[0]), lambda x, y: x @ y),
                ("dot", (a[0], b[0]), np.dot),
                ("dot.strided", (a[:, 0], b[:, 1]), np.dot),
                ("inner", (a, b), np.inner),
                ("einsum", (a, b), lambda x, y: np.einsum("ij,jk->ik", x, y)),
                ("einsum.diagonal", (a, b), lambda x, y: np.einsum("ij,ij->i", x, y)),
                ("einsum.optimize", (a, b), _einsum_chain),
            )
            for name, inputs, run in runs:
                yield HostCase("blas", dtype, name, inputs, run)
        pair = (draw.floats("left", (5, 17, 23), dtype), draw.floats("right", (5, 23, 9), dtype))
        yield HostCase("blas", dtype, "matmul.batched", pair, np.matmul)
        line = draw.floats("line", (65537,), dtype)
        yield HostCase("blas", dtype, "dot", (line, backwards(line)), np.dot)
        yield HostCase("blas", dtype, "outer", (line[:65], line[65:130]), np.outer)
        yield HostCase("blas", dtype, "tensordot", pair[:1], _tensordot)
    whole = draw.below("whole", (33, 33), 1000)
    yield HostCase("blas", "int64", "matmul.nn", (whole, whole), lambda x, y: x @ y)


def _tensordot(a: Array) -> Any:
    return np.tensordot(a, a, ((1, 2), (1, 2)))


def _einsum_chain(a: Array, b: Array) -> Any:
    return np.einsum("ij,jk,kl->il", a, b, a, optimize=True)


def linear_algebra(draw: Draw) -> Cases:
    for dtype in FLOATS:
        for size in (5, 24, 65):
            square = draw.floats("square", (size, size), dtype)
            # Exact: integers over a power of two plus a whole number.
            dominant = square + np.eye(size, dtype=dtype) * dtype_of(dtype)(size)
            symmetric = np.tril(square) + np.tril(square, -1).T
            definite = symmetric + np.eye(size, dtype=dtype) * dtype_of(dtype)(size)
            runs: tuple[tuple[str, tuple[Array, ...], Any], ...] = (
                ("solve", (dominant, square[0]), named("linalg.solve")),
                ("solve.matrix", (dominant, square), named("linalg.solve")),
                ("inv", (dominant,), named("linalg.inv")),
                ("det", (square,), named("linalg.det")),
                ("slogdet", (dominant,), named("linalg.slogdet")),
                ("cholesky", (definite,), named("linalg.cholesky")),
                ("qr", (square,), named("linalg.qr")),
                ("svd", (square,), named("linalg.svd")),
                ("svdvals", (square,), _reduce("linalg.svd", compute_uv=False)),
                ("eigh", (symmetric,), named("linalg.eigh")),
                ("eigvals", (square,), named("linalg.eigvals")),
                ("pinv", (square,), named("linalg.pinv")),
                ("lstsq", (square[:, :3].copy(), square[0]), _lstsq),
                ("norm", (square,), named("linalg.norm")),
                ("norm.2", (square,), _reduce("linalg.norm", ord=2)),
                ("norm.axis1", (square,), _reduce("linalg.norm", axis=1)),
                ("matrix_power", (square,), lambda a: np.linalg.matrix_power(a, 5)),
            )
            for name, inputs, run in runs:
                yield HostCase("linalg", dtype, name, inputs, run)


def dtype_of(name: str) -> Any:
    return np.dtype(name).type


def _lstsq(matrix: Array, target: Array) -> Any:
    solution, residuals, rank, singular = np.linalg.lstsq(matrix, target, rcond=None)
    return solution, residuals, np.int64(rank), singular


def signals(draw: Draw) -> Cases:
    for dtype in FLOATS:
        line = draw.floats("line", (1000,), dtype)
        grid = np.arange(100, dtype=dtype)
        query = np.abs(draw.floats("query", (1000,), dtype, 7))
        runs: tuple[tuple[str, tuple[Array, ...], Any], ...] = (
            ("interp", (query, grid, line[:100]), np.interp),
            ("percentile", (line,), lambda a: np.percentile(a, [1, 25, 50, 99.9])),
            ("quantile.axis1", (line.reshape(10, 100),), lambda a: np.quantile(a, 0.3, axis=1)),
            ("convolve", (line, line[:33]), np.convolve),
            ("correlate", (line, line[:65]), lambda a, b: np.correlate(a, b, "same")),
            ("polyval", (line[:7], line), np.polyval),
            ("fft", (line[:128],), np.fft.fft),
            ("fft.prime", (line[:97],), np.fft.fft),
            ("rfft", (line[:960],), np.fft.rfft),
            ("irfft", (line[:62].copy().view(COMPLEX[dtype]),), np.fft.irfft),
            ("fft2", (line[:960].reshape(24, 40),), np.fft.fft2),
            ("linspace", (line[:2],), lambda a: np.linspace(a[0], a[1], 101, dtype=a.dtype)),
            ("geomspace", (grid[1:9],), lambda a: np.geomspace(a[0], a[-1], 101)),
            ("logspace", (grid[1:3],), lambda a: np.logspace(a[0], a[1], 101)),
            ("hanning", (grid[:1],), lambda a: np.hanning(101)),
            ("vander", (line[:9],), np.vander),
            ("arange.step", (grid[:1],), lambda a: np.arange(0, 1, 0.001, dtype=a.dtype)),
        )
        for name, inputs, run in runs:
            yield HostCase("signal", dtype, name, inputs, run)


TABLES = (reductions, scans, ordering, products, linear_algebra, signals)
