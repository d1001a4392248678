"""Runs the arms of one probe and writes what they say: ``rank00000.jsonl`` and ``touched.json``."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from bitsect.probes import inventory
from bitsect.probes.arms import control, data, kernels
from bitsect.probes.arms.names import ARMS
from bitsect.probes.arms.recording import Recorder
from bitsect.probes.errors import OutputError, ProbeError, UnknownArmError
from bitsect.probes.fingerprint import self_check
from bitsect.probes.identity import probe_digest
from bitsect.probes.trace import TraceWriter
from bitsect.probes.trace_records import Header
from bitsect.probes.usage import usage

TRACE_NAME = "rank00000.jsonl"
TOUCHED_NAME = "touched.json"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What one probe is to do.

    :param certify: ``all`` takes the SHA-256 of every output, ``auto`` of those in host memory.
    :param device: ``cpu``, ``cuda``, or ``auto`` for the accelerator where there is one.
    :param manifest: digest of the stack's manifest, for the trace's header.
    """

    out: Path
    arms: tuple[str, ...] = ARMS
    seed: int = 0
    certify: str = "auto"
    device: str = "auto"
    manifest: str | None = None


def run_probe(options: Options, tell: Tell = lambda line: None) -> Path:
    """Run the arms and return the path of the trace.

    :param tell: gets a line when an arm has ended.
    """
    for arm in options.arms:
        if arm not in ARMS:
            raise UnknownArmError(arm, ARMS)
    device = chosen_device(options.device)
    self_check(device)
    providers = providers_of(options.arms, device)
    make_folder(options.out)
    path = options.out / TRACE_NAME
    with TraceWriter(path, header_of(options, device, providers)) as writer:
        recorder = Recorder(writer, options.certify != "none", options.certify == "all")
        steps: dict[str, Callable[[], object]] = {
            "data": lambda: data.run(recorder, options.seed),
            "kernels": lambda: kernels.run(recorder, options.seed, device),
            "control": lambda: control.run(recorder, options.seed, device),
        }
        for arm in (*ordered(options.arms), "control"):
            started = time.monotonic()
            steps[arm]()
            tell(f"{arm}: {providers.get(arm, 'torch')}, {time.monotonic() - started:.2f} s")
    write_touched(options.out / TOUCHED_NAME)
    return path


def ordered(arms: tuple[str, ...]) -> tuple[str, ...]:
    """The arms in the order in which they run, each once."""
    return tuple(arm for arm in ARMS if arm in arms)


def chosen_device(wanted: str) -> str:
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise ProbeError("torch finds no CUDA device here")
    return "cuda" if available and wanted != "cpu" else "cpu"


def device_class(device: str) -> str:
    """What must be equal for bits to be comparable: the kind of device, not the one device."""
    if device == "cuda":
        major, minor = torch.cuda.get_device_capability()
        return f"cuda:{torch.cuda.get_device_name()}:{major}.{minor}"
    # Asked of the hardware: torch's own word for it is a word of the stack under test.
    cpu = inventory.cpu(inventory.read_text("/proc/cpuinfo", inventory.Notes(), False))
    abilities = hashlib.sha256(" ".join(cpu["flags"] or ()).encode()).hexdigest()[:8]
    return f"cpu:{cpu['architecture']}:{cpu['model_name'] or 'unknown'}:{abilities}"


def providers_of(arms: tuple[str, ...], device: str) -> dict[str, str]:
    """Who computes each arm, ``absent`` where this stack has nobody who could."""
    found = {"data": data.provider} if "data" in arms else {}
    providers = {arm: ask() for arm, ask in found.items()}
    if "kernels" in arms:
        providers["kernels"] = kernels.provider(device)
    return providers


def header_of(options: Options, device: str, providers: dict[str, str]) -> Header:
    numpy = sys.modules.get("numpy")
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if providers.get("data") == "numpy":
        versions["numpy"] = str(getattr(numpy, "__version__", "unknown"))
    return Header(
        probe=probe_digest(),
        arguments={
            "arms": list(ordered(options.arms)),
            "seed": options.seed,
            "certify": options.certify,
            "device": device,
            "cublas_workspace_config": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        },
        manifest=options.manifest,
        device_class=device_class(device),
        providers=providers,
        versions=versions,
        threads=torch.get_num_threads(),
    )


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(str(folder), error.strerror or type(error).__name__) from error
    if not os.access(folder, os.W_OK):
        raise OutputError(str(folder), "not writable")


def own_folders() -> tuple[str, ...]:
    """Where the probe lies: as it was imported, and with its links resolved."""
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.dirname(here), os.path.realpath(here)


def write_touched(path: Path) -> None:
    """Write what this process used; call when the arms have run."""
    usage.stop()
    used = inventory.touched(sys.path)
    used["files"] = usage.files(used["files"], ignored=(*own_folders(), str(path.parent.resolve())))
    used["variables"] = usage.variables()
    used["problems"] += usage.problems()
    partial = path.with_name(path.name + ".part")
    text = json.dumps({"schema": 1, **used}, sort_keys=True)
    try:
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise OutputError(str(path), error.strerror or type(error).__name__) from error
