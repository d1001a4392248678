"""What can go wrong in running a program, apart from what the program itself does."""

from __future__ import annotations

from bitsect.probes.errors import BitsectError


class ProgramError(BitsectError):
    """A program could not be started, or was lost without a status.

    :param program: its path.
    :param reason: what the system said.
    """

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(program, reason)
        self.program = program
        self.reason = reason


class SessionClosedError(BitsectError):
    """The session was closed, by another thread or earlier, so nothing can run in it.

    :param program: what should have run, or was running.
    """

    def __init__(self, program: str) -> None:
        super().__init__(program)
        self.program = program
