"""Hands compiled modules on from one environment to the next.

Compiling torch's modules takes longer than running a probe. An environment that shares a
distribution with one that has run already gets its compiled files as hard links. Python
itself checks each against its source's time and size when it imports the module.
"""

from __future__ import annotations

import csv
import errno
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

# Where a file system has no hard links, or no more of them, modules are compiled again.
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.ENOSYS)


def read_record(dist_info: Path) -> list[tuple[str, int]]:
    """(path relative to the site-packages folder, size in bytes or 0) of a RECORD's files."""
    with (dist_info / "RECORD").open(newline="", encoding="utf-8") as stream:
        return [(row[0], int(row[2] or 0)) for row in csv.reader(stream) if len(row) == 3]


def graft_bytecode(files: Iterable[str], source: Path, target: Path) -> int:
    """Links the compiled forms of Python files from one site-packages folder into another.

    :param files: relative paths of one distribution's files, the same in both.
    :return: how many files were linked; 0 if the source has never been run.
    """
    modules: defaultdict[str, set[str]] = defaultdict(set)
    for file in files:
        folder, _, name = file.rpartition("/")
        if name.endswith(".py") and ".." not in folder.split("/"):
            modules[folder].add(name)
    linked = 0
    for folder, names in modules.items():
        try:
            linked += _graft_folder(source / folder, target / folder, names)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            return linked
    return linked


def _graft_folder(source: Path, target: Path, names: set[str]) -> int:
    compiled, fresh = f"{source}/__pycache__", f"{target}/__pycache__"
    try:
        entries = [name for name in os.listdir(compiled) if name.endswith(".pyc")]
    except (FileNotFoundError, NotADirectoryError):
        return 0
    linked = 0
    for entry in entries:
        module = entry.partition(".")[0] + ".py"
        if module not in names or not _same_source(f"{source}/{module}", f"{target}/{module}"):
            continue
        if not linked:
            os.makedirs(fresh, exist_ok=True)
        try:
            os.link(f"{compiled}/{entry}", f"{fresh}/{entry}")
        except FileExistsError:
            # Some distributions bring compiled files of their own.
            continue
        linked += 1
    return linked


def _same_source(one: str, other: str) -> bool:
    try:
        first, second = os.stat(one), os.stat(other)
    except FileNotFoundError:
        return False
    # What a compiled file's header records of its source.
    return (int(first.st_mtime), first.st_size) == (int(second.st_mtime), second.st_size)
