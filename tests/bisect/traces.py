"""Traces made by hand, with controls that were caught unless a test wants otherwise."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bitsect.probes.control import AGREEMENTS, CAUGHT, DETECTORS, NONDETERMINISTIC, key_of
from bitsect.probes.trace import Event, EventKey, Header, Trace, TraceWriter

_runs = itertools.count()


def fingerprint(text: str) -> str:
    """Something of a fingerprint's form that stands for a tensor."""
    return "float32[2]:" + hashlib.sha256(text.encode()).hexdigest()[:32]


def event(name: str, output: str, inputs: str = "input", certificate: str | None = None) -> Event:
    """An event of the data arm; its certificate follows its output unless given."""
    certificate = hashlib.sha256((certificate or output).encode()).hexdigest()
    key = EventKey(0, 0, "host", "data.elementwise.float64", name, 0)
    return Event(key, (fingerprint(inputs),), (fingerprint(output),), (certificate,))


def controls(run: str, missed: tuple[str, ...] = ()) -> list[Event]:
    """The control events of one process."""
    changing = [
        Event(
            key_of("nondeterministic", name),
            (fingerprint("in"),),
            (fingerprint("same" if name in missed else f"{name} {run}"),),
        )
        for name in NONDETERMINISTIC
    ]
    fixed = [
        Event(key_of("detector", name), note="missed" if name in missed else CAUGHT)
        for name in DETECTORS + AGREEMENTS
    ]
    return changing + fixed


def trace(*events: Event, missed: tuple[str, ...] = (), **header: Any) -> Trace:
    """A trace of a process of its own."""
    run = header.pop("run", f"run{next(_runs)}")
    fields: Mapping[str, Any] = {"probe": "sha256:probe", "run": run, **header}
    return Trace(Header(**fields), (*events, *controls(run, missed)))


def write(made: Trace, path: Path) -> Path:
    """Put a trace into a file."""
    with TraceWriter(path, made.header) as writer:
        for each in made.events:
            writer.write(each)
    return path
