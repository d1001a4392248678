"""Errors of the part that names, resolves and builds stacks.

An error carries data. ``reason``, ``detail`` and ``tail`` are short texts that a tool gave;
every other field is a name, a version or a path. URLs never carry credentials.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from bitsect.probes.errors import BitsectError

InfrastructureKind: TypeAlias = Literal[
    "index", "registry", "engine", "refused", "disk", "permission", "tool", "host"
]


class BadReference(BitsectError):
    """A reference, or the requirements it leads to, cannot be read.

    :param text: the reference as the user wrote it, or the file or requirement to blame.
    :param reason: what is wrong with it.
    :param candidates: valid forms, or existing names that come near.
    """

    def __init__(self, text: str, reason: str, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(text, reason, candidates)
        self.text = text
        self.reason = reason
        self.candidates = candidates


class InterpreterError(BitsectError):
    """A path is not a Python interpreter that can be used.

    :param path: the executable that was asked.
    :param reason: what went wrong.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


class UnknownVersion(BitsectError):
    """An exact version was asked for that no index offers.

    :param package: normalised project name.
    :param version: what was asked for.
    :param nearest: offered versions around it, ascending; empty if there is no such project.
    :param offered: how many versions are offered for this interpreter.
    :param python: version of the interpreter.
    """

    def __init__(
        self, package: str, version: str, nearest: tuple[str, ...], offered: int, python: str
    ) -> None:
        super().__init__(package, version, nearest, offered, python)
        self.package = package
        self.version = version
        self.nearest = nearest
        self.offered = offered
        self.python = python


class UnresolvedError(BitsectError):
    """Requirements that exist do not fit together: a verdict of its own, never a fault.

    :param requirements: what was asked for.
    :param reason: the resolver's explanation, one paragraph.
    """

    def __init__(self, requirements: tuple[str, ...], reason: str) -> None:
        super().__init__(requirements, reason)
        self.requirements = requirements
        self.reason = reason


class UnbuildableError(BitsectError):
    """A resolved stack could not be made: a build failed or gave something else than locked.

    :param what: the package or environment that failed.
    :param tail: the end of the tool's output.
    """

    def __init__(self, what: str, tail: str) -> None:
        super().__init__(what, tail)
        self.what = what
        self.tail = tail


class InfrastructureError(BitsectError):
    """The host's fault: says nothing about any stack, and may pass.

    :param kind: ``index`` (of packages, not reachable), ``registry`` (of images, likewise),
        ``engine`` (a container engine is not there, or went away), ``refused`` (it is there, and
        does not do what it is asked), ``disk`` (full), ``permission``, ``tool`` (pip or uv is
        missing, or failed in a way of its own), or ``host`` (a program was ended from outside,
        as when memory runs out).
    :param detail: the address, path or message.
    """

    def __init__(self, kind: InfrastructureKind, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


@contextmanager
def host_faults(place: Path | str) -> Iterator[None]:
    """Turns the operating system's refusals into InfrastructureError.

    :param place: the file or folder that was worked on, for errors that name none.
    """
    try:
        yield
    except OSError as error:
        kind = _HOST_FAULTS.get(error.errno or 0)
        if kind is None:
            raise
        detail = f"{error.filename or place}: {error.strerror}"
        raise InfrastructureError(kind, detail) from error


_HOST_FAULTS: dict[int, InfrastructureKind] = {
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
    errno.EFBIG: "disk",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.EROFS: "permission",
}
