"""`python -m tests.bench` runs every benchmark; each can also be run alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Run the benchmarks one after the other, so that none disturbs another."""
    for script in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"== {script.name}", flush=True)
        subprocess.run([sys.executable, "-m", f"tests.bench.{script.stem}"], check=True)


if __name__ == "__main__":
    main()
