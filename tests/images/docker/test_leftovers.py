"""What is left when bitsect or its engine dies in the middle: nothing, or what is cleared next."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import docker
import pytest

from bitsect.images.errors import InfrastructureError
from bitsect.images.payload import Payload
from bitsect.images.runtime.docker.container import Container, Plan
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.files import created_container, remove_container
from bitsect.images.runtime.docker.marks import Marks
from bitsect.images.runtime.docker.probe_volume import probe_mount, probe_volume
from bitsect.images.runtime.docker.pruning import RECIPE, name_of
from bitsect.images.runtime.docker.runtime import DockerRuntime, FoundImage
from bitsect.images.runtime.docker.sweep import clear, sweep
from tests.images.docker.conftest import OPTIONS
from tests.images.docker.line import line_to
from tests.images.docker.programs import containers, eventually, printed, run

pytestmark = pytest.mark.engine

KILLED = """
import sys
from pathlib import Path
from bitsect.images.payload import staged_probe
from bitsect.images.reference import parse_reference
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.runtime import DockerRuntime
from bitsect.images.runtime.protocol import RunSpec
cache = Path(sys.argv[1])
runtime = DockerRuntime(Engine.connect(), staged_probe(cache), cache)
handle = runtime.ensure(runtime.resolve(parse_reference(sys.argv[2])))
session = runtime.open(handle)
session.exec(RunSpec(("true",), 60.0))
print("ready", flush=True)
session.exec(RunSpec(("sleep", "1000"), 1000.0))
"""


def test_a_killed_process_leaves_no_container(
    runtime: DockerRuntime, cache_root: Path, small_image: str, real_engine: Engine
) -> None:
    # Given another process that runs a program in a container
    command = [sys.executable, "-c", KILLED, str(cache_root), small_image]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert len(containers(real_engine, runtime)) == 1
        # When it is killed
        process.send_signal(signal.SIGKILL)
    # Then the engine removes the container by itself
    assert eventually(lambda: containers(real_engine, runtime) == [])


@contextmanager
def labelled(engine: Engine, image: str, labels: dict[str, str]) -> Iterator[str]:
    """A container that was never started."""
    created = engine.api.create_container(image, command=["true"], labels=labels)
    try:
        yield created["Id"]
    finally:
        remove_container(engine, created["Id"])


def test_a_container_that_cannot_be_made_leaves_no_volume(
    tmp_path: Path, real_engine: Engine
) -> None:
    # Given an image that is removed just before a container is made of it
    marks = Marks(tmp_path)
    plan = Plan(
        image="sha256:" + "0" * 64, python="/usr/bin/python3", labels=marks.on_container("session"),
        host_config={}, host_name="bitsect", volumes=("bitsect-data-test-1", "bitsect-data-test-2"),
    )  # fmt: skip
    with pytest.raises(InfrastructureError, match="an image was removed"):
        Container(real_engine, plan)
    # Then nothing is left of the container's volumes
    own = {"label": f"bitsect.owner={marks.owner}"}
    assert not real_engine.api.volumes(filters=own)["Volumes"]
    marks.release()


class TestSweep:
    def test_only_what_belongs_to_the_dead_goes(
        self, tmp_path: Path, small_image: str, real_engine: Engine, payload: Payload
    ) -> None:
        # Given containers of a process that is gone, of one that lives, of another cache folder,
        # and of nobody that is known
        marks = Marks(tmp_path)
        mine = marks.on_container("session")
        dead = {**mine, "bitsect.owner": "0123456789ab"}
        foreign = {**dead, "bitsect.root": "fedcba9876543210"}
        with (
            labelled(real_engine, small_image, dead) as gone,
            labelled(real_engine, small_image, mine) as alive,
            labelled(real_engine, small_image, foreign) as others,
            labelled(real_engine, small_image, {"name": "value"}) as unknown,
        ):
            # When a runtime starts
            with DockerRuntime(real_engine, payload, tmp_path, OPTIONS):
                left = {each["Id"] for each in real_engine.api.containers(all=True)}
            # Then the first one is gone, and no other
            assert {alive, others, unknown} <= left
            assert gone not in left
        marks.release()

    def test_a_volume_of_the_dead_goes_too(self, tmp_path: Path, real_engine: Engine) -> None:
        marks = Marks(tmp_path)
        dead = {**marks.on_container("session"), "bitsect.owner": "0123456789ab"}
        name = str(real_engine.api.create_volume("bitsect-data-test", labels=dead)["Name"])
        assert sweep(real_engine, marks) == 0
        with pytest.raises(docker.errors.NotFound):
            real_engine.api.inspect_volume(name)
        marks.release()

    def test_an_owner_that_is_no_name_is_nobodys(self, tmp_path: Path) -> None:
        marks = Marks(tmp_path)
        assert not marks.is_abandoned("")
        assert not marks.is_abandoned("../id")
        assert not marks.is_abandoned(marks.owner)
        marks.release()
        assert marks.is_abandoned(marks.owner)

    def test_all_processes_of_a_cache_folder_have_one_id(self, tmp_path: Path) -> None:
        first, second = Marks(tmp_path), Marks(tmp_path)
        assert first.root == second.root
        assert first.owner != second.owner
        assert len(first.root) == 16
        for marks in (first, second):
            marks.release()


class TestClear:
    def test_everything_that_was_made_goes_and_nothing_else(
        self, tmp_path: Path, small_image: str, real_engine: Engine, payload: Payload
    ) -> None:
        # Given one thing of each kind
        marks = Marks(tmp_path)
        api = real_engine.api
        labels = {**marks.on_kept("hybrid"), RECIPE: "sha256:" + "ab" * 32}
        changes = [f"LABEL {name}={value}" for name, value in labels.items()]
        own = name_of("hybrid", labels[RECIPE], marks.root)
        with created_container(real_engine, small_image, marks) as container:
            api.commit(container, *own, changes=changes)
            api.create_volume(f"bitsect-test-{marks.root}", labels=marks.on_kept("probe"))
        # And what people made from the image, which inherits its labels, one without a name
        with created_container(real_engine, ":".join(own), marks) as container:
            theirs = f"bitsect-test/bitsect/mine-{marks.root}"
            api.commit(container, theirs, "1", changes="ENV MINE=1")
            nameless = api.commit(container, changes="ENV MINE=2")["Id"]
            # When all is cleared, while a container of this process is there
            first = clear(real_engine, marks)
        # Then what people made is there, and so is what it was made from
        assert (first.containers, first.volumes, first.images) == (0, 1, 0)
        assert real_engine.image(f"{theirs}:1")
        assert real_engine.image(nameless)
        for name in (f"{theirs}:1", nameless):
            api.remove_image(name)
        # And without that it goes
        last = clear(real_engine, marks)
        assert (last.images, last.left) == (1, 0)
        marks.release()

    def test_what_runs_for_others_is_left_to_them(
        self, tmp_path: Path, small_image: str, real_engine: Engine
    ) -> None:
        # Given a running container of another cache folder
        others, marks = Marks(tmp_path / "others"), Marks(tmp_path / "own")
        container = real_engine.api.create_container(
            small_image, ["python3", "-c", "import time; time.sleep(60)"],
            labels=others.on_container("session"), network_disabled=True,
        )["Id"]  # fmt: skip
        try:
            real_engine.api.start(container)
            assert clear(real_engine, marks, everyones=True).left >= 1
            assert real_engine.api.inspect_container(container)["State"]["Running"]
        finally:
            real_engine.api.remove_container(container, force=True)
        for each in (others, marks):
            each.release()


class TestProbeVolume:
    @pytest.fixture
    def marks(self, tmp_path: Path) -> Iterator[Marks]:
        marks = Marks(tmp_path)
        yield marks
        marks.release()

    @pytest.fixture
    def other_probe(self, tmp_path: Path, real_engine: Engine) -> Iterator[Payload]:
        """One that no other test lends."""
        folder = tmp_path / "probe"
        (folder / "bitsect").mkdir(parents=True)
        (folder / "bitsect" / "__init__.py").write_text(f"# {tmp_path}")
        digest = f"sha256:{abs(hash(tmp_path)):064x}"
        other = Payload(folder, digest)
        yield other
        for volume in volumes_of(real_engine, other):
            real_engine.api.remove_volume(volume)

    def test_it_is_made_once(
        self, real_engine: Engine, marks: Marks, other_probe: Payload, small_image: str
    ) -> None:
        first = probe_volume(real_engine, marks, other_probe, small_image)
        assert probe_volume(real_engine, marks, other_probe, small_image) == first

    @pytest.mark.parametrize(
        ("name", "data"),
        [("bitsect/__init__.py", b"evil"), ("bitsect/more.py", b"")],
        ids=["changed", "added"],
    )
    def test_one_that_is_not_right_is_replaced(
        self,
        real_engine: Engine,
        marks: Marks,
        other_probe: Payload,
        small_image: str,
        tmp_path: Path,
        name: str,
        data: bytes,
    ) -> None:
        # Given a volume that was changed after it had been made
        first = probe_volume(real_engine, marks, other_probe, small_image)
        changed = Payload(tmp_path / "changed", other_probe.digest)
        (changed.folder / name).parent.mkdir(parents=True)
        (changed.folder / name).write_bytes(data)
        tampered_with(real_engine, marks, small_image, first, changed.folder)
        # Then it is not used, but a new one
        second = probe_volume(real_engine, marks, other_probe, small_image)
        assert second != first
        with pytest.raises(docker.errors.NotFound):
            real_engine.api.inspect_volume(first)

    def test_one_that_was_removed_comes_back(
        self, real_engine: Engine, other_probe: Payload, handle: FoundImage, tmp_path: Path
    ) -> None:
        where = {"PYTHONPATH": "/bitsect/probe"}
        with DockerRuntime(real_engine, other_probe, tmp_path, OPTIONS) as runtime:
            with runtime.open(handle) as session:
                printed(session, "import bitsect", **where)
            (volume,) = volumes_of(real_engine, other_probe)
            real_engine.api.remove_volume(volume)
            with runtime.open(handle) as session:
                printed(session, "import bitsect", **where)


def volumes_of(engine: Engine, payload: Payload) -> list[str]:
    filters = {"label": f"bitsect.probe={payload.digest}"}
    return [each["Name"] for each in engine.api.volumes(filters=filters)["Volumes"] or ()]


def tampered_with(engine: Engine, marks: Marks, image: str, volume: str, folder: Path) -> None:
    """Write a folder's files into a volume."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(folder, "")
    mount = probe_mount(volume, read_only=False)
    with created_container(engine, image, marks, mounts=(mount,)) as container:
        engine.api.put_archive(container, "/bitsect/probe", packed.getvalue())


@pytest.mark.usefixtures("unanswered")
class TestEngineGone:
    @pytest.mark.parametrize("moment", ["in a program", "between two programs"])
    def test_it_is_the_hosts_fault_and_comes_at_once(
        self,
        real_engine: Engine,
        payload: Payload,
        tmp_path: Path,
        handle: FoundImage,
        moment: str,
    ) -> None:
        if not real_engine.address.startswith("/"):
            pytest.skip("the engine is not on a socket of this machine")
        with (
            line_to(real_engine.address, tmp_path) as line,
            closing(Engine.connect(line.environment)) as engine,
            DockerRuntime(engine, payload, tmp_path, OPTIONS) as runtime,
            runtime.open(handle) as session,
        ):
            # Given a container that runs
            printed(session, "print(1)")
            # When the engine dies
            if moment == "in a program":
                threading.Timer(0.3, line.cut).start()
            else:
                line.cut()
            with pytest.raises(InfrastructureError) as caught:
                run(session, "import time; time.sleep(1000)")
            assert caught.value.kind == "engine"
            owner = {"label": f"bitsect.owner={runtime.marks.owner}"}
        # Then the container ends all the same, because nobody holds its input any more
        assert eventually(lambda: real_engine.api.containers(all=True, filters=owner) == [])
