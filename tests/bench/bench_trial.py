"""What one trial costs, piece by piece, with real wheels from the user's own index.

    python tests/bench/bench_trial.py [--versions 1.26.4,2.0.2,2.2.6] [--repeat 3] [--cache DIR]

Each trial changes one wheel (NumPy) of an environment that is there already: resolve the
hybrid, build its environment, take the inventory, run the probe. Wheels are fetched before the
clock starts, and each repetition removes the environments that it built. Prints medians.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bitsect.images.environments import EnvironmentCache
from bitsect.images.interpreter import describe_interpreter
from bitsect.images.payload import Payload, staged_probe
from bitsect.images.pip_settings import read_pip_settings
from bitsect.images.reference import parse_reference
from bitsect.images.runner import (
    ProbeOptions,
    changed_libraries,
    full_manifest,
    run_probe,
    take_inventory,
)
from bitsect.images.runtime.protocol import Stack
from bitsect.images.runtime.venv import VenvHandle, VenvRuntime

LIMITS = {"environment": 1.5, "inventory": 0.5, "trial": 6.0}
T = TypeVar("T")


class Clock:
    """Seconds of each piece, over all trials."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def time(self, piece: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        try:
            return work()
        finally:
            self.seconds.setdefault(piece, []).append(time.perf_counter() - began)

    def table(self) -> str:
        lines = [f"{'piece':<14}{'median s':>10}{'largest s':>11}{'limit s':>9}"]
        for piece, values in self.seconds.items():
            limit = f"{LIMITS[piece]:.1f}" if piece in LIMITS else ""
            median = statistics.median(values)
            lines.append(f"{piece:<14}{median:>10.3f}{max(values):>11.3f}{limit:>9}")
        return "\n".join(lines)

    @property
    def is_within_limits(self) -> bool:
        return all(statistics.median(self.seconds[name]) <= top for name, top in LIMITS.items())


def trial(
    runtime: VenvRuntime,
    base: VenvHandle,
    version: str,
    payload: Payload,
    out: Path,
    clock: Clock,
) -> Path:
    """One trial; the path of the environment that it built."""
    pins = {"pip:numpy": version}
    stack = clock.time("resolution", lambda: runtime.hybrid(base.stack, pins))
    handle = clock.time("environment", lambda: runtime.ensure(stack, base))
    try:
        with clock.time("opening", lambda: runtime.open(handle)) as session:
            manifest = clock.time(
                "inventory", lambda: take_inventory(session, payload, deep=("numpy",))
            )
            options = ProbeOptions(manifest=manifest.static_root)
            run = clock.time("probe", lambda: run_probe(session, payload, options, out))
        if run.touched is None:
            sys.exit(f"the probe failed: {run.reason or run.invalid}\n{run.log}")
        touched = run.touched
        full = clock.time("manifest", lambda: full_manifest(manifest, touched))
        clock.time("recheck", lambda: changed_libraries(full))
    finally:
        handle.release()
    return handle.environment.path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default="2.13.0")
    parser.add_argument("--base", default="1.26.4", help="NumPy of the environment that is there")
    parser.add_argument("--versions", default="2.0.2,2.1.3,2.2.6")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--cache", type=Path, help="kept; by default a temporary folder")
    options = parser.parse_args()
    root = options.cache or Path(tempfile.mkdtemp(prefix="bitsect-bench-"))
    try:
        clock = measured(options, root)
    finally:
        if options.cache is None:
            shutil.rmtree(root)
    print(clock.table())
    return 0 if clock.is_within_limits else 1


def measured(options: argparse.Namespace, root: Path) -> Clock:
    runtime = new_runtime(root)
    text = f"venv:torch=={options.torch},numpy=={options.base}"
    base_stack = runtime.resolve(parse_reference(text))
    base = runtime.ensure(base_stack)
    payload = staged_probe(root)
    versions = options.versions.split(",")
    # One of its own, because a runtime remembers what it has resolved.
    fetch(new_runtime(root), base_stack, versions)
    # The first program in the base compiles its modules, which the others take over.
    trial(runtime, base, options.base, payload, root / "out", Clock())
    clock = Clock()
    for _ in range(options.repeat):
        for version in versions:
            began = time.perf_counter()
            built = trial(runtime, base, version, payload, root / "out", clock)
            clock.seconds.setdefault("trial", []).append(time.perf_counter() - began)
            shutil.rmtree(built)
    return clock


def new_runtime(root: Path) -> VenvRuntime:
    settings = read_pip_settings()
    cache = EnvironmentCache(root / "envs", None, settings)
    return VenvRuntime(describe_interpreter(), settings, cache)


def fetch(runtime: VenvRuntime, base: Stack, versions: list[str]) -> None:
    """Bring every wheel into uv's cache."""
    for version in versions:
        handle = runtime.ensure(runtime.hybrid(base, {"pip:numpy": version}))
        handle.release()
        shutil.rmtree(handle.environment.path)


if __name__ == "__main__":
    sys.exit(main())
