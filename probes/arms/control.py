"""The control arm: operations that are nondeterministic or wrong on purpose.

If one of them is not noticed, nothing that the probe did not notice means anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Callable

import torch

from bitsect.probes import control, exact
from bitsect.probes.arms.recording import Recorder
from bitsect.probes.fingerprint import (
    certificate,
    certificate_buffer,
    fingerprint,
    fingerprint_buffer,
)

Tensor = torch.Tensor
Pair = tuple[str, str, str]

VALUES = 512


def run(recorder: Recorder, seed: int, device: str) -> None:
    """Add one event for each control; detectors are tried on ``device`` and on the host."""
    values = exact.spread(seed, "arrivals", (VALUES,), torch.float32, lowest=-6, highest=6)
    key = control.key_of("nondeterministic", "arrival_order")
    recorder.add(key, [recorder.mark(values)], [recorder.mark(arrival_sums(values))])
    for name, original, altered in detections(seed, device):
        caught = (original == altered) == (name in control.AGREEMENTS)
        note = control.CAUGHT if caught else control.MISSED
        recorder.add(control.key_of("detector", name), [original], [altered], note=note)
    recorder.flush()


def arrival_sums(values: Tensor) -> Tensor:
    """Every partial sum of the values in an order that no two processes share.

    This is what a reduction by atomic additions does, without waiting for the hardware to race.
    """
    noise = torch.frombuffer(bytearray(os.urandom(8 * len(values))), dtype=torch.int64)
    return torch.cumsum(values[torch.argsort(noise)], 0)


def detections(seed: int, device: str) -> Iterator[Pair]:
    """(name, fingerprint of the original, fingerprint of what was made of it) of every control."""
    whole = exact.spread(seed, "controls", (6, 8), torch.float32, device=device)
    original = fingerprint(whole)
    for name, altered in alterations(whole):
        yield name, original, fingerprint(altered)
    for name, before, after in special_values(device):
        yield name, fingerprint(before), fingerprint(after)
    yield "copy_agrees", original, fingerprint(whole.clone())
    yield "strided_agrees", original, fingerprint(whole.t().contiguous().t())
    yield from host_detections(whole.cpu(), original)


def alterations(whole: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Tensors that hold nearly the same bits as this one, of (6, 8) float32."""
    yield "permuting_writer", whole.reshape(-1).flip(0).reshape(whole.shape)
    yield "swapped_pair", _edited(whole, _swap)
    yield "last_bit", _edited(whole, _flip_one)
    yield "cancelling_pair", _edited(whole, _flip_two)
    yield "other_dtype", whole.view(torch.int32)
    yield "other_shape", whole.reshape(8, 6)
    yield "transposed", whole.reshape(8, 6).t().contiguous()
    yield "missing_element", whole.reshape(-1)[:-1]


def special_values(device: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Pairs that an equality of numbers calls equal, or that it cannot tell apart."""
    zero = torch.zeros(5, device=device)
    negated = zero.clone()
    negated[3] = -0.0
    yield "negated_zero", zero, negated
    payloads = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32, device=device)
    yield "nan_payload", payloads[:1].view(torch.float32), payloads[1:].view(torch.float32)
    placed = torch.zeros(64, device=device)
    placed[7] = 1.0
    yield "moved_zero", placed, placed.roll(8)


def _edited(whole: Tensor, edit: Callable[[Tensor], None]) -> Tensor:
    words = whole.view(torch.int32).clone().reshape(-1)
    edit(words)
    return words.view(torch.float32).reshape(whole.shape)


def _swap(words: Tensor) -> None:
    words[[3, 20]] = words[[20, 3]]


def _flip_one(words: Tensor) -> None:
    words[17] ^= 1


def _flip_two(words: Tensor) -> None:
    """The same bit in two places: an exclusive or of all words stays as it was."""
    words[[9, 33]] ^= 1 << 12


def host_detections(whole: Tensor, original: str) -> Iterator[Pair]:
    """The same for the way by which NumPy's arrays go, and for certificates."""
    raw = bytearray(whole.numel() * 4)
    torch.frombuffer(raw, dtype=torch.float32).copy_(whole.reshape(-1))
    flipped, swapped = bytearray(raw), bytearray(raw)
    flipped[68] ^= 1
    swapped[:4], swapped[40:44] = raw[40:44], raw[:4]
    shape = tuple(whole.shape)
    plain = fingerprint_buffer(raw, "float32", shape)
    yield "host_agrees", original, plain
    yield "host.swapped_pair", plain, fingerprint_buffer(swapped, "float32", shape)
    yield "host.last_bit", plain, fingerprint_buffer(flipped, "float32", shape)
    certified = _marked(certificate(whole))
    for name, data in (("certificate_agrees", raw), ("certificate.last_bit", flipped)):
        yield name, certified, _marked(certificate_buffer(data, "float32", shape))


def _marked(certified: str) -> str:
    """A certificate as events hold their inputs and outputs: by the fingerprint of its text."""
    text = certified.encode()
    return fingerprint_buffer(text, "uint8", (len(text),))
