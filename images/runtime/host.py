"""The stack that bitsect itself runs in: nothing is built, and nothing can be exchanged."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from bitsect.images.errors import InfrastructureError
from bitsect.images.interpreter import describe_interpreter
from bitsect.images.lock import normalised
from bitsect.images.reference import Reference
from bitsect.images.runtime.local import LocalSession
from bitsect.images.runtime.protocol import Handle, RunSpec, Stack

_LIST_SECONDS = 60.0
# Runs in the stack, because what its programs can import is not what bitsect can.
_LIST = """\
import json, sys
from importlib.metadata import distributions
found = [(each.metadata["Name"], each.version) for each in distributions()]
json.dump([pair for pair in found if all(pair)], sys.stdout)
"""


@dataclass(frozen=True)
class HostHandle:
    """The Python that is running now."""

    stack: Stack
    python: Path

    @property
    def name(self) -> str:
        return str(self.python)

    def discard(self) -> None:
        """Nothing was built for it."""

    def release(self) -> None:
        """Nothing was built for it."""


class HostRuntime:
    """Runs programs with the Python that is running now.

    :param scratch_root: below which sessions make their folders.
    """

    name = "host"

    def __init__(self, scratch_root: Path) -> None:
        self._scratch_root = scratch_root

    def resolve(self, reference: Reference) -> Stack:
        """The stack of ``host:``, with the distributions that its programs can import."""
        if reference.kind != self.name:
            raise ValueError(f"not a host reference: {reference.text}")
        if not sys.executable:
            raise InfrastructureError("tool", "the running Python does not know its own path")
        interpreter = describe_interpreter()
        components = {f"python:{interpreter.implementation}": interpreter.version}
        bare = Stack(reference.text, self.name, interpreter, components)
        return Stack(
            reference.text,
            self.name,
            interpreter,
            {**components, **self._distributions(bare)},
        )

    def ensure(self, stack: Stack) -> HostHandle:
        """Nothing to build. A virtual environment's Python is more than what it was made of."""
        return HostHandle(stack, Path(sys.executable))

    def open(self, handle: Handle) -> LocalSession:
        """A session in it, with the user's own site-packages, as in any other program."""
        return LocalSession(handle.stack, handle.python, self._scratch_root, own_python=False)

    def _distributions(self, stack: Stack) -> dict[str, str]:
        with self.open(self.ensure(stack)) as session:
            done = session.exec(RunSpec((sys.executable, "-c", _LIST), _LIST_SECONDS))
            if done.returncode != 0:
                raise InfrastructureError("tool", f"{sys.executable}: {done.tail(1)}")
            try:
                found = json.loads(done.stdout.read_bytes())
            except ValueError as error:
                detail = f"{sys.executable} prints more than it was asked for"
                raise InfrastructureError("tool", detail) from error
        components: dict[str, str] = {}
        for name, version in found:
            # The first on the import path is the one that is imported.
            components.setdefault(f"pip:{normalised(name)}", version)
        return components
