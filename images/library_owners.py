"""Which component a loaded library belongs to, as far as a manifest can tell.

A manifest lists no files, so this goes by where a library lies. A library whose owner is not
found is a component of its own: it is then named once more than needed, never lost.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from bitsect.images.layers import Binary, Software

# Wheels that carry libraries put them beside their modules, under a name with a hash in it.
_HASHED = re.compile(r"-[0-9a-f]{8}(?=[.-])")
_SITE_FOLDERS = ("site-packages", "dist-packages")


class LibraryOwners:
    """Finds owners for the libraries of one manifest's software."""

    def __init__(self, software: Software) -> None:
        self._names = {each.name for each in software.distributions}
        python = software.python
        self._python = f"python:{python.implementation}" if python else None
        executable = python.executable if python else None
        self._home = PurePosixPath(executable.path).parent.parent if executable else None
        self._series = ".".join(python.version.split(".")[:2]) if python else ""

    def owner(self, library: Binary) -> str | None:
        """``pip:…`` or ``python:…``, or None for a library on its own."""
        if library.owner is not None:
            return library.owner
        parts = PurePosixPath(library.path).parts
        for folder in _SITE_FOLDERS:
            if folder in parts:
                return self._distribution(parts[parts.index(folder) + 1 :])
        return self._python if self._is_pythons(library.path) else None

    def name(self, library: Binary) -> str:
        """What the library is called over its versions: soname or file name, without hashes."""
        return _HASHED.sub("", library.soname or PurePosixPath(library.path).name)

    def _distribution(self, inside: tuple[str, ...]) -> str | None:
        """By the folders between site-packages and the file: the longest that name one."""
        words = [part.removesuffix(".libs").lower().replace("_", "-") for part in inside[:-1]]
        for length in range(min(len(words), 3), 0, -1):
            wanted = "-".join(words[:length])
            if wanted in self._names:
                return f"pip:{wanted}"
            # CUDA's wheels append the toolkit's number: nvidia/cublas is of nvidia-cublas-cu12.
            longer = sorted(name for name in self._names if name.startswith(f"{wanted}-cu"))
            if longer:
                return f"pip:{longer[0]}"
        return None

    def _is_pythons(self, path: str) -> bool:
        """Of the interpreter's own folders; the one of its prefix may hold a whole system."""
        if self._home is None or not PurePosixPath(path).is_relative_to(self._home):
            return False
        *folders, name = PurePosixPath(path).relative_to(self._home).parts
        return f"python{self._series}" in folders or name.startswith(("libpython", "python"))
