"""Running the programs as a person would, with folders of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Program = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all tests of a run share, as a person's commands share theirs."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def surroundings(tmp_path: Path, cache: Path) -> dict[str, str]:
    """The environment of a person with an empty store."""
    return {
        **os.environ,
        "BITSECT_DATA": str(tmp_path / "data"),
        "BITSECT_CACHE": str(cache),
        "COLUMNS": "80",
    }


@pytest.fixture
def bitsect(surroundings: dict[str, str], tmp_path: Path) -> Program:
    """Runs ``bitsect`` with some arguments to its end, from an empty working folder."""
    folder = tmp_path / "work"
    folder.mkdir()

    def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "bitsect", *arguments],
            env={**surroundings, **changes},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=900,
        )

    return run


@pytest.fixture
def data(surroundings: dict[str, str]) -> Path:
    """Where the store will be."""
    return Path(surroundings["BITSECT_DATA"])
