"""Whose fault it is that the kernel ended a process: the container's, or the whole machine's."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bitsect.images.runtime.docker import container

#: Writes the files of a control group: how often a process was killed, the limit reached.
Group = Callable[[Path, int, int], None]


def second_version(group: Path, kills: int, reached: int) -> None:
    text = f"low 0\nhigh 0\nmax 7\noom {reached}\noom_kill {kills}\n"
    (group / "memory.events").write_text(text)


def first_version(group: Path, kills: int, reached: int) -> None:
    folder = group / "memory"
    folder.mkdir(exist_ok=True)
    text = f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"
    (folder / "memory.oom_control").write_text(text)
    (folder / "memory.failcnt").write_text(f"{reached}\n")


def first_version_with_swap(group: Path, kills: int, reached: int) -> None:
    first_version(group, kills, 0)
    (group / "memory" / "memory.memsw.failcnt").write_text(f"{reached}\n")


@pytest.fixture(scope="module")
def first() -> Mapping[str, Any]:
    """What the script of a container's first process defines."""
    return runpy.run_path(str(Path(container.__file__).with_name("inside") / "first.py"))


def first_version_uncounted(group: Path, kills: int, reached: int) -> None:
    first_version(group, kills, 0)
    (group / "memory" / "memory.limit_in_bytes").write_text("4096\n")
    most = 4096 if reached > 5 else 4095
    (group / "memory" / "memory.max_usage_in_bytes").write_text(f"{most}\n")


versions = pytest.mark.parametrize(
    "write",
    [first_version, first_version_with_swap, first_version_uncounted, second_version],
)


@versions
def test_a_kill_at_the_containers_own_limit_counts(
    first: Mapping[str, Any], tmp_path: Path, write: Group
) -> None:
    write(tmp_path, 2, 5)
    kills = first["Kills"](str(tmp_path))
    assert kills.so_far() == 0
    write(tmp_path, 4, 6)
    assert kills.so_far() == 2


@versions
def test_a_kill_for_the_machines_sake_does_not(
    first: Mapping[str, Any], tmp_path: Path, write: Group
) -> None:
    # Given a container that has reached its limit before
    write(tmp_path, 0, 5)
    kills = first["Kills"](str(tmp_path))
    # When a process is killed although it has not reached it again
    write(tmp_path, 1, 5)
    # Then that is not its own doing, and is not taken for it later
    assert kills.so_far() == 0
    write(tmp_path, 1, 6)
    assert kills.so_far() == 0


def test_a_kernel_that_does_not_count_says_nothing(
    first: Mapping[str, Any], tmp_path: Path
) -> None:
    assert first["Kills"](str(tmp_path)).so_far() is None
