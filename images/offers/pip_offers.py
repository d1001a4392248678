"""Releases of Python distributions from the user's own indexes, as files for an image.

They are chosen for the image's Python and fetched on this machine, so the image needs neither
network nor installer. A constraint file in the image does not bind this way; where it names the
distribution, the state says so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path, PurePosixPath

import msgspec

from bitsect.images.catalogue import pip_axis_points
from bitsect.images.contents.cache import ContentsCache
from bitsect.images.contents.model import ComponentAxis, Contents, State, state_digest
from bitsect.images.errors import UnbuildableError, host_faults
from bitsect.images.interpreter import Interpreter
from bitsect.images.lock import normalised
from bitsect.images.offers.image_python import uv_platform
from bitsect.images.offers.installed_tree import Place, arranged, described
from bitsect.images.offers.offer import Runs
from bitsect.images.pip_settings import PipSettings
from bitsect.images.runtime.scratch import ScratchFolder
from bitsect.images.uv import Uv

CONSTRAINTS = "/etc/pip/constraint.txt"

_INFO = re.compile(r"(?P<site>/.*)/(?P<name>[^/]+)-(?P<version>[^-/]+)\.dist-info/METADATA")
_LIBRARY = re.compile(r"(?P<prefix>.*)/lib(?:64)?/python3(?:\.\d+)?/(?:site|dist)-packages")


class PipOffers:
    """Offers for one image's Python.

    :param interpreter: as `image_python` describes it.
    :param contents: of the images of the chain.
    :param cache: folder for what was learnt about releases.
    """

    kind = "pip"

    def __init__(
        self,
        interpreter: Interpreter,
        settings: PipSettings,
        contents: Sequence[Contents],
        cache: Path,
        uv: Uv | None = None,
    ) -> None:
        self._interpreter = interpreter
        self._settings = settings
        self._contents = contents
        self._cache = cache
        self._uv = uv or Uv(settings)

    def between(self, axis: ComponentAxis) -> Runs:
        """Releases between those states that came from an index themselves."""
        name = axis.component.partition(":")[2]
        versions = [_ordinary_version(state) for state in axis.states]
        runs = []
        for good, bad in pairwise(versions):
            points: tuple[str, ...] = ()
            if good and bad and uv_platform(self._interpreter) and self._place(axis):
                found = pip_axis_points(name, good, bad, self._interpreter, self._settings)
                points = found.versions[1:-1]
            runs.append([self._state(name, version) for version in points])
        return runs

    def contents(self, axis: ComponentAxis, state: State) -> Contents:
        """What the release consists of; fetched once, and remembered."""
        place = self._known_place(axis)
        key = state_digest(state.digest, msgspec.to_builtins(place))

        def fetched() -> Contents:
            with self.lent(axis, state) as root:
                return described(root, place)

        return ContentsCache(self._cache / "contents").get(key, fetched)

    @contextmanager
    def lent(self, axis: ComponentAxis, state: State) -> Iterator[Path]:
        """The release, fetched and laid out as pip would have installed it."""
        place = self._known_place(axis)
        requirement = _requirement(state)
        scratch = ScratchFolder(self._cache / "scratch")
        try:
            with host_faults(scratch.path):
                wanted = scratch.path / "requirements.txt"
                wanted.write_text(f"{requirement}\n")
                self._uv.sync([*self._options(scratch.path / "fetched"), str(wanted)], requirement)
                yield arranged(scratch.path / "fetched", scratch.path / "root", place)
        finally:
            scratch.remove()

    def _options(self, prefix: Path) -> list[str]:
        return [
            f"--prefix={prefix}",
            f"--python={sys.executable}",
            f"--python-version={self._interpreter.version}",
            f"--python-platform={uv_platform(self._interpreter)}",
            "--only-binary=:all:",
            # As pip does it, and as the list of releases was made.
            "--index-strategy=unsafe-best-match",
        ]

    def _state(self, name: str, version: str) -> State:
        offer = f"pip:{name}=={version}"
        constrained = any(
            _names(contents.texts.get(CONSTRAINTS, b""), name) for contents in self._contents
        )
        return State(
            name=version,
            # Known before it is fetched: one release has one wheel for one Python.
            digest=state_digest(offer, self._interpreter.tags[0]),
            donor=None,
            offer=f"{offer} (not as {CONSTRAINTS} has it)" if constrained else offer,
        )

    def _known_place(self, axis: ComponentAxis) -> Place:
        place = self._place(axis)
        if place is None:
            raise UnbuildableError(axis.component, "no image says where it is to be installed")
        return place

    def _place(self, axis: ComponentAxis) -> Place | None:
        """Where the first image of the chain that has the distribution has it."""
        for state in axis.states:
            match = _info(state)
            library = _LIBRARY.fullmatch(match["site"]) if match else None
            if match and library and state.donor is not None:
                entries = self._contents[state.donor].entries
                owner = entries.get(match["site"])
                return Place(
                    site=match["site"],
                    prefix=library["prefix"] or "/",
                    python=self._interpreter.path,
                    uid=owner.uid if owner else 0,
                    gid=owner.gid if owner else 0,
                )
        return None


def _ordinary_version(state: State) -> str | None:
    """The version of a state that an index can have given; None for any other."""
    match = _info(state)
    direct = any(PurePosixPath(path).name == "direct_url.json" for path in state.paths)
    return match["version"] if match and not direct and "+" not in match["version"] else None


def _info(state: State) -> re.Match[str] | None:
    return next(filter(None, map(_INFO.fullmatch, state.paths)), None)


def _requirement(state: State) -> str:
    return (state.offer or "").partition(" ")[0].removeprefix("pip:")


def _names(constraints: bytes, name: str) -> bool:
    """Whether a constraint file says anything about a distribution."""
    for line in constraints.decode(errors="replace").splitlines():
        found = re.match(r"\s*([A-Za-z0-9][\w.-]*)", line)
        if found and normalised(found[1]) == name:
            return True
    return False
