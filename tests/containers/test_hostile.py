"""That hostile images are hostile, seen in plain containers under limits of everything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from tests.containers import cases
from tests.containers.hostile import BEHAVIOURS, Behaviour
from tests.containers.workshop import Workshop

pytestmark = pytest.mark.engine

PROCESSES = 32
ROOM = 16 << 20
LOG = 4 << 20


@contextmanager
def running(workshop: Workshop, behaviour: Behaviour, network: str = "none") -> Iterator[Container]:
    """A harmless program started in an image that is not."""
    container = workshop.client.containers.run(
        cases.hostile(workshop, behaviour), ["python3", "-c", "print('reached')"], detach=True,
        network_mode=network, pids_limit=PROCESSES, mem_limit="256m", read_only=True,
        tmpfs={"/tmp": f"size={ROOM}"},
        log_config=docker.types.LogConfig(type="json-file", config={"max-size": str(LOG)}),
    )  # fmt: skip
    try:
        yield container
    finally:
        container.remove(force=True)


def eventually(is_so: Callable[[], bool]) -> bool:
    """Whether it becomes so within a minute."""
    end = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def processes(container: Container) -> int:
    told: Any = container.stats(stream=False)
    return int(told["pids_stats"]["current"])


def test_it_takes_every_process_that_it_may_have(workshop: Workshop) -> None:
    with running(workshop, "forks") as container:
        assert eventually(lambda: processes(container) == PROCESSES)


def said_by(container: Container, *command: str) -> str:
    """What another program in the container says."""
    output: Any = container.exec_run(list(command)).output
    return str(output.decode())


def test_it_takes_all_the_room_that_it_may_have(workshop: Workshop) -> None:
    free = ("stat", "--file-system", "--format=%a", "/tmp")
    with running(workshop, "writes") as container:
        assert eventually(lambda: int(said_by(container, *free)) == 0)
        container.reload()
        assert container.status == "running"


def test_it_sleeps(workshop: Workshop) -> None:
    with running(workshop, "sleeps") as container:
        assert eventually(lambda: "State:\tS" in said_by(container, "cat", "/proc/1/status"))


def test_it_prints_without_end(workshop: Workshop) -> None:
    with running(workshop, "prints") as container:
        # What the log keeps of it is less than its size: each line is wrapped.
        assert eventually(lambda: len(container.logs()) > LOG // 64)
        container.reload()
        assert container.status == "running"


@pytest.mark.parametrize(
    ("network", "status", "said"),
    [("none", 7, "there is no way out"), ("bridge", 8, "there is a way out")],
)
def test_it_tells_whether_it_reached_a_network(
    workshop: Workshop, network: str, status: int, said: str
) -> None:
    with running(workshop, "connects", network) as container:
        assert container.wait()["StatusCode"] == status
        assert said in container.logs().decode()


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_it_begins_before_any_program(workshop: Workshop, behaviour: Behaviour) -> None:
    with running(workshop, behaviour) as container:
        output = container.logs(tail=5)
    assert b"reached" not in output
