"""Fetching images from registries, by way of the engine and with its user's credentials."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from docker.errors import APIError

from bitsect.images.errors import InfrastructureError
from bitsect.images.layers import Record
from bitsect.images.runtime.docker.engine import Engine, engine_faults, refusal
from bitsect.images.runtime.docker.identity import is_index, platform_of
from bitsect.images.runtime.docker.names import SHA256

# What registries say, through engines, of what they do not have or do not give.
_NOT_GIVEN = re.compile(
    r"manifest unknown|name unknown|not found|does not exist|no such image|denied|unauthori[sz]ed"
    r"|authentication required",
    re.IGNORECASE,
)
_REFUSALS = frozenset({401, 403, 404})


class PullProgress(Record, frozen=True):
    """How far a pull has come; bytes as they are sent, of the layers seen so far."""

    image: str
    layers: int
    ready: int
    received: int
    size: int


Progress = Callable[[PullProgress], None]


class NotGiven(Exception):
    """A registry that was reached has no such image, or does not give it to this user.

    :param reason: in its words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Offered(Record, frozen=True):
    """What a registry says a name stands for.

    :param is_index: whether it lists one image for each of several platforms.
    """

    digest: str
    is_index: bool
    platforms: tuple[str, ...]


def offered(engine: Engine, name: str) -> Offered | None:
    """What a name stands for in its registry now; None if this engine cannot ask, as Podman.

    Raises NotGiven, or InfrastructureError if the registry cannot be reached.

    :param name: ``REPOSITORY:TAG`` or ``REPOSITORY@DIGEST``.
    """
    if engine.is_podman:
        return None
    with _registry_faults(name):
        # The stubs leave the types of this one out.
        found: Mapping[str, Any] = engine.api.inspect_distribution(name)  # type: ignore[no-untyped-call]
    descriptor = found["Descriptor"]
    platforms = (
        platform_of(each.get("os", ""), each.get("architecture", ""), each.get("variant"))
        for each in found.get("Platforms") or ()
    )
    return Offered(
        str(descriptor["digest"]), is_index(descriptor.get("mediaType")), tuple(platforms)
    )


def pull(engine: Engine, repository: str, what: str, progress: Progress | None = None) -> None:
    """Fetch an image.

    Raises NotGiven, InfrastructureError. Abandoned in the middle, what has come so far stays
    with the engine for the next time.

    :param what: a tag, or a digest.
    """
    name = f"{repository}@{what}" if what.startswith(SHA256) else f"{repository}:{what}"
    layers: dict[str, tuple[int, int, bool]] = {}
    with _registry_faults(name):
        for told in engine.api.pull(repository, tag=what, stream=True, decode=True):
            if "error" in told:
                raise _refused(name, str(told["error"]), None)
            if progress is not None and _note(told, layers):
                progress(_summary(name, layers))


@contextmanager
def _registry_faults(name: str) -> Iterator[None]:
    with engine_faults(f"fetching image {name}"):
        try:
            yield
        except APIError as error:
            said = str(error.explanation or error)
            raise _refused(name, said, error.status_code) from error


def _refused(name: str, said: str, status: int | None) -> NotGiven | InfrastructureError:
    if status in _REFUSALS or _NOT_GIVEN.search(said):
        return NotGiven(" ".join(said.split()))
    return refusal(f"fetching image {name}", said, "registry")


def _note(told: Mapping[str, Any], layers: dict[str, tuple[int, int, bool]]) -> bool:
    """Take in one line of the engine's report; whether it was about a layer."""
    layer, detail = told.get("id"), told.get("progressDetail")
    # Lines about the image as a whole have no details.
    if not layer or detail is None:
        return False
    received, size, _ = layers.get(layer, (0, 0, False))
    status = told.get("status")
    if status == "Downloading":
        received, size = int(detail.get("current") or 0), int(detail.get("total") or 0)
    elif status == "Download complete":
        received = size
    layers[layer] = (received, size, status in ("Pull complete", "Already exists"))
    return True


def _summary(name: str, layers: Mapping[str, tuple[int, int, bool]]) -> PullProgress:
    return PullProgress(
        image=name,
        layers=len(layers),
        ready=sum(ready for _, _, ready in layers.values()),
        received=sum(received for received, _, _ in layers.values()),
        size=sum(size for _, size, _ in layers.values()),
    )
