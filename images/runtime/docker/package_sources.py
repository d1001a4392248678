"""What the package sources of an image offer, found and installed in containers of it.

A container has no network unless the user names one of the engine's; without one, sources that
lie in the image itself still work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from bitsect.images.canonical import digest
from bitsect.images.errors import InfrastructureError, UnbuildableError
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.runtime.docker.committing import (
    Carried,
    all_labels,
    carried,
    commit,
    config_like,
    described,
    own_labels,
)
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.marks import Marks
from bitsect.images.runtime.docker.pruning import MadeImages
from bitsect.images.runtime.docker.workbench import (
    NOTHING_CARRIED,
    Permissions,
    Workbench,
    workbench,
)

KIND = "donor"

# apt's own user could not read sources that only root may read, and needs privileges to become.
_APT = ("/usr/bin/env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "/usr/bin/apt-get")
_OPTIONS = ("-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2")
# What the scripts of packages may expect of a system.
_CAPABILITIES = ("SETUID", "SETGID", "SETFCAP", "SYS_CHROOT")
_UNREACHABLE = ("Failed to fetch", "Could not resolve", "Unable to fetch", "Temporary failure")
#: Seconds for one run of apt.
PATIENCE = 1800


class PackageSources:
    """The package sources of one image.

    :param image: which has them.
    :param python: in the image.
    :param network: of the engine's, by name.
    """

    def __init__(
        self,
        engine: Engine,
        marks: Marks,
        made: MadeImages,
        image: ImageIdentity,
        python: str,
        network: str = "none",
    ) -> None:
        self._engine = engine
        self._marks = marks
        self._made = made
        self._image = image
        self._python = python
        self._permissions = Permissions(network, _CAPABILITIES)

    def versions(self, packages: Iterable[str]) -> dict[str, frozenset[str]]:
        """All versions of some packages that are offered.

        Raises InfrastructureError if the sources cannot be read, UnbuildableError if the image
        has no apt that works.
        """
        with self._updated() as bench:
            return {
                package: _versions(bench.run(["/usr/bin/apt-cache", "madison", package]))
                for package in packages
            }

    @contextmanager
    def installed(self, package: str, version: str) -> Iterator[str]:
        """An image in which a package was put to a version, made unless it is there.

        Raises UnbuildableError if it cannot be installed, InfrastructureError.
        """
        key = self.key(package, version)
        made, lock = self._made.ensure(KIND, key, lambda: self._install(key, package, version))
        with lock:
            yield made.id

    def key(self, package: str, version: str) -> str:
        """``sha256:…``, the identity of the image that `installed` gives."""
        asked = {"image": self._image.config_digest, "package": package, "version": version}
        return digest("bitsect/donor", asked)

    def _install(self, key: str, package: str, version: str) -> None:
        base = described(self._engine, self._image.engine_id, self._image.config_digest)
        labels = own_labels(self._marks, KIND, self._image, base)
        labels = all_labels(labels, key, base)
        with self._updated(carried(self._engine, base, {}, labels)) as bench:
            _apt(
                bench,
                "install",
                "--yes",
                "--no-install-recommends",
                "--allow-downgrades",
                f"{package}={version}",
            )
            commit(
                self._engine,
                self._marks,
                bench.container,
                config_like(self._image, base, {}),
                labels,
            )

    @contextmanager
    def _updated(self, given: Carried = NOTHING_CARRIED) -> Iterator[Workbench]:
        """A container that knows what the sources offer."""
        with workbench(
            self._engine,
            self._marks,
            self._image.engine_id,
            self._python,
            self._permissions,
            given,
        ) as bench:
            try:
                _apt(bench, "update")
            except UnbuildableError as error:
                raise InfrastructureError("index", error.tail) from error
            yield bench


def _apt(bench: Workbench, *arguments: str) -> None:
    try:
        bench.run([*_APT, *_OPTIONS, *arguments], PATIENCE)
    except UnbuildableError as error:
        if any(words in error.tail for words in _UNREACHABLE):
            raise InfrastructureError("index", error.tail) from error
        raise UnbuildableError(" ".join(arguments[-1:]), error.tail) from error


def _versions(listing: str) -> frozenset[str]:
    """From lines ``package | version | source``."""
    rows = (line.split("|") for line in listing.splitlines())
    return frozenset(row[1].strip() for row in rows if len(row) == 3 and row[1].strip())
