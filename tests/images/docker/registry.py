"""A registry of one's own, and small images to push to it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from tests.containers.engine import REQUIRED
from tests.containers.workshop import LABEL


@contextmanager
def serving_registry(folder: Path) -> Iterator[str]:
    """Host and port of a registry that keeps its blobs in a folder."""
    if shutil.which("docker-registry") is None:
        reason = "no docker-registry; install it"
        pytest.fail(reason) if os.environ.get(REQUIRED) else pytest.skip(reason)
    settings = {
        "version": 0.1,
        "log": {"accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": "127.0.0.1:0"},
    }
    # JSON is YAML too.
    (folder / "config.yml").write_text(json.dumps(settings))
    command = ["docker-registry", "serve", str(folder / "config.yml")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            listening = (re.search(r"listening on ([\d.]+:\d+)", line) for line in process.stderr)
            host = next(found[1] for found in listening if found)
            # What nobody reads would stop it in the end.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield host
        finally:
            process.terminate()


class SmallImages:
    """Images of one small file, removed with `clean`.

    :param prefix: what the names of their repositories begin with.
    """

    def __init__(self, client: docker.DockerClient, prefix: str) -> None:
        self._client = client
        self.prefix = prefix
        self._made: list[str] = []

    def make(
        self,
        *names: str,
        architecture: str = "amd64",
        config: Mapping[str, object] | None = None,
    ) -> str:
        """A fresh image with these names, given without the prefix; its id.

        :param config: its own settings, such as ``Env``.
        """
        tags = [f"{self.prefix}{name}" for name in names]
        archive, image = _archive(tags, architecture, config or {})
        # The stubs leave the types of this one out.
        list(self._client.api.load_image(archive))  # type: ignore[no-untyped-call]
        self._made.append(image)
        return image

    def push(self, name: str) -> str:
        """The digest by which the registry has it."""
        told = self._client.api.push(f"{self.prefix}{name}", stream=True, decode=True)
        *_, last = (line["aux"] for line in told if "aux" in line)
        return str(last["Digest"])

    def forget(self, image: str) -> None:
        """Remove an image from the engine."""
        try:
            self._client.api.remove_image(image, force=True)
        except docker.errors.ImageNotFound:
            return

    def clean(self) -> None:
        """Remove all of them from the engine."""
        for image in self._made:
            self.forget(image)


def _archive(
    tags: Sequence[str], architecture: str, config: Mapping[str, object]
) -> tuple[bytes, str]:
    """An image as `docker load` reads it, and its id."""
    layer = _tar({"file": secrets.token_bytes(16)})
    described = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Labels": {LABEL: "1"}, **config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_sha256(layer)}"]},
    }
    document = json.dumps(described).encode()
    name = f"{_sha256(document)}.json"
    listed = [{"Config": name, "RepoTags": list(tags), "Layers": ["layer.tar"]}]
    files = {name: document, "layer.tar": layer, "manifest.json": json.dumps(listed).encode()}
    return _tar(files), f"sha256:{_sha256(document)}"


def _tar(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
