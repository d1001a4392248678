"""Against Debian's own registry, with images that a real engine has pushed there."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import docker
import pytest

from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.tags import Unanswered, tags_between
from tests.containers.engine import REQUIRED
from tests.containers.workshop import LABEL
from tests.images.docker_tags.test_tags import identity, tags_of

pytestmark = pytest.mark.engine

USER = {"username": "ada", "password": "sesame"}
#: bcrypt of that password, as `htpasswd` writes it.
PASSWORDS = "ada:$2b$05$abcdefghijklmnopqrstuuKcS.CYWVYVaLiiCKrrc0A5s3mGesJ9O\n"

Push = Callable[..., str]


@contextmanager
def running(folder: Path, *, passwords: bool) -> Iterator[str]:
    """Host and port of a registry that keeps its blobs in a folder."""
    (folder / "passwords").write_text(PASSWORDS)
    login = {"htpasswd": {"realm": "stacks", "path": str(folder / "passwords")}}
    settings = {
        "version": 0.1,
        "log": {"accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": "127.0.0.1:0"},
        **({"auth": login} if passwords else {}),
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


@pytest.fixture(scope="module", params=[False, True], ids=["open", "with passwords"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry, once open to everybody and once to those with a password."""
    if shutil.which("docker-registry") is None:
        reason = "no docker-registry; install it"
        pytest.fail(reason) if os.environ.get(REQUIRED) else pytest.skip(reason)
    with running(tmp_path_factory.mktemp("registry"), passwords=request.param) as host:
        yield host


@pytest.fixture
def push(engine: docker.DockerClient) -> Iterator[Push]:
    """Makes a small image, pushes it under some tags, and gives its id."""
    with ExitStack() as stack:

        def make(repository: str, *tags: str, keep: bool = False) -> str:
            text = tags[0].encode()
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as tar:
                member = tarfile.TarInfo("version")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
            told = engine.api.import_image_from_data(
                packed.getvalue(), repository, tags[0], changes=[f"LABEL {LABEL}=1"]
            )
            image_id: str = json.loads(told.splitlines()[-1])["status"]
            stack.callback(_remove, engine, image_id)
            for tag in tags:
                engine.api.tag(image_id, repository, tag)
                pushed = engine.api.push(repository, tag, auth_config=USER)
                assert '"error"' not in pushed, pushed
            if not keep:
                _remove(engine, image_id)
            return image_id

        yield make


def _remove(engine: docker.DockerClient, image_id: str) -> None:
    try:
        engine.api.remove_image(image_id, force=True)
    except docker.errors.ImageNotFound:
        return


def test_what_was_pushed_in_between_is_found_in_order(
    host: str, push: Push, docker_config: Path, engine: docker.DockerClient
) -> None:
    # Given five versions in the registry, of which the engine still has the ends and one more
    auth = base64.b64encode(f"{USER['username']}:{USER['password']}".encode()).decode()
    docker_config.write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    repository = f"{host}/team/stack"
    good = identity(push(repository, "v9", keep=True), f"{repository}:v9")
    second = push(repository, "v10", "stable")
    third = push(repository, "v11", keep=True)
    push(repository, "other")
    fourth = push(repository, "v12")
    bad = identity(push(repository, "v13", keep=True), f"{repository}:v13")

    # When those between are asked for
    with closing(Engine.connect()) as connection:
        found = tags_between(connection, repository, "v*", good, bad)

    # Then they are all there, by the digests by which the engine pulls them
    assert found.unanswered == ()
    assert tags_of(found) == ["v10", "v11", "v12"]
    assert [image.manifest_digest is None for image in found.images] == [False, True, False]
    if connection.store == "graphdriver":
        assert [image.digest for image in found.images] == [second, third, fourth]
    first = found.images[0]
    data = engine.images.get_registry_data(first.reference, auth_config=USER)
    assert data.id == first.manifest_digest


def test_a_repository_that_is_not_there_is_said(host: str, push: Push, docker_config: Path) -> None:
    auth = base64.b64encode(f"{USER['username']}:{USER['password']}".encode()).decode()
    docker_config.write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    good = identity(push(f"{host}/team/stack", "a", keep=True), "a")

    with closing(Engine.connect()) as connection:
        found = tags_between(connection, f"{host}/no/such", "*", good, good)

    assert found.unanswered == (Unanswered(f"{host}/no/such", "it has no such repository"),)
