"""The memory of every search: one SQLite database and a folder of blobs.

Rules that make it safe to kill the program anywhere:

- a ``run`` row is committed before a trial starts, so a trial that takes the host down is known
  by its missing observation from an earlier start of the host;
- blobs are on the disk before the observation that names them is committed;
- observations are appended and never changed (the database refuses it); verdicts are computed
  from them whenever they are shown.

An observation is found again by what ran: manifest, probe, arguments, repetition. Which
session asked for it does not matter.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import platformdirs

from bitsect.bisect.blobs import BlobFolder
from bitsect.bisect.engine.model import Vector
from bitsect.bisect.errors import NoSession, StoreError
from bitsect.bisect.records import Event, LedgerEntry, Observation, SessionRecord, SessionSpec
from bitsect.bisect.verdicts import Verdict
from bitsect.images.errors import InfrastructureError, host_faults
from bitsect.images.file_lock import FileLock

SCHEMA = 1
#: Marks the file as ours: "bits" in ASCII.
APPLICATION_ID = 0x62697473
#: How long another process may hold the database, in seconds.
PATIENCE = 30.0

_TABLES = """
CREATE TABLE session (
    number INTEGER PRIMARY KEY, identity TEXT NOT NULL, created TEXT NOT NULL,
    spec TEXT NOT NULL);
CREATE TABLE session_event (
    session INTEGER NOT NULL REFERENCES session, at TEXT NOT NULL, kind TEXT NOT NULL,
    detail TEXT NOT NULL);
CREATE TABLE run (
    number INTEGER PRIMARY KEY, key TEXT, label TEXT NOT NULL, started TEXT NOT NULL,
    boot TEXT NOT NULL, abandoned TEXT);
CREATE INDEX run_key ON run (key);
CREATE TABLE observation (
    number INTEGER PRIMARY KEY REFERENCES run, failure TEXT, reason TEXT NOT NULL, trace TEXT,
    manifest TEXT, log TEXT, touched TEXT NOT NULL, milliseconds TEXT NOT NULL,
    ended TEXT NOT NULL);
CREATE TABLE ledger (
    session INTEGER NOT NULL REFERENCES session, sequence INTEGER NOT NULL,
    vector TEXT NOT NULL, repetition INTEGER NOT NULL, source TEXT NOT NULL,
    observation INTEGER NOT NULL REFERENCES observation,
    PRIMARY KEY (session, sequence), UNIQUE (session, vector, repetition));
CREATE TRIGGER observations_stay BEFORE UPDATE ON observation
    BEGIN SELECT RAISE(ABORT, 'observations are never changed'); END;
CREATE TRIGGER observations_remain BEFORE DELETE ON observation
    BEGIN SELECT RAISE(ABORT, 'observations are never deleted'); END;
CREATE TRIGGER ledger_stays BEFORE UPDATE ON ledger
    BEGIN SELECT RAISE(ABORT, 'the ledger is never changed'); END;
CREATE TRIGGER ledger_remains BEFORE DELETE ON ledger
    BEGIN SELECT RAISE(ABORT, 'the ledger is never shortened'); END;
"""


def data_root() -> Path:
    """Where the store lies: BITSECT_DATA, or the user's data folder."""
    chosen = os.environ.get("BITSECT_DATA")
    return Path(chosen).expanduser() if chosen else platformdirs.user_data_path("bitsect")


class Store:
    """Opens, and if need be makes, the store in a folder. Safe to use from several threads.

    :raises StoreError: the file is not a store, is damaged, or is of a newer schema.
    :raises InfrastructureError: the disk is full, or the folder may not be written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "store.sqlite"
        self.blobs = BlobFolder(root / "blobs")
        self._lock = threading.RLock()
        with self._translated():
            root.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                self.path, timeout=PATIENCE, check_same_thread=False, isolation_level=None
            )
            # SQLite does not wait for a file that is just changing to its write-ahead log.
            with FileLock.exclusive(root / "store.lock"):
                self._prepare()
            self.blobs.sweep()

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    # Sessions

    def create_session(self, identity: str, spec: SessionSpec) -> SessionRecord:
        """Write down a new session."""
        with self._transaction() as database:
            cursor = database.execute(
                "INSERT INTO session (identity, created, spec) VALUES (?, ?, ?)",
                (identity, _now(), msgspec.json.encode(spec).decode()),
            )
            number = cursor.lastrowid
        assert number is not None
        return self.session(number)

    def sessions(self) -> tuple[SessionRecord, ...]:
        """Every session, oldest first."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT number, identity, created, spec FROM session ORDER BY number"
            ).fetchall()
            return tuple(self._session(database, row) for row in rows)

    def session(self, number: int | None = None) -> SessionRecord:
        """One session; the latest if no number is given.

        :raises NoSession: there is none.
        """
        with self._reading() as database:
            rows = database.execute(
                "SELECT number, identity, created, spec FROM session ORDER BY number DESC"
            ).fetchall()
            for row in rows:
                if number is None or row[0] == number:
                    return self._session(database, row)
        raise NoSession(number, tuple(row[0] for row in reversed(rows)))

    def session_of(self, identity: str) -> SessionRecord | None:
        """The latest session that asks this question."""
        matching = [s for s in self.sessions() if s.identity == identity]
        return matching[-1] if matching else None

    def note(self, session: int, kind: str, detail: str = "") -> None:
        """Write down that something happened to a session."""
        with self._transaction() as database:
            database.execute(
                "INSERT INTO session_event VALUES (?, ?, ?, ?)", (session, _now(), kind, detail)
            )

    # Runs and observations

    def begin_run(self, key: str | None, label: str) -> int:
        """Write down, before it starts, that something is about to run.

        :param key: what runs; None for what can never be found again.
        """
        with self._transaction() as database:
            cursor = database.execute(
                "INSERT INTO run (key, label, started, boot) VALUES (?, ?, ?, ?)",
                (key, label, _now(), boot_id()),
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def abandon_run(self, run: int, why: str) -> None:
        """Write down that a run was ended by its user: its silence accuses nobody."""
        with self._transaction() as database:
            database.execute("UPDATE run SET abandoned = ? WHERE number = ?", (why, run))

    def finish_run(
        self,
        run: int,
        *,
        failure: Verdict | None = None,
        reason: str = "",
        trace: bytes | None = None,
        manifest: bytes | None = None,
        log: bytes | None = None,
        touched: tuple[str, ...] = (),
        milliseconds: dict[str, int] | None = None,
    ) -> Observation:
        """Append what a run gave. Durable when this returns."""
        with self._translated():
            kept = [None if b is None else self.blobs.put(b) for b in (trace, manifest, log)]
        observation = Observation(
            run, failure, reason, kept[0], kept[1], kept[2], touched, milliseconds or {}, _now()
        )
        with self._transaction() as database:
            database.execute(
                "INSERT INTO observation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run,
                    failure,
                    reason,
                    *kept,
                    msgspec.json.encode(touched).decode(),
                    msgspec.json.encode(observation.milliseconds).decode(),
                    observation.ended,
                ),
            )
        return observation

    def observed(self, key: str) -> Observation | None:
        """The latest observation of exactly this run, whichever session asked for it."""
        with self._reading() as database:
            row = database.execute(
                "SELECT observation.* FROM observation JOIN run USING (number)"
                " WHERE run.key = ? ORDER BY number DESC LIMIT 1",
                (key,),
            ).fetchone()
            return None if row is None else _observation(row)

    def fatal_starts(self, key: str) -> int:
        """How often exactly this was started and the host then went down before it ended."""
        with self._reading() as database:
            row = database.execute(
                "SELECT COUNT(*) FROM run LEFT JOIN observation USING (number) WHERE run.key = ?"
                " AND boot != ? AND abandoned IS NULL AND observation.number IS NULL",
                (key, boot_id()),
            ).fetchone()
        return int(row[0])

    # The ledger

    def enter(
        self, session: int, vector: Vector, repetition: int, source: str, observation: Observation
    ) -> None:
        """Write down that an observation answers a session's trial; twice is once."""
        with self._transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO ledger SELECT ?1,"
                " (SELECT COALESCE(MAX(sequence), 0) + 1 FROM ledger WHERE session = ?1),"
                " ?2, ?3, ?4, ?5",
                (
                    session,
                    msgspec.json.encode(vector).decode(),
                    repetition,
                    source,
                    observation.number,
                ),
            )

    def ledger(self, session: int) -> tuple[LedgerEntry, ...]:
        """What a session has observed, in the order in which it came."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT sequence, vector, repetition, source, observation.* FROM ledger"
                " JOIN observation ON observation.number = ledger.observation"
                " WHERE session = ? ORDER BY sequence",
                (session,),
            ).fetchall()
            return tuple(
                LedgerEntry(
                    row[0],
                    msgspec.json.decode(row[1], type=Vector),
                    row[2],
                    row[3],
                    _observation(row[4:]),
                )
                for row in rows
            )

    # The database

    def _prepare(self) -> None:
        database = self._database
        # Looked at first: what another process is just making has its marks once it has tables.
        empty = database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0
        version = database.execute("PRAGMA user_version").fetchone()[0]
        application = database.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION_ID and not empty:
            raise StoreError(str(self.path), "foreign")
        if version > SCHEMA:
            raise StoreError(str(self.path), "newer", str(version), str(SCHEMA))
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA foreign_keys = ON")
        if empty:
            self._create()

    def _create(self) -> None:
        with self._transaction() as database:
            # Another process may have come first, between the look and the lock.
            if database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                return
            for statement in sqlite_statements(_TABLES):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {SCHEMA}")

    def _session(
        self, database: sqlite3.Connection, row: tuple[int, str, str, str]
    ) -> SessionRecord:
        number, identity, created, spec = row
        events = database.execute(
            "SELECT at, kind, detail FROM session_event WHERE session = ? ORDER BY rowid",
            (number,),
        ).fetchall()
        return SessionRecord(
            number,
            identity,
            created,
            msgspec.json.decode(spec, type=SessionSpec),
            tuple(Event(*event) for event in events),
        )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._translated():
            yield self._database

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._translated():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled back already.
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with host_faults(self.root):
                yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                raise InfrastructureError("disk", str(self.root)) from error
            if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise InfrastructureError("permission", str(self.path)) from error
            raise StoreError(str(self.path), str(error)) from error
        except msgspec.MsgspecError as error:
            raise StoreError(str(self.path), "damaged", str(error), "a record") from error
        except (FileExistsError, NotADirectoryError) as error:
            raise InfrastructureError("permission", str(error.filename)) from error


def sqlite_statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one, so that they can stand in a transaction."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _observation(row: tuple[object, ...]) -> Observation:
    number, failure, reason, trace, manifest, log, touched, milliseconds, ended = row
    return msgspec.convert(
        {
            "number": number,
            "failure": failure,
            "reason": reason,
            "trace": trace,
            "manifest": manifest,
            "log": log,
            "touched": msgspec.json.decode(str(touched)),
            "milliseconds": msgspec.json.decode(str(milliseconds)),
            "ended": ended,
        },
        Observation,
    )


def boot_id() -> str:
    """Names this start of the host; no other start has the same."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
