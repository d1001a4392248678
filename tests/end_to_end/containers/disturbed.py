"""A small search on an engine of its own, which tests disturb in every way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from docker.models.containers import Container

from bitsect.bisect.store import Store
from bitsect.images.runtime.docker.marks import MADE, ROOT
from tests.containers.second_engine import SecondEngine

#: Runs of the two ends, after which the search itself begins.
ENDS = 4
_PATIENCE = 120


@dataclass(frozen=True)
class Search:
    """The same question wherever it is asked: in which component the bits of a chain changed.

    :param images: good and bad.
    :param data: folder of the store.
    :param cache: folder of bitsect's cache.
    :param around: makes the command that is run of the one that is meant.
    """

    engine: SecondEngine
    images: tuple[str, str]
    data: Path
    cache: Path
    around: Callable[[Sequence[str]], list[str]] = list

    @property
    def environment(self) -> dict[str, str]:
        """Of the command."""
        return {
            **os.environ,
            "DOCKER_HOST": self.engine.address,
            "BITSECT_DATA": str(self.data),
            "BITSECT_CACHE": str(self.cache),
            "COLUMNS": "80",
        }

    def command(self, *more: str) -> list[str]:
        """It takes the arm that is done soonest, one trial at a time."""
        good, bad = self.images
        begin = [sys.executable, "-m", "bitsect", "bisect", "start", f"good:{good}", f"bad:{bad}"]
        return self.around([*begin, "--arms=data", "--workers=1", *more])

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Run it to whatever end it comes."""
        return subprocess.run(
            self.command(*more), env=self.environment, capture_output=True, text=True, timeout=300
        )

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """It runs; after the block it does not."""
        with subprocess.Popen(
            self.command(), env=self.environment, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def refused(self) -> str:
        """The one line with which it gives up."""
        ran = self.run()
        return only_error(ran.returncode, ran.stderr)

    def answer(self, *, kept: int) -> dict[str, Any]:
        """What it says when it comes to its end.

        :param kept: observations with which it goes on.
        """
        ran = self.run("--json")
        assert ran.returncode == 0, ran.stderr
        assert f"going on, {kept} observations kept" in ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    @property
    def observed(self) -> int:
        """How many observations are kept."""
        store = Store(self.data)
        try:
            return len(store.ledger(store.session().number))
        finally:
            store.close()

    def on(self, data: Path, around: Callable[[Sequence[str]], list[str]] | None = None) -> Search:
        """The same with another store."""
        return replace(self, data=data, around=around or self.around)


def only_error(status: int, said: str) -> str:
    """The line that tells what ended a command, if it is one line, and the last."""
    assert status == 2, said
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert said.splitlines()[-1] == line
    return line


def findings(answer: dict[str, Any]) -> list[list[tuple[str, str, str]]]:
    """What changed bits, of each finding: component, before, after."""
    return [
        [(each["component"], each["before"], each["after"]) for each in finding["culprits"]]
        for finding in answer["findings"]
    ]


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Wait for something to become so, unless a process ends before."""
    end = time.monotonic() + _PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it does not become so"
        assert process is None or process.poll() is None, "it ended before"
        time.sleep(0.01)


def builds(container: Container) -> bool:
    """Whether a hybrid is being made in it."""
    return container.labels[MADE] == "build" and container.status == "running"


def probes(container: Container) -> bool:
    """Whether the probe runs in it; its processes can be seen from outside."""
    return any(_is_probe(process, str(container.id)) for process in Path("/proc").iterdir())


def _is_probe(process: Path, container: str) -> bool:
    try:
        arguments = (process / "cmdline").read_bytes().split(b"\0")
        return b"bitsect.probes" in arguments and container in (process / "cgroup").read_text()
    except OSError:
        # No process, or none any more.
        return False


def running(engine: SecondEngine) -> list[Container]:
    """Containers that run now."""
    with engine.client() as client:
        return list(client.containers.list(ignore_removed=True))


def assert_clean(search: Search) -> None:
    """Nothing is on the engine but its images, whole hybrids and the probe's volume."""
    root = (search.cache / "engine" / "id").read_text()
    with search.engine.client() as client:
        assert client.containers.list(all=True, ignore_removed=True) == []
        others = [
            image
            for image in client.images.list(all=True)
            if image.labels.get(ROOT) != root or not image.tags
        ]
        assert {tag for image in others for tag in image.tags} == set(search.images)
        assert all(image.tags for image in others)
        (volume,) = client.volumes.list()
        assert volume.attrs["Labels"][MADE] == "probe"
