"""A session on this machine: what the `venv` and `host` runtimes have in common."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from bitsect.images.errors import host_faults
from bitsect.images.runtime.errors import SessionClosedError
from bitsect.images.runtime.process import Halt, Program, run_program
from bitsect.images.runtime.protocol import DEFAULT_FETCH_LIMIT, Completed, RunSpec, Stack
from bitsect.images.runtime.scratch import ScratchFolder
from bitsect.images.runtime.surroundings import program_environment, scratch_folders


class LocalSession:
    """Runs programs on this machine, each in a fresh working folder.

    :param own_python: as for `program_environment`.
    :param user: the variables that bitsect was started with; by default those of now.
    """

    def __init__(
        self,
        stack: Stack,
        python: Path,
        scratch_root: Path,
        *,
        own_python: bool,
        user: Mapping[str, str] | None = None,
    ) -> None:
        self.stack = stack
        self.python = python
        self._scratch = ScratchFolder(scratch_root)
        self._halt = Halt()
        self._numbers = itertools.count(1)
        self._active = 0
        self._quiet = threading.Condition()
        user = os.environ if user is None else user
        self._environment = program_environment(user, self._scratch.path, own_python=own_python)
        with host_faults(self._scratch.path):
            for folder in scratch_folders(self._scratch.path).values():
                folder.mkdir(parents=True)

    def inside(self, folder: Path) -> str:
        """The stack's programs see this machine's folders as they are."""
        return str(folder)

    def fresh_folder(self) -> str:
        """A folder below the session's own, gone when it is closed."""
        folder = self._scratch.path / f"folder{next(self._numbers)}"
        with self._counted(str(folder)), host_faults(folder):
            folder.mkdir()
        return str(folder)

    def fetch(self, inner: str, outer: Path, limit: int = DEFAULT_FETCH_LIMIT) -> bool:
        """Copy a file, as `Session.fetch`. A link is no file: it may lead anywhere."""
        source = Path(inner)
        with host_faults(outer):
            if source.is_symlink() or not source.is_file() or source.stat().st_size > limit:
                return False
            shutil.copyfile(source, outer)
        return True

    def exec(self, spec: RunSpec) -> Completed:
        """Run a program to its end, as `Session.exec`."""
        with self._counted(spec.arguments[0]), host_faults(self._scratch.path):
            return run_program(self._program(spec), self._halt)

    def close(self) -> None:
        """End what still runs, in whatever thread, and remove the scratch folder."""
        self._halt.set()
        with self._quiet:
            self._quiet.wait_for(lambda: self._active == 0)
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
    def _counted(self, program: str) -> Iterator[None]:
        """Keeps the scratch folder while a program runs in it."""
        with self._quiet:
            if self._halt.is_set:
                raise SessionClosedError(program)
            self._active += 1
        try:
            yield
        finally:
            with self._quiet:
                self._active -= 1
                self._quiet.notify_all()

    def _program(self, spec: RunSpec) -> Program:
        number = next(self._numbers)
        folder = spec.folder
        if folder is None:
            folder = self._scratch.path / f"work{number}"
            folder.mkdir()
        environment: dict[str, str | None] = {**self._environment, **spec.environment}
        return Program(
            arguments=spec.arguments,
            environment={name: value for name, value in environment.items() if value is not None},
            folder=folder,
            stdout=self._scratch.path / f"stdout{number}",
            stderr=self._scratch.path / f"stderr{number}",
            timeout=spec.timeout,
            output_limit=spec.output_limit,
            heard=spec.heard,
        )
