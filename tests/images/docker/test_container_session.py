"""Programs in real containers: what they get, how they end, and what becomes of them."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from bitsect.images.reference import parse_reference
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.runtime import DockerRuntime, FoundImage
from bitsect.images.runtime.docker.session import ContainerSession
from bitsect.images.runtime.errors import ProgramError, SessionClosedError
from bitsect.images.runtime.protocol import RunSpec
from bitsect.images.runtime.surroundings import KERNEL_CACHES
from tests.containers.workshop import Workshop
from tests.images.docker.programs import LONG, containers, eventually, printed, run

pytestmark = pytest.mark.engine

SHOW = "import os, json; print(json.dumps(dict(os.environ)))"


class TestSurroundings:
    def test_variables_are_the_images_and_the_sessions_and_no_others(
        self, session: ContainerSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OMP_NUM_THREADS", "7")
        done = session.exec(RunSpec(("env", "-0"), LONG))
        pairs = done.stdout.read_text().rstrip("\0").split("\0")
        found = dict(pair.split("=", 1) for pair in pairs)
        own = {*KERNEL_CACHES, "TMPDIR", "XDG_CACHE_HOME"}
        steady = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "HOSTNAME": "bitsect"}
        assert set(found) == {"PATH", "HOME", *own, *steady}
        assert {name: found[name] for name in steady} == steady
        assert all(found[name].startswith("/bitsect/work/") for name in own)

    def test_the_folders_that_they_name_are_there_and_empty(
        self, session: ContainerSession
    ) -> None:
        source = (
            "import os; print([os.listdir(value) for name, value in os.environ.items()"
            " if value.startswith('/bitsect/')])"
        )
        assert printed(session, source) == "[[], [], [], [], []]\n"

    def test_variables_can_be_added_and_removed(self, session: ContainerSession) -> None:
        found = json.loads(
            printed(session, SHOW, EXTRA="1", HOME=None, TMPDIR=None, PYTHONHASHSEED=None)
        )
        assert found["EXTRA"] == "1"
        assert not {"HOME", "TMPDIR", "PYTHONHASHSEED"} & found.keys()

    def test_each_program_has_a_fresh_folder(self, session: ContainerSession) -> None:
        source = "import os; print(os.getcwd(), os.listdir()); open('left', 'w')"
        first, second = printed(session, source), printed(session, source)
        assert first.endswith(" []\n")
        assert second.endswith(" []\n")
        assert first != second

    def test_a_folder_can_be_chosen(self, session: ContainerSession) -> None:
        done = session.exec(RunSpec(("pwd",), LONG, folder=Path("/usr/lib")))
        assert done.stdout.read_text() == "/usr/lib\n"

    def test_it_has_nothing_to_read_and_the_usual_signals(self, session: ContainerSession) -> None:
        source = (
            "import sys; print(repr(sys.stdin.read()));"
            "print([line for line in open('/proc/self/status') if line.startswith('SigIgn')])"
        )
        done = session.exec(RunSpec(("cat", "/proc/self/status"), LONG))
        assert "SigIgn:\t0000000000000000" in done.stdout.read_text()
        assert printed(session, source).startswith("''\n")

    def test_the_probe_is_there_and_cannot_be_changed(
        self, session: ContainerSession, runtime: DockerRuntime
    ) -> None:
        inner = session.inside(runtime.payload.folder)
        source = (
            "import bitsect.probes.identity as me; print(me.__file__); open(me.__file__ + 'x', 'w')"
        )
        done = run(session, source, PYTHONPATH=inner)
        assert done.stdout.read_text().startswith(inner)
        assert "Read-only file system" in done.tail()

    def test_no_other_folder_is_lent(self, session: ContainerSession, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="not lent"):
            session.inside(tmp_path)


class TestEnds:
    @pytest.mark.parametrize("status", [0, 1, 127, 255])
    def test_a_status(self, session: ContainerSession, status: int) -> None:
        done = run(session, f"import os; os._exit({status})")
        assert (done.returncode, done.signal) == (status, None)
        assert not any((done.timed_out, done.overflowed, done.out_of_memory))

    @pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL", "SIGABRT"])
    def test_a_signal(self, session: ContainerSession, name: str) -> None:
        done = run(session, f"import os, signal; os.kill(os.getpid(), signal.{name})")
        assert (done.returncode, done.signal) == (-signal.Signals[name], name)
        assert not done.out_of_memory

    def test_both_streams_are_kept_apart_and_whole(self, session: ContainerSession) -> None:
        source = (
            "import sys\nfor number in range(20000):\n print('out', number)\n"
            " print('err', number, file=sys.stderr)"
        )
        done = run(session, source)
        for path, word in ((done.stdout, "out"), (done.stderr, "err")):
            expected = "".join(f"{word} {number}\n" for number in range(20000))
            assert path.read_text() == expected

    def test_output_can_be_followed_while_it_runs(
        self, session: ContainerSession, runtime: DockerRuntime
    ) -> None:
        source = "import time; print('begun', flush=True); time.sleep(1000)"

        def body() -> None:
            with pytest.raises(SessionClosedError):
                run(session, source)

        thread = threading.Thread(target=body)
        thread.start()

        def begun() -> bool:
            return any(
                path.read_bytes() == b"begun\n"
                for path in runtime.marks.scratch_root.glob("*/stdout*")
            )

        assert eventually(begun)
        session.close()
        thread.join()

    def test_a_program_that_is_not_there(self, session: ContainerSession) -> None:
        with pytest.raises(ProgramError) as caught:
            session.exec(RunSpec(("no-such-program",), LONG))
        assert caught.value.reason == "No such file or directory"

    def test_a_folder_that_is_not_there(self, session: ContainerSession) -> None:
        with pytest.raises(ProgramError) as caught:
            session.exec(RunSpec(("pwd",), LONG, folder=Path("/nowhere")))
        assert caught.value.reason == "/nowhere: No such file or directory"

    def test_a_python_that_is_not_there(self, runtime: DockerRuntime, handle: FoundImage) -> None:
        broken = replace(handle, python=Path("/usr/bin/python9"))
        with runtime.open(broken) as session, pytest.raises(ProgramError) as caught:
            run(session, "pass")
        assert "no such file" in caught.value.reason.lower()

    def test_a_python_that_fails_at_once_is_quoted(
        self, runtime: DockerRuntime, handle: FoundImage
    ) -> None:
        broken = replace(handle, python=Path("/usr/bin/cat"))
        with runtime.open(broken) as session, pytest.raises(ProgramError) as caught:
            run(session, "pass")
        assert "invalid option" in caught.value.reason or "--help" in caught.value.reason

    def test_what_it_left_running_ends_with_it(self, session: ContainerSession) -> None:
        # Given a program that leaves another one behind, in a session of its own
        source = (
            "import os, time\nif os.fork() == 0:\n os.setsid()\n"
            " for fd in (0, 1, 2): os.close(fd)\n time.sleep(1000)"
        )
        run(session, source)
        # Then the next program is alone with itself and the first process
        count = "import os; print(sum(name.isdigit() for name in os.listdir('/proc')))"
        assert eventually(lambda: printed(session, count) == "2\n")

    def test_several_run_at_a_time(self, session: ContainerSession) -> None:
        # Given two programs, each of which waits for the other
        folder = session.fresh_folder()
        source = (
            f"import os, time; open('{folder}/NAME', 'w')\n"
            f"while len(os.listdir('{folder}')) < 2: time.sleep(0.01)"
        )
        ends: list[int] = []

        def body(name: str) -> None:
            ends.append(run(session, source.replace("NAME", name)).returncode)

        threads = [threading.Thread(target=body, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Then both come to their end
        assert ends == [0, 0]


class TestFiles:
    def test_a_file_comes_out(self, session: ContainerSession, tmp_path: Path) -> None:
        folder = session.fresh_folder()
        data = bytes(range(256)) * 10000
        run(session, f"open('{folder}/x', 'wb').write(bytes(range(256)) * 10000)")
        assert session.fetch(f"{folder}/x", tmp_path / "x")
        assert (tmp_path / "x").read_bytes() == data
        assert list(tmp_path.iterdir()) == [tmp_path / "x"]

    @pytest.mark.parametrize("name", ["absent", "link", "pipe", "folder", "large"])
    def test_what_is_no_plain_file_within_the_limit_does_not(
        self, session: ContainerSession, tmp_path: Path, name: str
    ) -> None:
        folder = session.fresh_folder()
        source = (
            f"import os; os.chdir('{folder}'); open('large', 'w').write('12345');"
            "os.symlink('large', 'link'); os.mkfifo('pipe'); os.mkdir('folder')"
        )
        run(session, source)
        assert not session.fetch(f"{folder}/{name}", tmp_path / "x", limit=4)
        assert list(tmp_path.iterdir()) == []

    def test_fresh_folders_outlive_a_container(self, session: ContainerSession) -> None:
        folder = session.fresh_folder()
        run(session, f"open('{folder}/x', 'w')")
        run(session, "import time; time.sleep(1000)", timeout=0.5)
        assert printed(session, f"import os; print(os.listdir('{folder}'))") == "[]\n"


def is_running(engine: Engine, runtime: DockerRuntime) -> bool:
    """Whether a container of the runtime runs."""
    label = f"bitsect.root={runtime.marks.root}"
    return bool(engine.api.containers(filters={"label": label}))


class TestClosing:
    def test_nothing_is_left(
        self, runtime: DockerRuntime, handle: FoundImage, real_engine: Engine
    ) -> None:
        session = runtime.open(handle)
        done = run(session, "print(1)")
        assert len(containers(real_engine, runtime)) == 1
        session.close()
        session.close()
        assert containers(real_engine, runtime) == []
        assert not done.stdout.parent.exists()

    def test_it_runs_nothing_afterwards(self, session: ContainerSession) -> None:
        session.close()
        with pytest.raises(SessionClosedError):
            run(session, "pass")
        with pytest.raises(SessionClosedError):
            session.fresh_folder()
        with pytest.raises(SessionClosedError):
            session.fetch("/etc/passwd", Path("/nowhere"))

    def test_it_ends_what_runs_in_another_thread(
        self, session: ContainerSession, runtime: DockerRuntime, real_engine: Engine
    ) -> None:
        ends: list[BaseException] = []

        def body() -> None:
            try:
                run(session, "import time; time.sleep(1000)")
            except SessionClosedError as error:
                ends.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        assert eventually(lambda: len(containers(real_engine, runtime)) == 1)
        session.close()
        thread.join()
        assert len(ends) == 1
        assert containers(real_engine, runtime) == []

    def test_it_does_not_wait_for_a_container_that_starts(
        self,
        runtime: DockerRuntime,
        workshop: Workshop,
        small_image: str,
        handle: FoundImage,
        real_engine: Engine,
    ) -> None:
        # Given an image whose Python says nothing, so that its container never has started
        silent = {"usr/bin/silent": b"#!/bin/sh\nexec sleep 1000\n"}
        lines = ["RUN chmod 755 /usr/bin/silent"]
        tag = workshop.derived("bitsect-test/small:silent", small_image, lines, silent)
        found = runtime.ensure(runtime.resolve(parse_reference(tag)))
        session = runtime.open(replace(found, python=Path("/usr/bin/silent")))
        ends: list[BaseException] = []

        def body() -> None:
            try:
                run(session, "pass")
            except (SessionClosedError, ProgramError) as error:
                ends.append(error)

        # And two threads that want to run something in it
        threads = [threading.Thread(target=body) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: is_running(real_engine, runtime))
        # When the session is closed, both are told so, and nothing is left
        session.close()
        for thread in threads:
            thread.join()
        assert [type(error) for error in ends] == [SessionClosedError] * 2
        assert containers(real_engine, runtime) == []

    def test_a_container_that_someone_else_removes_is_replaced(
        self, session: ContainerSession, runtime: DockerRuntime, real_engine: Engine
    ) -> None:
        run(session, "pass")
        (container,) = containers(real_engine, runtime)
        timer = threading.Timer(
            0.3, real_engine.api.remove_container, (container,), {"force": True}
        )
        timer.start()
        done = run(session, "import time; time.sleep(1000)")
        timer.join()
        assert (done.signal, done.out_of_memory) == ("SIGKILL", False)
        assert printed(session, "print(1)") == "1\n"

    def test_the_docker_command_line_sees_what_it_is(
        self, session: ContainerSession, runtime: DockerRuntime, real_engine: Engine
    ) -> None:
        run(session, "pass")
        (container,) = containers(real_engine, runtime)
        labels = real_engine.api.inspect_container(container)["Config"]["Labels"]
        assert labels["bitsect.made"] == "session"
        assert labels["bitsect.owner"] == runtime.marks.owner
