"""Cases of the kernels arm that are a hybrid model's own blocks: scan, experts, loss, optimiser."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.nn import functional

from bitsect.probes.arms.kernel_cases import Case, Cases, Draw, Tensor, dtype_of, named

TRAINED = ("float32", "bfloat16")


def chunk_scans(draw: Draw) -> Cases:
    """Mamba-2's state-space scan over three chunks: (batch, length, heads, head size)."""
    batch, length, heads, size, groups, state = 2, 96, 8, 16, 2, 32
    for name in TRAINED:
        dtype = dtype_of(name)
        inputs = (
            draw.floats("scan x", (batch, length, heads, size), dtype),
            draw.floats("scan dt", (batch, length, heads), torch.float32),
            draw.floats("scan a", (heads,), torch.float32),
            draw.floats("scan b", (batch, length, groups, state), dtype),
            draw.floats("scan c", (batch, length, groups, state), dtype),
            draw.floats("scan d", (heads,), torch.float32),
        )
        yield Case("ssm", name, "ssd_chunk_scan", inputs, chunk_scan, gradient=True)


def chunk_scan(
    x: Tensor, dt: Tensor, a_log: Tensor, b: Tensor, c: Tensor, d: Tensor, chunk: int = 32
) -> Tensor:
    """State-space duality in plain torch: a product inside chunks, a recurrence between them.

    :param x: (batch, length, heads, head size); ``b`` and ``c``: (batch, length, groups, state).
    :param dt: (batch, length, heads), before softplus; ``a_log``, ``d``: (heads,).
    :returns: (batch, length, heads, head size) in the dtype of ``x``.
    """
    heads = x.shape[2]
    step = functional.softplus(dt)
    decay = step * -torch.exp(a_log)
    # (batch, heads, length, …) in float32, as the kernels accumulate.
    values = (x.float() * step[..., None]).transpose(1, 2)
    keys, queries = (
        t.float().repeat_interleave(heads // t.shape[2], dim=2).transpose(1, 2) for t in (b, c)
    )
    # A product with ones, since cumsum has no deterministic kernel on every device.
    ones = torch.ones(chunk, chunk, device=x.device).tril()
    state = torch.zeros(*values.shape[:2], b.shape[3], x.shape[3], device=x.device)
    parts = []
    for start in range(0, x.shape[1], chunk):
        here = slice(start, start + chunk)
        log_decay = torch.matmul(decay.transpose(1, 2)[:, :, here], ones.t())
        key, query, value = keys[:, :, here], queries[:, :, here], values[:, :, here]
        between = log_decay[..., :, None] - log_decay[..., None, :]
        mask = torch.exp(between.masked_fill(ones == 0, float("-inf")))
        inside = torch.matmul(torch.matmul(query, key.transpose(-1, -2)) * mask, value)
        before = torch.matmul(query * torch.exp(log_decay)[..., None], state)
        parts.append(inside + before)
        to_end = torch.exp(log_decay[..., -1:] - log_decay)
        added = torch.matmul((key * to_end[..., None]).transpose(-1, -2), value)
        state = state * torch.exp(log_decay[..., -1])[..., None, None] + added
    scanned = torch.cat(parts, dim=2).transpose(1, 2)
    return (scanned + x.float() * d[:, None]).to(x.dtype)


def norms(draw: Draw) -> Cases:
    for name in TRAINED:
        dtype = dtype_of(name)
        tokens, gate = draw.floats("tokens", (64, 256), dtype), draw.floats("g", (64, 256), dtype)
        weight, bias = draw.floats("weight", (256,), dtype), draw.floats("bias", (256,), dtype)
        cases: tuple[tuple[str, tuple[Tensor, ...], Callable[..., Any]], ...] = (
            ("rms_norm", (tokens, weight), _rms_norm),
            ("rms_norm.plain", (tokens, weight), _plain_rms_norm),
            ("rms_norm.gated", (tokens, gate, weight), _gated_rms_norm),
            ("layer_norm", (tokens, weight, bias), _layer_norm),
            ("group_norm", (tokens, weight, bias), _group_norm),
            ("softmax", (tokens,), named("softmax", dim=-1)),
            ("softmax.rows", (tokens,), named("softmax", dim=0)),
            ("log_softmax", (tokens,), named("log_softmax", dim=-1)),
            ("logsumexp", (tokens,), named("logsumexp", dim=-1)),
            ("normalize", (tokens,), named("nn.functional.normalize", dim=-1)),
        )
        for operation, inputs, run in cases:
            yield Case("norm", name, operation, inputs, run, gradient=True)


def _rms_norm(tokens: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(tokens, (tokens.shape[-1],), weight, 2.0**-17)


def _plain_rms_norm(tokens: Tensor, weight: Tensor) -> Tensor:
    wide = tokens.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 2.0**-17)
    return (wide * scale).to(tokens.dtype) * weight


def _gated_rms_norm(tokens: Tensor, gate: Tensor, weight: Tensor, groups: int = 4) -> Tensor:
    """Mamba-2's: gated first, then normalised in groups of channels."""
    wide = tokens.float() * functional.silu(gate.float())
    grouped = wide.reshape(wide.shape[0], groups, -1)
    scale = torch.rsqrt(grouped.pow(2).mean(-1, keepdim=True) + 2.0**-17)
    return ((grouped * scale).reshape(wide.shape) * weight.float()).to(tokens.dtype)


def _layer_norm(tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(tokens, (tokens.shape[-1],), weight, bias)


def _group_norm(tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.group_norm(tokens, 8, weight, bias)


ACTIVATIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("squared_relu", lambda x: functional.relu(x).square()),
    ("silu", named("nn.functional.silu")),
    ("gelu", named("nn.functional.gelu")),
    ("gelu.tanh", named("nn.functional.gelu", approximate="tanh")),
    ("softplus", named("nn.functional.softplus")),
    ("mish", named("nn.functional.mish")),
    ("sigmoid", named("sigmoid")),
    ("tanh", named("tanh")),
    ("swiglu", lambda x: functional.silu(x[:, ::2]) * x[:, 1::2]),
)


def activations(draw: Draw) -> Cases:
    for name in TRAINED:
        values = draw.floats("activations", (65, 130), dtype_of(name), 3)
        for operation, run in ACTIVATIONS:
            yield Case("activation", name, operation, (values,), run, gradient=True)


TOKENS, EXPERTS, CHOSEN, HIDDEN = 128, 8, 2, 64


def experts(draw: Draw) -> Cases:
    """A sigmoid router with expert bias and auxiliary loss, and the way to the experts and back."""
    weight = draw.floats("router", (EXPERTS, HIDDEN), torch.float32)
    bias = draw.floats("expert bias", (EXPERTS,), torch.float32, -4)
    for name in TRAINED:
        dtype = dtype_of(name)
        tokens = draw.floats("tokens", (TOKENS, HIDDEN), dtype)
        inputs = (tokens, weight, bias)
        yield Case("moe", name, "router.probabilities", inputs, _router, gradient=True)
        yield Case("moe", name, "router.choice", inputs, _router_choice)
        yield Case("moe", name, "router.auxiliary_loss", inputs, _auxiliary_loss, gradient=True)
        routes = draw.below("routes", (TOKENS * CHOSEN,), EXPERTS)
        shares = draw.floats("shares", (TOKENS * CHOSEN,), torch.float32).abs()
        yield Case("moe", name, "permute", (tokens, routes), _permute, gradient=True)
        rows = draw.floats("expert rows", (TOKENS * CHOSEN, HIDDEN), dtype)
        unpermuted = (rows, shares, routes)
        yield Case("moe", name, "unpermute", unpermuted, _unpermute, gradient=True)
        up = draw.floats("up", (EXPERTS, HIDDEN, 32), dtype)
        down = draw.floats("down", (EXPERTS, 32, HIDDEN), dtype)
        whole = (tokens, routes, shares, up, down)
        yield Case("moe", name, "experts", whole, _experts, gradient=True)


def _scores(tokens: Tensor, weight: Tensor) -> Tensor:
    return torch.sigmoid(functional.linear(tokens.float(), weight))


def _choose(tokens: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """(all scores, chosen experts): the bias takes part in the choice, not in the score."""
    scores = _scores(tokens, weight)
    return scores, torch.topk((scores + bias).detach(), CHOSEN, dim=-1).indices


def _router(tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    scores, chosen = _choose(tokens, weight, bias)
    shares = scores.gather(1, chosen)
    return shares / (shares.sum(-1, keepdim=True) + 2.0**-66) * 2.5


def _router_choice(tokens: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Chosen experts, their loads, and the bias after its update."""
    _, chosen = _choose(tokens, weight, bias)
    loads = functional.one_hot(chosen.reshape(-1), EXPERTS).sum(0)
    short = loads.float().mean() - loads.float()
    return chosen, loads, bias + torch.sign(short) * 2.0**-10


def _auxiliary_loss(tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    scores, chosen = _choose(tokens, weight, bias)
    loads = functional.one_hot(chosen, EXPERTS).sum((0, 1)).float()
    shares = (scores / scores.sum(-1, keepdim=True)).mean(0)
    return (shares * loads).sum() * (EXPERTS / (CHOSEN * tokens.shape[0]))


def _permute(tokens: Tensor, routes: Tensor) -> Tensor:
    order = torch.argsort(routes, stable=True)
    return tokens.index_select(0, order // CHOSEN)


def _unpermute(rows: Tensor, shares: Tensor, routes: Tensor) -> Tensor:
    order = torch.argsort(routes, stable=True)
    weighted = rows.float() * shares.index_select(0, order)[:, None]
    empty = torch.zeros(len(routes) // CHOSEN, rows.shape[1], device=rows.device)
    return empty.index_add(0, order // CHOSEN, weighted).to(rows.dtype)


def _experts(tokens: Tensor, routes: Tensor, shares: Tensor, up: Tensor, down: Tensor) -> Tensor:
    rows = _permute(tokens, routes)
    loads = functional.one_hot(routes, EXPERTS).sum(0).tolist()
    parts = []
    for expert, part in enumerate(torch.split_with_sizes(rows, loads)):
        hidden = functional.relu(part @ up[expert]).square()
        parts.append(hidden @ down[expert])
    return _unpermute(torch.cat(parts), shares, routes)


def losses(draw: Draw) -> Cases:
    for name in TRAINED:
        dtype = dtype_of(name)
        logits = draw.floats("logits", (64, 515), dtype, 3)
        labels = draw.below("labels", (64,), 515)
        cases: tuple[tuple[str, Callable[..., Any]], ...] = (
            ("cross_entropy", named("nn.functional.cross_entropy")),
            ("cross_entropy.sum", named("nn.functional.cross_entropy", reduction="sum")),
            ("cross_entropy.float32", lambda x, y: functional.cross_entropy(x.float(), y)),
            ("cross_entropy.plain", _plain_cross_entropy),
            ("cross_entropy.z_loss", _z_loss),
        )
        for operation, run in cases:
            yield Case("loss", name, operation, (logits, labels), run, gradient=True)
        other = draw.floats("targets", (64, 515), dtype, 3)
        mean = named("nn.functional.mse_loss")
        yield Case("loss", name, "mse_loss", (logits, other), mean, gradient=True)


def _plain_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """As a vocabulary split over ranks computes it, on one rank."""
    wide = logits.float()
    shifted = wide - wide.max(-1, keepdim=True).values
    chosen = shifted.gather(1, labels[:, None])[:, 0]
    return (torch.log(torch.exp(shifted).sum(-1)) - chosen).mean()


def _z_loss(logits: Tensor, labels: Tensor) -> Tensor:
    partition = torch.logsumexp(logits.float(), dim=-1)
    return functional.cross_entropy(logits.float(), labels) + partition.square().mean() * 2.0**-13


def optimisers(draw: Draw) -> Cases:
    shapes = ((64, 48), (129,), (3, 5, 7))
    parameters = tuple(draw.floats(f"parameter {s}", s, torch.float32) for s in shapes)
    gradients = tuple(draw.floats(f"gradient {s}", s, torch.float32, -4) for s in shapes)
    both = parameters + gradients
    for kind in ("single", "foreach", "fused"):
        yield Case("optimiser", "float32", "adamw." + kind, both, _adamw(kind))
    yield Case("optimiser", "float32", "adamw.master_weights", both, _master_weights)
    yield Case("optimiser", "float32", "sgd.momentum", both, _momentum)
    yield Case("optimiser", "float32", "orthogonalise", (both[0],), _orthogonalise)
    for kind, foreach in (("single", False), ("foreach", True)):
        yield Case("optimiser", "float32", "clip_grad_norm." + kind, both, _clip(foreach))
    yield Case("optimiser", "float32", "count_zeros", both[3:], _count_zeros)


def _halves(tensors: tuple[Tensor, ...]) -> tuple[list[Tensor], list[Tensor]]:
    """(parameters, gradients) of one's own from (parameters…, gradients…)."""
    owned = [tensor.clone() for tensor in tensors]
    return owned[: len(owned) // 2], owned[len(owned) // 2 :]


# The functions that the optimiser classes call: the classes would load the compiler.


def _adamw(kind: str) -> Callable[..., Any]:
    options: dict[str, Any] = {
        "foreach": kind == "foreach", "fused": kind == "fused", "amsgrad": False,
        "beta1": 0.9, "beta2": 0.95, "lr": 2.0**-10, "weight_decay": 0.1, "eps": 2.0**-27,
        "maximize": False,
    }  # fmt: skip

    def run(*tensors: Tensor) -> list[Tensor]:
        """Parameters and moments after two steps."""
        from torch.optim.adamw import adamw

        owned, gradients = _halves(tensors)
        first, second = (list(map(torch.zeros_like, owned)) for _ in range(2))
        on = owned[0].device if kind == "fused" else "cpu"
        counts = [torch.tensor(0.0, device=on) for _ in owned]
        for _ in range(2):
            adamw(owned, gradients, first, second, [], counts, **options)
        return owned + first + second

    return run


def _master_weights(*tensors: Tensor) -> list[Tensor]:
    """What a bfloat16 model gets back from float32 master weights."""
    return [updated.bfloat16() for updated in _adamw("single")(*tensors)[: len(tensors) // 2]]


def _momentum(*tensors: Tensor) -> list[Tensor]:
    from torch.optim.sgd import sgd

    owned, gradients = _halves(tensors)
    buffers: list[Tensor | None] = [None for _ in owned]
    for _ in range(2):
        sgd(
            owned, gradients, buffers, foreach=False, weight_decay=0.01, momentum=0.9,
            lr=2.0**-6, dampening=0.0, nesterov=False, maximize=False,
        )  # fmt: skip
    return owned + [buffer for buffer in buffers if buffer is not None]


def _clip(foreach: bool) -> Callable[..., Any]:
    def run(*tensors: Tensor) -> list[Tensor]:
        owned, gradients = _halves(tensors)
        for parameter, gradient in zip(owned, gradients):
            parameter.requires_grad_().grad = gradient
        norm = torch.nn.utils.clip_grad_norm_(owned, 0.5, foreach=foreach)
        return [norm] + [parameter.grad for parameter in owned if parameter.grad is not None]

    return run


def _count_zeros(*gradients: Tensor) -> Tensor:
    return torch.stack([(gradient == 0).sum() for gradient in gradients])


def _orthogonalise(matrix: Tensor) -> Tensor:
    """Five Newton-Schulz steps in bfloat16, as Muon takes them."""
    x = matrix.bfloat16()
    x = x.div(x.norm() + 2.0**-23)
    for _ in range(5):
        gram = x.t() @ x
        x = x.mul(3.4445) + x @ (gram.mul(-4.775) + gram.mul(2.0315) @ gram)
    return x


TABLES = (chunk_scans, norms, activations, experts, losses, optimisers)
