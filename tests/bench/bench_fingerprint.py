"""How fast a fingerprint is beside ``torch.hash_tensor``, and what memory it takes.

Run ``python tests/bench/bench_fingerprint.py [--mib 64] [--rounds 41]``. Rounds are interleaved,
so that both sides see the same machine; memory is measured in a fresh process.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bitsect.probes.exact import floats
from bitsect.probes.fingerprint import fingerprint

MIB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--scratch-of", choices=sorted(_cases(1)), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.scratch_of is not None:
        print(_scratch_bytes(options.scratch_of, options.mib))
        return
    threads = torch.get_num_threads()
    print(f"torch {torch.__version__}, {threads} threads, float32, {options.mib} MiB")
    _print_times(options.mib, options.rounds)
    for name in _cases(1):
        command = [sys.executable, __file__, "--mib", str(options.mib), "--scratch-of", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print(f"scratch of {name}: {int(done.stdout) / MIB:.1f} MiB")


def _print_times(mib: int, rounds: int) -> None:
    tensor = _tensor(mib)
    words = tensor.view(torch.int64)
    sides: dict[str, Callable[[], object]] = {
        "fingerprint": lambda: fingerprint(tensor),
        "sum of int64 (memory bound)": lambda: words.sum().item(),
    }
    if hasattr(torch, "hash_tensor"):
        sides["torch.hash_tensor"] = lambda: torch.hash_tensor(tensor).item()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for run in sides.values():
        run()
    for _ in range(rounds):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - start))
    for name, values in times.items():
        print(f"{name}: median {statistics.median(values):.2f} ms, best {min(values):.2f} ms")
    if "torch.hash_tensor" in times:
        theirs, ours = times["torch.hash_tensor"], times["fingerprint"]
        medians = statistics.median(theirs) / statistics.median(ours)
        rounds_ratio = statistics.median(a / b for a, b in zip(theirs, ours, strict=True))
        print(
            f"fingerprint is {medians:.2f} times as fast as torch.hash_tensor by medians, "
            f"{rounds_ratio:.2f} by the median round, {min(theirs) / min(ours):.2f} by best rounds"
        )


def _tensor(mib: int) -> torch.Tensor:
    return floats(0, "benchmark", (mib * MIB // 4,))


def _cases(mib: int) -> dict[str, Callable[[], torch.Tensor]]:
    return {
        "contiguous": lambda: _tensor(mib),
        "transposed": lambda: _tensor(mib).view(1024, -1).T,
        "misaligned": lambda: _tensor(mib).view(torch.uint8)[1:-3],
    }


def _scratch_bytes(case: str, mib: int) -> int:
    """Return how far the resident memory of this process rises while it fingerprints."""
    tensor = _cases(mib)[case]()
    # Once in a thread whose scratch goes with it, so that torch's own code does not count.
    thread = threading.Thread(target=fingerprint, args=(tensor,))
    thread.start()
    thread.join()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status_bytes("VmRSS")
    fingerprint(tensor)
    return _status_bytes("VmHWM") - before


def _status_bytes(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise SystemExit(f"no {field} in /proc/self/status: this needs Linux")
    return int(found.group(1)) * 1024


if __name__ == "__main__":
    main()
