"""A tree with a commit is one component, and moves whole."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.containers.workshop import Workshop
from tests.images.docker_hybrids.mix import Mix

pytestmark = pytest.mark.engine

TREE, BESIDE = "git:/opt/trainer", "file:/opt/settings"
COMMITS = ("1" * 40, "2" * 40)
SEEN = """
import json, os
found = {}
for folder, _, names in os.walk("/opt/trainer"):
    for name in names:
        path = os.path.join(folder, name)
        found[os.path.relpath(path, "/opt/trainer")] = open(path).read().strip()
print(json.dumps([found, open("/opt/settings").read()]))
"""


def tree(commit: str, **files: bytes) -> dict[str, bytes]:
    """A checkout as git leaves it, with a branch."""
    return {
        "opt/trainer/.git/HEAD": b"ref: refs/heads/main\n",
        "opt/trainer/.git/refs/heads/main": commit.encode() + b"\n",
        **{f"opt/trainer/{name}.py": data for name, data in files.items()},
    }


def test_a_tree_moves_with_its_commit(mix_of: Callable[..., Mix], workshop: Workshop) -> None:
    # Given two commits, of which the second changes a file, drops one and adds one
    old = tree(COMMITS[0], loop=b"old", gone=b"soon")
    new = tree(COMMITS[1], loop=b"new", added=b"now")
    mix = mix_of(
        workshop.derived(
            "bitsect-test/tree:old", workshop.small(), files={**old, "opt/settings": b"1"}
        ),
        workshop.derived(
            "bitsect-test/tree:new", workshop.small(), files={**new, "opt/settings": b"2"}
        ),
    )
    assert mix.points(0) == {TREE: COMMITS[0][:12], BESIDE: mix.points(0)[BESIDE]}

    # When the tree alone goes from one image to the other
    found, beside = json.loads(mix.python(mix.with_bad(TREE), SEEN))

    # Then all of it is the other one's, and what lies beside it is not
    assert found == {
        path.removeprefix("opt/trainer/"): data.decode().strip() for path, data in new.items()
    }
    assert beside == "1"
