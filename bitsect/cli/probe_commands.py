"""`bitsect probe` and `bitsect compare`."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bitsect.bisect.compare import Comparison, compare_traces
from bitsect.bisect.laboratory import trace_fault
from bitsect.cli import tables
from bitsect.cli.console import console
from bitsect.cli.options import (
    ALL_ARMS,
    Arms,
    Gpus,
    IpcHost,
    Json,
    Memlock,
    Memory,
    Processes,
    PythonPath,
    Seed,
    StackLimit,
    Timeout,
    container_options,
    probe_options,
)
from bitsect.cli.output import print_json
from bitsect.cli.workshop import Workshop
from bitsect.images.manifest import Manifest
from bitsect.images.printable import printable
from bitsect.images.reference import Reference, parse_reference
from bitsect.images.runner import (
    INVENTORY_SECONDS,
    ProbeOptions,
    ProbeRun,
    full_manifest,
    run_probe,
    take_inventory,
)
from bitsect.probes.errors import ProbeError
from bitsect.probes.trace import Trace, read_trace

#: Exit status when two traces differ.
DIFFERENT = 1
#: Seconds that one run of the probe may take.
TIMEOUT = 1800.0


class Repetition(msgspec.Struct, frozen=True):
    """What `bitsect probe` found."""

    reference: str
    manifest: str
    probe: str
    device: str
    traces: tuple[str, ...]
    comparison: Comparison


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command()(probe)
    app.command()(compare)


def probe(
    reference: Annotated[str, typer.Argument(metavar="REF", help="The stack to probe.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Keep the traces and the manifest in this folder."),
    ] = None,
    python: PythonPath = None,
    arms: Arms = ALL_ARMS,
    seed: Seed = 0,
    timeout: Timeout = TIMEOUT,
    gpus: Gpus = "",
    ipc_host: IpcHost = False,
    memory: Memory = None,
    processes: Processes = None,
    memlock: Memlock = None,
    stack: StackLimit = None,
    logs: Annotated[
        bool, typer.Option("--logs", help="Show what the probe says, as it comes.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Probe a stack twice, in two processes, and say whether it repeats itself bit for bit.

    Ends with 0 if it does, 1 if not, and 2 if the evidence is invalid.

    Example: `bitsect probe team/train:2026.11 --gpus all`

    Example: `bitsect probe venv:torch==2.13.0,numpy==2.4.6 -o traces/`
    """
    containers = container_options(gpus, ipc_host, memory, processes, memlock, stack)
    wanted = parse_reference(reference)
    with Workshop(python, containers=containers) as workshop, ExitStack() as cleanup:
        folder = output or Path(cleanup.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        found = _probe_twice(
            workshop, wanted, probe_options(arms, seed), folder, timeout, _show if logs else None
        )
    if output is None:
        found = msgspec.structs.replace(found, traces=())
    if as_json:
        print_json(found)
    else:
        tables.print_comparison(found.comparison)
    return 0 if found.comparison.equal else DIFFERENT


def compare(
    first: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace.")],
    second: Annotated[Path, typer.Argument(metavar="TRACE", help="Another trace.")],
    as_json: Json = False,
) -> int:
    """Compare two traces of the probe, event by event.

    Ends with 0 if they are equal, 1 if they differ, and 2 if the evidence is invalid.

    Example: `bitsect compare good/first.jsonl bad/first.jsonl`
    """
    comparison = compare_traces(read_trace(first), read_trace(second))
    if as_json:
        print_json(comparison)
    else:
        tables.print_comparison(comparison)
    return 0 if comparison.equal else DIFFERENT


def _probe_twice(
    workshop: Workshop,
    reference: Reference,
    options: ProbeOptions,
    folder: Path,
    timeout: float,
    heard: Callable[[bytes], object] | None,
) -> Repetition:
    runtime = workshop.runtime(reference)
    console.print(f"resolving {reference.text}", markup=False)
    handle = runtime.ensure(runtime.resolve(reference))
    traces: list[Trace] = []
    kept: list[str] = []
    manifest: Manifest | None = None
    try:
        for number, name in enumerate(("first", "second"), 1):
            console.print(f"running the probe, process {number} of 2")
            with (
                runtime.open(handle) as session,
                tempfile.TemporaryDirectory(dir=folder, prefix=".run-") as place,
            ):
                manifest = take_inventory(
                    session, workshop.payload, timeout=min(timeout, INVENTORY_SECONDS)
                )
                asked = dataclasses.replace(options, manifest=manifest.static_root)
                ran = run_probe(session, workshop.payload, asked, Path(place), timeout, heard)
                kept.append(str(_kept_trace(ran, folder / f"{name}.jsonl")))
            if fault := trace_fault(Path(kept[-1]), manifest, workshop.payload):
                raise ProbeError(fault)
            traces.append(read_trace(kept[-1]))
            if ran.touched is not None:
                manifest = full_manifest(manifest, ran.touched)
    finally:
        handle.release()
    assert manifest is not None
    manifest.save(folder / "stack.yaml")
    return Repetition(
        reference=reference.text,
        manifest=manifest.root,
        probe=workshop.payload.digest,
        device=traces[0].header.device_class,
        traces=tuple(kept),
        comparison=compare_traces(*traces),
    )


def _kept_trace(ran: ProbeRun, place: Path) -> Path:
    if ran.trace is None:
        raise ProbeError(ran.invalid or f"{ran.verdict}, {ran.reason}")
    return ran.trace.rename(place)


def _show(said: bytes) -> None:
    """Pass on what a program says, in a form in which it cannot steer the terminal."""
    console.print(printable(said.decode(errors="replace")), end="", markup=False, soft_wrap=True)
