"""Gather the wheels of bitsect and of all that it needs, for the Python of a base image.

They come from wherever the user's pip gets packages. requirements.txt beside them names each
with its exact version and hash, so that an image is built from these files and nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import uv

from bitsect import __version__
from bitsect.images.pip_settings import PipSettings, read_pip_settings

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
SOURCES = ("bitsect", "bisect", "images", "probes", "tui")
#: The oldest time that a wheel, being a ZIP file, can hold: the same sources make equal wheels.
OLDEST_TIME = "315532800"
OLDEST_PYTHON = (3, 11)
OLDEST_GLIBC = 17

TELL = """
import json, platform, sys
print(json.dumps([*sys.version_info[:2], platform.machine(), *platform.libc_ver()]))
"""


class Target(NamedTuple):
    """The Python that wheels are for: its version, the machine, and the minor number of glibc."""

    major: int
    minor: int
    machine: str
    glibc: int

    @property
    def python(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def platforms(self) -> list[str]:
        """Wheel tags of the systems whose wheels run there, newest first."""
        minors = range(self.glibc, OLDEST_GLIBC - 1, -1)
        tags = [f"manylinux_2_{minor}_{self.machine}" for minor in minors]
        return [*tags, f"manylinux2014_{self.machine}"]


def target_of(image: str) -> Target:
    """Asks an image for its Python, pulling it if it is not there."""
    command = ["docker", "run", "--rm", "--network=none", "--entrypoint=python3", image, "-c", TELL]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    major, minor, machine, libc, version = json.loads(told)
    if (major, minor) < OLDEST_PYTHON or libc != "glibc":
        sys.exit(f"{image} has Python {major}.{minor} and {libc or 'another libc'};"
                 " Python >= 3.11 and glibc are needed")  # fmt: skip
    return Target(major, minor, machine, int(version.split(".")[1]))


def pinned(target: Target, settings: PipSettings) -> str:
    """Every distribution that bitsect needs there, with version and hashes."""
    command = [
        uv.find_uv_bin(), "pip", "compile", "--quiet", "--generate-hashes", "--only-binary=:all:",
        "--no-header", "--no-annotate", f"--python-version={target.python}",
        f"--python-platform={target.machine}-unknown-linux-gnu", f"--constraints={CONSTRAINTS}",
        *settings.uv_arguments("compile"), "pyproject.toml",
    ]  # fmt: skip
    environment = {**os.environ, **settings.uv_environment()}
    return subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout


def download(requirements: Path, target: Target) -> None:
    """Fetches their wheels into the folder of the requirements."""
    tag = f"{target.major}{target.minor}"
    _pip(
        "download", "--no-deps", "--require-hashes", "--only-binary=:all:",
        f"--requirement={requirements}", f"--dest={requirements.parent}",
        f"--python-version={target.python}", "--implementation=cp",
        *(f"--abi={abi}" for abi in (f"cp{tag}", "abi3", "none")),
        *(f"--platform={platform}" for platform in target.platforms),
    )  # fmt: skip


def build(folder: Path) -> Path:
    """Makes bitsect's own wheel."""
    with tempfile.TemporaryDirectory() as sources:
        # Built in a copy: what an earlier build left in the tree would get into the wheel.
        for name in SOURCES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, Path(sources, name), symlinks=True, ignore=ignored)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, sources)
        _pip("wheel", "--no-deps", f"--wheel-dir={folder}", sources)
    (wheel,) = folder.glob("bitsect-*.whl")
    return wheel


def _pip(command: str, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", command, "-qq", *arguments],
        check=True, cwd=ROOT, env={**os.environ, "SOURCE_DATE_EPOCH": OLDEST_TIME},
    )  # fmt: skip


def make(base: str, output: Path) -> None:
    """Puts wheels and requirements.txt into a folder, which is made anew."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent) as unfinished:
        folder = Path(unfinished, output.name)
        folder.mkdir()
        target = target_of(base)
        requirements = folder / "requirements.txt"
        requirements.write_text(pinned(target, read_pip_settings()))
        download(requirements, target)
        digest = hashlib.sha256(build(folder).read_bytes()).hexdigest()
        with requirements.open("a") as stream:
            stream.write(f"bitsect=={__version__} --hash=sha256:{digest}\n")
        shutil.rmtree(output, ignore_errors=True)
        folder.rename(output)


def main() -> None:
    """Read the command line and make it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", required=True, help="image that the wheels are to run in")
    parser.add_argument("output", type=Path, help="folder to put them in")
    asked = parser.parse_args()
    try:
        make(asked.base, asked.output.absolute())
    except subprocess.CalledProcessError as error:
        # What went wrong is what the program has just said.
        program = " ".join(map(str, error.cmd[:3]))
        sys.exit(f"{program} … ended with {error.returncode}; nothing was made for {asked.base}")


if __name__ == "__main__":
    main()
