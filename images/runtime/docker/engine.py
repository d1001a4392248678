"""The container engine: how it is found, what it is, and what it means when it fails.

Docker's own engine and Podman's socket answer the same API. Whatever can go wrong in talking to
it is the host's fault, and becomes an InfrastructureError in `engine_faults`; only "there is no
such thing" (`docker.errors.NotFound`) and "not in this state" (status 409) stay as they are,
because what they mean depends on what was asked.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import docker
import requests
import urllib3
from docker.constants import DEFAULT_UNIX_SOCKET
from docker.context import ContextAPI
from docker.context.config import get_current_context_name
from docker.errors import (
    APIError,
    DockerException,
    NotFound,
    create_api_error_from_http_exception,
)
from docker.utils import kwargs_from_env

from bitsect.images.errors import InfrastructureError, InfrastructureKind

Store = Literal["graphdriver", "containerd"]

#: The oldest API with all that a session needs; engines have it since 2019.
OLDEST_API = (1, 40)
#: Seconds of silence after which an engine counts as gone. Committing a large image is silent.
ANSWER_SECONDS = 600
#: Connections kept open; each running program holds one.
_CONNECTIONS = 64
#: The kind that GPUs are of, among the devices with names of their own.
CDI_GPU = "nvidia.com/gpu"
_CONFLICT = 409
_CONTAINERD = "io.containerd.snapshotter"
NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_REFUSED = frozenset({errno.EACCES, errno.EPERM})


@dataclass(frozen=True, eq=False)
class Engine:
    """A connection to an engine that answered. Any thread may use it.

    :param api: the SDK's low-level client; use it inside `engine_faults`.
    :param address: where it is reached.
    :param name: ``Docker Engine`` or ``Podman Engine``.
    :param version: of the engine.
    :param api_version: that both sides speak.
    :param store: how it keeps images, which decides what an image's id means.
    :param platform: ``os/architecture`` of the containers that it runs.
    :param memory: bytes that the machine has.
    :param cpus: logical ones of the machine.
    :param has_cdi: it knows NVIDIA's GPUs by the names of the Container Device Interface.
    """

    api: docker.APIClient
    address: str
    name: str
    version: str
    api_version: tuple[int, int]
    store: Store
    platform: str
    memory: int
    cpus: int
    has_cdi: bool

    @classmethod
    def connect(cls, environment: Mapping[str, str] | None = None) -> Engine:
        """The engine that DOCKER_HOST names, or else the command line's current context.

        Raises InfrastructureError if there is none, it may not be used, or it is too old.

        :param environment: variables to go by; by default this process's own.
        """
        variables = dict(os.environ if environment is None else environment)
        with engine_faults("finding the container engine"):
            settings = _settings(variables)
        address = _address(settings)
        with engine_faults(f"the container engine at {address}"):
            api = docker.APIClient(
                **settings, version="auto", timeout=ANSWER_SECONDS, max_pool_size=_CONNECTIONS
            )
            try:
                return cls._described(api, address)
            except BaseException:
                api.close()
                raise

    @property
    def title(self) -> str:
        """Name and version, for people and for the record."""
        return f"{self.name} {self.version}"

    @property
    def is_podman(self) -> bool:
        return self.name.startswith("Podman")

    @contextmanager
    def stream(
        self, method: str, path: str, parameters: Mapping[str, str] | None = None
    ) -> Iterator[requests.Response]:
        """An answer that is read piece by piece from ``.raw``, and given up on leaving.

        For what the SDK offers only without a way to stop. Raises what the SDK raises.

        :param path: below the API's version, such as ``/images/NAME/get``.
        """
        url = f"{self.api.base_url}/v{self.api.api_version}{quote(path)}"
        response = self.api.request(
            method,
            url,
            params=parameters,
            # What is read from ``.raw`` is as it was sent, and archives would come compressed.
            headers={"Accept-Encoding": "identity"},
            stream=True,
            timeout=ANSWER_SECONDS,
        )
        with response:
            try:
                response.raise_for_status()
            except requests.HTTPError as error:
                raise create_api_error_from_http_exception(error) from error
            yield response

    def image(self, name: str) -> Mapping[str, Any]:
        """An image as the engine describes it.

        Raises `docker.errors.NotFound` if there is none, InfrastructureError.

        :param name: or its id.
        """
        with engine_faults(f"inspecting image {name}"):
            # The stubs leave the types of this one out.
            found: Mapping[str, Any] = self.api.inspect_image(name)  # type: ignore[no-untyped-call]
        return found

    def close(self) -> None:
        """Close the connections; may be repeated."""
        self.api.close()

    @classmethod
    def _described(cls, api: docker.APIClient, address: str) -> Engine:
        told, info = api.version(), api.info()
        api_version = _version_tuple(api.api_version)
        if api_version < OLDEST_API:
            oldest = ".".join(map(str, OLDEST_API))
            detail = f"the engine at {address} speaks API {api.api_version}; {oldest} is needed"
            raise InfrastructureError("engine", detail)
        try:
            return cls(
                api=api,
                address=address,
                name=_engine_name(told),
                version=str(told["Version"]),
                api_version=api_version,
                store=_store(info),
                platform=f"{told['Os']}/{told['Arch']}",
                memory=int(info["MemTotal"]),
                cpus=int(info["NCPU"]),
                has_cdi=_has_cdi(info),
            )
        except KeyError as error:
            detail = f"what answers at {address} does not tell its {error.args[0]}"
            raise InfrastructureError("engine", detail) from error


@contextmanager
def engine_faults(what: str) -> Iterator[None]:
    """Turns what the engine, or the way to it, refuses into InfrastructureError.

    `docker.errors.NotFound`, and `APIError` with status 409, pass unchanged.

    :param what: what was being done, for the message.
    """
    try:
        yield
    except APIError as error:
        if isinstance(error, NotFound) or error.status_code == _CONFLICT:
            raise
        raise refusal(what, str(error.explanation or error)) from error
    except (
        DockerException,
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        ConnectionError,
        TimeoutError,
    ) as error:
        raise _lost(what, error) from error


def refusal(what: str, said: str, otherwise: InfrastructureKind = "refused") -> InfrastructureError:
    """What it means that the engine does not do what it was asked to.

    :param said: in its words.
    :param otherwise: the kind of error, if it is not that the engine's disk is full.
    """
    kind = "disk" if NO_SPACE.search(said) else otherwise
    return InfrastructureError(kind, f"{what}: {' '.join(said.split())}")


def _lost(what: str, error: BaseException) -> InfrastructureError:
    """No answer at all, or one that broke off."""
    cause = _system_error(error)
    if cause is not None and cause.errno in _REFUSED:
        return InfrastructureError("permission", f"{what}: {cause.strerror}")
    if cause is not None and cause.strerror:
        return InfrastructureError("engine", f"{what}: {cause.strerror}")
    return InfrastructureError("engine", f"{what}: {' '.join(str(error).split())}")


def _system_error(error: BaseException) -> OSError | None:
    """The operating system's own error, which libraries wrap in several ways."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, OSError) and each.errno is not None:
            return each
        inner = (each.__cause__, each.__context__, *each.args)
        waiting += [part for part in inner if isinstance(part, BaseException)]
    return None


def _settings(variables: Mapping[str, str]) -> dict[str, Any]:
    """Where the engine is, found as Docker's command line finds it."""
    settings: dict[str, Any] = dict(kwargs_from_env(dict(variables)))
    if "base_url" not in settings:
        chosen = variables.get("DOCKER_CONTEXT") or get_current_context_name()
        # The SDK would take the default one.
        if ContextAPI.get_context(chosen) is None:
            raise InfrastructureError("engine", f"there is no context {chosen!r} of Docker's")
        for name, value in ContextAPI.kwargs_from_context(environment=variables).items():
            settings.setdefault(name, value)
    return settings


def _address(settings: Mapping[str, Any]) -> str:
    address = str(settings.get("base_url", DEFAULT_UNIX_SOCKET))
    return re.sub(r"^(?:http\+)?unix:/+", "/", address)


def _engine_name(told: Mapping[str, Any]) -> str:
    names = [str(part.get("Name", "")) for part in told.get("Components") or ()]
    podman = [name for name in names if name.startswith("Podman")]
    return podman[0] if podman else "Docker Engine"


def _store(info: Mapping[str, Any]) -> Store:
    """An engine that keeps images in containerd says which snapshotter it uses."""
    status = [str(value) for pair in info.get("DriverStatus") or () for value in pair]
    return "containerd" if any(_CONTAINERD in value for value in status) else "graphdriver"


def _has_cdi(info: Mapping[str, Any]) -> bool:
    """Whether it reads device specifications, and, where it says so, knows a GPU by them."""
    known = info.get("DiscoveredDevices")
    if known is not None:
        return any(str(each.get("ID", "")).startswith(CDI_GPU) for each in known)
    return bool(info.get("CDISpecDirs"))


def _version_tuple(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
