"""``python -m bitsect.probes --out DIR``: the probe, inside the stack that it is to judge.

Exit 0: the trace is written. Exit 2, with one line on standard error: it is not. Exit 3: the
machine is to blame, such as one with too little memory.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from pathlib import Path
from typing import NoReturn

from bitsect.probes import errors
from bitsect.probes.arms.names import ARMS
from bitsect.probes.usage import usage

OLDEST_TORCH = (2, 4)
HOST_FAULT = 3


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the arguments."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"bitsect.probes: {message}\n")


def parser() -> Parser:
    parsed = Parser(prog="python -m bitsect.probes", description=__doc__)
    parsed.add_argument("--out", type=Path, required=True, help="folder for trace and touched.json")
    parsed.add_argument("--arms", default=",".join(ARMS), help="names with commas between them")
    parsed.add_argument("--seed", type=int, default=0, help="of every input")
    parsed.add_argument("--certify", choices=("auto", "all", "none"), default="auto")
    parsed.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parsed.add_argument("--manifest", help="digest of this stack's manifest, for the header")
    parsed.add_argument("--progress", action="store_true", help="tell on standard error")
    return parsed


def check_torch() -> None:
    """ProbeError unless this stack's torch can be loaded and is new enough."""
    try:
        import torch
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        reason = "torch is not installed here" if missing else f"torch cannot be loaded: {error}"
        raise errors.ProbeError(reason) from error
    numbers = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if numbers < OLDEST_TORCH:
        raise errors.ProbeError(f"torch {torch.__version__} is too old: 2.4 or later is needed")


def sentence(error: errors.BitsectError) -> str:
    """One line for a person who reads the log of a stack."""
    if isinstance(error, errors.UnknownArmError):
        return f"there is no arm {error.arm!r}: choose from {', '.join(error.known)}"
    if isinstance(error, errors.OutputError):
        return f"{error.path} cannot be written: {error.reason}"
    if isinstance(error, errors.SelfCheckError):
        return f"{error.device} computes the known fingerprint {error.case!r} wrongly"
    if isinstance(error, errors.TraceError):
        return f"{error.path}: {error.reason}"
    if isinstance(error, (errors.ProbeError, errors.HostError)):
        return error.reason
    return f"{type(error).__name__} {error}"


def probe(options: argparse.Namespace) -> None:
    check_torch()
    from bitsect.probes import run

    def tell(line: str) -> None:
        if options.progress:
            print(line, file=sys.stderr, flush=True)

    arms = tuple(name.strip() for name in options.arms.split(",") if name.strip())
    run.run_probe(
        run.Options(
            out=options.out,
            arms=arms,
            seed=options.seed,
            certify=options.certify,
            device=options.device,
            manifest=options.manifest,
        ),
        tell,
    )


# Read by libraries when they are loaded, hence set before torch is; the stack's own value stays.
DEFAULTS = {
    # Without it cuBLAS has no deterministic algorithm.
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    # How threads wait, not what they compute: thousands of small operations on a busy host
    # take ten times as long when the threads that have nothing to do spin.
    "OMP_WAIT_POLICY": "PASSIVE",
}


def main(arguments: list[str]) -> int:
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    options = parser().parse_args(arguments)
    usage.watch()
    try:
        # What a stack warns of, such as a torch that finds no NumPy, is no line of the probe's.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            probe(options)
    except errors.BitsectError as error:
        print("bitsect.probes: " + " ".join(sentence(error).split()), file=sys.stderr)
        return HOST_FAULT if isinstance(error, errors.HostError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
