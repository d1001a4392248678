"""The environment variables that a program in a stack gets: few, and each for a reason.

What the user has set for numerics is part of the stack and goes along. What steers Python or
pip belongs to the Python that bitsect itself runs in, and stays behind.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bitsect.probes.inventory import CONTROL_PREFIXES, KNOWN_CONTROLS, PLACEMENT, SECRET

_NEEDED = ("HOME", "LOGNAME", "PATH", "TZ", "USER")
# A fresh folder for each, so that no kernel compiled earlier answers for this stack.
KERNEL_CACHES = ("CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def program_environment(
    user: Mapping[str, str], scratch: Path, *, own_python: bool
) -> dict[str, str]:
    """All variables for a program in a stack of this machine.

    :param user: the variables that bitsect was started with.
    :param scratch: the session's folder; the temporary folder and kernel caches lie in it.
    :param own_python: the stack has a Python of its own, so that nothing that the user keeps
        for another one may enter it.
    """
    chosen = {name: value for name, value in user.items() if _goes_along(name)}
    chosen.setdefault("PATH", os.defpath)
    if own_python:
        chosen["PATH"] = _without_virtual_environment(chosen["PATH"], user)
        chosen["PYTHONNOUSERSITE"] = "1"
    chosen["PYTHONHASHSEED"] = "0"
    for name, folder in scratch_folders(scratch).items():
        chosen[name] = str(folder)
    return chosen


def scratch_folders(scratch: Path) -> dict[str, Path]:
    """The folder for each variable that names one of the session's own."""
    folders = {name: scratch / "caches" / name.lower() for name in KERNEL_CACHES}
    return {**folders, "TMPDIR": scratch / "tmp"}


def _goes_along(name: str) -> bool:
    if SECRET.search(name):
        return False
    if name in _NEEDED or name in KNOWN_CONTROLS or name in PLACEMENT:
        return True
    return name.startswith((*CONTROL_PREFIXES, "LC_"))


def _without_virtual_environment(path: str, user: Mapping[str, str]) -> str:
    """The search path as it was before the user activated an environment."""
    active = user.get("VIRTUAL_ENV")
    if not active:
        return path
    programs = str(Path(active) / "bin")
    return os.pathsep.join(part for part in path.split(os.pathsep) if part != programs)
