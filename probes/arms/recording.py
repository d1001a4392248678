"""How an arm turns what it computed into events, in order, with few transfers from a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, Protocol, Union

import torch

from bitsect.probes.errors import HostError
from bitsect.probes.fingerprint import Fingerprinter, Handle, certificate
from bitsect.probes.trace_records import Event, EventKey

BATCH = 256

Mark = Union[str, Handle]


class Sink(Protocol):
    """Where events go: a trace writer, or a list's owner in a test."""

    def write(self, event: Event) -> None: ...


class _Pending(NamedTuple):
    key: EventKey
    inputs: tuple[Mark, ...]
    outputs: tuple[Mark, ...]
    certificates: tuple[str, ...]
    note: str | None


class Numbering:
    """Counts the cases of each operation: a case's number is its events' occurrence."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def next(self, scope: str, operation: str) -> int:
        number = self._counts[scope, operation]
        self._counts[scope, operation] += 1
        return number


class Recorder:
    """Writes events in the order they were added; fingerprints are fetched in batches.

    :param sink: gets the events.
    :param certify_host: SHA-256 of every output that lies in host memory.
    :param certify_device: the same for outputs on an accelerator; each is copied to the host.
    """

    def __init__(self, sink: Sink, certify_host: bool, certify_device: bool = False) -> None:
        self.certify_host = certify_host
        self.certify_device = certify_device
        self._sink = sink
        self._fingerprinter = Fingerprinter()
        self._pending: list[_Pending] = []

    def mark(self, tensor: torch.Tensor) -> Handle:
        """The fingerprint of the tensor's present bits, to be fetched later."""
        return self._fingerprinter.add(tensor)

    def certificates(self, tensors: Iterable[torch.Tensor]) -> tuple[str, ...]:
        """SHA-256 of each of one event's outputs, or nothing if one is not to be certified."""
        kept = tuple(tensors)
        wanted = (
            self.certify_host if tensor.device.type == "cpu" else self.certify_device
            for tensor in kept
        )
        return tuple(certificate(tensor) for tensor in kept) if all(wanted) else ()

    def add(
        self,
        key: EventKey,
        inputs: Iterable[Mark],
        outputs: Iterable[Mark] = (),
        certificates: Iterable[str] = (),
        note: str | None = None,
    ) -> None:
        pending = _Pending(key, tuple(inputs), tuple(outputs), tuple(certificates), note)
        self._pending.append(pending)
        if len(self._pending) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Fetch what is still on a device and hand everything to the sink."""
        self._fingerprinter.resolve()
        for key, inputs, outputs, certificates, note in self._pending:
            self._sink.write(Event(key, _texts(inputs), _texts(outputs), certificates, note))
        self._pending.clear()


def _texts(marks: tuple[Mark, ...]) -> tuple[str, ...]:
    return tuple(mark if isinstance(mark, str) else mark.text for mark in marks)


def raised(error: Exception) -> str:
    """The note of an operation that this stack cannot do.

    Too little memory is the machine's state and no answer of the stack: HostError.
    """
    # torch has no class of its own for what its CPU allocator cannot get.
    refused = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    if refused or isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        raise HostError("there is not enough memory") from error
    return f"raised {type(error).__name__}"
