"""The same on Podman, which answers Docker's API a little differently."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest
from msgspec import structs

from bitsect.images.errors import BadReference, InfrastructureError
from bitsect.images.payload import Payload
from bitsect.images.reference import parse_reference
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.files import exported
from bitsect.images.runtime.docker.runtime import DockerRuntime, FoundImage
from bitsect.images.runtime.docker.session import ContainerSession
from bitsect.images.runtime.docker.sweep import clear
from bitsect.images.runtime.errors import ProgramError, SessionClosedError
from bitsect.images.runtime.protocol import RunSpec
from tests.containers.engine import copy_images
from tests.images.docker.conftest import OPTIONS
from tests.images.docker.podman import podman_service
from tests.images.docker.programs import LONG, containers, eventually, printed, run

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def podman(
    tmp_path_factory: pytest.TempPathFactory, engine: docker.DockerClient, small_image: str
) -> Iterator[Engine]:
    """A Podman that has the image with Python and nothing else."""
    with (
        podman_service(tmp_path_factory.mktemp("podman")) as environment,
        closing(Engine.connect(environment)) as connected,
    ):
        copy_images(engine, connected.api, (small_image,))
        yield connected


@pytest.fixture(scope="module")
def runtime(podman: Engine, payload: Payload, cache_root: Path) -> Iterator[DockerRuntime]:
    with DockerRuntime(podman, payload, cache_root, OPTIONS) as opened:
        yield opened
        left = containers(podman, opened)
        clear(podman, opened.marks)
    assert left == []


@pytest.fixture(scope="module")
def handle(runtime: DockerRuntime, small_image: str) -> FoundImage:
    return runtime.ensure(runtime.resolve(parse_reference(small_image)))


@pytest.fixture
def session(runtime: DockerRuntime, handle: FoundImage) -> Iterator[ContainerSession]:
    with runtime.open(handle) as opened:
        yield opened


def test_it_is_podman(podman: Engine) -> None:
    assert podman.is_podman


class TestReferences:
    def test_the_image_is_the_one_that_docker_has(
        self, handle: FoundImage, small_image: str, engine: docker.DockerClient
    ) -> None:
        assert handle.stack.image is not None
        assert handle.stack.image.config_digest == engine.images.get(small_image).id

    def test_the_beginning_of_its_id(self, runtime: DockerRuntime, handle: FoundImage) -> None:
        stack = runtime.resolve(parse_reference(handle.engine_id[: len("sha256:") + 12]))
        assert stack.image is not None
        assert stack.image.engine_id == handle.engine_id

    def test_one_that_is_not_there_and_whose_registry_is_not_reached(
        self, runtime: DockerRuntime
    ) -> None:
        with pytest.raises(InfrastructureError) as caught:
            runtime.resolve(parse_reference("127.0.0.1:1/team/stack:v1"))
        assert caught.value.kind == "registry"

    def test_a_digest_that_is_not_there(self, runtime: DockerRuntime) -> None:
        with pytest.raises(BadReference):
            runtime.resolve(parse_reference("bitsect-test/small@sha256:beef"))


class TestSession:
    def test_what_programs_find(self, session: ContainerSession) -> None:
        status = printed(session, "print(open('/proc/self/status').read())")
        assert "CapEff:\t0000000000000000" in status
        assert "CapBnd:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        source = "import os; print(os.listdir('/sys/class/net'), os.environ['HOSTNAME'])"
        assert printed(session, source) == "['lo'] bitsect\n"
        assert "Read-only file system" in run(session, "open('/x', 'w')").tail()

    def test_the_probe_is_there(self, session: ContainerSession, runtime: DockerRuntime) -> None:
        inner = session.inside(runtime.payload.folder)
        source = "import bitsect.probes.identity as me; open(me.__file__ + 'x', 'w')"
        assert "Read-only file system" in run(session, source, PYTHONPATH=inner).tail()

    def test_how_programs_end(self, session: ContainerSession) -> None:
        assert run(session, "import os; os._exit(3)").returncode == 3
        assert run(session, "import os; os.abort()").signal == "SIGABRT"
        assert run(session, "import time; time.sleep(1000)", timeout=1).timed_out
        assert run(session, "kept = bytearray(1 << 30)").out_of_memory
        endless = ("sh", "-c", "while :; do echo xxxxxxxxxx; done")
        assert session.exec(RunSpec(endless, LONG, output_limit=1000)).overflowed
        with pytest.raises(ProgramError):
            session.exec(RunSpec(("no-such-program",), LONG))

    def test_a_file_comes_out(self, session: ContainerSession, tmp_path: Path) -> None:
        folder = session.fresh_folder()
        run(session, f"open('{folder}/x', 'w').write('content')")
        assert session.fetch(f"{folder}/x", tmp_path / "x")
        assert (tmp_path / "x").read_text() == "content"

    def test_closing_ends_what_runs_in_another_thread(
        self, session: ContainerSession, runtime: DockerRuntime, podman: Engine
    ) -> None:
        ends: list[BaseException] = []

        def body() -> None:
            try:
                run(session, "import time; time.sleep(1000)")
            except SessionClosedError as error:
                ends.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        assert eventually(lambda: len(containers(podman, runtime)) == 1)
        session.close()
        thread.join()
        assert len(ends) == 1
        assert containers(podman, runtime) == []

    def test_it_goes_when_nobody_holds_it(
        self, session: ContainerSession, runtime: DockerRuntime, podman: Engine
    ) -> None:
        run(session, "pass")
        assert session._container is not None
        session._container._first.close()
        assert eventually(lambda: containers(podman, runtime) == [])

    def test_gpus_that_it_does_not_pass_on_are_missed(
        self, runtime: DockerRuntime, handle: FoundImage
    ) -> None:
        plain = runtime.options
        runtime.options = structs.replace(plain, gpus="all")
        try:
            with runtime.open(handle) as session, pytest.raises(InfrastructureError) as caught:
                run(session, "pass")
        finally:
            runtime.options = plain
        assert "GPUs all were asked of Podman Engine" in caught.value.detail


def test_files_come_out_of_an_image(runtime: DockerRuntime, handle: FoundImage) -> None:
    with exported(runtime.engine, handle.engine_id, runtime.marks) as stream:
        assert len(stream.read(1 << 16)) > 0
