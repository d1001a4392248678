"""The controls: each is caught when the detector works and missed when it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import pytest
import torch

from bitsect.probes.arms import control as arm
from bitsect.probes.arms.recording import Recorder
from bitsect.probes.control import AGREEMENTS, DETECTORS, NONDETERMINISTIC, controls_caught, key_of
from bitsect.probes.trace_records import Event, Header, Trace

ALL = [*NONDETERMINISTIC, *DETECTORS, *AGREEMENTS]


class Kept:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event) -> None:
        self.events.append(event)


def trace_of(run: str, seed: int = 0) -> Trace:
    kept = Kept()
    arm.run(Recorder(kept, True), seed, "cpu")
    return Trace(Header(probe="sha256:0", run=run), tuple(kept.events))


def edited(trace: Trace, name: str, change: Callable[[Event], Event | None]) -> Trace:
    events = [change(e) if e.key.operation == name else e for e in trace.events]
    return replace(trace, events=tuple(event for event in events if event is not None))


@pytest.fixture(scope="module")
def pair() -> tuple[Trace, Trace]:
    return trace_of("one"), trace_of("two")


def test_every_control_is_recorded_and_caught(pair: tuple[Trace, Trace]) -> None:
    assert sorted(event.key.operation for event in pair[0].events) == sorted(ALL)
    assert {event.key.phase for event in pair[0].events} == {"control"}
    assert controls_caught(*pair) == []


def test_a_trace_compared_with_itself_shows_nothing(pair: tuple[Trace, Trace]) -> None:
    assert controls_caught(pair[0], pair[0]) == ["arrival_order"]


def test_a_copy_under_another_name_shows_nothing_either(pair: tuple[Trace, Trace]) -> None:
    copy = replace(pair[0], header=replace(pair[0].header, run="another"))
    assert controls_caught(pair[0], copy) == ["arrival_order"]


def test_traces_of_other_inputs_are_no_evidence(pair: tuple[Trace, Trace]) -> None:
    assert controls_caught(pair[0], trace_of("three", seed=1)) == ["arrival_order"]


@pytest.mark.parametrize("name", ALL)
def test_a_control_that_is_absent_is_not_caught(pair: tuple[Trace, Trace], name: str) -> None:
    without = edited(pair[1], name, lambda event: None)
    assert controls_caught(pair[0], without) == [name]
    assert controls_caught(without, pair[0]) == [name]


@pytest.mark.parametrize("name", [*DETECTORS, *AGREEMENTS])
def test_a_control_that_was_missed_in_one_process_is_not_caught(
    pair: tuple[Trace, Trace], name: str
) -> None:
    missed = edited(pair[0], name, lambda event: event._replace(note="missed"))
    assert controls_caught(missed, pair[1]) == [name]


def test_arrivals_are_of_the_same_values_in_another_order() -> None:
    values = torch.arange(1.0, 65.0)
    sums = {tuple(arm.arrival_sums(values).tolist()) for _ in range(8)}
    assert len(sums) == 8
    assert {sequence[-1] for sequence in sums} == {64 * 65 / 2}


def words_of(tensor: torch.Tensor) -> list[int]:
    return [int(word) for word in tensor.contiguous().reshape(-1).view(torch.int32)]


def by_exclusive_or(tensor: torch.Tensor) -> str:
    return str(reduce(xor, words_of(tensor), 0))


def by_sum_of_values(tensor: torch.Tensor) -> str:
    return str(float(tensor.double().nan_to_num().sum()))


def by_bytes_alone(tensor: torch.Tensor) -> str:
    return str(words_of(tensor))


def by_numbers(tensor: torch.Tensor) -> str:
    """As an equality of numbers sees it: one zero, one NaN."""
    values = [0.0 if value == 0 else value for value in tensor.double().reshape(-1).tolist()]
    return f"{tensor.dtype}{tuple(tensor.shape)}{values}"


def always_new(tensor: torch.Tensor, count: list[int] = []) -> str:  # noqa: B006
    count.append(0)
    return str(len(count))


@pytest.mark.parametrize(
    ("weak", "blind_to"),
    [
        (by_exclusive_or, {"permuting_writer", "swapped_pair", "cancelling_pair", "moved_zero"}),
        (by_sum_of_values, {"permuting_writer", "negated_zero", "nan_payload"}),
        (by_bytes_alone, {"other_dtype", "other_shape"}),
        (by_numbers, {"negated_zero", "nan_payload"}),
        (always_new, {"copy_agrees", "strided_agrees"}),
        (lambda tensor: "the same", set(DETECTORS) - {"host.swapped_pair", "host.last_bit",
                                                       "certificate.last_bit"}),
    ],
)  # fmt: skip
def test_a_weak_fingerprint_is_found_out(
    weak: Callable[[Any], str], blind_to: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm, "fingerprint", weak)
    kept = Kept()
    arm.run(Recorder(kept, False), 0, "cpu")
    missed = {event.key.operation for event in kept.events if event.note == "missed"}
    assert blind_to <= missed


def test_a_host_fingerprint_that_reads_only_the_start_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arm, "fingerprint_buffer", lambda raw, dtype, shape: bytes(raw[:2]).hex())
    monkeypatch.setattr(arm, "certificate_buffer", lambda raw, dtype, shape: bytes(raw[:2]).hex())
    missed = [event.key.operation for event in trace_of("x").events if event.note == "missed"]
    assert {"host.last_bit", "host_agrees", "certificate_agrees"} <= set(missed)


def test_keys_of_controls_can_be_told_from_those_of_operations() -> None:
    assert key_of("detector", "last_bit").text == "0/0/control/control.detector/last_bit#0"


def test_the_verdict_needs_no_torch() -> None:
    import subprocess
    import sys

    code = "import bitsect.probes.control, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert Path(arm.__file__).name == "control.py"
