"""A container in which files are rearranged before it becomes an image.

Its first process is `bitsect.probes.arrange`, run by the image's own Python with the source on
its command line: nothing is put into the container for it, and nothing of it stays. Its input
comes from this process, so it ends when this process does, however that ends; the container is
then removed by whoever next clears away what was abandoned.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from docker.types import LogConfig

import bitsect
from bitsect.images.errors import InfrastructureError, UnbuildableError
from bitsect.images.layers import Record
from bitsect.images.runtime.docker.committing import Carried
from bitsect.images.runtime.docker.engine import NO_SPACE, Engine
from bitsect.images.runtime.docker.faults import every_fault
from bitsect.images.runtime.docker.files import remove_container
from bitsect.images.runtime.docker.marks import Marks
from bitsect.images.runtime.docker.wire import STDERR, Wire

T = TypeVar("T")

#: Seconds for one order.
PATIENCE = 600
#: Lines of a failed program's output that an error carries.
TAIL_LINES = 50

_SOURCE = Path(bitsect.__file__).parent / "probes" / "arrange.py"
_FLAGS = ("-I", "-S", "-B", "-X", "utf8")
# Just enough to change files that belong to others.
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID")
_MOST_PROCESSES = 256
_MEMORY = 2 << 30
_LONGEST_ANSWER = 4 << 20
_LONGEST_COMPLAINT = 1 << 16
# Seconds for a container to end whose output has, and between two looks at it.
_LAST_WAIT = 10
_PAUSE = 0.02
# Exit status after SIGKILL.
_KILLED = 137


class Permissions(Record, frozen=True):
    """What a container may do beside changing its own files.

    :param network: of the engine's, by name.
    """

    network: str = "none"
    capabilities: tuple[str, ...] = ()


NONE_BESIDES = Permissions()
NOTHING_CARRIED = Carried()


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    done: object = None
    failed: str | None = None


class Workbench:
    """A running container that takes orders; made by `workbench`."""

    def __init__(self, engine: Engine, container: str, wire: Wire) -> None:
        self.container = container
        self._engine = engine
        self._wire = wire
        self._answers = bytearray()
        self._complaints = bytearray()

    def order(self, name: str, what: object, wanted: type[T]) -> T:
        """Have something done; see `bitsect.probes.arrange`. Gives the answer.

        Raises UnbuildableError if it was refused or the answer is none, InfrastructureError if
        the container went away.

        :param wanted: what the answer must be; it is not trusted.
        """
        return _done(name, self._answer(name, name, what, PATIENCE), wanted)

    def run(self, command: Sequence[str], patience: float = PATIENCE) -> str:
        """Run a program, unless there is none; the end of what it said. Raises as `order` does.

        :param patience: seconds until it is given up.
        """
        return _done(command[0], self._answer(command[0], "run", command, patience), str)

    def _answer(self, about: str, name: str, what: object, patience: float) -> bytes:
        try:
            self._wire.send(json.dumps({name: what}).encode() + b"\n")
            answer = self._line(time.monotonic() + patience)
        except TimeoutError as error:
            raise UnbuildableError(about, f"no answer in {patience:g} seconds") from error
        except OSError:
            # It ended in the middle of the order.
            answer = None
        if answer is None:
            raise self._loss(about)
        return answer

    def _line(self, deadline: float) -> bytes | None:
        """The next line of standard output; None if there is no more."""
        for stream, data in self._wire.pieces(deadline):
            if stream == STDERR:
                self._complaints += data
                del self._complaints[:-_LONGEST_COMPLAINT]
                continue
            self._answers += data
            line, end, rest = bytes(self._answers).partition(b"\n")
            if end:
                self._answers[:] = rest
                return line
            if len(self._answers) > _LONGEST_ANSWER:
                raise UnbuildableError("python", "its answer has no end")
        return None

    def _loss(self, about: str) -> UnbuildableError | InfrastructureError:
        """Why there is no answer: the image's own fault, or the host's."""
        state = self._last_state()
        if state.get("OOMKilled"):
            ended = "it used more memory than it may"
        elif state.get("Running"):
            ended = "the image's Python closed its output and went on"
        elif state.get("ExitCode") == _KILLED:
            return InfrastructureError("host", "a container was ended from outside")
        else:
            ended = f"the image's Python ended with {state.get('ExitCode')}"
        said = self._complaints.decode(errors="replace")
        return UnbuildableError(about, last_lines(f"{said}\n{ended}"))

    def _last_state(self) -> Mapping[str, Any]:
        """The container's, which ends when its output has."""
        patience = time.monotonic() + _LAST_WAIT
        while True:
            with every_fault("looking after a container that ended"):
                state = self._engine.api.inspect_container(self.container)["State"]
            if not state.get("Running") or time.monotonic() > patience:
                return dict(state)
            time.sleep(_PAUSE)


@contextmanager
def workbench(
    engine: Engine,
    marks: Marks,
    image: str,
    python: str,
    permissions: Permissions = NONE_BESIDES,
    given: Carried = NOTHING_CARRIED,
) -> Iterator[Workbench]:
    """A container of an image, ready for orders, and removed on leaving.

    Raises UnbuildableError if the image's Python does not start, InfrastructureError.

    :param python: in the image.
    :param given: for the image that is made of it.
    """
    container = _created(engine, marks, image, python, permissions, given)
    try:
        with closing(_connected(engine, container)) as wire:
            _start(engine, container, python)
            bench = Workbench(engine, container, wire)
            # Anything at all, to see that it answers.
            bench.order("look", {}, list[object])
            yield bench
    finally:
        remove_container(engine, container)


def last_lines(text: str) -> str:
    """As many of the last lines as an error carries."""
    return "\n".join(text.rstrip().splitlines()[-TAIL_LINES:])


def _created(
    engine: Engine,
    marks: Marks,
    image: str,
    python: str,
    permissions: Permissions,
    given: Carried,
) -> str:
    with every_fault("creating a container to build in"):
        limits = engine.api.create_host_config(
            network_mode=permissions.network,
            cap_drop=["ALL"],
            cap_add=[*_CAPABILITIES, *permissions.capabilities],
            security_opt=["no-new-privileges"],
            pids_limit=_MOST_PROCESSES,
            mem_limit=_MEMORY,
            memswap_limit=_MEMORY,
            log_config=LogConfig(type=LogConfig.types.NONE),
            # The engine would put the init process's own file into the image.
            init=False,
        )
        created = engine.api.create_container(
            image,
            entrypoint=[python, *_FLAGS, "-c", _SOURCE.read_text(encoding="utf-8")],
            command=[],
            user="0",
            # The engine makes a working folder that is not there.
            working_dir="/",
            stdin_open=True,
            healthcheck={"test": ["NONE"]},
            host_config=limits,
            environment=list(given.environment),
            labels={**given.labels, **marks.on_container("build")},
        )
    return str(created["Id"])


def _connected(engine: Engine, container: str) -> Wire:
    """To the container's first process, which need not run yet."""
    wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    with every_fault("connecting to a container"):
        return Wire(engine.api.attach_socket(container, params=wanted))


def _start(engine: Engine, container: str, python: str) -> None:
    try:
        with every_fault("starting a container to build in"):
            engine.api.start(container)
    except InfrastructureError as error:
        # What the engine cannot run is the image's fault, and reported as the engine's.
        if "exec" in error.detail and python in error.detail:
            raise UnbuildableError(python, error.detail) from error
        raise


def _done(about: str, line: bytes, wanted: type[T]) -> T:
    try:
        answer = msgspec.json.decode(line, type=_Answer)
        if answer.failed is None:
            return msgspec.convert(answer.done, wanted)
    except (msgspec.MsgspecError, RecursionError) as error:
        said = line[:200].decode(errors="replace")
        raise UnbuildableError(about, f"the image's Python answered {said!r}") from error
    if NO_SPACE.search(answer.failed):
        # The engine's disk is full: no fault of the image's.
        raise InfrastructureError("disk", f"{about}: {last_lines(answer.failed)}")
    raise UnbuildableError(about, last_lines(answer.failed))
