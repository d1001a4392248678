"""What a hostile program finds in its container, and what it cannot do to the machine."""

from __future__ import annotations

import json
from collections.abc import Iterator

import docker
import pytest
from msgspec import structs

from bitsect.images.reference import parse_reference
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.runtime import DockerRuntime, FoundImage
from bitsect.images.runtime.docker.session import ContainerSession
from bitsect.images.runtime.errors import ProgramError
from bitsect.images.runtime.protocol import RunSpec
from tests.containers.workshop import Workshop
from tests.images.docker.conftest import MEMORY, PROCESSES
from tests.images.docker.programs import LONG, containers, printed, run

pytestmark = pytest.mark.engine

STATUS = "print(open('/proc/self/status').read())"


@pytest.fixture(scope="module")
def shared(runtime: DockerRuntime, handle: FoundImage) -> Iterator[ContainerSession]:
    """A session for looking only."""
    with runtime.open(handle) as opened:
        yield opened


class TestFromInside:
    def test_there_is_no_capability_to_have_or_to_get(self, shared: ContainerSession) -> None:
        status = dict(
            line.split(":\t", 1) for line in printed(shared, STATUS).splitlines() if ":\t" in line
        )
        kinds = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
        assert {int(status[kind], 16) for kind in kinds} == {0}
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"

    def test_there_is_no_network(self, shared: ContainerSession) -> None:
        source = (
            "import os, socket; print(os.listdir('/sys/class/net'),"
            " len(open('/proc/net/route').readlines()), socket.gethostbyname(socket.gethostname()))"
        )
        assert printed(shared, source) == "['lo'] 1 127.0.0.1\n"

    def test_it_can_write_only_to_memory(self, shared: ContainerSession) -> None:
        source = """
import json, os
kinds = {line.split()[1]: line.split()[2] for line in open("/proc/mounts")}
found = set()
for folder, folders, _ in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/sys")]
    try:
        open(os.path.join(folder, ".mark"), "w").close()
        os.remove(os.path.join(folder, ".mark"))
    except OSError:
        continue
    place = folder
    while place not in kinds:
        place = os.path.dirname(place)
    found.add((place, kinds[place]))
print(json.dumps(sorted(found)))
"""
        found = dict(json.loads(printed(shared, source)))
        assert found.keys() >= {"/tmp", "/var/tmp", "/bitsect/work", "/dev/shm"}
        assert set(found.values()) <= {"tmpfs", "mqueue"}

    def test_that_memory_has_bounds_that_leave_some(self, shared: ContainerSession) -> None:
        source = """
import os
sizes = [os.statvfs(path) for path in ("/tmp", "/var/tmp", "/bitsect/work", "/dev/shm")]
print(sum(size.f_blocks * size.f_frsize for size in sizes))
"""
        assert 0 < int(printed(shared, source)) < MEMORY * 3 / 4

    def test_programs_can_run_from_where_they_can_write(self, shared: ContainerSession) -> None:
        source = """
import os, subprocess
for folder in ("/tmp", "/var/tmp", "/bitsect/work"):
    path = folder + "/program"
    with open(path, "w") as stream:
        stream.write("#!/bin/sh\\necho ran\\n")
    os.chmod(path, 0o755)
    subprocess.run([path], check=True)
"""
        assert printed(shared, source) == "ran\n" * 3

    def test_the_hosts_devices_and_processes_are_not_there(self, shared: ContainerSession) -> None:
        source = "import os; print(sorted(os.listdir('/dev')))"
        usual = "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero"
        assert printed(shared, source) == f"{usual.split()}\n"
        source = "print([name for name in __import__('os').listdir('/proc') if name.isdigit()][0])"
        assert printed(shared, source) == "1\n"

    def test_it_leaves_no_core_dump(self, shared: ContainerSession) -> None:
        source = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
        assert printed(shared, source) == "(0, 0)\n"

    def test_the_first_process_cannot_be_ended(self, shared: ContainerSession) -> None:
        source = """
import os
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError as error:
        assert number in (32, 33), error
"""
        printed(shared, source)
        printed(shared, "import os, time; time.sleep(0.1)")
        assert (
            printed(shared, "print(open('/proc/1/comm').read().startswith('python'))") == "True\n"
        )


class TestLimits:
    def test_time(self, session: ContainerSession) -> None:
        done = run(session, "import time; print(1, flush=True); time.sleep(1000)", timeout=1)
        assert (done.timed_out, done.signal, done.out_of_memory) == (True, "SIGKILL", False)
        assert done.stdout.read_text() == "1\n"

    def test_time_of_one_that_writes_all_the_while(self, session: ContainerSession) -> None:
        source = "import time\nwhile True: print(1, flush=True); time.sleep(0.001)"
        assert run(session, source, timeout=1).timed_out

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_output(self, session: ContainerSession, stream: str) -> None:
        source = f"import sys\nwhile True: sys.{stream}.write('x' * 1000)"
        spec = RunSpec((str(session.python), "-c", source), LONG, output_limit=100_000)
        done = session.exec(spec)
        assert (done.overflowed, done.timed_out) == (True, False)
        written = {"stdout": done.stdout, "stderr": done.stderr}[stream]
        assert written.stat().st_size == 100_000

    def test_memory(self, session: ContainerSession) -> None:
        done = run(session, "kept = bytearray(1 << 30)")
        assert (done.out_of_memory, done.signal) == (True, "SIGKILL")
        # The next program is not blamed for it.
        assert not run(session, "import sys; sys.exit(1)").out_of_memory

    def test_memory_of_a_program_that_survives_it_in_part(self, session: ContainerSession) -> None:
        source = (
            "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c',"
            " 'kept = bytearray(1 << 30)']).returncode != 0)"
        )
        done = run(session, source)
        assert (done.returncode, done.out_of_memory) == (1, True)

    def test_room(self, session: ContainerSession) -> None:
        source = "stream = open('full', 'wb')\nwhile True: stream.write(bytes(1 << 20))"
        done = run(session, source)
        assert "No space left on device" in done.tail()
        assert not done.out_of_memory

    def test_processes(self, session: ContainerSession) -> None:
        source = """
import os, time
children = 0
while True:
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        time.sleep(1000)
    children += 1
print(children)
"""
        assert 0 < int(printed(session, source)) < PROCESSES
        # All of them are gone.
        assert printed(session, "print('alive')") == "alive\n"

    def test_a_fork_bomb(self, session: ContainerSession) -> None:
        source = """
import os
while True:
    try:
        os.fork()
        os.setsid()
    except OSError:
        pass
"""
        assert run(session, source, timeout=3).timed_out
        assert printed(session, "print('alive')") == "alive\n"


class TestImagesOfTheirOwnMind:
    def test_its_volumes_are_neither_writable_nor_empty(
        self,
        runtime: DockerRuntime,
        workshop: Workshop,
        small_image: str,
        engine: docker.DockerClient,
    ) -> None:
        tag = workshop.derived(
            "bitsect-test/small:volumes",
            small_image,
            ['VOLUME ["/data", "/tmp"]', "USER nobody", "HEALTHCHECK CMD touch /tmp/checked"],
            {"data/kept": b"content"},
        )
        with runtime.open(runtime.ensure(runtime.resolve(parse_reference(tag)))) as session:
            assert printed(session, "print(open('/data/kept').read())") == "content\n"
            label = f"bitsect.owner={runtime.marks.owner}"
            assert len(engine.volumes.list(filters={"label": label})) == 1
            done = run(session, "open('/data/x', 'w')")
            assert "Read-only file system" in done.tail()
            assert printed(session, "import os; print(os.getuid())") == "65534\n"
            assert printed(session, "open('/tmp/x', 'w'); open('/bitsect/work/x', 'w')") == ""
        assert engine.volumes.list(filters={"label": label}) == []

    def test_a_user_that_is_not_there_is_the_images_fault(
        self, runtime: DockerRuntime, workshop: Workshop, small_image: str
    ) -> None:
        tag = workshop.derived("bitsect-test/small:user", small_image, ["USER no-such-user"])
        handle = runtime.ensure(runtime.resolve(parse_reference(tag)))
        with runtime.open(handle) as session, pytest.raises(ProgramError) as caught:
            run(session, "pass")
        assert "no-such-user" in caught.value.reason


def test_asked_for_limits_are_there(
    runtime: DockerRuntime, handle: FoundImage, real_engine: Engine
) -> None:
    # Given what vendor images ask for
    plain, others = runtime.options, {*containers(real_engine, runtime)}
    runtime.options = structs.replace(plain, ipc_host=True, memlock=65536, stack=67108864, cpus=1.5)
    try:
        with runtime.open(handle) as session:
            source = (
                "import os, resource; print(resource.getrlimit(resource.RLIMIT_MEMLOCK),"
                " resource.getrlimit(resource.RLIMIT_STACK), os.readlink('/proc/self/ns/ipc'))"
            )
            said = printed(session, source)
            (container,) = {*containers(real_engine, runtime)} - others
            config = real_engine.api.inspect_container(container)["HostConfig"]
    finally:
        runtime.options = plain
    assert said.startswith("(65536, 65536) (67108864, 67108864) ")
    assert config["IpcMode"] == "host"
    assert config["NanoCpus"] == 1_500_000_000
