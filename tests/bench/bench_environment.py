"""How long a candidate's environment takes once its wheels are cached.

Run: ``python tests/bench/bench_environment.py [repetitions]``. Prints medians in seconds for
hybrids of torch that change NumPy alone: resolving, building, and importing torch for the
first time with and without compiled modules taken over from an environment that has run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from bitsect.images.catalogue import pip_axis_points
from bitsect.images.environments import Environment, EnvironmentCache
from bitsect.images.interpreter import describe_interpreter
from bitsect.images.pip_settings import read_pip_settings
from bitsect.images.resolver import Resolver

TORCH = "torch==2.13.0"
GOOD, BAD = "1.23.5", "2.4.6"


P = ParamSpec("P")
T = TypeVar("T")


def timed(seconds: list[float], action: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T:
    begin = time.perf_counter()
    result = action(*args, **kw)
    seconds.append(time.perf_counter() - begin)
    return result


def import_torch(environment: Environment) -> None:
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [str(environment.python), "-c", "import torch"]
    subprocess.run(command, env=variables, check=True, stderr=subprocess.DEVNULL)


def main(repetitions: int) -> None:
    settings, interpreter = read_pip_settings(), describe_interpreter()
    resolver = Resolver(interpreter, settings)
    base = resolver.resolve((TORCH, f"numpy=={GOOD}"))
    axis = pip_axis_points("numpy", GOOD, BAD, interpreter, settings)
    stride = max(1, len(axis.versions) // repetitions)
    candidates = axis.versions[1::stride][:repetitions]
    with tempfile.TemporaryDirectory(prefix="bitsect-bench-") as folder:
        warm = EnvironmentCache(Path(folder) / "warm", None, settings)
        for version in candidates:
            warm.ensure(resolver.resolve_pins(base, {"numpy": version}).lock, interpreter).release()
        cold = EnvironmentCache(Path(folder) / "cold", None, settings)
        cache = EnvironmentCache(Path(folder) / "cache", None, settings)
        times: defaultdict[str, list[float]] = defaultdict(list)
        first = cold.ensure(base, interpreter)
        timed(times["import torch, nothing compiled"], import_torch, first)
        with cache.ensure(base, interpreter) as donor:
            import_torch(donor)
            for version in candidates:
                # A new resolver each time: nothing but the base's own files is known.
                fresh, pins = Resolver(interpreter, settings), {"numpy": version}
                lock = timed(times["resolve"], fresh.resolve_pins, base, pins).lock
                environment = timed(times["build"], cache.ensure, lock, interpreter, donor)
                timed(times["import torch, first time"], import_torch, environment)
                timed(times["ensure again"], cache.ensure, lock, interpreter).release()
                environment.release()
        both = [a + b for a, b in zip(times["resolve"], times["build"], strict=True)]
        times["resolve and build: one candidate's environment"] = both
        for what, seconds in times.items():
            print(f"{statistics.median(seconds):6.3f} s  {what} (of {len(seconds)})")
        print(f"{cache.total_bytes() / 2**20:6.0f} MiB for {len(candidates) + 1} environments")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
