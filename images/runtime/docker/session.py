"""A session in an image: programs run in one fresh container, and nothing of it stays."""

from __future__ import annotations

import itertools
import posixpath
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from bitsect.images.errors import InfrastructureError, host_faults
from bitsect.images.runtime.docker.container import Container, Ended
from bitsect.images.runtime.docker.launch import Launch
from bitsect.images.runtime.docker.limits import PROBE, WORK
from bitsect.images.runtime.docker.wire import STDERR, STDOUT
from bitsect.images.runtime.errors import ProgramError, SessionClosedError
from bitsect.images.runtime.process import signal_name
from bitsect.images.runtime.protocol import DEFAULT_FETCH_LIMIT, Completed, RunSpec, Stack
from bitsect.images.runtime.scratch import ScratchFolder
from bitsect.images.runtime.sink import Sink
from bitsect.images.runtime.surroundings import scratch_folders

FETCH_SECONDS = 120.0
_KILLED = 9
# The engine's status for a program that a signal ended is this and the signal's number.
_SIGNALLED = 128
_LAST_SIGNAL = 64


class ContainerSession:
    """Runs programs in a container that is made for the first of them.

    A program that takes too long, or writes too much, is ended with its whole container, and so
    with whatever runs beside it; the next one gets a fresh container. Folders that were handed
    out are there again, empty.

    :param make: makes a container.
    :param start: starts it, or removes it.
    :param lent: the folder of this machine that lies at `PROBE`.
    """

    def __init__(
        self,
        stack: Stack,
        python: Path,
        make: Callable[[], Container],
        start: Callable[[Container], None],
        scratch_root: Path,
        lent: Path,
    ) -> None:
        self.stack = stack
        self.python = python
        self._make = make
        self._start = start
        self._lent = lent
        self._scratch = ScratchFolder(scratch_root)
        self._container: Container | None = None
        self._closed = False
        self._active = 0
        # Whether the container is being replaced or tidied, so that no program may begin in it.
        self._reserved = False
        # Guards all of the above, and tells of changes. It is never held while an engine or a
        # container is asked for anything, since whoever closes the session must not wait for it.
        self._state = threading.Condition()
        self._numbers = itertools.count(1)
        folders = {**scratch_folders(Path(WORK)), "XDG_CACHE_HOME": Path(WORK, "caches/other")}
        self._environment = {name: str(folder) for name, folder in folders.items()}
        self._folders = [*self._environment.values()]
        self._environment |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}

    def inside(self, folder: Path) -> str:
        """Where the probe lies; ValueError for any other folder of this machine."""
        if folder != self._lent:
            raise ValueError(f"not lent to the stack: {folder}")
        return PROBE

    def fresh_folder(self) -> str:
        """A folder that is there by the time the next program runs."""
        folder = self._new_folder("folder")
        with self._state:
            if self._closed:
                raise SessionClosedError(folder)
            self._folders.append(folder)
        return folder

    def fetch(self, inner: str, outer: Path, limit: int = DEFAULT_FETCH_LIMIT) -> bool:
        """Copy a file out, as `Session.fetch`; a link is no file."""
        waiting = outer.with_name(f".{outer.name}-{secrets.token_hex(4)}")
        order = {"path": inner, "limit": limit}
        with self._used(inner) as container, host_faults(outer):
            try:
                with waiting.open("wb", 0) as stream:
                    takers = {STDOUT: Sink(stream, limit).take, STDERR: _ignored}
                    ended = container.run("reader", order, takers, _after(FETCH_SECONDS))
                if ended.status != 0:
                    return False
                waiting.rename(outer)
            finally:
                waiting.unlink(missing_ok=True)
        return True

    def exec(self, spec: RunSpec) -> Completed:
        """Run a program to its end, as `Session.exec`."""
        program = spec.arguments[0]
        with self._used(program) as container, host_faults(self._scratch.path):
            number = next(self._numbers)
            stdout = self._scratch.path / f"stdout{number}"
            stderr = self._scratch.path / f"stderr{number}"
            with stdout.open("wb", 0) as out, stderr.open("wb", 0) as err:
                sinks = (Sink(each, spec.output_limit, spec.heard) for each in (out, err))
                launch = Launch(spec, *sinks)
                order = launch.order(self._changes(spec), *self._places(spec))
                ended = container.run("launcher", order, launch.takers, _after(spec.timeout))
                launch.finish()
            starved = self._tidy(container)
        with self._state:
            if self._closed:
                raise SessionClosedError(program)
        if launch.failure is not None:
            raise ProgramError(program, launch.failure)
        if not launch.started and ended.cause is None and ended.status:
            raise ProgramError(program, _last_words(stdout, stderr))
        return _completed(spec, ended, launch, stdout, stderr, starved=starved)

    def close(self) -> None:
        """End what still runs, in whatever thread, and remove all of it; may be repeated."""
        with self._state:
            self._closed = True
            container, self._container = self._container, None
        try:
            if container is not None:
                container.remove()
        finally:
            with self._state:
                self._state.wait_for(lambda: self._active == 0)
            self._scratch.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _used(self, program: str) -> Iterator[Container]:
        """The container, which stays until the program that uses it has ended."""
        with self._state:
            if self._closed:
                raise SessionClosedError(program)
            self._active += 1
        try:
            yield self._live(program)
        finally:
            with self._state:
                self._active -= 1
                self._state.notify_all()

    def _live(self, program: str) -> Container:
        """The container that runs, or a fresh one."""
        with self._state:
            self._state.wait_for(lambda: self._closed or not self._reserved)
            if self._closed:
                raise SessionClosedError(program)
            if self._container is not None and not self._container.removed:
                return self._container
            self._reserved = True
        with self._released_at_the_end():
            return self._fresh(program)

    def _fresh(self, program: str) -> Container:
        """A container that has started; one that closing the session has ended is none."""
        container = self._make()
        with self._state:
            closed = self._closed
            if not closed:
                # By this, `close` ends it while it starts.
                self._container = container
        if closed:
            container.remove()
            raise SessionClosedError(program)
        try:
            self._start(container)
        except (ProgramError, InfrastructureError) as error:
            with self._state:
                if self._closed:
                    raise SessionClosedError(program) from error
            raise
        return container

    def _tidy(self, container: Container) -> bool:
        """End what a program left running; whether the kernel ended something of it before."""
        if container.removed:
            return False
        with self._state:
            alone = self._active == 1
            # Whoever comes now waits, so as not to be ended too.
            self._reserved = self._reserved or alone
        with self._released_at_the_end() if alone else nullcontext():
            killed = container.end_programs(all_of_them=alone)
        if killed is None:
            container.remove()
        return bool(killed)

    @contextmanager
    def _released_at_the_end(self) -> Iterator[None]:
        """At its end, others may use the container again."""
        try:
            yield
        finally:
            with self._state:
                self._reserved = False
                self._state.notify_all()

    def _new_folder(self, name: str) -> str:
        return posixpath.join(WORK, f"{name}{next(self._numbers)}")

    def _places(self, spec: RunSpec) -> tuple[str, list[str]]:
        """The working folder, and all the folders that must be there."""
        with self._state:
            folders = list(self._folders)
        if spec.folder is not None:
            return str(PurePosixPath(spec.folder)), folders
        folder = self._new_folder("work")
        return folder, [*folders, folder]

    def _changes(self, spec: RunSpec) -> Mapping[str, str | None]:
        return {**self._environment, **spec.environment}


def _completed(
    spec: RunSpec, ended: Ended, launch: Launch, stdout: Path, stderr: Path, *, starved: bool
) -> Completed:
    # What ended with its container was killed.
    status = _SIGNALLED + _KILLED if ended.status is None else ended.status
    returncode = status
    if _SIGNALLED < status <= _SIGNALLED + _LAST_SIGNAL:
        returncode = _SIGNALLED - status
    return Completed(
        arguments=spec.arguments,
        returncode=returncode,
        signal=signal_name(-returncode) if returncode < 0 else None,
        timed_out=ended.cause == "time",
        overflowed=ended.cause == "output",
        duration=launch.duration,
        stdout=stdout,
        stderr=stderr,
        out_of_memory=starved and returncode != 0,
    )


def _last_words(*files: Path) -> str:
    """What the engine wrote in place of a program that never ran."""
    said = " ".join(path.read_text(errors="replace") for path in files).split()
    return " ".join(said)[:1000] or "it was lost before it ran"


def _after(seconds: float) -> float:
    return time.monotonic() + seconds


def _ignored(piece: bytes) -> bool:
    return True
