"""Write constraints.txt: resolve, then put the reasons beside the pins that need one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import uv

from bitsect.images.pip_settings import read_pip_settings

HERE = Path(__file__).parent
HEAD = """\
# Exact versions of everything that this project installs, for every Python from 3.11 on.
# Written by `make lock`; the reasons stand in reasons.txt.
"""


def resolved() -> list[str]:
    """The pins, one per line, as the user's pip would find them."""
    settings = read_pip_settings()
    command = [
        uv.find_uv_bin(), "pip", "compile", "--quiet", "--universal", "--python-version=3.11",
        "--extra=dev", "--no-header", "--no-annotate", *settings.uv_arguments("compile"),
        "pyproject.toml",
    ]  # fmt: skip
    environment = {**os.environ, **settings.uv_environment()}
    listing = subprocess.run(
        command, cwd=HERE.parent, check=True, capture_output=True, text=True, env=environment
    ).stdout
    return [line for line in listing.splitlines() if "sys_platform == 'win32'" not in line]


def main() -> None:
    """Resolve and write."""
    reasons = dict(
        line.split(" ", 1) for line in (HERE / "reasons.txt").read_text().splitlines() if line
    )
    lines = []
    for pin in resolved():
        reason = reasons.get(pin.partition("==")[0])
        lines.append(f"{pin}  # {reason}\n" if reason else f"{pin}\n")
    (HERE / "constraints.txt").write_text(HEAD + "".join(lines))


if __name__ == "__main__":
    main()
