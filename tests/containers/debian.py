"""Root file systems made of Debian's packages, fetched from wherever this machine's apt does."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

SUITE = "trixie"
#: Where this suite's Python looks for what no Debian package brought.
DIST_PACKAGES = "usr/local/lib/python3.13/dist-packages"


class BootstrapError(Exception):
    """A root file system could not be made.

    :param tail: the last lines that were said about it.
    """

    def __init__(self, tail: str) -> None:
        super().__init__(tail)
        self.tail = tail


def mirror() -> str:
    """URL of the Debian mirror that this machine's apt is set up with."""
    listing = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)",
         "Created-By: Packages", "Label: Debian"],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    if not listing:
        raise BootstrapError("apt knows no Debian mirror; run `apt-get update`")
    return listing[0]


@contextmanager
def root_file_system(packages: Sequence[str]) -> Iterator[IO[bytes]]:
    """A tar of the smallest system that has these packages, to be read to its end.

    Raises BootstrapError, on leaving, if what was read is not whole.
    """
    command = [
        "mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", SUITE, "-", mirror()
    ]  # fmt: skip
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as process:
            assert process.stdout is not None
            try:
                yield process.stdout
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            said.seek(0)
            lines = said.read().decode(errors="replace").splitlines()
            raise BootstrapError("\n".join(lines[-20:]))


def install(*packages: str) -> str:
    """A Dockerfile's step that installs packages from the image's own mirror."""
    return (
        "RUN apt-get update -qq"
        " && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "
        + " ".join(packages)
        + " && apt-get clean && rm -rf /var/lib/apt/lists/*"
    )
