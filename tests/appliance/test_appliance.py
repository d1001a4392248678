"""What the appliance is: small, without root, and with nothing in it but bitsect."""

from __future__ import annotations

import json
import subprocess

import docker
import pytest

from bitsect import __version__
from tests.appliance.conftest import Run

pytestmark = pytest.mark.engine

#: Bytes that the appliance may add to its base.
MOST_BYTES = 100_000_000

LOOK = """
import importlib.util, json, os, pathlib, shutil, sys

compilers = ("cc", "gcc", "c++", "g++", "clang", "tcc", "ld", "as", "make", "nvcc")
modules = ("torch", "numpy", "pytest", "mypy", "setuptools")
files = [pathlib.Path(folder, name) for folder, _, names in os.walk("/") for name in names
         if not folder.startswith(("/proc", "/sys"))]
print(json.dumps({
    "user": [os.getuid(), os.getgid(), os.getgroups()],
    "compilers": [name for name in compilers if shutil.which(name)],
    "modules": [name for name in modules if importlib.util.find_spec(name)],
    "wheels": [str(path) for path in files if path.suffix == ".whl"],
    "caches": [str(path) for path in files if ".cache" in path.parts],
    "writable": [str(path) for path in files
                 if path.is_relative_to("/opt") and os.access(path, os.W_OK)],
    "bytecode": (importlib.util.find_spec("bitsect").cached or "").startswith("/opt/")
                and os.path.exists(importlib.util.find_spec("bitsect").cached),
}))
"""


def test_it_is_bitsect(run: Run) -> None:
    shown = run("--version")

    assert (shown.returncode, shown.stdout) == (0, f"bitsect {__version__}\n")
    assert "bisect" in run().stdout
    assert "start" in run("bisect", "--help").stdout


def test_nothing_but_bitsect_is_in_it_and_nothing_runs_as_root(appliance: str) -> None:
    # When somebody looks around in it
    told = subprocess.run(
        ["docker", "run", "--rm", "--network=none", "--entrypoint=python", appliance, "-c", LOOK],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = json.loads(told)

    # Then there is no compiler, no torch, nothing left of the build, and nothing to write to
    assert found == {
        "user": [65532, 65532, [65532]],
        "compilers": [],
        "modules": [],
        "wheels": [],
        "caches": [],
        "writable": [],
        "bytecode": True,
    }


def test_it_says_what_it_is_and_adds_little(
    engine: docker.DockerClient, appliance: str, small_image: str
) -> None:
    image, base = engine.images.get(appliance), engine.images.get(small_image)

    added = int(image.attrs["Size"]) - int(base.attrs["Size"])
    print(f"the appliance adds {added / 1e6:.0f} MB to its base")

    assert added <= MOST_BYTES
    assert image.labels["org.opencontainers.image.version"] == __version__
    assert image.attrs["Config"]["User"] == "65532:65532"
    assert image.attrs["Config"]["Volumes"] is None


def test_what_it_writes_stays_in_its_volume(run: Run, volume: str) -> None:
    # Given a manifest that one container wrote to a new volume
    mounted = (f"--volume={volume}:/data", "--read-only", "--tmpfs=/tmp")
    pinned = run("pin", "host:", "-o", "appliance.yaml", options=mounted)
    assert pinned.returncode == 0, pinned.stderr

    # Then the next one finds it there
    compared = run("diff", "manifest:appliance.yaml", "manifest:appliance.yaml", options=mounted)
    assert compared.returncode == 0, compared.stderr
