"""Whether this machine can make and run containers for tests, and the connection to its engine."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import warnings
from collections.abc import Sequence

import docker
import requests

#: Set in CI: a test that needs the engine then fails without one, where it would be skipped.
REQUIRED = "BITSECT_REQUIRE_ENGINE"
#: Seconds of silence after which the engine counts as gone. Importing an image is silent.
ANSWER_SECONDS = 600
#: What makes the images; the engine alone has none, and none can be downloaded.
_PIECE = 1 << 20
TOOLS = ("apt-get", "mmdebstrap", "gcc")


def connect() -> docker.DockerClient:
    """The engine that DOCKER_HOST or the Docker command line's context names.

    Raises `docker.errors.DockerException` or `requests.RequestException` where none answers.
    """
    client = docker.from_env(timeout=ANSWER_SECONDS)
    try:
        client.ping()
    except BaseException:
        client.close()
        raise
    return client


def copy_images(origin: docker.DockerClient, to: docker.APIClient, images: Sequence[str]) -> None:
    """From one engine to another, with what they share once, and never whole in memory."""
    with origin.api.get(
        f"{origin.api.base_url}/v{origin.api.api_version}/images/get",
        params={"names": list(images)}, stream=True, timeout=ANSWER_SECONDS,
        headers={"Accept-Encoding": "identity"},
    ) as answer:  # fmt: skip
        answer.raise_for_status()
        pieces = iter(lambda: answer.raw.read(_PIECE), b"")
        # The stubs leave the types of this one out.
        for line in to.load_image(pieces):  # type: ignore[no-untyped-call]
            assert "error" not in line, line


@functools.cache
def lacking() -> str | None:
    """Why tests of container stacks cannot run here, in a few words; None where they can."""
    if not _answers():
        address = os.environ.get("DOCKER_HOST", "/var/run/docker.sock")
        return f"no engine answers at {address}; start one"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"no {' and no '.join(missing)} to make images with; install it" if missing else None


def _answers() -> bool:
    with warnings.catch_warnings():
        # The SDK forgets to close the socket on which nobody answered.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            connect().close()
        except (docker.errors.DockerException, requests.RequestException):
            return False
        finally:
            gc.collect()
    return True
