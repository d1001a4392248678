"""Where the bytes of a fingerprint come from, as rows of 32-bit words.

Bytes are in row-major order of the elements, little-endian as they lie in memory; the last word
is filled up with zeros. What lies ready is handed out as views; everything else is gathered into
one reused row, so that no more than a few MiB are ever taken beside the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch

from bitsect.probes.errors import FingerprintError

# At most so many bytes of a tensor that does not lie in order are copied at a time.
GATHER_BYTES = 1 << 18

_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Source(Protocol):
    """Bytes to fingerprint."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    @property
    def device(self) -> torch.device:
        """Where they are."""

    def rows(self, lanes: int) -> Iterator[torch.Tensor]:
        """Yield int32 rows of ``lanes`` words (the last may be shorter).

        A row is valid until the next is asked for.
        """


class TensorSource:
    """The bytes of a dense tensor, wherever and however it lies."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self.size: int = tensor.numel() * tensor.element_size()
        self.device: torch.device = tensor.device

    def rows(self, lanes: int) -> Iterator[torch.Tensor]:
        if _lies_ready(self._tensor):
            return _direct_rows(_flat(self._tensor).view(torch.int8), lanes)
        return _gathered_rows(self.pieces(), lanes, self.device)

    def pieces(self, limit: int = GATHER_BYTES) -> Iterator[torch.Tensor]:
        """Yield the bytes in order, as int8 ``[n]`` of at most ``limit`` bytes (one element)."""
        elements = max(1, limit // self._tensor.element_size())
        for block in _blocks(self._tensor, elements):
            yield _bytes_of(block)


class BufferSource:
    """Bytes in the memory of this process, read-only or not."""

    device = torch.device("cpu")

    def __init__(self, raw: memoryview) -> None:
        self._raw = raw
        self.size: int = raw.nbytes

    def rows(self, lanes: int) -> Iterator[torch.Tensor]:
        if not self._raw.readonly:
            return _direct_rows(torch.frombuffer(self._raw, dtype=torch.int8), lanes)
        return self._copied_rows(lanes)

    def _copied_rows(self, lanes: int) -> Iterator[torch.Tensor]:
        """Copy row by row: torch accepts memory that it may not write only under protest."""
        row = bytearray(4 * lanes)
        words = torch.frombuffer(row, dtype=torch.int32)
        for start in range(0, self.size, len(row)):
            part = self._raw[start : start + len(row)]
            count = -(-part.nbytes // 4)
            row[: part.nbytes] = part
            row[part.nbytes : 4 * count] = bytes(4 * count - part.nbytes)
            yield words[:count]


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor itself as a plain one without history; FingerprintError if it cannot be.

    A conjugate or negative bit is left in place.
    """
    reason = _reason_against(tensor)
    if reason is not None:
        raise FingerprintError(str(tensor.dtype), reason)
    plain = tensor.detach()
    return plain if type(plain) is torch.Tensor else plain.as_subclass(torch.Tensor)


def _reason_against(tensor: torch.Tensor) -> str | None:
    # A class that answers for the operators itself need not hold any bytes.
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return f"a {type(tensor).__name__} wraps other tensors: fingerprint those"
    if tensor.layout != torch.strided or tensor.is_nested:
        return f"its layout is {tensor.layout}: fingerprint the tensors that it consists of"
    if tensor.is_quantized:
        return "it is quantised: fingerprint int_repr(), scales and zero points"
    if tensor.device.type == "meta":
        return "it is on the meta device, where there are no values"
    return None


def _lies_ready(tensor: torch.Tensor) -> bool:
    return (
        tensor.is_contiguous()
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.storage_offset() * tensor.element_size() % 4 == 0
        and tensor.data_ptr() % 4 == 0
    )


def _direct_rows(data: torch.Tensor, lanes: int) -> Iterator[torch.Tensor]:
    whole = data.numel() // 4 * 4
    if whole == data.numel():
        yield from data.view(torch.int32).unsafe_split(lanes)
        return
    ready = data.numel() // (4 * lanes) * (4 * lanes)
    if ready:
        yield from data[:ready].view(torch.int32).unsafe_split(lanes)
    yield from _gathered_rows(iter([data[ready:]]), lanes, data.device)


def _gathered_rows(
    pieces: Iterator[torch.Tensor], lanes: int, device: torch.device
) -> Iterator[torch.Tensor]:
    row = torch.zeros(lanes, dtype=torch.int32, device=device)
    place = row.view(torch.int8)
    filled, capacity = 0, place.numel()
    for piece in pieces:
        start, size = 0, piece.numel()
        while start < size:
            count = min(size - start, capacity - filled)
            place[filled : filled + count].copy_(piece[start : start + count])
            start += count
            filled += count
            if filled == capacity:
                yield row
                filled = 0
    if filled:
        words = -(-filled // 4)
        place[filled : 4 * words].zero_()
        yield row[:words]


def _blocks(tensor: torch.Tensor, limit: int) -> Iterator[torch.Tensor]:
    """Cut a tensor, in row-major order, into views of at most ``limit`` elements."""
    if tensor.numel() <= limit:
        yield tensor
        return
    length = tensor.shape[0]
    inner = tensor.numel() // length
    if inner > limit:
        for index in range(length):
            yield from _blocks(tensor[index], limit)
        return
    step = limit // inner
    for start in range(0, length, step):
        yield tensor[start : start + step]


def _bytes_of(block: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a small view, int8 ``[n]``, as copies where it is not in order."""
    resolved = block.resolve_conj().resolve_neg()
    if resolved.is_complex():
        resolved = torch.view_as_real(resolved)
    # As whole numbers: some types cannot even be copied.
    numbers = resolved.view(_WHOLE[resolved.element_size()])
    return _flat(numbers.contiguous()).view(torch.int8)


def _flat(contiguous: torch.Tensor) -> torch.Tensor:
    # A single element counts as contiguous whatever its stride, which view() would object to.
    return contiguous.as_strided((contiguous.numel(),), (1,))
