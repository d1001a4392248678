"""Programs run bounded, and nothing of them is left, whichever way they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bitsect.images.runtime.errors import ProgramError, SessionClosedError
from bitsect.images.runtime.process import Halt, Program, run_program
from bitsect.images.runtime.protocol import Completed, tail_of

LONG = 120.0

# Each prints the ids of the processes that it made, then stays.
DOUBLE_FORK = """
import os, sys, time
heard, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.write(1, b"%d\\n" % os.getpid())
        os.write(tell, b"ready")
        time.sleep(1000)
    os._exit(0)
os.wait()
os.read(heard, 5)
"""
DEAF = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.write(1, b"%d\\n" % os.getpid())
time.sleep(1000)
"""
STAY = "import os, time; os.write(1, b'%d\\n' % os.getpid()); time.sleep(1000)"

Run = Callable[..., Completed]


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Program]:
    """Makes a program out of Python source."""

    def make(source: str, **changes: object) -> Program:
        values: dict[str, object] = {
            "arguments": (sys.executable, "-I", "-S", "-c", source),
            "environment": {"PATH": os.defpath},
            "folder": tmp_path,
            "stdout": tmp_path / "stdout",
            "stderr": tmp_path / "stderr",
            "timeout": LONG,
            **changes,
        }
        return Program(**values)  # type: ignore[arg-type]

    return make


@pytest.fixture
def run(program: Callable[..., Program]) -> Run:
    return lambda source, **changes: run_program(program(source, **changes))


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool]) -> bool:
    """Whether it came true; the limit is only there so that a defect ends the test."""
    end = time.monotonic() + 20
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def numbers_in(path: Path, count: int) -> list[int]:
    """The first numbers that a running program wrote, once all are there."""

    def found() -> list[int]:
        text = path.read_text() if path.exists() else ""
        return [int(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    assert wait_until(lambda: len(found()) >= count)
    return found()[:count]


class TestOutcome:
    def test_both_streams_and_the_status_are_kept_apart(self, run: Run) -> None:
        done = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
        assert (done.returncode, done.signal) == (7, None)
        assert done.stdout.read_text() == "out\n"
        assert done.stderr.read_text() == "err\n"
        assert not done.timed_out
        assert not done.overflowed
        assert done.duration > 0

    def test_a_signal_has_a_name(self, run: Run) -> None:
        done = run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        assert (done.returncode, done.signal) == (-signal.SIGSEGV, "SIGSEGV")
        assert not done.timed_out

    def test_a_real_time_signal_has_its_number(self, run: Run) -> None:
        done = run("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)")
        assert done.signal == f"signal {signal.SIGRTMIN + 3}"

    def test_nothing_of_the_surroundings_reaches_it(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("BITSECT_LEAK", "1")
        folder = tmp_path / "work"
        folder.mkdir()
        source = (
            "import os, sys; print(open('/proc/self/environ', 'rb').read()); print(os.getcwd());"
            "print(sys.stdin.read() == '', os.getsid(0) == os.getpid());"
            "print(sorted(os.listdir('/proc/self/fd')))"
        )
        done = run(source, environment={"A": "b", "C": "\udcff"}, folder=folder)
        variables, where, alone, descriptors = done.stdout.read_text().splitlines()
        assert variables == repr(b"A=b\0C=\xff\0")
        assert where == str(folder)
        assert alone == "True True"
        # The fourth is the listing's own.
        assert descriptors == "['0', '1', '2', '3']"

    def test_no_signal_is_ignored_that_the_system_does_not_ignore(self, run: Run) -> None:
        # Asked of sh, because Python ignores two of its own accord.
        done = run("", arguments=("/bin/sh", "-c", "grep SigIgn /proc/self/status"))
        ignored = int(done.stdout.read_text().split()[1], 16)
        # Signals 32 and 33 are the C library's own; no program can set them.
        assert ignored & ~(0b11 << 31) == 0

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"arguments": ("/nonexistent/program",)}, "No such file"),
            ({"arguments": ("no-such-program-on-path",)}, "No such file"),
            ({"arguments": ("/",)}, "Permission denied"),
            ({"folder": Path("/nonexistent")}, "No such file"),
        ],
    )
    def test_what_cannot_start_says_why(
        self, run: Run, changes: dict[str, object], reason: str
    ) -> None:
        with pytest.raises(ProgramError) as caught:
            run("", **changes)
        assert reason in caught.value.reason

    def test_the_tail_is_of_the_stream_that_has_one(self, run: Run) -> None:
        both = run("import sys; print('out'); print('a\\nb\\nc', file=sys.stderr)")
        assert both.tail(2) == "b\nc"
        assert run("print('out')").tail(2) == "out"

    def test_a_tail_reads_no_more_than_the_end(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        path.write_text("x" * 1000 + "\nlast\n")
        assert tail_of(path, 5, reach=8) == "xx\nlast"
        assert tail_of(tmp_path / "absent", 5) == ""


class TestBounds:
    def test_its_time_is_over(self, run: Run) -> None:
        done = run("import time; print('began', flush=True); time.sleep(1000)", timeout=1.0)
        assert done.timed_out
        assert done.signal == "SIGKILL"
        assert done.stdout.read_text() == "began\n"

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_endless_output_ends_it(self, run: Run, stream: str) -> None:
        source = f"import sys\nwhile True: sys.{stream}.write('y' * 65536)"
        done = run(source, output_limit=100_000)
        assert done.overflowed
        assert not done.timed_out
        assert getattr(done, stream).stat().st_size == 100_000

    def test_output_of_just_the_limit_passes(self, run: Run) -> None:
        done = run("import sys; sys.stdout.write('y' * 1000)", output_limit=1000)
        assert (done.returncode, done.overflowed) == (0, False)
        assert done.stdout.stat().st_size == 1000

    def test_a_crash_leaves_no_core(self, run: Run, tmp_path: Path) -> None:
        source = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0])"
        assert run(source).stdout.read_text() == "0\n"


class TestNothingIsLeft:
    def test_of_orphans_when_it_ends_by_itself(self, run: Run) -> None:
        done = run(DOUBLE_FORK)
        assert done.returncode == 0
        (orphan,) = numbers_in(done.stdout, 1)
        assert not is_alive(orphan)

    def test_of_the_deaf_when_its_time_is_over(self, run: Run) -> None:
        done = run(DEAF, timeout=2.0)
        assert done.timed_out
        (deaf,) = numbers_in(done.stdout, 1)
        assert not is_alive(deaf)

    def test_of_a_tree_when_its_time_is_over(self, run: Run) -> None:
        done = run(DOUBLE_FORK + DEAF, timeout=2.0)
        for process in numbers_in(done.stdout, 2):
            assert not is_alive(process)

    def test_when_writing_its_output_fails(self, program: Callable[..., Program]) -> None:
        # A device on which every write says that the disk is full.
        full = program(STAY, stdout=Path("/dev/full"))
        before = set(os.listdir("/proc"))
        with pytest.raises(OSError, match="No space left"):
            run_program(full)
        assert wait_until(lambda: not _children_of(os.getpid(), before))

    def test_when_it_is_halted_by_another_thread(self, program: Callable[..., Program]) -> None:
        halt = Halt()
        staying = program(STAY)
        caught: list[BaseException] = []

        def body() -> None:
            try:
                run_program(staying, halt)
            except SessionClosedError as error:
                caught.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        (process,) = numbers_in(staying.stdout, 1)
        halt.set()
        halt.set()
        thread.join()
        assert len(caught) == 1
        assert not is_alive(process)
        with pytest.raises(SessionClosedError):
            run_program(staying, halt)

    def test_when_several_run_under_one_halt(
        self, program: Callable[..., Program], tmp_path: Path
    ) -> None:
        halt = Halt()
        programs = [program(STAY, stdout=tmp_path / f"out{i}") for i in range(3)]

        def body(one: Program) -> None:
            with pytest.raises(SessionClosedError):
                run_program(one, halt)

        threads = [threading.Thread(target=body, args=(one,)) for one in programs]
        for thread in threads:
            thread.start()
        processes = [numbers_in(one.stdout, 1)[0] for one in programs]
        halt.set()
        for thread in threads:
            thread.join()
        assert not any(is_alive(process) for process in processes)


def _children_of(parent: int, before: set[str]) -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and name not in before:
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(name)
    return found


PARENT = """
import sys
from pathlib import Path
from bitsect.images.runtime.process import Program, run_program

folder = Path(sys.argv[1])
run_program(Program(
    arguments=(sys.executable, "-I", "-S", "-c", sys.argv[2]),
    environment={}, folder=folder, stdout=folder / "stdout", stderr=folder / "stderr",
    timeout=1000.0,
))
"""


class TestItsParentEnds:
    """A bitsect that dies takes its programs along."""

    @pytest.fixture
    def parent(self, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
        started: list[subprocess.Popen[bytes]] = []

        def start(source: str) -> subprocess.Popen[bytes]:
            arguments = [sys.executable, "-c", PARENT, str(tmp_path), source]
            started.append(
                subprocess.Popen(arguments, stderr=subprocess.DEVNULL, start_new_session=True)
            )
            return started[-1]

        yield start
        for process in started:
            process.kill()
            process.wait()

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("source", [DOUBLE_FORK + DEAF, DEAF])
    def test_by_a_signal(
        self,
        parent: Callable[[str], subprocess.Popen[bytes]],
        tmp_path: Path,
        number: signal.Signals,
        source: str,
    ) -> None:
        # Given a program with its orphans, both at work
        process = parent(source)
        count = 2 if source.startswith(DOUBLE_FORK) else 1
        family = numbers_in(tmp_path / "stdout", count)
        assert all(is_alive(member) for member in family)
        # When its parent is ended, with no chance to tidy up in the case of SIGKILL
        process.send_signal(number)
        process.wait(20)
        # Then all of it ends
        assert wait_until(lambda: not any(is_alive(member) for member in family))

    def test_and_so_does_a_killed_supervisors_program(
        self, parent: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
    ) -> None:
        process = parent(DEAF)
        (deaf,) = numbers_in(tmp_path / "stdout", 1)
        fields = Path(f"/proc/{deaf}/stat").read_text().rpartition(")")[2].split()
        os.kill(int(fields[1]), signal.SIGKILL)
        assert wait_until(lambda: not is_alive(deaf))
        # Its loss is noticed, not waited for.
        assert process.wait(20) == 1
