"""A short name for the exact bits of a tensor, made where the tensor lies.

``float32[2,3]:<32 hex digits>``: dtype and shape, then a 128-bit digest of the bytes in row-major
order. It depends on every bit and on its place; it does not depend on the device, the number of
threads, strides or chunking. It is made to see accidents, not to withstand an attacker:
:func:`certificate` (SHA-256) is for that.
"""

from __future__ import annotations

import hashlib
import math
import pickle
import platform
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from bitsect.probes.errors import FingerprintError, SelfCheckError
from bitsect.probes.fingerprint_lanes import (
    FACTORS,
    LEVELS,
    ROWS_WORTH_A_FOLD,
    CopiedLanes,
    InPlaceLanes,
    Lanes,
    finish,
    fold,
    mix,
)
from bitsect.probes.fingerprint_words import BufferSource, Source, TensorSource, dense

_DTYPE_NAME = re.compile(r"[^\s:\[\],]+")
# Case, words of 64 bits, stride, levels, digest: from the definition in plain Python.
_KNOWN_STEP = 0x1E3779B97F4A7C15
_KNOWN_ANSWERS: tuple[tuple[str, int, int, tuple[int, ...], str], ...] = (
    ("mixed", 9, 1, (), "a631aa5300859216e9b4661fb0cd4895"),
    ("folded", 401, 1, (16, 4), "5c1ed3043b85c8f38a758ce9782b0f05"),
    ("gathered", 401, 3, (64, 8), "b68bbb6b60d7274141de5708115e948f"),
)
# Where a word may start at any byte.
_TOLERANT_MACHINES = ("x86_64", "amd64", "aarch64", "arm64")


class Handle:
    """A fingerprint that was asked for and may still be on its device."""

    __slots__ = ("_text",)

    def __init__(self) -> None:
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The fingerprint; ValueError before its Fingerprinter has resolved it."""
        if self._text is None:
            raise ValueError("this fingerprint is still on its device: call resolve() first")
        return self._text


class Fingerprinter:
    """Takes fingerprints now and fetches them later, with one transfer for each device."""

    def __init__(self) -> None:
        self._staged: list[tuple[Handle, str, int, torch.Tensor]] = []

    def add(self, tensor: torch.Tensor) -> Handle:
        """Fingerprint the bits that the tensor has now; later changes to it do not matter.

        FingerprintError for a tensor without plain bytes (sparse, meta, quantised, a wrapper).
        """
        handle = Handle()
        plain = dense(tensor)
        source = TensorSource(plain)
        self._staged.append((handle, _header_of(plain), source.size, sums(source)))
        return handle

    def resolve(self) -> tuple[str, ...]:
        """Fetch everything added since the last call; return the texts in the order of adding."""
        staged, self._staged = self._staged, []
        by_device: dict[torch.device, list[int]] = {}
        for index, (_, _, _, pair) in enumerate(staged):
            by_device.setdefault(pair.device, []).append(index)
        texts = [""] * len(staged)
        for indices in by_device.values():
            fetched = torch.stack([staged[index][3] for index in indices]).tolist()
            for index, (first, second) in zip(indices, fetched):
                handle, header, size, _ = staged[index]
                texts[index] = handle._text = f"{header}:{finish(first, second, size)}"
        return tuple(texts)


def fingerprint(tensor: torch.Tensor) -> str:
    """Return the fingerprint of one tensor, e.g. ``float32[2,3]:<32 hex digits>``."""
    batch = Fingerprinter()
    batch.add(tensor)
    return batch.resolve()[0]


def fingerprint_buffer(buffer: Any, dtype: str, shape: Sequence[int]) -> str:
    """Return what :func:`fingerprint` returns for a tensor of these bytes, dtype and shape.

    ``buffer`` is any C-contiguous object with the buffer protocol, such as a NumPy array;
    ``dtype`` may be a name that torch does not know. FingerprintError when they do not fit.
    """
    raw = _raw_bytes(buffer, dtype, shape)
    first, second = sums(BufferSource(raw)).tolist()
    return f"{_header(dtype, shape)}:{finish(first, second, raw.nbytes)}"


def certificate(tensor: torch.Tensor) -> str:
    """Return the SHA-256, 64 hex digits, over dtype, shape and bytes of a tensor."""
    plain = dense(tensor)
    digest = hashlib.sha256(_certificate_header(_header_of(plain)))
    with torch.no_grad():
        for piece in TensorSource(plain).pieces():
            raw = bytearray(piece.numel())
            if raw:
                torch.frombuffer(raw, dtype=torch.int8).copy_(piece)
            digest.update(raw)
    return digest.hexdigest()


def certificate_buffer(buffer: Any, dtype: str, shape: Sequence[int]) -> str:
    """Return what :func:`certificate` returns for a tensor of these bytes, dtype and shape."""
    raw = _raw_bytes(buffer, dtype, shape)
    digest = hashlib.sha256(_certificate_header(_header(dtype, shape)))
    digest.update(raw)
    return digest.hexdigest()


class _Scratch(threading.local):
    """The CPU's lanes, kept by every thread: making them costs as much as a fold."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lanes] = {}


_scratch = _Scratch()


def _lanes_on(lanes: int, device: torch.device) -> Lanes:
    # Elsewhere torch's own allocator is quick, and knows which stream uses what.
    if device.type != "cpu":
        return CopiedLanes(lanes, device)
    found = _scratch.lanes.get(lanes)
    if found is None:
        tolerant = platform.machine().lower() in _TOLERANT_MACHINES
        found = InPlaceLanes(lanes) if tolerant else CopiedLanes(lanes, device)
        _scratch.lanes[lanes] = found
    return found


def sums(
    source: Source,
    levels: Sequence[int] = LEVELS,
    lanes_on: Callable[[int, torch.device], Lanes] = _lanes_on,
) -> torch.Tensor:
    """Return the two sums of a source, int64 ``[2]`` on its device.

    ``levels`` holds even, falling lane counts, at most three. Others than the standard ones give
    other fingerprints: small ones reach every turn of a fold with little data.
    """
    with torch.no_grad(), torch.inference_mode(False):
        count = -(-source.size // 8) * 2
        words: torch.Tensor | None = None
        for lanes, factors in zip(levels, FACTORS):
            if count <= ROWS_WORTH_A_FOLD * lanes:
                continue
            rows = source.rows(lanes) if words is None else iter(words.unsafe_split(lanes))
            words = fold(rows, lanes_on(lanes, source.device), factors)
            count = lanes + 2
        if words is None:
            words = _gather(source, count)
        return mix(words.view(torch.int64))


def self_check(device: str = "cpu") -> None:
    """Compute known answers on ``device``; SelfCheckError if one comes out differently.

    Takes milliseconds. It is for stacks whose integer arithmetic or copies are broken.
    """
    for case, count, step, levels, expected in _KNOWN_ANSWERS:
        numbers = torch.arange(1, count * step + 1, dtype=torch.int64, device=device)
        source = TensorSource(numbers.mul_(_KNOWN_STEP)[::step])
        first, second = sums(source, levels).tolist()
        actual = finish(first, second, source.size)
        if actual != expected:
            raise SelfCheckError(device, case, expected, actual)


def _gather(source: Source, count: int) -> torch.Tensor:
    words = torch.zeros(count, dtype=torch.int32, device=source.device)
    if source.size:
        for row in source.rows(count):
            words[: row.numel()].copy_(row)
    return words


def _header(dtype: str, shape: Iterable[int]) -> str:
    return f"{dtype}[{','.join(str(int(length)) for length in shape)}]"


def _header_of(tensor: torch.Tensor) -> str:
    return _header(_name(tensor.dtype), tensor.shape)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).rsplit(".", 1)[-1]


def _certificate_header(header: str) -> bytes:
    return f"bitsect certificate 1\n{header}\n".encode()


def _raw_bytes(buffer: Any, dtype: str, shape: Sequence[int]) -> memoryview:
    if not _DTYPE_NAME.fullmatch(dtype):
        raise FingerprintError(dtype, "this cannot be the name of a dtype")
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError, BufferError) as error:
        raise FingerprintError(dtype, f"no memory to read: {error}") from error
    if not view.c_contiguous:
        raise FingerprintError(dtype, "the buffer is not C-contiguous")
    # Unlike cast() this takes every element format, also those that Python cannot spell.
    raw = pickle.PickleBuffer(view).raw()
    count = math.prod(shape)
    known = getattr(torch, dtype, None)
    if isinstance(known, torch.dtype):
        fits = raw.nbytes == count * known.itemsize
    else:
        fits = raw.nbytes % count == 0 if count else raw.nbytes == 0
    if not fits:
        raise FingerprintError(dtype, f"{raw.nbytes} bytes do not make a shape {tuple(shape)}")
    return raw
