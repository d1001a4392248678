"""Carries out a plan in a container, and compares what was done with what was planned."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.errors import NotFound

from bitsect.images.contents.cover import cover
from bitsect.images.contents.model import Contents, Entry
from bitsect.images.contents.paths import folders_above, is_below
from bitsect.images.contents.planning import Plan
from bitsect.images.errors import InfrastructureError, UnbuildableError
from bitsect.images.runtime.docker import archives
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.faults import every_fault
from bitsect.images.runtime.docker.files import created_container
from bitsect.images.runtime.docker.marks import Marks
from bitsect.images.runtime.docker.workbench import Workbench

LOADER_CACHE = "/etc/ld.so.cache"

_LOADER = "/sbin/ldconfig"
# Made by the loader's program for itself; it is not the same from one run to the next.
_LOADER_NOTES = "/var/cache/ldconfig/aux-cache"
# Made by the engine in every container: no part of the image.
_ENGINES = ("/.dockerenv", "/etc/hostname", "/etc/hosts", "/etc/mtab", "/etc/resolv.conf")
_ENGINES_FOLDERS = ("/dev", "/proc", "/sys")
_PLAIN_FILE = Entry("file", 0o644, 0, 0, 0, 0)


@dataclass(frozen=True)
class Loan:
    """Files that are copied, and who lends them.

    :param lender: an image, or a folder of this machine that holds them as if it were the root.
    :param files: by path, as they are there and as they shall be.
    :param contents: all of what the lender has.
    """

    lender: str | Path
    files: Mapping[str, Entry] = field(hash=False)
    contents: Contents = field(hash=False)


class Arrangement:
    """A plan, and all that it needs.

    The loader's cache is renewed whatever is exchanged: it follows from the other files, and an
    image may have one that is older than they are.

    :param chain: contents of the images, of which the first one's package database is kept.
    """

    def __init__(self, plan: Plan, loans: Iterable[Loan], chain: Sequence[Contents]) -> None:
        good = chain[0]
        self._plan = plan
        self._loans = tuple(loans)
        self._good = good
        self._written = {
            path: (_described(data, good.entries.get(path, _PLAIN_FILE)), data)
            for path, data in plan.files.items()
        }
        self._renews_cache = any(LOADER_CACHE in image.entries for image in chain)

    def refuse_volumes(self, volumes: Iterable[str]) -> None:
        """Raises UnbuildableError for a path in a volume: a container's own is no part of it."""
        for path in self._states():
            for volume in volumes:
                if is_below(path, volume):
                    raise UnbuildableError(path, f"it lies in the image's volume {volume}")

    def carry_out(self, engine: Engine, marks: Marks, bench: Workbench) -> None:
        """Raises UnbuildableError for what the images are to blame for, InfrastructureError."""
        plan = self._plan
        bench.order("remove", plan.deletions, int)
        bench.order("prune", plan.emptied, list[str])
        folders = [(each.path, each.mode, each.uid, each.gid) for each in plan.folders]
        bench.order("make", folders, list[str])
        with ExitStack() as stack:
            pieces = [archives.texts(self._written)]
            for loan in self._loans:
                if isinstance(loan.lender, Path):
                    pieces.append(archives.from_folder(loan.lender, loan.files))
                else:
                    donor = stack.enter_context(_donor(engine, marks, loan.lender))
                    roots = cover(loan.files, loan.contents)
                    pieces.append(archives.from_image(engine, donor, roots, loan.files))
            if self._loans or self._written:
                archives.put(engine, bench.container, pieces)
        if self._renews_cache:
            # Not the links to libraries: those that an image has are among its files.
            bench.run([_LOADER, "-X"])
            if _LOADER_NOTES not in self._good.entries:
                bench.order("remove", [_LOADER_NOTES], int)

    def check(self, engine: Engine, bench: Workbench) -> None:
        """Raises UnbuildableError for a path that is not as planned, InfrastructureError."""
        strange = bench.order("look", self._states(), list[tuple[str, Any]])
        for path, found in strange:
            raise UnbuildableError(path, f"after the exchange it is {found}")
        with every_fault("listing what changed in a container"):
            changes = engine.api.diff(bench.container) or []
        found = {str(change["Path"]) for change in changes} - self._allowed()
        unplanned = [path for path in found if not _is_engines(path)]
        if unplanned:
            # The folders around it changed because of it.
            deepest = max(unplanned, key=lambda path: (path.count("/"), path))
            raise UnbuildableError(deepest, "it changed although it was not to be exchanged")

    def _states(self) -> dict[str, list[object] | None]:
        """How `bitsect.probes.arrange` shall find every path."""
        there: dict[str, list[object] | None] = {}
        for loan in self._loans:
            there.update((path, _state(entry)) for path, entry in loan.files.items())
        there.update((path, _state(entry)) for path, (entry, _) in self._written.items())
        # A file may have made way for a folder, which is seen by what lies in it.
        folders: set[str] = set().union(*map(folders_above, there))
        gone = (path for path in self._plan.deletions if path not in folders)
        return {**dict.fromkeys(gone), **there}

    def _allowed(self) -> set[str]:
        """Paths that may have changed."""
        plan = self._plan
        allowed = {*self._states(), *plan.emptied, *(each.path for each in plan.folders)}
        if self._renews_cache:
            allowed |= {LOADER_CACHE, _LOADER_NOTES}
        return allowed.union(*map(folders_above, allowed))


@contextmanager
def _donor(engine: Engine, marks: Marks, image: str) -> Iterator[str]:
    try:
        with created_container(engine, image, marks) as container:
            yield container
    except NotFound as error:
        raise InfrastructureError("refused", f"an image was removed: {image}") from error


def _described(data: bytes, entry: Entry) -> Entry:
    return Entry(
        kind="file",
        mode=entry.mode,
        uid=entry.uid,
        gid=entry.gid,
        size=len(data),
        mtime=entry.mtime,
        digest="sha256:" + hashlib.sha256(data).hexdigest(),
    )


def _state(entry: Entry) -> list[object]:
    content = entry.target if entry.kind == "link" else entry.size
    return [entry.kind, content, entry.mode, entry.uid, entry.gid]


def _is_engines(path: str) -> bool:
    places = (*_ENGINES, *_ENGINES_FOLDERS)
    return path in places or any(is_below(path, folder) for folder in _ENGINES_FOLDERS)
