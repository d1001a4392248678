"""Folders that every system has, which say nothing about what lies in them."""

from __future__ import annotations

import re

_STANDARD = re.compile(
    r"/?|"
    # The folders of the Filesystem Hierarchy Standard, and those of people.
    r"/(bin|boot|dev|etc|home|lib\w*|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)|"
    r"/usr(/local)?/(bin|etc|games|include|lib\w*|local|man|sbin|share|src)|"
    r"/var/(lib|opt|local)|/home/[^/]+|/(root|home/[^/]+)/\.(config|local(/(bin|lib|share))?)|"
    # One level more for each architecture, and for each Python.
    r"(/usr(/local)?)?/(lib\w*|include)/[a-z0-9_]+-linux-[a-z0-9]+|"
    r"/.*/lib\w*/python3(\.\d+[a-z]*)?|/.*/(site|dist)-packages"
)


def is_standard(folder: str) -> bool:
    """Whether a folder belongs to the system's own layout."""
    return _STANDARD.fullmatch(folder) is not None
