"""What every runtime offers: a stack is resolved, made ready, opened, used and closed.

Nothing above this seam knows whether a program runs in a virtual environment, in the Python
that is running now, or in a container.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from bitsect.images.image_identity import ImageIdentity, Recipe
from bitsect.images.interpreter import Interpreter
from bitsect.images.lock import Lock
from bitsect.images.printable import printable
from bitsect.images.reference import Reference

DEFAULT_OUTPUT_LIMIT = 16 * 1024 * 1024
DEFAULT_FETCH_LIMIT = 256 * 1024 * 1024


@dataclass(frozen=True)
class Stack:
    """A stack that a reference or a hybrid resolved to: known exactly, not yet built.

    :param reference: the text that a person gave, or that describes the hybrid.
    :param runtime: name of the runtime that resolved it.
    :param interpreter: the Python of this machine that it stands on; None for one that brings
        its own.
    :param components: ``kind:name`` to point, such as ``pip:numpy`` to ``1.23.5``.
    :param lock: what will be installed; None where the runtime installs nothing.
    :param added: for a hybrid, components that neither its base nor its pins named.
    :param image: the image that it is, or that a hybrid of images begins with.
    :param recipe: for a hybrid of images, what it is made of.
    :param rebuilt: it is to be made from its parts even where an image is the same.
    """

    reference: str
    runtime: str
    interpreter: Interpreter | None
    components: Mapping[str, str] = field(hash=False)
    lock: Lock | None = None
    added: tuple[str, ...] = ()
    image: ImageIdentity | None = field(default=None, hash=False)
    recipe: Recipe | None = None
    rebuilt: bool = False


@dataclass(frozen=True)
class RunSpec:
    """One program to run inside a stack.

    :param arguments: program and arguments; never a shell's line.
    :param environment: variables added to those that the session gives; a value of None
        removes the session's.
    :param timeout: seconds.
    :param folder: working folder; None for a fresh scratch folder of the session.
    :param output_limit: bytes of standard output, and of standard error, that are kept.
    :param heard: told what the program writes to either of them, as it comes.
    """

    arguments: tuple[str, ...]
    timeout: float
    environment: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    folder: Path | None = None
    output_limit: int = DEFAULT_OUTPUT_LIMIT
    heard: Callable[[bytes], object] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Completed:
    """How a program ended.

    :param arguments: what ran.
    :param returncode: exit status; negative for the number of the signal that ended it.
    :param signal: that signal's name, such as ``SIGSEGV``, or None.
    :param timed_out: it was ended because its time was over.
    :param overflowed: it was ended because it wrote more than the limit.
    :param duration: seconds from start to end.
    :param stdout: file with its standard output; gone once the session is closed.
    :param stderr: file with its standard error; likewise.
    :param out_of_memory: it was ended because it used more memory than it may.
    """

    arguments: tuple[str, ...]
    returncode: int
    signal: str | None
    timed_out: bool
    overflowed: bool
    duration: float
    stdout: Path
    stderr: Path
    out_of_memory: bool = False

    def tail(self, lines: int = 20) -> str:
        """The last lines of standard error, or of standard output where that is empty."""
        return tail_of(self.stderr, lines) or tail_of(self.stdout, lines)


class Handle(Protocol):
    """A stack that is ready to be opened, any number of times, until it is released."""

    @property
    def python(self) -> Path:
        """The stack's Python, as a path inside the stack."""
        ...

    @property
    def stack(self) -> Stack:
        """What it was made from."""
        ...

    @property
    def name(self) -> str:
        """By which a person can use it: an image's name, or the path of a Python."""
        ...

    def discard(self) -> None:
        """Remove what was built, so that it is built anew; nobody else may be using it."""
        ...

    def release(self) -> None:
        """Allow what was built to be removed when room is needed; may be repeated."""
        ...


class Session(Protocol):
    """An opened stack. Closing it ends every process that it started."""

    @property
    def python(self) -> Path:
        """The stack's Python, as a path inside the stack."""
        ...

    @property
    def stack(self) -> Stack:
        """The stack that is open."""
        ...

    def inside(self, folder: Path) -> str:
        """Where a folder of this machine that was lent to the stack lies inside it, read-only.

        Raises ValueError for a folder that was not lent.
        """
        ...

    def fresh_folder(self) -> str:
        """A new empty folder inside the stack that its programs may write to."""
        ...

    def fetch(self, inner: str, outer: Path, limit: int = DEFAULT_FETCH_LIMIT) -> bool:
        """Copy a file out of the stack; False if it is absent, no file, or over `limit` bytes."""
        ...

    def exec(self, spec: RunSpec) -> Completed:
        """Run a program to its end; several may run at a time.

        Raises ProgramError when it cannot even start, SessionClosedError when the session is
        closed, InfrastructureError when there is no room for its output.
        """
        ...

    def close(self) -> None:
        """End what still runs and remove the session's scratch folders; may be repeated."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Runtime(Protocol):
    """One way to have stacks."""

    @property
    def name(self) -> str:
        """The scheme of its references."""
        ...

    def resolve(self, reference: Reference) -> Stack:
        """Find out what the reference means now. Builds nothing."""
        ...

    def ensure(self, stack: Stack) -> Handle:
        """Build the stack unless it is there already."""
        ...

    def open(self, handle: Handle) -> Session:
        """Make it possible to run programs in it."""
        ...


class Mixer(Protocol):
    """Whatever mixes stacks."""

    def hybrid(self, base: Stack, pins: Mapping[str, str | None]) -> Stack:
        """The base stack with some components at other points; None removes one.

        Raises UnresolvedError when there is no such combination.
        """
        ...

    def rebuilt(self, stack: Stack) -> Stack:
        """An end as it is when it is put together like a hybrid; itself if it always is.

        What it has and no component accounts for is not in it. Raises UnresolvedError when it
        cannot be put together.
        """
        ...


def tail_of(path: Path, lines: int, reach: int = 64 * 1024) -> str:
    """The last lines of a text file, read from its last `reach` bytes; empty if absent.

    Fit to be shown, whatever wrote them.
    """
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - reach))
            text = stream.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return printable("\n".join(text.rstrip().splitlines()[-lines:]))
