"""Git trees and the commits that they stand at."""

from __future__ import annotations

import pytest

from bitsect.images.contents.git_trees import GitTree, git_trees
from tests.images.contents.trees import ImageTree

COMMIT = "a" * 40
OTHER = "b" * 40


def only(image: ImageTree) -> GitTree:
    [found] = git_trees(image.contents())
    return found


def test_a_detached_head_is_a_commit() -> None:
    found = only(ImageTree().file("/opt/m/.git/HEAD", f"{COMMIT}\n"))
    assert found == GitTree("/opt/m", "/opt/m/.git", COMMIT)


def test_a_branch_is_found_loose_or_packed_and_loose_comes_first() -> None:
    image = ImageTree().file("/opt/m/.git/HEAD", "ref: refs/heads/main\n")
    image.file("/opt/m/.git/packed-refs", f"# pack-refs\n{OTHER} refs/heads/main\n^{COMMIT}\n")
    assert only(image).commit == OTHER
    assert only(image.file("/opt/m/.git/refs/heads/main", f"{COMMIT}\n")).commit == COMMIT


@pytest.mark.parametrize(
    "head", ["", "ref: refs/heads/gone", "ref: HEAD", "ref: ../../../../etc/passwd", "main", "\xff"]
)
def test_a_head_that_leads_nowhere_is_no_commit(head: str) -> None:
    assert only(ImageTree().file("/opt/m/.git/HEAD", head)).commit is None


def test_a_submodule_has_its_records_in_the_tree_around_it() -> None:
    image = ImageTree().file("/opt/m/.git/HEAD", COMMIT)
    image.file("/opt/m/third/x/.git", "gitdir: ../../.git/modules/third/x\n")
    image.file("/opt/m/.git/modules/third/x/HEAD", OTHER)
    assert git_trees(image.contents()) == (
        GitTree("/opt/m", "/opt/m/.git", COMMIT),
        GitTree("/opt/m/third/x", "/opt/m/.git/modules/third/x", OTHER),
    )


def test_a_worktree_shares_its_branches_with_the_tree_that_it_was_made_from() -> None:
    image = (
        ImageTree()
        .file("/opt/m/.git/HEAD", COMMIT)
        .file("/w/.git", "gitdir: /opt/m/.git/worktrees/w")
    )
    image.file("/opt/m/.git/worktrees/w/HEAD", "ref: refs/heads/topic")
    image.file("/opt/m/.git/worktrees/w/commondir", "../..\n")
    image.file("/opt/m/.git/refs/heads/topic", OTHER)
    assert {each.root: each.commit for each in git_trees(image.contents())} == {
        "/opt/m": COMMIT,
        "/w": OTHER,
    }


def test_a_whole_image_is_no_tree() -> None:
    assert git_trees(ImageTree().file("/.git/HEAD", COMMIT).contents()) == ()
