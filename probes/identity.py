"""What the probe is, as one digest: a trace is comparable only with one of the same probe."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import bitsect


@functools.cache
def probe_digest() -> str:
    """Return ``sha256:…`` over the names and bytes of every Python file that makes the probe.

    These are the files of the probes folder, and the package's own ``__init__.py``, as they lie
    on the disk; their place on the disk has no part in it.
    """
    root = Path(bitsect.__file__).parent
    return digest_of_files(root, ["__init__.py", *_python_files(root, "probes")])


def digest_of_files(root: Path, names: list[str]) -> str:
    """Return ``sha256:…`` over files below ``root``, named with forward slashes, in name order."""
    digest = hashlib.sha256(b"bitsect probe 1\n")
    for name in sorted(names):
        content = (root / name).read_bytes()
        label = name.encode("utf-8", "surrogateescape")
        digest.update(b"%d %d\n" % (len(label), len(content)) + label + content)
    return "sha256:" + digest.hexdigest()


def _python_files(root: Path, folder: str) -> Iterator[str]:
    for parent, _, names in os.walk(root / folder):
        for name in names:
            if name.endswith(".py"):
                yield (Path(parent) / name).relative_to(root).as_posix()
