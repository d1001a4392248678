"""What a container may use, and what is asked of the engine to hold it to that.

A stack is not trusted: it gets no network, no capability, no device and no way to write but
to memory of its own, which counts against its limit.
"""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Mapping
from typing import Any

from docker.types import LogConfig, Mount, Ulimit

from bitsect.images.layers import Record
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.gpus import GpuRequest, device_requests

#: Folder of the session's own; every path below it is writable.
WORK = "/bitsect/work"
#: Where the probe lies, read-only.
PROBE = "/bitsect/probe"
#: A fixed name: a container's own is random, and programs write it down.
HOST_NAME = "bitsect"

_LEAST_PROCESSES = 4096
_PROCESSES_PER_CPU = 32
_TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")


class ContainerOptions(Record, frozen=True):
    """How the containers of a search are run. Sizes are bytes.

    :param gpus: empty for none, ``all``, or indexes or UUIDs separated by commas.
    :param gpu_request: by which way they are asked for; ``auto`` goes by the engine.
    :param ipc_host: share the host's System V and POSIX memory, as vendor images ask for.
    :param memlock: limit of locked memory, -1 for none; None leaves the engine's.
    :param stack: limit of a stack; None leaves the engine's.
    :param memory: all that a container may use, files in memory included; None for its share of
        three quarters of the machine's.
    :param share: how many containers run at a time, which is what the default is divided by.
    :param processes: processes and threads at a time; None for 4096, or more on a machine with
        very many processors.
    :param work_size: of the working folder; None for a quarter of the memory.
    :param shared_memory: of ``/dev/shm``; None for an eighth of the memory.
    :param cpus: processors' worth of time; None for all.
    """

    gpus: str = ""
    gpu_request: GpuRequest = "auto"
    ipc_host: bool = False
    memlock: int | None = None
    stack: int | None = None
    memory: int | None = None
    share: int = 1
    processes: int | None = None
    work_size: int | None = None
    shared_memory: int | None = None
    cpus: float | None = None


class Limits(Record, frozen=True):
    """The options with every number settled for an engine's machine.

    All folders in memory together stay well below the memory limit, so that a program that
    fills them is told so, and nothing has to be ended for it.
    """

    memory: int
    processes: int
    work_size: int
    temporary_size: int
    shared_memory: int


def settled(options: ContainerOptions, engine: Engine) -> Limits:
    """The numbers that the options leave open, chosen by what the machine has."""
    memory = options.memory or engine.memory * 3 // 4 // options.share
    return Limits(
        memory=memory,
        processes=options.processes or max(_LEAST_PROCESSES, _PROCESSES_PER_CPU * engine.cpus),
        work_size=options.work_size or memory // 4,
        temporary_size=memory // 16,
        shared_memory=options.shared_memory or memory // 8,
    )


def host_config(
    engine: Engine, options: ContainerOptions, mounts: tuple[Mount, ...]
) -> dict[str, Any]:
    """The part of a container's description that says what it may do to the machine."""
    limits = settled(options, engine)
    config: dict[str, Any] = engine.api.create_host_config(
        auto_remove=True,
        network_mode="none",
        extra_hosts={HOST_NAME: "127.0.0.1"},
        read_only=True,
        tmpfs=_memory_folders(limits),
        mounts=list(mounts),
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=limits.processes,
        mem_limit=limits.memory,
        # Memory and swap together: no swap.
        memswap_limit=limits.memory,
        nano_cpus=round(options.cpus * 1e9) if options.cpus else None,
        shm_size=None if options.ipc_host else limits.shared_memory,
        ipc_mode="host" if options.ipc_host else "private",
        ulimits=_ulimits(options),
        log_config=LogConfig(type=LogConfig.types.NONE),
        device_requests=device_requests(engine, options.gpus, options.gpu_request),
    )
    return config


def image_volumes(found: Mapping[str, Any]) -> tuple[Mount, ...]:
    """What keeps an image from having volumes of its own that are writable and without bounds.

    Each of them becomes a fresh one with a name, which gets the image's files and is read-only.

    :param found: the image as the engine describes it.
    """
    declared: Mapping[str, Any] = (found.get("Config") or {}).get("Volumes") or {}
    own = sorted({posixpath.normpath(path) for path in declared})
    return tuple(
        Mount(
            target=path,
            source=f"bitsect-data-{secrets.token_hex(8)}",
            type="volume",
            read_only=True,
        )
        for path in own
        if path not in (WORK, PROBE, *_TEMPORARY_FOLDERS)
    )


def _memory_folders(limits: Limits) -> dict[str, str]:
    sizes = {WORK: limits.work_size}
    sizes.update(dict.fromkeys(_TEMPORARY_FOLDERS, limits.temporary_size))
    return {folder: f"rw,exec,nosuid,nodev,mode=1777,size={size}" for folder, size in sizes.items()}


def _ulimits(options: ContainerOptions) -> list[Ulimit]:
    # Some hosts hand every core dump to a collector, and this keeps it from them.
    limits = {"core": 0, "memlock": options.memlock, "stack": options.stack}
    return [
        Ulimit(name=name, soft=value, hard=value)
        for name, value in limits.items()
        if value is not None
    ]
