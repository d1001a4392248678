"""A container engine of the tests' own, which can be killed and has a disk that can be full."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import docker

from tests.containers.enclosure import Enclosure, SmallDisk, enclosure
from tests.containers.engine import ANSWER_SECONDS, copy_images

_START_SECONDS = 60


class SecondEngine:
    """An engine that nobody else uses, in an `Enclosure`; made by `second_engine`.

    :param disk: on which it keeps everything.
    """

    def __init__(self, inside: Enclosure, disk: SmallDisk, folder: Path) -> None:
        self._inside = inside
        self._folder = folder
        self.disk = disk
        self._daemon: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """For DOCKER_HOST."""
        return f"unix://{self._folder}/socket"

    @property
    def processes(self) -> int:
        """How many there are of the engine and its containers."""
        return self._inside.processes

    @contextmanager
    def client(self) -> Iterator[docker.DockerClient]:
        """A connection."""
        with closing(docker.DockerClient(self.address, timeout=ANSWER_SECONDS)) as client:
            yield client

    def start(self) -> None:
        """Start it, as after a start of the machine or a crash, and wait until it answers."""
        command = self._inside.command(
            "dockerd", "--host", self.address, "--data-root", self.disk.root / "engine",
            "--exec-root", self._folder / "run", "--pidfile", self._folder / "pid",
            "--storage-driver=overlay2", "--bridge=none", "--iptables=false",
            "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--log-level=error",
        )  # fmt: skip
        with (self._folder / "log").open("ab") as log:
            self._daemon = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._daemon.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < end, (self._folder / "log").read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """End it by SIGKILL: it has no time for anything."""
        assert self._daemon is not None
        self._inside.run("kill", "-KILL", (self._folder / "pid").read_text())
        self._daemon.wait()

    def load(self, origin: docker.DockerClient, images: Sequence[str]) -> None:
        """Bring images in from another engine, with what they share once."""
        with self.client() as client:
            copy_images(origin, client.api, images)

    def _answers(self) -> bool:
        # The SDK forgets to close a socket on which nobody answers.
        with socket.socket(socket.AF_UNIX) as way:
            if way.connect_ex(str(self._folder / "socket")) != 0:
                return False
        with self.client() as client:
            return bool(client.ping())


@contextmanager
def second_engine(folder: Path, size: int) -> Iterator[SecondEngine]:
    """A running engine.

    :param folder: for its files; its disk's is removed at the end.
    :param size: of its disk, in bytes.
    """
    with enclosure() as inside:
        engine = SecondEngine(inside, SmallDisk(inside, folder, size), folder)
        try:
            engine.start()
            yield engine
        finally:
            engine.kill()
    (folder / "disk").unlink()
