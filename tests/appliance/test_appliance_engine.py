"""The appliance at work on this machine's engine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.appliance.conftest import SOCKET, Run
from tests.containers import cases
from tests.containers.remnants import remnants, remove
from tests.containers.workshop import Workshop

pytestmark = pytest.mark.engine


def test_it_pins_an_image_as_this_machine_does(
    run: Run,
    with_engine: tuple[str, ...],
    engine: docker.DockerClient,
    small_image: str,
    tmp_path: Path,
) -> None:
    # Given what bitsect says of an image without a container around itself
    cache = tmp_path / "cache"
    here = subprocess.run(
        [sys.executable, "-m", "bitsect", "pin", small_image, "-o", str(tmp_path / "here.yaml")],
        env={**os.environ, "BITSECT_CACHE": str(cache)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    remove(engine, remnants(engine, cache))
    assert here.returncode == 0, here.stderr

    # Then the appliance says the same
    pinned = run("pin", small_image, "-o", "small.yaml", options=with_engine)
    assert pinned.returncode == 0, pinned.stderr
    assert pinned.stdout == here.stdout


@pytest.mark.end_to_end
def test_it_finds_what_changed_the_bits(
    run: Run, with_engine: tuple[str, ...], workshop: Workshop
) -> None:
    # Given two images of which one sets two variables, one of them harmless
    ends = cases.one_variable(workshop)

    # When the appliance searches between them
    search = ("bisect", "start", f"good:{ends.good}", f"bad:{ends.bad}", "--arms=data", "--json")
    ran = run(*search, options=with_engine)

    # Then it names the culprit, and the innocent one
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    (finding,) = answer["findings"]
    assert tuple(each["component"] for each in finding["culprits"]) == ends.culprits
    assert tuple(answer["innocent"]) == ends.innocents

    # And its volume remembers that for the next container
    assert ends.culprits[0] in run("bisect", "status", options=with_engine).stdout


def test_without_the_sockets_group_it_says_that_it_is_not_allowed(
    run: Run, small_image: str
) -> None:
    mounted = (f"--volume={SOCKET}:{SOCKET}",)

    refused = run("pin", small_image, "-o", "small.yaml", options=mounted)

    assert refused.returncode == 2
    assert "not allowed" in refused.stderr
    assert str(SOCKET) in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_without_a_socket_it_says_that_there_is_no_engine(run: Run, small_image: str) -> None:
    refused = run("pin", small_image, "-o", "small.yaml")

    assert refused.returncode == 2
    assert "the container engine cannot be used" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@pytest.fixture
def silent_engine(tmp_path: Path) -> Iterator[socket.socket]:
    """An engine that takes what it is asked and never answers."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "docker.sock"))
        (tmp_path / "docker.sock").chmod(0o777)
        server.listen()
        # An appliance that fails before it asks must not hang the tests.
        server.settimeout(60)
        yield server


@pytest.mark.parametrize("signal", ["INT", "TERM"])
def test_it_ends_when_it_is_told_to(
    appliance: str, silent_engine: socket.socket, signal: str
) -> None:
    # Given an appliance that waits for its engine
    path = silent_engine.getsockname()
    name = f"bitsect-test-{Path(path).parent.name}"
    command = [
        "docker", "run", "--rm", "--network=none", f"--name={name}",
        f"--volume={path}:{SOCKET}", appliance, "pin", "stack:tag", "-o", "stack.yaml",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        connection, _ = silent_engine.accept()

        # When Ctrl-C is pressed, or the container is stopped
        subprocess.run(["docker", "kill", f"--signal={signal}", name], check=True)
        _, said = waiting.communicate()
        connection.close()

    # Then it ends at once, and says how to go on
    assert waiting.returncode == 130, said
