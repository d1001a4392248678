"""Options that several commands share, worded once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from bitsect.images.runner import ProbeOptions
from bitsect.images.runtime.docker.limits import ContainerOptions
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
Timeout = Annotated[
    float, typer.Option("--timeout", min=1, help="Seconds that one run of the probe may take.")
]
Gpus = Annotated[
    str,
    typer.Option("--gpus", help="GPUs for containers: all, or indexes or UUIDs with commas."),
]
IpcHost = Annotated[
    bool, typer.Option("--ipc-host", help="Containers share the host's shared memory.")
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory", help="What a container may use, such as 64g; its share of 3/4 of the host's."
    ),
]
Processes = Annotated[
    int | None, typer.Option("--processes", min=1, help="Processes and threads of a container.")
]
Memlock = Annotated[
    int | None, typer.Option("--memlock", min=-1, help="Bytes of locked memory; -1 for no limit.")
]
StackLimit = Annotated[
    int | None, typer.Option("--stack", min=0, help="Bytes of a stack, as vendor images ask for.")
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


def container_options(
    gpus: str,
    ipc_host: bool,
    memory: str | None,
    processes: int | None,
    memlock: int | None,
    stack: int | None,
    share: int = 1,
) -> ContainerOptions:
    """How containers are run with these options.

    :param share: containers that run at the same time.

    :raises typer.BadParameter: the memory is no size.
    """
    return ContainerOptions(
        gpus=gpus,
        ipc_host=ipc_host,
        memory=None if memory is None else size_of("--memory", memory),
        processes=processes,
        memlock=memlock,
        stack=stack,
        share=share,
    )


def size_of(option: str, text: str) -> int:
    """Bytes: a number with an optional k, m, g or t, as engines read it.

    :raises typer.BadParameter: it is none.
    """
    match = re.fullmatch(r"([1-9][0-9]*)([kmgt]?)b?", text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size; try 64g", param_hint=option)
    number: int = int(match[1]) << 10 * " kmgt".index(match[2] or " ")
    return number
