"""Cases of the kernels arm that multiply and add up: GEMM, convolution, attention."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.nn import functional

from bitsect.probes.arms.kernel_cases import Case, Cases, Draw, Tensor, dtype_of, named

FLOATS = ("float32", "float64", "bfloat16", "float16")
TRAINED = ("float32", "bfloat16")

Sizes = tuple[int, int, int]

# (rows, columns, inner): a training projection in small, an odd one, and a long inner dimension.
LAYOUTS: tuple[tuple[str, Sizes], ...] = (
    ("mm.nn", (64, 96, 128)),
    ("mm.nn", (17, 33, 65)),
    ("mm.nn", (16, 16, 4096)),
    ("mm.nt", (64, 96, 128)),
    ("mm.tn", (64, 96, 128)),
)


def _operands(draw: Draw, layout: str, sizes: Sizes, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    rows, columns, inner = sizes
    left = (inner, rows) if layout == "mm.tn" else (rows, inner)
    right = (columns, inner) if layout == "mm.nt" else (inner, columns)
    return draw.floats("left", left, dtype), draw.floats("right", right, dtype)


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mm.nn": lambda a, b: torch.mm(a, b),
    "mm.nt": lambda a, b: torch.mm(a, b.t()),
    "mm.tn": lambda a, b: torch.mm(a.t(), b),
}


def gemm(draw: Draw) -> Cases:
    for name in FLOATS:
        dtype = dtype_of(name)
        for layout, sizes in LAYOUTS:
            operands = _operands(draw, layout, sizes, dtype)
            yield Case("gemm", name, layout, operands, PRODUCTS[layout], gradient=True)
        matrix, vector = draw.floats("left", (65, 129), dtype), draw.floats("vector", (129,), dtype)
        yield Case("gemm", name, "mv", (matrix, vector), named("mv"), gradient=True)
        yield Case("gemm", name, "dot", (vector, matrix[0]), named("dot"), gradient=True)
        bias = draw.floats("bias", (96,), dtype)
        pair = _operands(draw, "mm.nn", (64, 96, 128), dtype)
        yield Case("gemm", name, "addmm", (bias, *pair), named("addmm"), gradient=True)
        left = draw.floats("left", (6, 33, 48), dtype)
        right = draw.floats("right", (6, 48, 20), dtype)
        yield Case("gemm", name, "bmm", (left, right), named("bmm"), gradient=True)
        added = draw.floats("added", (6, 33, 20), dtype)
        yield Case("gemm", name, "baddbmm", (added, left, right), named("baddbmm"), gradient=True)
        yield Case("gemm", name, "einsum", (left, right), _einsum, gradient=True)
    for name in TRAINED:
        yield from _linear(draw, name)
    yield from _whole_numbers(draw)


def _einsum(left: Tensor, right: Tensor) -> Tensor:
    return torch.einsum("bij,bjk->ikb", left, right)


def _linear(draw: Draw, name: str) -> Cases:
    dtype = dtype_of(name)
    tokens = draw.floats("tokens", (2, 64, 128), dtype)
    weight, bias = draw.floats("weight", (192, 128), dtype), draw.floats("bias", (192,), dtype)
    linear = named("nn.functional.linear")
    yield Case("gemm", name, "linear", (tokens, weight), linear, gradient=True)
    yield Case("gemm", name, "linear.bias", (tokens, weight, bias), linear, gradient=True)
    accumulated = draw.floats("main gradient", (192, 128), torch.float32)
    output = draw.floats("output gradient", (128, 192), dtype)
    inputs = (accumulated, output, tokens.reshape(128, 128))
    yield Case("gemm", name, "weight_gradient.accumulate", inputs, _accumulate)


def _accumulate(main: Tensor, output: Tensor, tokens: Tensor) -> Tensor:
    """A float32 main gradient that two microbatches add to."""
    return main + torch.mm(output.t(), tokens).float() + torch.mm(output.t(), tokens).float()


def _whole_numbers(draw: Draw) -> Cases:
    codes = draw.below("codes", (64, 128), 200) - 100
    left, right = codes.to(torch.int8), codes.t().contiguous()[:, :32].to(torch.int8)
    yield Case("gemm", "int8", "_int_mm", (left, right), named("_int_mm"))


def scaled(draw: Draw) -> Cases:
    """FP8 products with one scale for a tensor or one for each row."""
    rows, columns, inner = 64, 48, 128
    row_scale = draw.spread("row scale", (rows, 1), torch.float32, -3, 3).abs()
    column_scale = draw.spread("column scale", (1, columns), torch.float32, -3, 3).abs()
    # There is no product of two e5m2 operands: gradients meet e4m3 weights.
    right = draw.floats("right", (columns, inner), torch.float8_e4m3fn)
    for name in ("float8_e4m3fn", "float8_e5m2"):
        left = draw.floats("left", (rows, inner), dtype_of(name))
        for suffix, scales in (
            ("tensor", (row_scale[0, 0].clone(), column_scale[0, 0].clone())),
            ("row", (row_scale, column_scale)),
        ):
            inputs = (left, right, *scales)
            yield Case("gemm", name, "_scaled_mm." + suffix, inputs, _scaled_product)


def _scaled_product(left: Tensor, right: Tensor, left_scale: Tensor, right_scale: Tensor) -> Any:
    return torch._scaled_mm(
        left, right.t(), scale_a=left_scale, scale_b=right_scale, out_dtype=torch.bfloat16
    )


def grouped(draw: Draw) -> Cases:
    tokens = draw.floats("tokens", (128, 64), torch.bfloat16)
    weights = draw.floats("experts", (4, 64, 48), torch.bfloat16)
    ends = torch.tensor([16, 48, 112, 128], dtype=torch.int32, device=draw.device)
    inputs = (tokens, weights, ends)
    yield Case("gemm", "bfloat16", "grouped_mm", inputs, _grouped, gradient=True)


def _grouped(tokens: Tensor, weights: Tensor, ends: Tensor) -> Any:
    function = getattr(functional, "grouped_mm", None) or torch._grouped_mm
    return function(tokens, weights, offs=ends)


def convolutions(draw: Draw) -> Cases:
    for name in TRAINED:
        dtype = dtype_of(name)
        channels = 64
        signal = draw.floats("signal", (2, channels, 80), dtype)
        taps, bias = draw.floats("taps", (channels, 1, 4), dtype), draw.floats("b", (64,), dtype)
        inputs = (signal, taps, bias)
        yield Case("conv", name, "causal_conv1d", inputs, _causal, gradient=True)
        yield Case("conv", name, "causal_conv1d.silu", inputs, _causal_silu, gradient=True)
        dense = draw.floats("dense taps", (32, channels, 3), dtype)
        convolve = named("nn.functional.conv1d", padding=1)
        yield Case("conv", name, "conv1d", (signal, dense), convolve, gradient=True)
        image = draw.floats("image", (2, 8, 14, 14), dtype)
        kernel = draw.floats("kernel", (16, 8, 3, 3), dtype)
        convolve = named("nn.functional.conv2d", padding=1, stride=2)
        yield Case("conv", name, "conv2d", (image, kernel), convolve, gradient=True)


def _causal(signal: Tensor, taps: Tensor, bias: Tensor) -> Tensor:
    """Depthwise: each channel sees itself and the three steps before."""
    length, reach = signal.shape[-1], taps.shape[-1] - 1
    full = functional.conv1d(signal, taps, bias, padding=reach, groups=signal.shape[1])
    return full[..., :length]


def _causal_silu(signal: Tensor, taps: Tensor, bias: Tensor) -> Tensor:
    return functional.silu(_causal(signal, taps, bias))


BACKENDS = {
    "cpu": ("MATH", "FLASH_ATTENTION"),
    "cuda": ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"),
}


def attention(draw: Draw) -> Cases:
    """Grouped-query, causal, by backend; and written out, as a reference that names no backend."""
    for name in TRAINED:
        dtype = dtype_of(name)
        query = draw.floats("query", (2, 8, 64, 64), dtype)
        key = draw.floats("key", (2, 2, 64, 64), dtype)
        value = draw.floats("value", (2, 2, 64, 64), dtype)
        inputs = (query, key, value)
        for backend in BACKENDS[draw.device]:
            run = _attention_by(backend)
            yield Case("attention", name, "gqa." + backend.lower(), inputs, run, gradient=True)
        yield Case("attention", name, "gqa.default", inputs, _attention, gradient=True)
        yield Case("attention", name, "gqa.plain", inputs, _plain_attention, gradient=True)


def _attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    groups = query.shape[1] // key.shape[1]
    wide_key, wide_value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    return functional.scaled_dot_product_attention(query, wide_key, wide_value, is_causal=True)


def _attention_by(backend: str) -> Callable[..., Any]:
    def run(query: Tensor, key: Tensor, value: Tensor) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(getattr(SDPBackend, backend)):
            return _attention(query, key, value)

    return run


def _plain_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    groups = query.shape[1] // key.shape[1]
    wide_key, wide_value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    # 2**-3 is the exact scale of heads of 64.
    scores = torch.matmul(query, wide_key.transpose(-1, -2)) * 0.125
    length = query.shape[2]
    future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
    weights = torch.softmax(scores.float().masked_fill(future, float("-inf")), dim=-1)
    return torch.matmul(weights.to(query.dtype), wide_value)


TABLES = (gemm, scaled, grouped, convolutions, attention)
