"""How GPUs are asked for, and whether they are really there.

An engine may drop the request without a word, as Podman does behind Docker's API, and a probe
would then answer for a stack that was never meant.
"""

from __future__ import annotations

import time
from typing import Literal

import msgspec
from docker.types import DeviceRequest

from bitsect.images.errors import InfrastructureError
from bitsect.images.runtime.docker.container import Container
from bitsect.images.runtime.docker.engine import CDI_GPU, Engine
from bitsect.images.runtime.docker.wire import STDERR, STDOUT

GpuRequest = Literal["auto", "cdi", "device_request"]

_ALL = "all"
_LOOK_SECONDS = 60.0
_LONGEST_ANSWER = 1 << 16


class FoundGpus(msgspec.Struct, frozen=True):
    """What a look from inside a container told.

    :param problem: why the driver could not be asked, or None.
    """

    count: int
    uuids: tuple[str, ...]
    problem: str | None = None


def device_requests(engine: Engine, gpus: str, way: GpuRequest) -> list[DeviceRequest]:
    """What to ask of the engine; nothing for no GPUs.

    :param gpus: empty, ``all``, or indexes or UUIDs separated by commas.
    """
    wanted = wanted_gpus(gpus)
    if not wanted:
        return []
    if way == "cdi" or (way == "auto" and engine.has_cdi):
        names = [f"{CDI_GPU}={each}" for each in wanted]
        return [DeviceRequest(driver="cdi", device_ids=names)]
    if wanted == (_ALL,):
        return [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    return [DeviceRequest(device_ids=list(wanted), capabilities=[["gpu"]])]


def wanted_gpus(gpus: str) -> tuple[str, ...]:
    """The single GPUs that an option names, or ``all``."""
    return tuple(each.strip() for each in gpus.split(",") if each.strip())


def find_gpus(container: Container) -> FoundGpus:
    """What a look from inside a running container tells.

    Raises InfrastructureError if the look cannot be taken.
    """
    said = bytearray()

    def take(piece: bytes) -> bool:
        said.extend(piece)
        return len(said) <= _LONGEST_ANSWER

    takers = {STDOUT: take, STDERR: lambda piece: True}
    ended = container.run("gpus", {}, takers, time.monotonic() + _LOOK_SECONDS)
    try:
        if ended.status == 0:
            return msgspec.json.decode(said, type=FoundGpus)
        reason = f"status {ended.status}"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = str(error)
    raise InfrastructureError("refused", f"its GPUs cannot be looked at from inside: {reason}")


def check_gpus(gpus: str, found: FoundGpus, engine: Engine) -> None:
    """Raises InfrastructureError unless a container has the GPUs that were asked for."""
    wanted = wanted_gpus(gpus)
    if wanted == (_ALL,):
        missing = found.count == 0
    else:
        absent = [each for each in wanted if each.startswith("GPU-") and each not in found.uuids]
        missing = found.count < len(wanted) or bool(found.uuids and absent)
    if missing:
        why = f" ({found.problem})" if found.problem else ""
        detail = (
            f"GPUs {gpus} were asked of {engine.title}, which started the container with"
            f" {found.count}{why}: it does not pass on such requests, or the host has fewer"
        )
        raise InfrastructureError("refused", detail)
