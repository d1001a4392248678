"""Rearranges the files of the container that it is the first process of, as it is told.

    python -I -S -B -X utf8 -c SOURCE

One file, the standard library alone, Python 3.6 or later: it is started with the Python of the
image that a hybrid begins with. It reads orders from standard input, a JSON object per line,
answers each with one line, and ends when its input does: whoever gave the orders is gone then.

    {"remove": [PATH, ...]}       unlink files and links
    {"prune": [FOLDER, ...]}      remove these folders where they are empty, deepest first
    {"make": [[FOLDER, MODE, UID, GID], ...]}  make these folders unless they are there
    {"look": {PATH: STATE, ...}}  name the paths that are in another state
    {"run": [ARGUMENT, ...]}      run a program to its end, if there is such a program

The answer is ``{"done": …}`` or ``{"failed": reason}``. A state is null for nothing, or
``[kind, size or target, mode, uid, gid]``. No path is reached through a link: what lies behind
one is not what was asked for.

All that is needed is imported before the first order, because an order may exchange the very
libraries that this process was started from.
"""

# ruff: noqa: UP006, UP035 - typing's names are the ones that Python 3.6 has

import errno
import functools
import json
import os
import stat
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional

#: So many strange paths are named; more tell no more.
MOST_NAMED = 20
#: Characters kept of what a program says.
MOST_SAID = 8000
#: Seconds for a program.
PATIENCE = 1800


class Refused(Exception):
    """An order that was not carried out, and why."""


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(line)) + "\n")
        sys.stdout.flush()


def answer(line: str) -> Dict[str, Any]:
    """Carry out one order."""
    # Files were put in since the last one.
    is_plain.cache_clear()
    try:
        ((name, what),) = json.loads(line).items()
        return {"done": ORDERS[name](what)}
    except Refused as error:
        return {"failed": str(error)}
    except OSError as error:
        return {"failed": f"{error.filename}: {error.strerror}"}


def remove(paths: List[str]) -> int:
    """Unlink files and links; how many there were. One that is not there is no fault."""
    removed = 0
    for path in paths:
        state = look_at(path)
        if state is None:
            continue
        if state[0] == "folder":
            raise Refused(f"{path}: it is a folder")
        os.unlink(path)
        removed += 1
    return removed


def prune(folders: List[str]) -> List[str]:
    """Remove those folders that are empty; which ones were."""
    pruned = []
    for folder in sorted(folders, key=len, reverse=True):
        state = look_at(folder)
        if state is None or state[0] != "folder":
            continue
        try:
            os.rmdir(folder)
        except OSError as error:
            # EBUSY: something is mounted there.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                raise
        else:
            pruned.append(folder)
    return pruned


def make(folders: List[List[Any]]) -> List[str]:
    """Make folders, in the given order, unless they are there; which ones were not."""
    made = []
    for folder, mode, uid, gid in folders:
        state = look_at(folder)
        if state is None:
            os.mkdir(folder)
            # The owner first: whoever changes it may lose bits of the mode.
            os.chown(folder, uid, gid)
            os.chmod(folder, mode)
            made.append(folder)
        elif state[0] != "folder":
            raise Refused(f"{folder}: it is no folder")
    return made


def look(wanted: Dict[str, Optional[List[Any]]]) -> List[List[Any]]:
    """``[path, state]`` of the first paths that are not as they should be."""
    strange = []
    for path, state in wanted.items():
        try:
            found = look_at(path)
        except Refused as error:
            found = [str(error)]
        if found != state:
            strange.append([path, found])
        if len(strange) == MOST_NAMED:
            break
    return strange


def run(command: List[str]) -> str:
    """Run a program; the end of what it said. One that is not there is no fault."""
    if not os.path.exists(command[0]):
        return ""
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"{command[0]}: not over in {PATIENCE} seconds") from None
    said = ended.stdout.decode(errors="replace")[-MOST_SAID:]
    if ended.returncode != 0:
        raise Refused(f"{command[0]} ended with {ended.returncode}\n{said}")
    return said


def look_at(path: str) -> Optional[List[Any]]:
    """What a path is, without following a link anywhere; None for nothing."""
    # Two slashes at the start have a meaning of their own in POSIX.
    if path == "/" or path[:2] in ("", "//") or path[0] != "/" or os.path.normpath(path) != path:
        raise Refused(f"{path}: not a path of its own")
    if not is_plain(os.path.dirname(path)):
        raise Refused(f"{path}: a link leads there")
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    mode = stat.S_IMODE(found.st_mode)
    return [*_kind(path, found), mode, found.st_uid, found.st_gid]


@functools.lru_cache(maxsize=1 << 16)
def is_plain(folder: str) -> bool:
    """Whether no link leads to a folder, which need not be there."""
    return os.path.realpath(folder) == folder


def _kind(path: str, found: os.stat_result) -> List[Any]:
    if stat.S_ISLNK(found.st_mode):
        return ["link", os.readlink(path)]
    if stat.S_ISREG(found.st_mode):
        return ["file", found.st_size]
    return ["folder" if stat.S_ISDIR(found.st_mode) else "special", 0]


ORDERS: Dict[str, Callable[[Any], Any]] = {
    "remove": remove,
    "prune": prune,
    "make": make,
    "look": look,
    "run": run,
}

if __name__ == "__main__":
    main()
