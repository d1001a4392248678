"""Installed Python distributions, as files, made without an index or an installer."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.containers.debian import DIST_PACKAGES


def distribution(
    name: str, version: str, files: Mapping[str, bytes] | None = None
) -> dict[str, bytes]:
    """A distribution's files by their paths in an image, with a RECORD that is true.

    :param files: below its module's folder; by default one module that holds the version.
    """
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    own = files or {"__init__.py": f"version = {version!r}\n".encode()}
    contents = {
        **{f"{module}/{path}": data for path, data in own.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/INSTALLER": b"tests\n",
    }
    lines = [_record_line(path, data) for path, data in contents.items()]
    contents[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    return {f"{DIST_PACKAGES}/{path}": data for path, data in contents.items()}


def _record_line(path: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


def fetched(name: str, version: str) -> dict[str, bytes]:
    """The files of a release on the machine's own index, as pip installs them in the image."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile",
             "--only-binary=:all:", "--python-version=3.13", "--implementation=cp",
             "--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_17_x86_64",
             f"--target={folder}", f"{name}=={version}"],
            check=True, capture_output=True,
        )  # fmt: skip
        root = Path(folder)
        return {
            f"{DIST_PACKAGES}/{path.relative_to(root)}": path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file() and path.relative_to(root).parts[0] != "bin"
        }
