"""Podman's own engine, started for the tests behind Docker's API."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.containers.enclosure import enclosure
from tests.containers.engine import REQUIRED

# Podman raises two limits as far as they go, which not every machine's superuser may.
_RUNTIME = """\
#!{python}
import json, os, sys
arguments = sys.argv[1:]
for name, value in zip(arguments, arguments[1:]):
    path = {{"--bundle": value + "/config.json", "--process": value, "-p": value}}.get(name)
    if path:
        with open(path) as stream:
            document = json.load(stream)
        process = document.get("process", document)
        process["rlimits"] = [
            each for each in process.get("rlimits") or ()
            if each["type"] not in ("RLIMIT_NOFILE", "RLIMIT_NPROC")
        ]
        with open(path, "w") as stream:
            json.dump(document, stream)
os.execv({runc!r}, ["runc", *arguments])
"""

_SETTINGS = """\
[engine]
runtime = "modest"
[engine.runtimes]
modest = ["{runtime}"]
"""


@contextmanager
def podman_service(folder: Path) -> Iterator[dict[str, str]]:
    """The variables by which a Podman with its own storage is found."""
    podman, runc = shutil.which("podman"), shutil.which("runc")
    if podman is None or runc is None or os.geteuid() != 0:
        reason = "no podman and runc to run as the superuser; install them"
        if os.environ.get(REQUIRED):
            pytest.fail(reason)
        pytest.skip(reason)
    runtime = folder / "runtime"
    runtime.write_text(_RUNTIME.format(python=sys.executable, runc=runc))
    runtime.chmod(runtime.stat().st_mode | stat.S_IXUSR)
    (folder / "containers.conf").write_text(_SETTINGS.format(runtime=runtime))
    socket = folder / "podman.sock"
    environment = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}
    command = [
        podman, f"--root={folder / 'root'}", f"--runroot={folder / 'run'}",
        "--storage-driver=overlay", "system", "service", "--time=0", f"unix://{socket}",
    ]  # fmt: skip
    # Podman leaves mounts and processes that mount again; they end with the enclosure.
    with (
        enclosure() as inside,
        (folder / "log").open("wb") as log,
        subprocess.Popen(inside.command(*command), env=environment, stderr=log) as process,
    ):
        try:
            end = time.monotonic() + 60
            while not socket.exists():
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end, "podman does not listen"
                time.sleep(0.02)
            yield {"DOCKER_HOST": f"unix://{socket}"}
        finally:
            process.kill()
