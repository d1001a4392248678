from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from bitsect.images import environments
from bitsect.images.environments import (
    DEFAULT_LIMIT,
    SIDECAR,
    EnvironmentCache,
    default_cache_root,
    default_limit_bytes,
)
from bitsect.images.errors import BadReference, InfrastructureError, UnbuildableError
from bitsect.images.file_lock import FileLock
from bitsect.images.interpreter import Interpreter
from bitsect.images.lock import Lock
from bitsect.images.pip_settings import PipSettings
from bitsect.images.resolver import Resolver
from bitsect.images.uv import Uv

if TYPE_CHECKING:
    from tests.images.conftest import LocalIndex

LARGE = 200_000


@pytest.fixture
def locks(
    local_index: LocalIndex, local_settings: PipSettings, interpreter: Interpreter
) -> Callable[..., Lock]:
    """Gives the lock of requirements; the index has lib 1 to 4, and big, 200 kB of data."""
    for version in ("1.0", "2.0", "3.0", "4.0"):
        local_index.add("lib", version)
    local_index.add("big", "1.0", files={"big.py": "", "big.dat": "x" * LARGE})
    local_index.add("big", "2.0", files={"big.py": "", "big.dat": "y" * LARGE})
    resolver = Resolver(interpreter, local_settings)
    return lambda *requirements: resolver.resolve(requirements)


@pytest.fixture
def cache(tmp_path: Path, local_settings: PipSettings) -> EnvironmentCache:
    return EnvironmentCache(tmp_path / "cache", None, local_settings)


def output(python: Path, code: str) -> str:
    clean = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    finished = subprocess.run([python, "-c", code], env=clean, capture_output=True, check=True)
    return finished.stdout.decode().strip()


def visible(cache: EnvironmentCache) -> set[str]:
    """Everything in the cache's folder but lock files."""
    return {path.name for path in cache.root.iterdir() if path.suffix != ".lock"}


def names(*locks: Lock) -> set[str]:
    return {lock.digest.removeprefix("sha256:") for lock in locks}


class TestBuild:
    def test_an_environment_holds_exactly_the_lock(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        lock = locks("lib==2.0", "big==1.0")

        with cache.ensure(lock, interpreter) as environment:
            assert output(environment.python, "import lib; print(lib.version)") == "2.0"
            assert environment.lock_digest == lock.digest
        assert visible(cache) == names(lock)

    def test_it_is_built_once(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        lock = locks("lib==2.0")
        first = cache.ensure(lock, interpreter)
        created = (first.path / SIDECAR).stat().st_ino

        again = cache.ensure(lock, interpreter)

        assert (again.path / SIDECAR).stat().st_ino == created

    def test_a_lock_may_be_empty(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        environment = cache.ensure(Lock(interpreter.identity, ()), interpreter)

        assert output(environment.python, "print(1)") == "1"

    def test_it_knows_nothing_of_the_environment_that_made_it(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        environment = cache.ensure(locks("lib==2.0"), interpreter)

        code = "import importlib.util as u; print(u.find_spec('torch'), u.find_spec('msgspec'))"
        assert output(environment.python, code) == "None None"

    def test_threads_that_ask_together_get_the_same_one(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        lock = locks("lib==2.0")

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: cache.ensure(lock, interpreter), range(4)))

        assert len({(each.path / SIDECAR).stat().st_ino for each in found}) == 1
        assert visible(cache) == names(lock)

    def test_one_whose_python_is_gone_is_built_again(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        lock = locks("lib==2.0")
        cache.ensure(lock, interpreter).release()
        python = cache.root / lock.digest.removeprefix("sha256:") / "bin" / "python"
        python.unlink()
        python.symlink_to("/nowhere/python")

        assert output(cache.ensure(lock, interpreter).python, "print(1)") == "1"

    def test_a_lock_for_another_python_is_a_defect(
        self, cache: EnvironmentCache, interpreter: Interpreter
    ) -> None:
        with pytest.raises(ValueError, match="another"):
            cache.ensure(Lock("another", ()), interpreter)


class TestFailures:
    def test_a_file_that_is_not_the_locked_one_is_refused(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        lock = locks("lib==2.0")
        (package,) = lock.packages
        forged = msgspec.structs.replace(package, hashes=("sha256:" + "0" * 64,))

        with pytest.raises(UnbuildableError, match="Hash mismatch"):
            cache.ensure(Lock(lock.python, (forged,)), interpreter)
        assert visible(cache) == set()

    def test_a_file_that_is_gone_says_so(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter,
        local_index: LocalIndex, tmp_path: Path,
    ) -> None:  # fmt: skip
        lock = locks("lib==2.0")
        shutil.rmtree(local_index.folder)
        shutil.rmtree(tmp_path / "uv-cache")

        with pytest.raises((UnbuildableError, InfrastructureError)):
            cache.ensure(lock, interpreter)
        assert visible(cache) == set()

    @pytest.mark.parametrize(
        ("renamed", "complaint"),
        [
            (("lib-2.0.dist-info", "lib-2.1.dist-info"), r"lib is 2\.1, not 2\.0"),
            (("lib-2.0.dist-info", "lib-2.0.removed"), "lib is missing"),
            (("lib.py", "other-1.0.dist-info"), "other is there, unasked"),
        ],
    )
    def test_what_was_installed_is_checked_against_the_lock(
        self,
        renamed: tuple[str, str],
        complaint: str,
        tmp_path: Path,
        local_settings: PipSettings,
        locks: Callable[..., Lock],
        interpreter: Interpreter,
    ) -> None:
        class WrongUv(Uv):
            def sync(self, *arguments: object, **keywords: object) -> str:
                super().sync(*arguments, **keywords)  # type: ignore[arg-type]
                (site,) = tmp_path.glob("cache/.building-*/lib/python*/site-packages")
                (site / renamed[0]).rename(site / renamed[1])
                return ""

        cache = EnvironmentCache(
            tmp_path / "cache", None, local_settings, uv=WrongUv(local_settings)
        )

        with pytest.raises(UnbuildableError, match=complaint):
            cache.ensure(locks("lib==2.0"), interpreter)
        assert visible(cache) == set()

    def test_source_is_not_built_unasked(
        self, cache: EnvironmentCache, local_settings: PipSettings, interpreter: Interpreter,
        tmp_path: Path,
    ) -> None:  # fmt: skip
        tree = tmp_path / "tree"
        tree.mkdir()
        (tree / "pyproject.toml").write_text('[project]\nname = "tree"\nversion = "1"\n')
        lock = Resolver(interpreter, local_settings).resolve((f"tree @ {tree.as_uri()}",))

        with pytest.raises(UnbuildableError, match="tree"):
            cache.ensure(lock, interpreter)

    def test_source_is_built_when_that_is_allowed(
        self, local_settings: PipSettings, interpreter: Interpreter, tmp_path: Path
    ) -> None:
        tree = tmp_path / "tree"
        tree.mkdir()
        (tree / "pyproject.toml").write_text(
            '[project]\nname = "tree"\nversion = "1"\n[build-system]\nrequires = []\n'
            'build-backend = "backend"\nbackend-path = ["."]\n'
        )
        (tree / "backend.py").write_text(BACKEND)
        resolver = Resolver(interpreter, local_settings, allow_builds=True)
        lock = resolver.resolve((f"tree @ {tree.as_uri()}",))
        cache = EnvironmentCache(tmp_path / "cache", None, local_settings, allow_builds=True)

        environment = cache.ensure(lock, interpreter)

        assert output(environment.python, "import tree; print(tree.x)") == "1"

    def test_a_full_disk_is_the_hosts_fault_and_leaves_nothing(
        self, small_disk: Path, local_settings: PipSettings, locks: Callable[..., Lock],
        interpreter: Interpreter,
    ) -> None:  # fmt: skip
        lock = locks("big==1.0")
        cache = EnvironmentCache(small_disk / "cache", None, local_settings)

        with pytest.raises(InfrastructureError) as caught:
            cache.ensure(lock, interpreter)

        assert caught.value.kind == "disk"
        assert visible(cache) == set()

    def test_a_disk_that_fills_up_under_us_is_the_hosts_fault(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        def full(*arguments: object) -> int:
            raise OSError(28, "No space left on device", "x")

        monkeypatch.setattr(environments, "graft_bytecode", full)
        cache.ensure(locks("lib==1.0", "big==1.0"), interpreter).release()

        with pytest.raises(InfrastructureError, match="No space") as caught:
            cache.ensure(locks("lib==2.0", "big==1.0"), interpreter)
        assert caught.value.kind == "disk"
        assert visible(cache) == names(locks("lib==1.0", "big==1.0"))

    def test_a_place_that_is_no_folder_is_refused(
        self, tmp_path: Path, local_settings: PipSettings, interpreter: Interpreter
    ) -> None:
        (tmp_path / "file").write_text("")
        cache = EnvironmentCache(tmp_path / "file" / "cache", None, local_settings)

        with pytest.raises(InfrastructureError, match="file"):
            cache.ensure(Lock(interpreter.identity, ()), interpreter)


BACKEND = """\
import os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "tree-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("tree.py", "x = 1\\n")
        info = "tree-1.dist-info/"
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: tree\\nVersion: 1\\n")
        tags = "Root-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: t\\n" + tags)
        record = [info + "METADATA", info + "WHEEL", info + "RECORD", "tree.py"]
        wheel.writestr(info + "RECORD", "".join(line + ",,\\n" for line in record))
    return name
"""


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system without room for `big`; where none can be mounted, a limit on files."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0
    if not mounted:
        monkeypatch.setattr(Uv, "sync", _sync_on_a_full_disk)
    yield folder
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


def _sync_on_a_full_disk(self: Uv, *arguments: object) -> str:
    raise InfrastructureError("disk", "No space left on device (os error 28)")


class TestLimit:
    def test_the_least_recently_used_goes(
        self, tmp_path: Path, local_settings: PipSettings, locks: Callable[..., Lock],
        interpreter: Interpreter,
    ) -> None:  # fmt: skip
        one, two, three = (locks(f"lib=={version}.0") for version in (1, 2, 3))
        measure = EnvironmentCache(tmp_path / "measure", None, local_settings)
        measure.ensure(one, interpreter).release()
        room_for_two = int(measure.total_bytes() * 2.5)
        cache = EnvironmentCache(tmp_path / "cache", room_for_two, local_settings)
        for lock in (one, two, one):
            cache.ensure(lock, interpreter).release()

        cache.ensure(three, interpreter)

        assert visible(cache) == names(one, three)
        assert cache.total_bytes() <= room_for_two

    def test_one_in_use_stays(
        self, tmp_path: Path, local_settings: PipSettings, locks: Callable[..., Lock],
        interpreter: Interpreter,
    ) -> None:  # fmt: skip
        one, two, three = (locks(f"lib=={version}.0") for version in (1, 2, 3))
        cache = EnvironmentCache(tmp_path / "cache", 1, local_settings)
        used = cache.ensure(one, interpreter)
        cache.ensure(two, interpreter).release()

        cache.ensure(three, interpreter).release()
        assert visible(cache) == names(one, three)
        assert output(used.python, "import lib; print(lib.version)") == "1.0"

        used.release()
        cache.ensure(two, interpreter)
        assert visible(cache) == names(two)

    def test_one_in_use_by_another_process_stays(
        self, tmp_path: Path, local_settings: PipSettings, locks: Callable[..., Lock],
        interpreter: Interpreter,
    ) -> None:  # fmt: skip
        one, two = locks("lib==1.0"), locks("lib==2.0")
        cache = EnvironmentCache(tmp_path / "cache", 1, local_settings)
        cache.ensure(one, interpreter).release()
        user = start_child(tmp_path, local_settings, one, "held = cache.ensure(lock, python)")

        cache.ensure(two, interpreter).release()
        assert visible(cache) == names(one, two)

        end(user)
        cache.ensure(locks("lib==3.0"), interpreter)
        assert visible(cache) == names(locks("lib==3.0"))

    def test_a_package_in_several_environments_counts_once(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        cache.ensure(locks("lib==1.0", "big==1.0"), interpreter)
        before = cache.total_bytes()
        cache.ensure(locks("lib==2.0", "big==1.0"), interpreter)

        assert LARGE < before < cache.total_bytes() < before + LARGE

    def test_a_package_in_several_environments_lies_on_the_disk_once(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        cache.ensure(locks("lib==1.0", "big==1.0"), interpreter)
        cache.ensure(locks("lib==2.0", "big==1.0"), interpreter)

        inodes = {path.stat().st_ino for path in cache.root.glob("*/lib/*/*/big.dat")}
        assert len(inodes) == 1

    @pytest.mark.parametrize(
        ("text", "size"),
        [("", DEFAULT_LIMIT), ("7", 7), ("20GiB", 20 * 2**30), ("1.5 kB", 1500), ("2M", 2000000)],
    )
    def test_the_limit_can_be_set(
        self, text: str, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("BITSECT_CACHE_LIMIT", text)

        assert default_limit_bytes() == size

    @pytest.mark.parametrize("text", ["much", "-1", "1XB", "GiB"])
    def test_a_limit_that_is_no_size_is_refused(
        self, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("BITSECT_CACHE_LIMIT", text)

        with pytest.raises(BadReference, match="no size"):
            default_limit_bytes()

    def test_the_place_can_be_set(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BITSECT_CACHE", str(tmp_path))
        assert default_cache_root() == tmp_path

        monkeypatch.delenv("BITSECT_CACHE")
        assert default_cache_root().name == "bitsect"


CHILD = """\
import sys
from pathlib import Path
import msgspec
from bitsect.images.environments import EnvironmentCache
from bitsect.images.interpreter import describe_interpreter
from bitsect.images.lock import Lock
from bitsect.images.pip_settings import PipSettings
from bitsect.images.uv import Uv

def wait():
    print("ready", flush=True)
    sys.stdin.read()

class StuckUv(Uv):
    "Installs one half, says so, and waits."
    def sync(self, arguments, what, hold=()):
        folder = Path(arguments[-1]).parent
        (folder / "half").write_text("written")
        wait()

class StuckChildUv(Uv):
    "As StuckUv, but it is the tool that hangs."
    def sync(self, arguments, what, hold=()):
        import subprocess
        code = "import sys; print('ready', flush=True); sys.stdin.read()"
        subprocess.run([sys.executable, "-c", code], pass_fds=hold)

root, lock, index = sys.argv[1:]
lock, settings = msgspec.json.decode(lock, type=Lock), PipSettings(index_url=index)
cache, python = EnvironmentCache(Path(root), 1, settings), describe_interpreter()
"""


def start_child(
    tmp_path: Path, settings: PipSettings, lock: Lock, code: str
) -> subprocess.Popen[bytes]:
    """A process that has run the code and waits until its input ends."""
    script = tmp_path / "child.py"
    script.write_text(CHILD + textwrap.dedent(code) + "\nwait()\n")
    arguments = [str(tmp_path / "cache"), msgspec.json.encode(lock).decode()]
    child = subprocess.Popen(
        [sys.executable, str(script), *arguments, settings.index_url or ""],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def end(child: subprocess.Popen[bytes]) -> None:
    child.communicate()


STUCK = """
cache = EnvironmentCache(Path(root), 1, settings, uv={}(settings))
cache.ensure(lock, python)
"""


class TestKilled:
    def test_what_a_killed_build_left_is_removed_and_the_next_one_works(
        self, tmp_path: Path, local_settings: PipSettings, locks: Callable[..., Lock],
        interpreter: Interpreter, cache: EnvironmentCache,
    ) -> None:  # fmt: skip
        lock = locks("lib==1.0")
        child = start_child(tmp_path, local_settings, lock, STUCK.format("StuckUv"))
        (left,) = cache.root.glob(".building-*")
        assert (left / "half").exists()

        # Given a build that lives, when another is asked for, then it is left alone
        cache.ensure(locks("lib==2.0"), interpreter)
        assert left.exists()

        # When it is killed, then its leftovers go and the same lock can be built
        child.send_signal(signal.SIGKILL)
        end(child)
        environment = cache.ensure(lock, interpreter)
        assert not left.exists()
        assert output(environment.python, "import lib; print(lib.version)") == "1.0"

    def test_the_leftovers_of_others_go_too(
        self, tmp_path: Path, local_settings: PipSettings, locks: Callable[..., Lock],
        interpreter: Interpreter, cache: EnvironmentCache,
    ) -> None:  # fmt: skip
        child = start_child(tmp_path, local_settings, locks("lib==1.0"), STUCK.format("StuckUv"))
        child.kill()
        end(child)

        cache.ensure(locks("lib==2.0"), interpreter)

        assert visible(cache) == names(locks("lib==2.0"))
        assert {path.stem for path in cache.root.glob("*.lock")} == names(locks("lib==2.0"))

    def test_a_tool_that_outlives_us_still_holds_the_lock(
        self, tmp_path: Path, local_settings: PipSettings, locks: Callable[..., Lock],
        cache: EnvironmentCache,
    ) -> None:  # fmt: skip
        lock = locks("lib==1.0")
        child = start_child(tmp_path, local_settings, lock, STUCK.format("StuckChildUv"))
        path = cache.root / (lock.digest.removeprefix("sha256:") + ".lock")

        child.kill()
        child.wait()
        assert FileLock.try_exclusive(path) is None

        # Its input and with it its life ends; its output ends when it is gone.
        end(child)
        assert FileLock.try_exclusive(path) is not None

    def test_an_interrupted_removal_is_finished(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        lock = locks("lib==1.0")
        cache.ensure(lock, interpreter).release()
        (name,) = names(lock)
        (cache.root / name).rename(cache.root / f".removing-{name}-00")

        cache.ensure(locks("lib==2.0"), interpreter)

        assert visible(cache) == names(locks("lib==2.0"))

    def test_what_is_not_ours_stays(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        (cache.root / "notes").mkdir(parents=True)
        (cache.root / ("0" * 64)).mkdir()

        cache.ensure(locks("lib==2.0"), interpreter)

        assert {"notes", "0" * 64} < visible(cache)


class TestBytecode:
    def compiled(self, cache: EnvironmentCache, module: str) -> set[int]:
        pattern = f"*/lib/*/site-packages/__pycache__/{module}.*.pyc"
        return {path.stat().st_ino for path in cache.root.glob(pattern)}

    def test_it_is_taken_over_from_an_environment_that_ran(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        donor = cache.ensure(locks("lib==1.0", "big==1.0"), interpreter)
        output(donor.python, "import lib, big")

        taker = cache.ensure(locks("lib==2.0", "big==1.0"), interpreter, donor)

        assert len(list(taker.path.glob("lib/*/site-packages/__pycache__/big.*"))) == 1
        assert len(self.compiled(cache, "big")) == 1
        assert not list(taker.path.glob("lib/*/site-packages/__pycache__/lib.*"))
        assert output(taker.python, "import lib, big; print(lib.version)") == "2.0"

    def test_a_donor_is_found_unasked(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        with cache.ensure(locks("lib==1.0", "big==1.0"), interpreter) as donor:
            output(donor.python, "import big")
        cache.ensure(locks("lib==2.0", "big==2.0"), interpreter).release()

        taker = cache.ensure(locks("lib==2.0", "big==1.0"), interpreter)

        assert list(taker.path.glob("lib/*/site-packages/__pycache__/big.*"))

    def test_a_source_that_was_changed_since_gives_nothing(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter
    ) -> None:
        donor = cache.ensure(locks("lib==1.0", "big==1.0"), interpreter)
        (source,) = donor.path.glob("lib/*/site-packages/big.py")
        source.unlink()
        source.write_text("changed = 1\n")
        output(donor.python, "import big")

        taker = cache.ensure(locks("lib==2.0", "big==1.0"), interpreter, donor)

        assert not list(taker.path.glob("lib/*/site-packages/__pycache__/big.*"))

    def test_a_file_system_without_links_only_costs_time(
        self, cache: EnvironmentCache, locks: Callable[..., Lock], interpreter: Interpreter,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        donor = cache.ensure(locks("lib==1.0", "big==1.0"), interpreter)
        output(donor.python, "import big")

        def refuse(*arguments: object) -> None:
            raise OSError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        taker = cache.ensure(locks("lib==2.0", "big==1.0"), interpreter, donor)

        assert output(taker.python, "import lib, big; print(lib.version)") == "2.0"
