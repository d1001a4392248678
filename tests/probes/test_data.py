"""The data arm: what it records, and that it sees what it is there to see."""

from __future__ import annotations

import ctypes
import random
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitsect.probes.arms import data
from bitsect.probes.arms.host_cases import Draw, HostCase
from bitsect.probes.arms.recording import Numbering, Recorder
from bitsect.probes.errors import HostError
from bitsect.probes.trace_records import Event


class Kept:
    """A sink that keeps its events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event) -> None:
        self.events.append(event)


def events_of(seed: int = 0, certify: bool = False) -> list[Event]:
    kept = Kept()
    data.run(Recorder(kept, certify), seed)
    return kept.events


def record_one(case: HostCase, certify: bool = False) -> Event:
    kept = Kept()
    recorder = Recorder(kept, certify)
    data.record(recorder, case, Numbering(), data.InputMarks())
    recorder.flush()
    return kept.events[0]


def case_of(run: Any, *inputs: Any) -> HostCase:
    return HostCase("group", "float64", "operation", inputs, run)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return events_of(certify=True)


def test_every_event_has_a_key_of_its_own_and_says_what_went_in_and_came_out(
    events: list[Event],
) -> None:
    keys = [event.key for event in events]
    assert len(set(keys)) == len(keys) > 1000
    assert {key.phase for key in keys} == {"host"}
    for event in events:
        assert event.inputs
        assert event.outputs
        assert len(event.certificates) == len(event.outputs)
        assert event.note is None


def test_the_operations_that_pipelines_live_on_are_there(events: list[Event]) -> None:
    names = {(event.key.scope, event.key.operation) for event in events}
    for scope, operation in (
        ("data.transcendental.float64", "power"),
        ("data.transcendental.float32", "sin"),
        ("data.reduction.float32", "sum"),
        ("data.reduction.float64", "mean.axis0"),
        ("data.scan.float32", "cumsum"),
        ("data.order.int64", "argsort.stable"),
        ("data.linalg.float64", "cholesky"),
        ("data.random.int64", "RandomState.shuffle"),
        ("data.random.int64", "default_rng.choice"),
        ("data.pipeline.int64", "blend.greedy"),
        ("data.pipeline.int64", "sample_index"),
        ("data.convert.float32", "astype.float16"),
        ("data.convert.float64", "text.round_trip"),
    ):
        assert (scope, operation) in names


def test_cases_of_one_operation_are_numbered_from_zero(events: list[Event]) -> None:
    counts = Counter((event.key.scope, event.key.operation) for event in events)
    last = {(event.key.scope, event.key.operation): event.key.occurrence for event in events}
    assert {name: number + 1 for name, number in last.items()} == counts


def test_a_second_run_gives_the_same_and_another_seed_does_not(events: list[Event]) -> None:
    again = {event.key: event.digest for event in events_of()}
    assert {event.key: event.digest for event in events} == again

    other = {event.key: event.digest for event in events_of(seed=1)}
    assert other.keys() == again.keys()
    changed = {key.scope for key in again if again[key] != other[key]}
    assert {"data.random.int64", "data.transcendental.float64", "data.pipeline.int64"} <= changed


def test_no_case_changes_its_inputs() -> None:
    for case in data.cases(0):
        before = [data.fingerprint_of(values) for values in case.inputs]
        with np.errstate(all="ignore"):
            case.run(*case.inputs)
        assert [data.fingerprint_of(values) for values in case.inputs] == before, case


def test_the_process_wide_generator_goes_on_as_if_nothing_had_been() -> None:
    np.random.seed(5)
    expected = np.random.rand(3)
    np.random.seed(5)
    events_of()
    assert np.array_equal(np.random.rand(3), expected)


def test_one_function_that_is_off_by_one_bit_is_seen_in_its_own_events_only(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = np.cbrt
    monkeypatch.setattr(np, "cbrt", lambda a: np.nextafter(genuine(a), a.dtype.type(9)))
    after = {event.key: event.digest for event in events_of()}
    changed = {event.key.operation for event in events if after[event.key] != event.digest}
    assert changed == {"cbrt"}


def test_a_function_that_this_numpy_lacks_is_a_value(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(np, "isin")
    after = {event.key: event for event in events_of()}
    assert after.keys() == {event.key for event in events}
    notes = {key.operation: event.note for key, event in after.items() if event.note}
    assert notes == {"isin": "raised AttributeError"}


def test_what_raises_is_a_value_but_too_little_memory_is_not() -> None:
    singular = case_of(np.linalg.inv, np.zeros((2, 2)))
    event = record_one(singular, certify=True)
    assert (event.note, event.outputs) == ("raised LinAlgError", ())
    assert event.inputs == (data.fingerprint_of(np.zeros((2, 2))),)

    def exhausted(_: Any) -> Any:
        raise MemoryError

    with pytest.raises(HostError):
        record_one(case_of(exhausted, np.zeros(1)))


def test_results_of_every_form_become_arrays() -> None:
    parts = data.host_arrays_of(("é", b"\x01", [np.float32(2), True], np.eye(2)[:, ::-1]))
    assert [str(part.dtype) for part in parts] == ["uint8", "uint8", "float32", "bool", "float64"]
    assert [part.shape for part in parts] == [(2,), (1,), (), (), (2, 2)]
    assert parts[-1].flags.c_contiguous


def test_a_result_without_bits_of_its_own_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        data.host_arrays_of(np.array([object()]))


def test_two_views_at_one_address_are_two_inputs() -> None:
    marks = data.InputMarks()
    values = np.arange(6.0)
    views = (values, values[:3], values[::2], values.view("int64"))
    seen = {marks.of(view) for view in views}
    assert len(seen) == 4
    assert marks.of(values) in seen


def test_exact_arrays_are_made_once_and_cannot_be_written_to() -> None:
    draw = Draw(0)
    made = draw.floats("a", (3,), "float32")
    assert made is draw.floats("a", (3,), "float32")
    assert made is not draw.floats("b", (3,), "float32")
    with pytest.raises(ValueError, match="read-only"):
        made[0] = 1
    assert sorted(draw.distinct("order", 100).tolist()) == list(range(100))


def test_without_numpy_there_is_no_provider_and_there_are_no_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert data.provider() == "absent"
    assert events_of() == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("raise RuntimeError('built for another interpreter')", "broken RuntimeError"),
        ("import a_module_that_is_missing", "broken ModuleNotFoundError"),
    ],
)
def test_a_numpy_that_cannot_be_loaded_is_broken_not_absent(
    tmp_path: Path, source: str, expected: str
) -> None:
    (tmp_path / "numpy.py").write_text(source + "\n")
    code = (
        "import sys, torch; sys.modules.pop('numpy', None);"
        f"sys.path.insert(0, {str(tmp_path)!r});"
        "from bitsect.probes.arms import data; print(data.provider())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


def test_no_case_reads_memory_backwards() -> None:
    # Given that NumPy's choice of code for negative strides depends on where memory lies
    for case in data.cases(0):
        for values in case.inputs:
            assert all(stride >= 0 for stride in values.strides), case


def moved(values: Any, chance: random.Random) -> Any:
    """The same values with the same strides, at another place and alignment."""
    low, high = np.lib.array_utils.byte_bounds(values)
    raw = np.empty(high - low + 256, dtype=np.uint8)
    address = raw.__array_interface__["data"][0]
    start = -address % 64 + 16 * chance.randrange(8)
    ctypes.memmove(address + start, low, high - low)
    offset = start + values.__array_interface__["data"][0] - low
    return np.ndarray(values.shape, values.dtype, raw, offset, values.strides)


@pytest.mark.parametrize("seed", range(3))
def test_no_bit_depends_on_where_memory_lies(seed: int) -> None:
    # Given every case, and a heap that is stirred before each of them
    chance = random.Random(seed)
    junk: list[Any] = []
    fragile = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in data.cases(0):
            if any(values.nbytes == 0 for values in case.inputs):
                continue
            usual = outcome(case, case.inputs)
            junk += [np.empty(chance.choice((17, 500, 5000, 66000))) for _ in range(4)]
            chance.shuffle(junk)
            del junk[: chance.randrange(len(junk))]

            # When it runs on inputs that lie elsewhere, differently aligned
            elsewhere = outcome(case, [moved(values, chance) for values in case.inputs])

            # Then it gives the same bits
            if usual != elsewhere:
                fragile.append((case.group, case.dtype, case.operation))
    assert fragile == []


def outcome(case: HostCase, inputs: Any) -> list[str]:
    try:
        return [data.fingerprint_of(part) for part in data.host_arrays_of(case.run(*inputs))]
    except Exception as error:  # the same in both, or a difference
        return [type(error).__name__]
