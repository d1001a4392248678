"""The data arm: host-side numerics with NumPy, as training data pipelines use it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bitsect.probes.arms.recording import Numbering, Recorder, raised
from bitsect.probes.fingerprint import certificate_buffer, fingerprint_buffer
from bitsect.probes.trace_records import EventKey

if TYPE_CHECKING:
    import numpy

    from bitsect.probes.arms.host_cases import HostCase

PHASE = "host"


def provider() -> str:
    """``numpy``, ``absent``, or ``broken TypeName`` where it is installed but cannot be loaded."""
    try:
        import numpy
    except ModuleNotFoundError as error:
        return "absent" if error.name == "numpy" else f"broken {type(error).__name__}"
    except Exception as error:  # a broken installation can raise anything; its kind is the answer
        return f"broken {type(error).__name__}"
    return numpy.__name__


def cases(seed: int) -> Iterator[HostCase]:
    """Every case of this arm; needs NumPy."""
    from bitsect.probes.arms import host_arrays, host_elementwise, host_pipeline
    from bitsect.probes.arms.host_cases import Draw

    draw = Draw(seed)
    for module in (host_elementwise, host_arrays, host_pipeline):
        for table in module.TABLES:
            yield from table(draw)


def run(recorder: Recorder, seed: int) -> None:
    """Add the events of this arm; without NumPy there are none."""
    if provider() != "numpy":
        return
    import numpy

    numbering, marks = Numbering(), InputMarks()
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in cases(seed):
            record(recorder, case, numbering, marks)
    recorder.flush()


def record(recorder: Recorder, case: HostCase, numbering: Numbering, marks: InputMarks) -> None:
    """Run one case and add its event."""
    scope = f"data.{case.group}.{case.dtype}"
    number = numbering.next(scope, case.operation)
    key = EventKey(0, 0, PHASE, scope, case.operation, number)
    inputs = [marks.of(values) for values in case.inputs]
    try:
        result = case.run(*case.inputs)
    except Exception as error:  # that this NumPy cannot do it is its answer
        recorder.add(key, inputs, note=raised(error))
        return
    outputs = host_arrays_of(result)
    certificates = []
    if recorder.certify_host:
        certificates = [certificate_buffer(*described(array)) for array in outputs]
    recorder.add(key, inputs, [fingerprint_of(array) for array in outputs], certificates)


class InputMarks:
    """Fingerprints of inputs; arrays that several cases share are read once."""

    def __init__(self) -> None:
        # The arrays are kept, so that no address is used a second time.
        self._known: dict[tuple[object, ...], tuple[numpy.ndarray, str]] = {}

    def of(self, values: numpy.ndarray) -> str:
        address = values.__array_interface__["data"][0]
        place = (address, values.shape, values.strides, str(values.dtype))
        if place not in self._known:
            self._known[place] = values, fingerprint_of(values)
        return self._known[place][1]


def host_arrays_of(result: Any) -> list[numpy.ndarray]:
    """The arrays that a result is made of; texts become their UTF-8 bytes."""
    import numpy

    if isinstance(result, str):
        return host_arrays_of(result.encode("utf-8"))
    if isinstance(result, bytes):
        return [numpy.frombuffer(result, dtype=numpy.uint8)]
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in host_arrays_of(part)]
    # Not ascontiguousarray, which makes an array of one element of a number.
    array = numpy.asarray(result, order="C")
    if array.dtype.kind not in "biufc":
        raise TypeError(f"a result of type {array.dtype} has no bits to compare")
    return [array]


def described(values: numpy.ndarray) -> tuple[numpy.ndarray, str, tuple[int, ...]]:
    """(contiguous array, dtype name, shape), as fingerprints and certificates ask for them."""
    import numpy

    return numpy.asarray(values, order="C"), str(values.dtype), values.shape


def fingerprint_of(values: numpy.ndarray) -> str:
    return fingerprint_buffer(*described(values))
