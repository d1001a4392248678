"""One running container: made, asked to run scripts, and removed with all that is in it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from docker.errors import APIError, NotFound

from bitsect.images.errors import InfrastructureError
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from bitsect.images.runtime.docker.files import remove_container, remove_volume
from bitsect.images.runtime.docker.wire import STDERR, STDOUT, Wire
from bitsect.images.runtime.errors import ProgramError

Cause = Literal["time", "output"]
#: Takes what a script writes; False once it has enough.
Taker = Callable[[bytes], bool]

_SCRIPTS = Path(__file__).with_name("inside")
#: Nothing of the stack's but its standard library comes into the way of these scripts.
_BARE = ("-I", "-S", "-B")

#: Seconds for a first answer; a large image on a cold disk takes its time.
START_SECONDS = 120.0
#: Seconds for any later answer.
ANSWER_SECONDS = 10.0
_POLL_SECONDS = 0.01
_LONGEST_WORD = 4096
# The image lacks what it takes to start: its Python, what that needs, or its own user.
_UNFIT = re.compile(
    r"\bexec(?:utable)?\b.*(?:no such file or directory|not found|permission denied|format error)"
    r"|unable to find (?:user|group)|no matching entries in passwd",
    re.IGNORECASE,
)


def script(name: str) -> str:
    """The source of a script that runs inside containers."""
    return (_SCRIPTS / f"{name}.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Plan:
    """What a container is made of.

    :param image: the engine's id of it.
    :param python: the image's Python.
    :param host_config: see `limits.host_config`.
    :param labels: of the container and its volumes.
    :param volumes: names of those that are made for it, and go with it.
    """

    image: str
    python: str
    labels: Mapping[str, str] = field(hash=False)
    host_config: Mapping[str, Any] = field(hash=False)
    host_name: str
    volumes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """How a script ended.

    :param status: as the engine has it: 128 and more for a signal; None if the whole container
        ended with it or before it.
    :param cause: why it was ended by force, or None.
    """

    status: int | None
    cause: Cause | None = None


class Container:
    """A container in which scripts can be run, several at a time, once it was started.

    Its first process ends when this object is closed or this process dies, and the engine then
    removes the container.

    Raises InfrastructureError.
    """

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._engine = engine
        self._python = plan.python
        self._volumes = plan.volumes
        self._talk = threading.Lock()
        self._spoken = bytearray()
        self._removed = False
        #: How many processes were ended so far because it had used up its memory.
        self.memory_kills = 0
        try:
            with engine_faults("creating a container"):
                for volume in plan.volumes:
                    engine.api.create_volume(volume, labels=dict(plan.labels))
                self.id = _create(engine, plan)
        except BaseException:
            self._discard_volumes()
            raise
        try:
            with engine_faults("connecting to a container"):
                wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
                self._first = Wire(engine.api.attach_socket(self.id, params=wanted))
        except BaseException:
            self._discard()
            raise

    def start(self) -> None:
        """Start its first process; if that fails, the container is removed.

        `remove`, called in another thread, ends the waiting for it.

        Raises ProgramError if the stack's Python cannot be started, InfrastructureError.
        """
        try:
            self._begin()
            self.memory_kills = self._hear(START_SECONDS)
        except BaseException:
            self.remove()
            raise

    @property
    def removed(self) -> bool:
        """Whether it was ended on purpose."""
        return self._removed

    def run(
        self,
        name: str,
        order: Mapping[str, object],
        takers: Mapping[int, Taker],
        deadline: float,
    ) -> Ended:
        """Run one of the scripts to its end. If that has to be forced, the container goes too.

        :param takers: for standard output and standard error.
        :param deadline: on `time.monotonic`.

        Raises InfrastructureError.
        """
        arguments = [self._python, *_BARE, "-c", script(name)]
        try:
            with engine_faults("starting a program in a container"):
                run = str(self._engine.api.exec_create(self.id, arguments, stdin=True)["Id"])
                wire = Wire(self._engine.api.exec_start(run, socket=True))
        except (APIError, InfrastructureError) as error:
            return self._lost(error)
        try:
            cause = self._follow(wire, order, takers, deadline)
        except BaseException:
            # Nobody is left to listen to it.
            self._break_off(wire)
            raise
        if cause is not None:
            self._break_off(wire)
            return Ended(None, cause)
        wire.close()
        return self._status(run)

    def end_programs(self, *, all_of_them: bool) -> int | None:
        """End what programs have left running, and count the kernel's own victims.

        :param all_of_them: False only counts, for when other programs still run.

        Gives how many processes the kernel has ended since the last time because the container
        had used up its memory; None if the container is gone or does not answer.
        """
        with self._talk:
            try:
                self._first.send(b"end programs\n" if all_of_them else b"count\n")
                count = self._hear(ANSWER_SECONDS)
            except (OSError, ProgramError):
                return None
            fresh = count - self.memory_kills
            self.memory_kills = count
            return fresh

    def remove(self) -> None:
        """End everything in it and remove it; may be repeated, from any thread.

        If the engine cannot do it now, the next start of bitsect sees to it.
        """
        self._removed = True
        self._discard()
        self._first.close()

    def _discard(self) -> None:
        try:
            remove_container(self._engine, self.id)
        except InfrastructureError:
            # Whoever uses the container meets the same error; here it would hide another one.
            return
        self._discard_volumes()

    def _discard_volumes(self) -> None:
        try:
            for volume in self._volumes:
                remove_volume(self._engine, volume)
        except InfrastructureError:
            # Likewise.
            return

    def _begin(self) -> None:
        try:
            with engine_faults("starting a container"):
                self._engine.api.start(self.id)
        except InfrastructureError as error:
            if _UNFIT.search(error.detail):
                raise ProgramError(self._python, error.detail) from error
            raise
        except APIError as error:
            raise ProgramError(self._python, str(error.explanation)) from error

    def _hear(self, patience: float) -> int:
        """The next count that the first process tells."""
        said = bytearray()
        try:
            for stream, piece in self._first.pieces(time.monotonic() + patience):
                if stream == STDERR:
                    said += piece[: _LONGEST_WORD - len(said)]
                else:
                    self._spoken += piece
                    word, end, rest = self._spoken.partition(b"\n")
                    if end:
                        self._spoken = rest
                        return int(word) if word.isdigit() else 0
                    del self._spoken[_LONGEST_WORD:]
        except TimeoutError as error:
            raise ProgramError(self._python, f"no answer in {patience:.0f} s") from error
        with engine_faults("the engine lost a container"):
            self._engine.api.ping()
        # The engine is there, so it ended by itself, and its last words say why.
        reason = said.decode(errors="replace").strip().splitlines()[-1:] or ["it ended at once"]
        raise ProgramError(self._python, reason[0])

    def _follow(
        self,
        wire: Wire,
        order: Mapping[str, object],
        takers: Mapping[int, Taker],
        deadline: float,
    ) -> Cause | None:
        """Give the order and take what comes until there is no more; why it had to be ended."""
        try:
            wire.send(json.dumps(order).encode() + b"\n")
        except OSError:
            # The other side is gone, and its status says how.
            return None
        try:
            for stream, piece in wire.pieces(deadline):
                if not takers[STDOUT if stream == STDOUT else STDERR](piece):
                    return "output"
        except TimeoutError:
            return "time"
        return None

    def _break_off(self, wire: Wire) -> None:
        # First the wire: an engine that cannot get rid of a program's output waits for it.
        wire.close()
        self.remove()

    def _status(self, run: str) -> Ended:
        """How a script ended whose streams have."""
        patience = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < patience:
            try:
                with engine_faults("asking how a program ended"):
                    state = self._engine.api.exec_inspect(run)
            except (APIError, InfrastructureError) as error:
                return self._lost(error)
            if not state["Running"] and state["ExitCode"] is not None:
                return Ended(int(state["ExitCode"]))
            time.sleep(_POLL_SECONDS)
        raise InfrastructureError("refused", "it does not tell how a program ended")

    def _lost(self, error: APIError | InfrastructureError) -> Ended:
        """What it means that the engine has no such container or program any more."""
        if self._removed:
            return Ended(None)
        if isinstance(error, InfrastructureError):
            raise error
        detail = f"a container that was in use is gone, or was stopped: {error.explanation}"
        raise InfrastructureError("engine", detail) from error


def _create(engine: Engine, plan: Plan) -> str:
    """The new container's id."""
    try:
        created = engine.api.create_container(
            plan.image,
            entrypoint=[plan.python, *_BARE, "-c", script("first")],
            command=[],
            stdin_open=True,
            hostname=plan.host_name,
            # The image's own folder need not be there, and then the engine would make it.
            working_dir="/",
            # The image's own check would run beside the probe.
            healthcheck={"test": ["NONE"]},
            # Process 1 hears no other, so an engine that stops or starts would wait in vain.
            stop_signal="SIGKILL",
            labels=dict(plan.labels),
            host_config=dict(plan.host_config),
        )
    except NotFound as error:
        raise InfrastructureError("refused", f"an image was removed: {plan.image}") from error
    return str(created["Id"])
