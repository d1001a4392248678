"""Which files' bytes are kept, because they say what is installed."""

from __future__ import annotations

import re

#: Bytes of the largest file that is kept.
LARGEST_TEXT = 64 << 20

_PATTERNS = (
    # Debian's package database, in its usual form and in that of images without a manager.
    r"/var/lib/dpkg/(status|diversions)",
    r"/var/lib/dpkg/status\.d/[^/]+",
    r"/var/lib/dpkg/info/[^/]+\.(list|md5sums)",
    r"/var/lib/dpkg/alternatives/[^/]+",
    # Python's distributions and interpreters.
    r"/.*\.dist-info/(METADATA|RECORD|direct_url\.json|INSTALLER|WHEEL|top_level\.txt)",
    r"/.*\.egg-info(/(PKG-INFO|installed-files\.txt|top_level\.txt))?",
    r"/.*\.egg-link",
    r"/.*/pyvenv\.cfg",
    r"/.*/include/python3\.\d+[a-z]*/patchlevel\.h",
    # What git trees stand at.
    r"/.*/\.git",
    r"/.*/\.git/(.*/)?(HEAD|packed-refs|commondir)",
    r"/.*/\.git/(.*/)?refs/heads/.+",
    r"/.*/\.gitmodules",
    # What the loader and pip are told.
    r"/etc/ld\.so\.conf(\.d/[^/]+)?",
    r"/etc/pip/constraint\.txt",
    r"/(etc|usr/lib)/os-release",
)
_KEPT = re.compile("|".join(_PATTERNS))


def is_kept(path: str) -> bool:
    """Whether the bytes of a file at this path are kept, if they are not too many."""
    return _KEPT.fullmatch(path) is not None
