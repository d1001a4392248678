"""The kernels arm: each operation alone on exact inputs, forward and backward, with torch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from bitsect.probes.arms import kernel_blocks, kernel_elements, kernel_products
from bitsect.probes.arms.kernel_cases import Case, Draw, Tensor
from bitsect.probes.arms.recording import Numbering, Recorder, raised
from bitsect.probes.fingerprint import Handle
from bitsect.probes.trace_records import EventKey

PARTS = (kernel_products, kernel_blocks, kernel_elements)


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of this arm."""
    for part in PARTS:
        for table in part.TABLES:
            yield from table(draw)


@contextmanager
def training_settings(device: str) -> Iterator[None]:
    """As a deterministic training run sets torch up; generators and settings are put back.

    The number of threads stays as the stack has it: bits depend on it.
    """
    before = torch.are_deterministic_algorithms_enabled()
    lenient = torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    devices = [torch.cuda.current_device()] if device == "cuda" else []
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _set_deterministic(True, False)
        # It costs time, and FP8 has no fill in every version.
        memory.fill_uninitialized_memory = False
        try:
            yield
        finally:
            memory.fill_uninitialized_memory = filled
            _set_deterministic(before, lenient)


def _set_deterministic(mode: bool, warn_only: bool) -> None:
    """As ``torch.use_deterministic_algorithms``, for eager operations alone.

    The public function also loads the compiler, to tell it; nothing here is compiled, and
    loading it costs more time than the whole arm.
    """
    direct = getattr(torch._C, "_set_deterministic_algorithms", None)
    if direct is None:
        torch.use_deterministic_algorithms(mode, warn_only=warn_only)
    else:
        direct(mode, warn_only=warn_only)


def provider(device: str) -> str:
    """Who computes this arm: torch, on the device that it runs on."""
    return f"torch {device}"


def run(recorder: Recorder, seed: int, device: str) -> None:
    """Add the events of this arm, computed on ``cpu`` or ``cuda``."""
    draw = Draw(seed, device)
    runner = CaseRunner(recorder, draw)
    with training_settings(device):
        for case in cases(draw):
            runner.run(case)
    recorder.flush()


class GivenGradients(torch.autograd.Function):
    """An end of a graph that sends given gradients back from it.

    ``torch.autograd.grad`` takes gradients too, but loads a symbolic algebra to look at them.
    """

    @staticmethod
    def forward(context: Any, gradients: Sequence[Tensor], *ends: Tensor) -> Tensor:
        context.gradients = gradients
        return torch.zeros((), device=ends[0].device)

    @staticmethod
    def backward(context: Any, *_: Tensor) -> Any:
        return (None, *context.gradients)


class CaseRunner:
    """Runs cases and adds their events."""

    def __init__(self, recorder: Recorder, draw: Draw) -> None:
        self.recorder = recorder
        self.draw = draw
        self._numbering = Numbering()
        # Views of one tensor differ in more than their address: the whole layout is the key.
        self._marks: dict[tuple[object, ...], tuple[Tensor, Handle]] = {}

    def run(self, case: Case) -> None:
        """Run one case forward, and backward where it has gradients; one event for each."""
        scope = f"kernels.{case.group}.{case.dtype}"
        number = self._numbering.next(scope, case.operation)
        forward = EventKey(0, 0, "forward", scope, case.operation, number)
        backward = EventKey(0, 0, "backward", scope, case.operation, number)
        marks = [self._mark(tensor) for tensor in case.inputs]
        leaves = [_leaf(tensor) if case.gradient else tensor for tensor in case.inputs]
        try:
            outputs = _tensors(case.run(*leaves))
            self._add(forward, marks, [output.detach() for output in outputs])
        except Exception as error:  # that this stack cannot do it is its answer
            self.recorder.add(forward, marks, note=raised(error))
            outputs = ()
        if case.gradient:
            self._backward(backward, marks, leaves, outputs)

    def _backward(
        self,
        key: EventKey,
        marks: list[Handle],
        leaves: Sequence[Tensor],
        outputs: Sequence[Tensor],
    ) -> None:
        ends = [output for output in outputs if output.requires_grad]
        if not ends:
            self.recorder.add(key, marks, note="no forward result")
            return
        gradients = [
            self.draw.floats(f"output gradient {place}", tuple(end.shape), end.dtype)
            for place, end in enumerate(ends)
        ]
        marks = marks + [self._mark(gradient) for gradient in gradients]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        try:
            end = GivenGradients.apply(gradients, *ends)  # type: ignore[no-untyped-call]
            found = torch.autograd.grad(end, wanted, allow_unused=True)
            self._add(key, marks, [gradient for gradient in found if gradient is not None])
        except Exception as error:  # as above
            self.recorder.add(key, marks, note=raised(error))

    def _add(self, key: EventKey, inputs: list[Handle], outputs: Sequence[Tensor]) -> None:
        marks = [self.recorder.mark(output) for output in outputs]
        self.recorder.add(key, inputs, marks, self.recorder.certificates(outputs))

    def _mark(self, tensor: Tensor) -> Handle:
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if place not in self._marks:
            # The tensor is kept, so that its address is not used a second time.
            self._marks[place] = tensor, self.recorder.mark(tensor)
        return self._marks[place][1]


def _leaf(tensor: Tensor) -> Tensor:
    """The same memory as a leaf of its own graph, if its dtype has gradients."""
    return tensor.detach().requires_grad_() if tensor.is_floating_point() else tensor


def _tensors(result: object) -> tuple[Tensor, ...]:
    """The tensors of a result: one, or a (named) sequence of them."""
    if isinstance(result, Tensor):
        return (result,)
    if isinstance(result, (tuple, list)):
        return tuple(tensor for part in result for tensor in _tensors(part))
    raise TypeError(f"a case returned {type(result).__name__}")
