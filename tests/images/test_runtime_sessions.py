"""The two runtimes of this machine, with real environments and real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bitsect.images.environments import EnvironmentCache
from bitsect.images.errors import BadReference, InfrastructureError, UnresolvedError
from bitsect.images.interpreter import Interpreter
from bitsect.images.pip_settings import PipSettings
from bitsect.images.reference import parse_reference
from bitsect.images.runtime.errors import SessionClosedError
from bitsect.images.runtime.host import HostRuntime
from bitsect.images.runtime.local import LocalSession
from bitsect.images.runtime.protocol import Mixer, RunSpec, Runtime, Session
from bitsect.images.runtime.surroundings import KERNEL_CACHES, program_environment
from bitsect.images.runtime.venv import VenvRuntime

if TYPE_CHECKING:
    from tests.images.conftest import LocalIndex

LONG = 120.0


@pytest.fixture
def host(tmp_path: Path) -> HostRuntime:
    return HostRuntime(tmp_path / "scratch")


@pytest.fixture
def session(host: HostRuntime) -> Iterator[LocalSession]:
    stack = host.resolve(parse_reference("host:"))
    with host.open(host.ensure(stack)) as opened:
        yield opened


def printed(session: Session, source: str, **environment: str | None) -> str:
    spec = RunSpec((str(session.python), "-c", source), LONG, environment)
    done = session.exec(spec)
    assert done.returncode == 0, done.tail()
    return done.stdout.read_text()


SHOW = "import os, json; print(json.dumps(dict(os.environ)))"


class TestSurroundings:
    USER = {  # noqa: RUF012 - nobody changes it
        "PATH": "/home/me/env/bin:/usr/bin",
        "HOME": "/home/me",
        "TZ": "UTC",
        "LANG": "de_DE.UTF-8",
        "LC_NUMERIC": "C",
        "TMPDIR": "/home/me/tmp",
        "VIRTUAL_ENV": "/home/me/env",
        "PYTHONPATH": "/home/me/lib",
        "PYTHONHOME": "/home/me/python",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "7",
        "PYTHONSTARTUP": "/home/me/start.py",
        "PIP_INDEX_URL": "file:///x",
        "UV_INDEX": "file:///x",
        "OMP_NUM_THREADS": "1",
        "NVIDIA_TF32_OVERRIDE": "0",
        "LD_LIBRARY_PATH": "/opt/lib",
        "CUDA_VISIBLE_DEVICES": "1",
        "TRITON_CACHE_DIR": "/home/me/.triton",
        "NVIDIA_API_KEY": "secret",
        "TORCH_HUB_TOKEN": "secret",
        "EDITOR": "vi",
    }

    def test_for_a_stack_with_its_own_python(self) -> None:
        found = program_environment(self.USER, Path("/s"), own_python=True)
        caches = {name: f"/s/caches/{name.lower()}" for name in KERNEL_CACHES}
        assert found == {
            "PATH": "/usr/bin",
            "HOME": "/home/me",
            "TZ": "UTC",
            "LANG": "de_DE.UTF-8",
            "LC_NUMERIC": "C",
            "TMPDIR": "/s/tmp",
            "PYTHONHASHSEED": "0",
            "PYTHONNOUSERSITE": "1",
            "OMP_NUM_THREADS": "1",
            "NVIDIA_TF32_OVERRIDE": "0",
            "LD_LIBRARY_PATH": "/opt/lib",
            "CUDA_VISIBLE_DEVICES": "1",
            **caches,
        }

    def test_for_the_hosts_python(self) -> None:
        found = program_environment(self.USER, Path("/s"), own_python=False)
        assert found["PATH"] == self.USER["PATH"]
        assert "PYTHONNOUSERSITE" not in found

    def test_without_a_search_path_the_systems_is_used(self) -> None:
        assert program_environment({}, Path("/s"), own_python=True)["PATH"] == os.defpath


class TestSession:
    def test_each_program_has_a_fresh_folder(self, session: LocalSession) -> None:
        source = "import os; print(os.getcwd(), os.listdir()); open('left', 'w')"
        first, second = printed(session, source), printed(session, source)
        assert first.endswith(" []\n")
        assert second.endswith(" []\n")
        assert first != second

    def test_a_folder_can_be_chosen(self, session: LocalSession, tmp_path: Path) -> None:
        done = session.exec(RunSpec(("/bin/pwd",), LONG, folder=tmp_path))
        assert done.stdout.read_text() == f"{tmp_path}\n"

    def test_variables_can_be_added_and_removed(self, session: LocalSession) -> None:
        found = json.loads(printed(session, SHOW, EXTRA="1", HOME=None))
        assert found["EXTRA"] == "1"
        assert "HOME" not in found

    def test_folders_that_variables_name_are_there_until_it_closes(self, host: HostRuntime) -> None:
        stack = host.resolve(parse_reference("host:"))
        with host.open(host.ensure(stack)) as session:
            found = json.loads(printed(session, SHOW))
            folders = [Path(found[name]) for name in (*KERNEL_CACHES, "TMPDIR")]
            assert all(folder.is_dir() and not any(folder.iterdir()) for folder in folders)
        assert not any(folder.exists() for folder in folders)
        session.close()

    def test_closed_it_runs_nothing(self, session: LocalSession) -> None:
        session.close()
        with pytest.raises(SessionClosedError):
            session.exec(RunSpec(("/bin/true",), LONG))

    def test_closing_ends_what_runs_in_another_thread(self, session: LocalSession) -> None:
        begun = threading.Event()
        ends: list[BaseException] = []

        def body() -> None:
            source = "import os, time; os.mkfifo(os.environ['FIFO']); time.sleep(1000)"
            spec = RunSpec((sys.executable, "-c", source), LONG, {"FIFO": str(mark)})
            begun.set()
            try:
                session.exec(spec)
            except SessionClosedError as error:
                ends.append(error)

        mark = Path(session._scratch.path) / "mark"
        thread = threading.Thread(target=body)
        thread.start()
        begun.wait()
        while not mark.exists():
            time.sleep(0.01)
        session.close()
        thread.join()
        assert len(ends) == 1
        assert not mark.parent.exists()

    def test_no_room_for_output_is_the_hosts_fault(
        self, session: LocalSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("bitsect.images.runtime.local.run_program", full)
        with pytest.raises(InfrastructureError) as caught:
            session.exec(RunSpec(("/bin/true",), LONG))
        assert caught.value.kind == "disk"


KILLED = """
import os, sys, time
from pathlib import Path
from bitsect.images.runtime.scratch import ScratchFolder
made = ScratchFolder(Path(sys.argv[1]))
(made.path / "left").write_text("x")
print(made.path, flush=True)
time.sleep(1000)
"""


class TestScratch:
    def test_what_a_killed_session_left_is_cleared_by_the_next(
        self, host: HostRuntime, tmp_path: Path
    ) -> None:
        # Given a session that is alive, and its folder
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "scratch")], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            folder = Path(process.stdout.readline().decode().strip())
            stack = host.resolve(parse_reference("host:"))
            with host.open(host.ensure(stack)):
                # Then another session leaves it alone
                assert (folder / "left").exists()
            # When it is killed
            process.send_signal(signal.SIGKILL)
        # Then the next one clears it
        with host.open(host.ensure(stack)):
            assert not folder.exists()
        assert list((tmp_path / "scratch").iterdir()) == []


class TestHost:
    def test_it_is_the_python_that_runs_now(self, session: LocalSession) -> None:
        assert printed(session, "import sys; print(sys.executable)") == f"{sys.executable}\n"
        version = ".".join(str(part) for part in sys.version_info[:3])
        assert session.stack.components["python:cpython"] == version
        assert session.stack.components["pip:pytest"] == pytest.__version__
        assert session.stack.lock is None

    def test_it_is_a_runtime(self, host: HostRuntime) -> None:
        runtime: Runtime = host
        assert runtime.name == "host"

    def test_another_kind_is_a_defect(self, host: HostRuntime) -> None:
        with pytest.raises(ValueError, match="venv:"):
            host.resolve(parse_reference("venv:numpy"))


class TestVenv:
    @pytest.fixture
    def venv(
        self,
        interpreter: Interpreter,
        local_settings: PipSettings,
        local_index: LocalIndex,
        tmp_path: Path,
    ) -> VenvRuntime:
        for version in ("1.0", "1.1", "2.0"):
            local_index.add("base", version)
        local_index.add("app", "1.0", ["base<2"])
        cache = EnvironmentCache(tmp_path / "cache", None, local_settings)
        return VenvRuntime(interpreter, local_settings, cache)

    def test_a_reference_becomes_a_stack(self, venv: VenvRuntime) -> None:
        stack = venv.resolve(parse_reference("venv:app==1.0,base==1.0"))
        assert stack.components == {
            "pip:app": "1.0",
            "pip:base": "1.0",
            "python:cpython": venv.interpreter.version,
        }
        assert stack.runtime == "venv"

    def test_a_program_runs_in_what_was_built(self, venv: VenvRuntime) -> None:
        stack = venv.resolve(parse_reference("venv:app==1.0,base==1.0"))
        handle = venv.ensure(stack)
        with venv.open(handle) as session:
            source = "import base, sys, shutil; print(base.version, sys.prefix)"
            assert printed(session, source) == f"1.0 {handle.environment.path}\n"
            found = json.loads(printed(session, SHOW))
        assert found["PATH"].split(os.pathsep)[0] == str(handle.python.parent)
        assert found["PYTHONNOUSERSITE"] == "1"
        handle.release()

    def test_a_hybrid_differs_in_its_pins_alone(self, venv: VenvRuntime) -> None:
        runtime: Mixer = venv
        base = venv.resolve(parse_reference("venv:app==1.0,base==1.0"))
        mixed = runtime.hybrid(base, {"pip:base": "1.1"})
        assert mixed.components == {**base.components, "pip:base": "1.1"}
        assert mixed.added == ()
        assert "pip:base=1.1" in mixed.reference
        with venv.open(venv.ensure(mixed)) as session:
            assert printed(session, "import base; print(base.version)") == "1.1\n"

    def test_a_component_can_be_absent(self, venv: VenvRuntime) -> None:
        base = venv.resolve(parse_reference("venv:app==1.0,base==1.0"))
        mixed = venv.hybrid(base, {"pip:app": None})
        assert "pip:app" not in mixed.components

    def test_what_comes_with_a_pin_is_told(self, venv: VenvRuntime) -> None:
        base = venv.resolve(parse_reference("venv:base==1.0"))
        mixed = venv.hybrid(venv.hybrid(base, {"pip:base": None}), {"pip:app": "1.0"})
        assert mixed.added == ("pip:base",)

    def test_what_does_not_fit_is_unresolved(self, venv: VenvRuntime) -> None:
        base = venv.resolve(parse_reference("venv:app==1.0,base==1.0"))
        with pytest.raises(UnresolvedError):
            venv.hybrid(base, {"pip:base": "2.0"})

    def test_other_kinds_of_components_do_not_move(self, venv: VenvRuntime) -> None:
        base = venv.resolve(parse_reference("venv:base==1.0"))
        with pytest.raises(BadReference) as caught:
            venv.hybrid(base, {"apt:libc6": "2.40"})
        assert caught.value.text == "apt:libc6"

    def test_anothers_stack_is_a_defect(self, venv: VenvRuntime, host: HostRuntime) -> None:
        foreign = host.resolve(parse_reference("host:"))
        with pytest.raises(ValueError, match="not of this runtime"):
            venv.ensure(foreign)
        with pytest.raises(ValueError, match="not of this runtime"):
            venv.hybrid(foreign, {})
        with pytest.raises(ValueError, match="not a venv reference"):
            venv.resolve(parse_reference("host:"))
