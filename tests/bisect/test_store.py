"""The store: what is written stays, what is damaged is noticed, and any death is survived."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bitsect.bisect import store as module
from bitsect.bisect.engine.model import Axis
from bitsect.bisect.errors import NoSession, StoreError
from bitsect.bisect.records import EndRecord, SessionSpec
from bitsect.bisect.store import SCHEMA, Store, data_root
from bitsect.bisect.verdicts import Verdict
from bitsect.images.errors import InfrastructureError

SPEC = SessionSpec(
    good=EndRecord("venv:numpy==1", {"pip:numpy": "1"}, "sha256:aa"),
    bad=EndRecord("venv:numpy==3", {"pip:numpy": "3"}, "sha256:bb"),
    axes=(Axis("pip:numpy", ("1", "2", "3")),),
    probe="sha256:cc",
    arguments=("--seed", "0"),
    interpreter="/usr/bin/python3 (3.11.7)",
    circumstances="sha256:dd",
    options={"yanked": False},
    left_out={"pip:numpy": {"yanked": 1}},
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "data")
    yield opened
    opened.close()


def test_a_session_comes_back_as_it_was_written(store: Store) -> None:
    created = store.create_session("sha256:question", SPEC)
    store.note(created.number, "finished")

    (read,) = store.sessions()
    assert read.spec == SPEC
    assert read.finished
    assert store.session_of("sha256:question") == read
    assert store.session_of("sha256:another") is None
    assert store.session() == store.session(created.number) == read


def test_a_session_that_is_not_there_is_named(store: Store) -> None:
    store.create_session("sha256:question", SPEC)
    with pytest.raises(NoSession) as caught:
        store.session(7)
    assert (caught.value.wanted, caught.value.known) == (7, (1,))


def test_an_observation_is_found_by_what_ran_and_by_nothing_else(store: Store) -> None:
    run = store.begin_run("key one", "numpy 2")
    assert store.observed("key one") is None

    written = store.finish_run(
        run, trace=b"trace", manifest=b"manifest", log=b"log", touched=("pip:numpy",),
        milliseconds={"probe": 1200},
    )  # fmt: skip

    assert store.observed("key one") == written
    assert store.observed("key two") is None
    assert written.trace is not None
    assert store.blobs.get(written.trace) == b"trace"


def test_observations_are_never_changed_or_deleted(store: Store) -> None:
    run = store.begin_run("key", "numpy 2")
    seen = store.finish_run(run, failure=Verdict.CRASH, reason="SIGSEGV")
    session = store.create_session("sha256:question", SPEC)
    store.enter(session.number, (1,), 0, "run", seen)
    with sqlite3.connect(store.path) as other:
        for statement in (
            "UPDATE observation SET failure = NULL",
            "DELETE FROM observation",
            "UPDATE ledger SET repetition = 5",
            "DELETE FROM ledger",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                other.execute(statement)
    assert store.observed("key") == seen


def test_the_ledger_keeps_its_order_and_counts_an_answer_once(store: Store) -> None:
    session = store.create_session("sha256:question", SPEC)
    seen = [
        store.finish_run(store.begin_run(f"key {i}", "x"), trace=str(i).encode()) for i in range(3)
    ]
    for i, observation in enumerate(seen):
        store.enter(session.number, (i,), 0, "run", observation)
    store.enter(session.number, (1,), 0, "cache", seen[2])

    entries = store.ledger(session.number)
    assert [(e.sequence, e.vector, e.observation) for e in entries] == [
        (i + 1, (i,), observation) for i, observation in enumerate(seen)
    ]
    assert store.ledger(99) == ()


def test_only_starts_that_the_host_did_not_survive_accuse_a_trial(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given runs of an earlier start of the host: two that never ended, one given up by its
    # user, one that ended
    monkeypatch.setattr(module, "boot_id", lambda: "an earlier start")
    store.begin_run("fatal", "x")
    store.begin_run("fatal", "x")
    store.abandon_run(store.begin_run("fatal", "x"), "KeyboardInterrupt")
    store.finish_run(store.begin_run("fatal", "x"), trace=b"t")

    # And one of this start, by whatever process
    monkeypatch.undo()
    store.begin_run("fatal", "x")

    # Then the first two count
    assert store.fatal_starts("fatal") == 2
    assert store.fatal_starts("other") == 0


def test_kill_dash_nine_between_any_two_writes_loses_nothing_that_was_reported(
    tmp_path: Path,
) -> None:
    # Given a process that reports each observation once it is written, until it is killed
    code = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from bitsect.bisect.store import Store
        store = Store(Path(sys.argv[1]))
        for i in range(100000):
            store.finish_run(store.begin_run(f"key {i}", "x"), trace=f"trace {i}".encode())
            print(i, flush=True)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(20):
        last = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    last = max([last, *(int(line) for line in rest if line.isdigit())])

    # Then a new process finds every one of them whole
    store = Store(tmp_path)
    for i in range(last + 1):
        seen = store.observed(f"key {i}")
        assert seen is not None
        assert seen.trace is not None
        assert store.blobs.get(seen.trace) == f"trace {i}".encode()
    store.close()


def test_a_store_of_a_newer_version_is_refused_untouched(store: Store) -> None:
    with sqlite3.connect(store.path) as other:
        other.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    with pytest.raises(StoreError) as caught:
        Store(store.root)
    assert (caught.value.reason, caught.value.found, caught.value.known) == (
        "newer",
        str(SCHEMA + 1),
        str(SCHEMA),
    )


def test_a_file_that_is_no_store_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"this is a letter, not a database" * 100)
    with pytest.raises(StoreError):
        Store(tmp_path)
    assert path.read_bytes().startswith(b"this is a letter")

    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(StoreError) as caught:
        Store(tmp_path)
    assert caught.value.reason == "foreign"


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_damaged_blob_is_noticed(store: Store, damage: str) -> None:
    digest = store.blobs.put(b"what was seen")
    place = store.blobs.path(digest)
    if damage == "gone":
        place.unlink()
    else:
        place.write_bytes(b"what was sEen")
    with pytest.raises(StoreError) as caught:
        store.blobs.get(digest)
    assert (caught.value.reason, caught.value.known) == ("damaged", digest)


def test_what_a_killed_process_left_half_written_is_removed(store: Store) -> None:
    # Given a partial file of a process that is gone, and one of a process that lives
    folder = store.blobs.path("sha256:" + "a" * 64).parent
    folder.mkdir(parents=True)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, busy = folder / f".partial-{gone.pid}-x", folder / f".partial-{os.getpid()}-x"
    left.write_bytes(b"half")
    busy.write_bytes(b"half")

    # When the store is opened again
    Store(store.root).close()

    # Then only the first is removed
    assert not left.exists()
    assert busy.exists()


def test_a_damaged_blob_is_mended_when_its_content_comes_again(store: Store) -> None:
    digest = store.blobs.put(b"what was seen")
    store.blobs.path(digest).write_bytes(b"")
    assert store.blobs.put(b"what was seen") == digest
    assert store.blobs.get(digest) == b"what was seen"


def test_equal_blobs_are_kept_once(store: Store) -> None:
    assert store.blobs.put(b"same") == store.blobs.put(b"same") != store.blobs.put(b"other")


def test_a_place_that_cannot_be_written_is_the_hosts_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError):
        Store(tmp_path / "file" / "data")


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to mount")
def test_a_full_disk_is_said_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    # Given a disk of 1 MiB
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    try:
        store = Store(disk)
        kept = store.finish_run(store.begin_run("small", "x"), trace=b"small")

        # When an observation does not fit
        with pytest.raises(InfrastructureError) as caught:
            store.finish_run(store.begin_run("big", "x"), trace=os.urandom(2 << 20))

        # Then the disk is named, what was there is whole, and no partial file is left
        assert caught.value.kind == "disk"
        assert store.observed("small") == kept
        assert store.observed("big") is None
        assert not list(disk.rglob(".partial-*"))
        store.close()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_two_processes_may_open_a_new_store_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from bitsect.bisect.store import Store;"
        " s = Store(Path(sys.argv[1])); s.finish_run(s.begin_run('k', 'x'), trace=b't')"
    )
    several = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(4)]
    assert [process.wait() for process in several] == [0, 0, 0, 0]


def test_the_data_folder_is_the_users_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BITSECT_DATA", "/somewhere/else")
    assert data_root() == Path("/somewhere/else")
    monkeypatch.delenv("BITSECT_DATA")
    assert data_root().name == "bitsect"


def test_records_survive_json(store: Store) -> None:
    assert msgspec.json.decode(msgspec.json.encode(SPEC), type=SessionSpec) == SPEC
