"""What a run of the tests says where no engine answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("required", [False, True], ids=["at home", "in CI"])
def test_tests_of_container_stacks_do_not_vanish_silently(tmp_path: Path, required: bool) -> None:
    # Given no engine
    address = f"unix://{tmp_path}/none.sock"
    surroundings = {**os.environ, "DOCKER_HOST": address}
    surroundings["BITSECT_REQUIRE_ENGINE"] = "1" if required else ""

    # When some tests that need one are run
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/containers",
         "--deselect", f"tests/containers/{Path(__file__).name}", "-k", "sleeps"],
        cwd=ROOT, env=surroundings, capture_output=True, text=True,
    )  # fmt: skip
    *_, note, closing = ran.stdout.splitlines()

    # Then they are skipped and the last lines say so, or they fail where an engine must be
    assert ran.stderr == ""
    if required:
        assert ran.returncode == 1
        assert "2 errors" in closing
        assert f"no engine answers at {address}" in ran.stdout
    else:
        assert ran.returncode == 0
        assert "2 skipped" in closing
        assert note.startswith("2 tests of container stacks were skipped: ")
        assert f"no engine answers at {address}; start one, see README" in note
