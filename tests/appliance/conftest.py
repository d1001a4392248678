"""The appliance, built as a user builds it, on a base that is made here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.containers.remnants import remnants, remove
from tests.containers.workshop import LABEL

ROOT = Path(__file__).parents[2]
TAG = "bitsect-test/appliance:latest"
SOCKET = Path("/var/run/docker.sock")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def appliance(
    engine: docker.DockerClient, small_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The appliance's tag. It is built from what git would hand out, in a folder of its own."""
    clone = tmp_path_factory.mktemp("clone")
    _copy_tracked_files(clone)
    # The environment that runs the tests has all that making the wheels needs.
    environment = [f"VENV={sys.prefix}", f"--old-file={sys.prefix}/core"]
    made = subprocess.run(
        ["make", *environment, "appliance", f"BASE={small_image}", f"APPLIANCE={TAG}"],
        cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    try:
        assert made.returncode == 0, made.stdout[-3000:]
        yield TAG
    finally:
        engine.images.remove(TAG, force=True)
        _remove_builders(engine)


@pytest.fixture
def run(appliance: str) -> Run:
    """Runs the appliance to its end; for an engine's images it needs no network."""

    def run_it(*arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", "run", "--rm", "--network=none", *options, appliance, *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run_it


@pytest.fixture
def volume(engine: docker.DockerClient) -> Iterator[str]:
    """A new volume's name. What bitsect keeps on the engine for it goes with it."""
    made: Any = engine.volumes.create(labels={LABEL: "1"})
    try:
        yield str(made.name)
        found = remnants(engine, Path(made.attrs["Mountpoint"], "cache"))
        remove(engine, found)
        assert found.containers == ()
    finally:
        made.remove(force=True)


@pytest.fixture
def with_engine(volume: str) -> tuple[str, ...]:
    """Options that lend the appliance this machine's engine, and a volume for its data."""
    return (
        f"--volume={SOCKET}:{SOCKET}",
        f"--group-add={SOCKET.stat().st_gid}",
        f"--volume={volume}:/data",
    )


def _copy_tracked_files(target: Path) -> None:
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for line in listing.splitlines():
        source, place = ROOT / line, target / line
        if source.is_symlink() or source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place, follow_symlinks=False)


def _remove_builders(engine: docker.DockerClient) -> None:
    """What the builder stage left behind, which no tag leads to."""
    for image in engine.images.list(filters={"label": LABEL, "dangling": True}):
        history: list[dict[str, str]] = image.history()
        if any(" in /wheels" in step["CreatedBy"] for step in history):
            with suppress(docker.errors.APIError):
                engine.images.remove(str(image.id))
