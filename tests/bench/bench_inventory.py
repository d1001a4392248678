"""How long the inventory of this environment takes: ``python tests/bench/bench_inventory.py``.

Prints one line for each way to run it. The figure to reach: without the warm-up, a process from
start to end in at most half a second, in an environment that has torch.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "probes" / "inventory.py"


def measure(*arguments: str, repetitions: int) -> tuple[list[float], int]:
    """(seconds of each process, number of installed files that it checked)."""
    seconds = []
    output = ""
    for _ in range(repetitions):
        started = time.perf_counter()
        command = [sys.executable, str(SOURCE), *arguments]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        seconds.append(time.perf_counter() - started)
    found = json.loads(output)["software"]["distributions"]
    return seconds, sum(entry["files"] or 0 for entry in found)


def main() -> None:
    for arguments, repetitions in (((), 9), (("--warm-up",), 3), (("--deep",), 3)):
        seconds, files = measure(*arguments, repetitions=repetitions)
        name = " ".join(arguments) or "(plain)"
        print(
            f"{name:10} median {statistics.median(seconds):6.3f} s"
            f"   fastest {min(seconds):6.3f} s   slowest {max(seconds):6.3f} s   {files} files"
        )


if __name__ == "__main__":
    main()
