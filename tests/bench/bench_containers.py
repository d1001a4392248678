"""What container stacks cost: pinning one, mixing two, running a trial, one whole search.

    python -m tests.bench.bench_containers [--repeat 3]

Needs a container engine; makes the images of the tests if they are not there. Everything is
measured with an empty cache folder, as on a new machine. Prints medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from bitsect.cli.image_spaces import Donors, mixable
from bitsect.cli.workshop import Workshop
from bitsect.images.pinning import Pinner
from bitsect.images.reference import parse_reference
from bitsect.images.runner import ProbeOptions, run_probe, take_inventory
from bitsect.images.runtime.docker.sweep import clear
from bitsect.images.runtime.protocol import Runtime, Stack
from tests.containers import cases
from tests.containers.engine import connect
from tests.containers.workshop import Workshop as ImageWorkshop

#: Seconds, but for the last one, which counts runs.
LIMITS = {"pin": 15.0, "hybrid": 3.0, "overhead": 2.0, "search": 240.0, "runs": 12.0}
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with closing(connect()) as client:
        ends = cases.one_package(ImageWorkshop(client))
    measured: dict[str, list[float]] = {}
    for _ in range(options.repeat):
        for name, value in once(ends).items():
            measured.setdefault(name, []).append(value)
    print(f"{'piece':<10}{'median':>10}{'largest':>10}{'limit':>8}")
    for name, values in measured.items():
        limit = f"{LIMITS[name]:.0f}" if name in LIMITS else ""
        print(f"{name:<10}{statistics.median(values):>10.2f}{max(values):>10.2f}{limit:>8}")
    within = (statistics.median(measured[name]) <= top for name, top in LIMITS.items())
    return 0 if all(within) else 1


def once(ends: cases.Ends) -> dict[str, float]:
    """Every piece, from an empty cache folder and an empty store."""
    root = Path(tempfile.mkdtemp(prefix="bitsect-bench-"))
    os.environ["BITSECT_CACHE"] = str(root / "cache")
    try:
        with Workshop() as workshop:
            try:
                found = pieces(workshop, ends, root / "out")
            finally:
                clear(workshop.images.engine, workshop.images.marks)
            answer, found["search"] = timed(lambda: searched(ends, root / "data"))
            found["runs"] = float(sum(len(line["runs"]) for line in answer["trials"]))
            clear(workshop.images.engine, workshop.images.marks)
    finally:
        shutil.rmtree(root)
    return found


def pieces(workshop: Workshop, ends: cases.Ends, out: Path) -> dict[str, float]:
    good, bad = (workshop.images.resolve(parse_reference(end)) for end in (ends.good, ends.bad))
    pinner = Pinner(workshop.payload, workshop.contents)
    _, pin = timed(lambda: pinner.manifest(workshop.images, good, deep=True))
    _, reading = timed(lambda: workshop.contents(good))
    donors = Donors(index=False)
    mixed_from, comparing = timed(lambda: mixable(workshop, [good, bad], donors, print))
    space, mixing = mixed_from
    (culprit,) = ends.culprits
    pins = {culprit: space.axis(culprit).states[-1].name}
    mixed, hybrid = timed(lambda: mixing.ensure(mixing.hybrid(good, pins)))
    mixed.release()
    (probe, overhead) = trial(workshop, mixing, mixed.stack, out)
    return {
        "pin": pin,
        "reading": reading,
        "comparing": comparing,
        "hybrid": hybrid,
        "probe": probe,
        "overhead": overhead,
    }


def trial(workshop: Workshop, runtime: Runtime, stack: Stack, out: Path) -> tuple[float, float]:
    """Seconds of the probe's own process, and of all else that a trial of a made stack takes."""

    def run() -> float:
        handle = runtime.ensure(stack)
        try:
            with runtime.open(handle) as session:
                manifest = take_inventory(session, workshop.payload)
                options = ProbeOptions(manifest=manifest.static_root)
                ran = run_probe(session, workshop.payload, options, out)
        finally:
            handle.release()
        if ran.trace is None:
            sys.exit(f"the probe failed: {ran.reason or ran.invalid}\n{ran.log}")
        return ran.duration

    probe, whole = timed(run)
    return probe, whole - probe


def searched(ends: cases.Ends, data: Path) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-m", "bitsect", "bisect", "start", f"good:{ends.good}",
         f"bad:{ends.bad}", "--quiet", "--json"],
        env={**os.environ, "BITSECT_DATA": str(data)},
        check=True, capture_output=True,
    )  # fmt: skip
    answer: dict[str, list[dict[str, int]]] = json.loads(ran.stdout)
    return answer


if __name__ == "__main__":
    sys.exit(main())
