"""A laboratory whose stacks are tables, with the real store beneath it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from bitsect.bisect.engine.model import Axis
from bitsect.bisect.question_record import NOTHING, Question
from bitsect.bisect.records import EndRecord, Observation, SessionRecord, SessionSpec
from bitsect.bisect.reporting import Reporter
from bitsect.bisect.session import SessionDriver
from bitsect.bisect.specimen import Specimen
from bitsect.bisect.store import Store
from bitsect.bisect.verdicts import Verdict
from bitsect.images.errors import UnresolvedError
from bitsect.images.interpreter import Interpreter
from bitsect.images.runtime.protocol import Stack
from bitsect.probes.trace import Event
from tests.bisect.traces import event, trace, write

MARKERS = {"sys_platform": "linux", "platform_machine": "x86_64"}
INTERPRETER = Interpreter("/usr/bin/python3", "3.11.7", "cpython", "", (), "", MARKERS)
POINTS = ("1.0", "1.1", "1.2", "2.0", "2.1", "2.2", "2.3", "3.0")

#: What the probe would see with these components, at this repetition.
Probe = Callable[[Mapping[str, str], int], list[Event] | Verdict]


def numpy_like(components: Mapping[str, str], repetition: int) -> list[Event] | Verdict:
    """``log`` changes at 2.0 and again at 3.0, ``power`` at 1.2, ``sum`` never."""
    version = components["pip:numpy"]
    log = "old" if version < "2.0" else "new" if version < "3.0" else "newest"
    power = "old" if version < "1.2" else "new"
    return [event("log", log), event("power", power), event("sum", "same")]


def stack(components: Mapping[str, str]) -> Stack:
    """A stack of these components."""
    return Stack(str(dict(components)), "fake", INTERPRETER, dict(components))


class FakeMixer:
    """Mixes components; versions in ``conflicts`` fit nothing."""

    def __init__(self, conflicts: frozenset[str] = frozenset()) -> None:
        self.conflicts = conflicts

    def hybrid(self, base: Stack, pins: Mapping[str, str | None]) -> Stack:
        if self.conflicts & {str(version) for version in pins.values()}:
            raise UnresolvedError(tuple(map(str, pins)), "these do not fit together")
        mixed = {**base.components, **pins}
        return stack({name: version for name, version in mixed.items() if version is not None})

    def rebuilt(self, stack: Stack) -> Stack:
        return stack


class FakeLaboratory:
    """Runs specimens by asking a function, and writes down what it says."""

    def __init__(self, store: Store, probe: Probe = numpy_like) -> None:
        self.store = store
        self.probe = probe
        self.ran: list[tuple[str, int]] = []
        self.stopped = False
        self.salt = ""

    def run(self, specimen: Specimen) -> tuple[Observation, str]:
        key = f"{sorted(specimen.stack.components.items())} {specimen.repetition}{self.salt}"
        known = self.store.observed(key)
        if known is not None:
            return known, "cache"
        run = self.store.begin_run(key, specimen.label)
        self.ran.append((specimen.stack.components["pip:numpy"], specimen.repetition))
        seen = self.probe(specimen.stack.components, specimen.repetition)
        if isinstance(seen, Verdict):
            return self.store.finish_run(run, failure=seen, reason="it broke"), "run"
        with tempfile.TemporaryDirectory() as folder:
            content = write(trace(*seen), Path(folder) / "t.jsonl").read_bytes()
        return self.store.finish_run(run, trace=content, touched=("pip:numpy",)), "run"

    def failed(self, specimen: Specimen, verdict: Verdict, reason: str) -> Observation:
        run = self.store.begin_run(None, specimen.label)
        return self.store.finish_run(run, failure=verdict, reason=reason)

    def stop(self) -> None:
        self.stopped = True


def question(axes: tuple[Axis, ...] = (Axis("pip:numpy", POINTS),)) -> Question:
    """Two stacks that differ in these axes."""
    ends = [
        {axis.component: axis.points[i] for axis in axes if axis.points[i] != NOTHING}
        for i in (0, -1)
    ]
    good, bad = (stack(components) for components in ends)
    spec = SessionSpec(
        good=EndRecord("venv:good", ends[0], "sha256:good"),
        bad=EndRecord("venv:bad", ends[1], "sha256:bad"),
        axes=axes,
        probe="sha256:probe",
        arguments=("--seed", "0"),
        interpreter="/usr/bin/python3 (3.11.7)",
        circumstances="sha256:here",
        options={},
    )
    return Question(good, bad, spec)


def searched(store: Store) -> SessionRecord:
    """A session that has ended."""
    laboratory = FakeLaboratory(store)
    return SessionDriver(question(), FakeMixer(), laboratory, store, Reporter()).run()
