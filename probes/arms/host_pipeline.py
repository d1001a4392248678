"""Cases of the data arm that are a training data pipeline: seeds, shuffles, blends, indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitsect.probes.arms.host_cases import Array, Cases, Draw, HostCase

COUNT = 2000
WEIGHTS = (0.3, 0.25, 0.2, 0.125, 0.1, 0.025)


def _case(operation: str, seed: int, run: Any, dtype: str = "int64") -> HostCase:
    seeds = np.array(seed, dtype=np.int64)
    return HostCase("random", dtype, operation, (seeds,), lambda _: run(seed))


def _shuffled(state: Any, count: int) -> Array:
    values = np.arange(count, dtype=np.int64)
    state.shuffle(values)
    return values


def legacy_generator(draw: Draw) -> Cases:
    """The generator that most data pipelines still seed."""
    seed = 1234 + draw.seed
    of = np.random.RandomState
    runs: tuple[tuple[str, str, Any], ...] = (
        ("shuffle", "int64", lambda s: _shuffled(of(s), COUNT)),
        ("shuffle.rows", "int64", lambda s: _shuffled_rows(of(s))),
        ("permutation", "int64", lambda s: of(s).permutation(COUNT)),
        ("randint", "int64", lambda s: of(s).randint(0, 50257, COUNT)),
        ("choice", "int64", lambda s: of(s).choice(len(WEIGHTS), COUNT, p=WEIGHTS)),
        ("choice.unique", "int64", lambda s: of(s).choice(COUNT, 100, replace=False)),
        ("multinomial", "int64", lambda s: of(s).multinomial(COUNT, WEIGHTS)),
        ("poisson", "int64", lambda s: of(s).poisson(3.5, COUNT)),
        ("geometric", "int64", lambda s: of(s).geometric(0.2, COUNT)),
        ("binomial", "int64", lambda s: of(s).binomial(40, 0.3, COUNT)),
        ("zipf", "int64", lambda s: of(s).zipf(1.7, COUNT)),
        ("random_sample", "float64", lambda s: of(s).random_sample(COUNT)),
        ("randn", "float64", lambda s: of(s).randn(COUNT)),
        ("normal", "float64", lambda s: of(s).normal(0.0, 0.02, COUNT)),
        ("uniform", "float64", lambda s: of(s).uniform(-3.0, 3.0, COUNT)),
        ("gamma", "float64", lambda s: of(s).gamma(0.7, 2.0, COUNT)),
        ("beta", "float64", lambda s: of(s).beta(0.8, 0.8, COUNT)),
        ("dirichlet", "float64", lambda s: of(s).dirichlet([0.5] * 7, 20)),
        ("lognormal", "float64", lambda s: of(s).lognormal(0.0, 1.0, COUNT)),
    )
    for name, dtype, run in runs:
        yield _case("RandomState." + name, seed, run, dtype)


def _shuffled_rows(state: Any) -> Array:
    rows = np.arange(600, dtype=np.int64).reshape(200, 3)
    state.shuffle(rows)
    return rows


def _global_shuffle(seed: int) -> tuple[Array, Any]:
    """The process-wide generator, put back afterwards."""
    kept = np.random.get_state()
    try:
        np.random.seed(seed)
        values = np.arange(COUNT, dtype=np.int64)
        np.random.shuffle(values)
        return values, np.random.rand(7)
    finally:
        np.random.set_state(kept)


def modern_generator(draw: Draw) -> Cases:
    seed = 1234 + draw.seed
    of = np.random.default_rng
    runs: tuple[tuple[str, str, Any], ...] = (
        ("shuffle", "int64", lambda s: _shuffled(of(s), COUNT)),
        ("permutation", "int64", lambda s: of(s).permutation(COUNT)),
        ("permuted", "int64", lambda s: of(s).permuted(np.arange(600).reshape(20, 30), axis=1)),
        ("integers", "int64", lambda s: of(s).integers(0, 50257, COUNT)),
        ("integers.int32", "int32", lambda s: of(s).integers(0, 1 << 20, COUNT, dtype=np.int32)),
        ("choice", "int64", lambda s: of(s).choice(len(WEIGHTS), COUNT, p=WEIGHTS)),
        ("choice.unique", "int64", lambda s: of(s).choice(COUNT, 100, replace=False)),
        ("multinomial", "int64", lambda s: of(s).multinomial(COUNT, WEIGHTS)),
        ("poisson", "int64", lambda s: of(s).poisson(3.5, COUNT)),
        ("geometric", "int64", lambda s: of(s).geometric(0.2, COUNT)),
        ("random", "float64", lambda s: of(s).random(COUNT)),
        ("random.float32", "float32", lambda s: of(s).random(COUNT, dtype=np.float32)),
        ("standard_normal", "float64", lambda s: of(s).standard_normal(COUNT)),
        ("standard_normal.float32", "float32", lambda s: of(s).standard_normal(COUNT, np.float32)),
        ("exponential", "float64", lambda s: of(s).exponential(1.5, COUNT)),
        ("gamma", "float64", lambda s: of(s).gamma(0.7, 2.0, COUNT)),
        ("dirichlet", "float64", lambda s: of(s).dirichlet([0.5] * 7, 20)),
        ("multivariate_normal", "float64", _correlated),
        ("bytes", "uint8", lambda s: of(s).bytes(64)),
    )
    for name, dtype, run in runs:
        yield _case("default_rng." + name, seed, run, dtype)
    yield _case("SeedSequence.spawn", seed, _spawned, "uint64")
    yield _case("seed.shuffle", seed, _global_shuffle)
    for engine in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"):
        yield _case(engine, seed, _raw_words(engine), "uint64")


def _correlated(seed: int) -> Any:
    covariance = np.array([[2.0, 0.5, 0.25], [0.5, 1.0, 0.125], [0.25, 0.125, 3.0]])
    return np.random.default_rng(seed).multivariate_normal(np.zeros(3), covariance, 50)


def _spawned(seed: int) -> Any:
    children = np.random.SeedSequence(seed).spawn(4)
    return np.concatenate([child.generate_state(4, np.uint64) for child in children])


def _raw_words(engine: str) -> Any:
    return lambda seed: getattr(np.random, engine)(seed).random_raw(256)


def pipeline(draw: Draw) -> Cases:
    """Index building as pretraining data loaders do it: documents, samples, shuffles, blends."""
    lengths = draw.below("document lengths", (300,), 900) + 5
    tokens = draw.below("tokens", (64, 257), 50257)
    seed = np.array(1234 + draw.seed, dtype=np.int64)
    weights = np.array(WEIGHTS)
    blend = np.abs(draw.floats("blend weights", (37,), "float64"))
    cases: tuple[tuple[str, str, tuple[Array, ...], Any], ...] = (
        ("document_index", "int32", (seed, lengths), _document_index),
        ("document_index.separate_last", "int32", (seed, lengths), _document_index_separate),
        ("sample_index", "int64", (seed, lengths), _sample_index),
        ("shuffle_index", "int64", (seed, lengths), _shuffle_index),
        ("blend.greedy", "int64", (weights,), _greedy_blend),
        ("blend.greedy", "int64", (blend,), _greedy_blend),
        ("blend.sampled", "int64", (seed, blend), _sampled_blend),
        ("blend.sizes", "int64", (blend,), _blend_sizes),
        ("blend.temperature", "float64", (lengths,), _temperature),
        ("splits", "int64", (lengths,), _splits),
        ("packing", "int64", (lengths,), _packing),
        ("masking", "int64", (seed, tokens), _masking),
        ("positions", "int64", (tokens,), _positions),
        ("token_frequencies", "float64", (tokens,), _frequencies),
        ("length_buckets", "int64", (lengths,), _buckets),
        ("learning_rates", "float64", (lengths[:1],), _learning_rates),
    )
    for name, dtype, inputs, run in cases:
        yield HostCase("pipeline", dtype, name, inputs, run)


def _generator(seed: Array) -> Any:
    return np.random.RandomState(int(seed))


def _document_index(seed: Array, lengths: Array, epochs: int = 3) -> Array:
    index = np.mgrid[0:epochs, 0 : len(lengths)][1].reshape(-1).astype(np.int32)
    _generator(seed).shuffle(index)
    return np.asarray(index)


def _document_index_separate(seed: Array, lengths: Array) -> Array:
    """All epochs but the last shuffled together, the last one apart."""
    state = _generator(seed)
    first = np.tile(np.arange(len(lengths), dtype=np.int32), 2)
    last = np.arange(len(lengths), dtype=np.int32)
    state.shuffle(first)
    state.shuffle(last)
    return np.concatenate((first, last))


def _sample_index(seed: Array, lengths: Array, sequence: int = 128) -> Array:
    """(document place, offset in it) of the start of each sample."""
    order = _document_index(seed, lengths)
    ends = np.cumsum(lengths[order])
    starts = np.arange(0, ends[-1] - 1, sequence)
    places = np.searchsorted(ends, starts, side="right")
    offsets = starts - (ends[places] - lengths[order][places])
    return np.stack((places, offsets), axis=1)


def _shuffle_index(seed: Array, lengths: Array) -> Array:
    samples = len(_sample_index(seed, lengths))
    state = _generator(seed)
    first = np.arange(samples * 2 // 3, dtype=np.uint32)
    last = np.arange(samples * 2 // 3, samples, dtype=np.uint32)
    state.shuffle(first)
    state.shuffle(last)
    return np.concatenate((first, last))


def _greedy_blend(weights: Array, size: int = 600) -> tuple[Array, Array]:
    """The dataset furthest behind its share gives the next sample."""
    share = weights / weights.sum()
    counts = np.zeros(len(share), dtype=np.int64)
    dataset = np.zeros(size, dtype=np.int16)
    sample = np.zeros(size, dtype=np.int64)
    for place in range(size):
        behind = share * max(place, 1) - counts
        chosen = int(np.argmax(behind))
        dataset[place], sample[place] = chosen, counts[chosen]
        counts[chosen] += 1
    return dataset, sample


def _sampled_blend(seed: Array, weights: Array) -> Array:
    share = weights / np.sum(weights)
    return np.asarray(_generator(seed).choice(len(share), size=COUNT, p=share))


def _blend_sizes(weights: Array) -> Array:
    share = weights / np.sum(weights)
    return np.asarray(np.ceil(share * 1.005 * 1_000_003).astype(np.int64))


def _temperature(lengths: Array) -> Array:
    """Shares of the datasets of a multilingual blend."""
    share = lengths / lengths.sum()
    flattened = share**0.3
    return np.asarray(flattened / flattened.sum())


def _splits(lengths: Array) -> Array:
    fractions = np.array([969.0, 30.0, 1.0])
    bounds = np.cumsum(fractions / fractions.sum()) * lengths.sum()
    return np.asarray(np.round(bounds).astype(np.int64))


def _packing(lengths: Array, room: int = 1024) -> Array:
    """First fit, longest first (ties in their own order): the bin of every document."""
    order = np.argsort(-lengths, kind="stable")
    left = np.full(len(lengths), room, dtype=np.int64)
    bins = np.zeros(len(lengths), dtype=np.int64)
    for document in order:
        chosen = int(np.argmax(left >= lengths[document]))
        bins[document] = chosen
        left[chosen] -= lengths[document]
    return bins


def _masking(seed: Array, tokens: Array) -> Array:
    state = _generator(seed)
    chosen = state.random_sample(tokens.shape) < 0.15
    kind = state.random_sample(tokens.shape)
    other = state.randint(0, 50257, tokens.shape)
    return np.where(chosen & (kind < 0.8), 103, np.where(chosen & (kind > 0.9), other, tokens))


def _positions(tokens: Array) -> tuple[Array, Array]:
    """Positions that start again after an end-of-document token, and the loss mask."""
    ends = tokens % 97 == 0
    place = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    starts = np.maximum.accumulate(np.where(np.roll(ends, 1, axis=1), place, 0), axis=1)
    return place - starts, (~ends).astype(np.float32)


def _frequencies(tokens: Array) -> tuple[Any, Any]:
    counts = np.bincount((tokens % 512).reshape(-1), minlength=512)
    share = counts / counts.sum()
    return np.sqrt(1e-3 / np.maximum(share, 1e-9)), -np.sum(share * np.log(np.maximum(share, 1e-9)))


def _buckets(lengths: Array) -> Array:
    edges = np.unique(np.logspace(3, 10, 15, base=2).astype(np.int64))
    return np.asarray(np.digitize(lengths, edges))


def _learning_rates(_: Array) -> Array:
    step = np.arange(1000, dtype=np.float64)
    cosine = 0.5 * (1.0 + np.cos(np.pi * step / 1000))
    return np.minimum(step / 50, 1.0) * 3e-4 * cosine


TABLES = (legacy_generator, modern_generator, pipeline)
