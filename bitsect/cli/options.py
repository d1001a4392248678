"""Options that several commands share, worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitsect.images.runner import ProbeOptions
from bitsect.probes.arms.names import ARMS
from bitsect.probes.errors import UnknownArmError

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
PythonPath = Annotated[
    Path | None,
    typer.Option(
        "--python", help="The Python that virtual environments stand on; this one if absent."
    ),
]
Arms = Annotated[str, typer.Option("--arms", help="Arms of the probe, separated by commas.")]
ALL_ARMS = ",".join(ARMS)
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**62, help="Seed of every input of the probe.")
]
Pre = Annotated[bool, typer.Option("--pre", help="Pre-releases are points too.")]


def probe_options(arms: str, seed: int) -> ProbeOptions:
    """What the probe is asked to do with these options.

    :raises UnknownArmError: there is no such arm.
    """
    chosen = tuple(name.strip() for name in arms.split(","))
    for name in chosen:
        if name not in ARMS:
            raise UnknownArmError(name, ARMS)
    return ProbeOptions(arms=chosen, seed=seed)
