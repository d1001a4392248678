"""Git trees, as they lie on the disk and as git itself sees them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bitsect.probes import inventory
from bitsect.probes.inventory import Notes, Places
from tests.probes.test_inventory import install

AUTHOR = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@x", "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@x", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip

Git = Callable[..., str]


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def git() -> Git:
    """Runs git in a folder; gives what it prints."""

    def run(folder: Path, *arguments: str) -> str:
        allowed = ("-c", "protocol.file.allow=always")
        return subprocess.run(
            ["git", "-C", str(folder), *allowed, *arguments],
            env={**os.environ, **AUTHOR}, check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip

    return run


@pytest.fixture
def tree(tmp_path: Path, git: Git) -> Path:
    """A tree with one commit."""
    folder = tmp_path / "megatron"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "a.py").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def seen(folder: Path, notes: Notes) -> dict[str, Any]:
    (entry,) = inventory.git_trees([str(folder)], Places("/"), notes)
    return entry


def test_a_clean_tree_is_its_commit(tree: Path, git: Git, notes: Notes) -> None:
    assert seen(tree, notes) == {
        "path": str(tree), "commit": git(tree, "rev-parse", "HEAD"), "dirty": False,
        "changes": None, "submodules": [],
    }  # fmt: skip
    assert notes.problems == []


@pytest.mark.parametrize("prepare", [
    lambda git, tree: git(tree, "pack-refs", "--all"),
    lambda git, tree: git(tree, "checkout", "--quiet", "--detach"),
    lambda git, tree: git(tree, "checkout", "--quiet", "-b", "feature/x"),
])  # fmt: skip
def test_the_commit_is_found_however_head_leads_to_it(
    tree: Path, git: Git, notes: Notes, prepare: Callable[[Git, Path], str]
) -> None:
    prepare(git, tree)
    assert seen(tree, notes)["commit"] == git(tree, "rev-parse", "HEAD")


def test_a_worktree_leads_to_the_tree_it_was_made_from(
    tree: Path, git: Git, notes: Notes, tmp_path: Path
) -> None:
    git(tree, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "second"))
    git(tree, "pack-refs", "--all")
    assert seen(tmp_path / "second", notes)["commit"] == git(tree, "rev-parse", "other")


def test_submodules_are_told_with_what_is_checked_out(
    tree: Path, git: Git, notes: Notes, tmp_path: Path
) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "--quiet")
    git(outer, "submodule", "--quiet", "add", str(tree), "deps/megatron")
    git(outer, "commit", "--quiet", "-m", "with it")
    commit = git(tree, "rev-parse", "HEAD")
    assert seen(outer, notes)["submodules"] == [{"path": "deps/megatron", "commit": commit}]

    # When what is checked out is not what the outer tree asks for
    (outer / "deps/megatron/a.py").write_text("two\n")
    git(outer / "deps/megatron", "commit", "--quiet", "-am", "second")

    # Then that is what is told, and the outer tree is dirty
    found = seen(outer, notes)
    assert found["submodules"][0]["commit"] == git(outer / "deps/megatron", "rev-parse", "HEAD")
    assert found["dirty"] is True


@pytest.mark.parametrize("change", [
    lambda tree: (tree / "a.py").write_text("two\n"),
    lambda tree: (tree / "a.py").unlink(),
    lambda tree: (tree / "new.py").write_text(""),
    lambda tree: (tree / "a.py").chmod(0o755),
])  # fmt: skip
def test_a_changed_tree_is_dirty_and_equal_changes_have_one_digest(
    tree: Path, git: Git, notes: Notes, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "--quiet", str(tree), str(copy))
    for folder in (tree, copy):
        change(folder)
    first, second = seen(tree, notes), seen(copy, notes)
    assert first["dirty"] is second["dirty"] is True
    assert first["changes"] == second["changes"]
    assert str(first["changes"]).startswith("sha256:")

    # And a further change has another one
    (copy / "a.py").write_text("three\n")
    assert seen(copy, notes)["changes"] != first["changes"]


def test_without_git_the_commit_is_known_and_the_rest_is_not(
    tree: Path, git: Git, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(tree, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", "/nowhere")
    found = seen(tree, notes)
    assert (found["commit"], found["dirty"], found["changes"]) == (commit, None, None)
    assert notes.problems[0]["reason"] == "FileNotFoundError"


def test_programs_that_a_tree_names_are_not_started(
    tree: Path, git: Git, notes: Notes, tmp_path: Path
) -> None:
    # Given a tree whose settings name programs for everything that git can be told to start
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    (tree / ".gitattributes").write_text("*.py diff=mine\n")
    for name in ("core.fsmonitor", "diff.external", "diff.mine.textconv", "diff.mine.command"):
        git(tree, "config", name, str(program))
    hooks = tree / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "post-index-change").symlink_to(program)
    (tree / "a.py").write_text("changed\n")

    assert seen(tree, notes)["dirty"] is True
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("head", ["", "ref: refs/heads/none\n", "ref: HEAD\n", "ref: ../../secret"])
def test_a_head_that_leads_nowhere_is_no_commit(
    tree: Path, notes: Notes, tmp_path: Path, head: str
) -> None:
    (tmp_path / "secret").write_text("not a commit\n")
    (tree / ".git" / "HEAD").write_text(head)
    assert seen(tree, notes)["commit"] is None


def test_a_submodule_that_would_lead_out_of_the_tree_is_left_out(tree: Path, notes: Notes) -> None:
    (tree / ".gitmodules").write_text(
        '[submodule "x"]\n\tpath = ../../etc\n[submodule "y"]\n\tpath = /etc\n'
    )
    assert seen(tree, notes)["submodules"] == []


def test_what_waits_for_a_writer_is_not_read(tree: Path, notes: Notes) -> None:
    (tree / ".git" / "HEAD").unlink()
    os.mkfifo(tree / ".git" / "HEAD")
    assert seen(tree, notes)["commit"] is None


class TestWhereTheyAreLookedFor:
    def test_in_an_image_up_to_two_levels_down(self, tree: Path, git: Git, notes: Notes) -> None:
        deep = tree.parent / "deep"
        git(tree.parent, "clone", "--quiet", str(tree), str(deep / "one/two/three"))
        folders = inventory.source_folders([str(tree.parent)])
        found = inventory.git_trees(folders, Places("/"), notes)
        assert [each["path"] for each in found] == [str(tree)]

    def test_links_are_left_out(self, tree: Path, notes: Notes) -> None:
        (tree.parent / "link").symlink_to(tree)
        folders = list(inventory.source_folders([str(tree.parent)]))
        assert str(tree.parent / "link") not in folders

    def test_above_the_sources_of_an_editable_installation(
        self, tree: Path, notes: Notes, tmp_path: Path
    ) -> None:
        url = (tree / "package").as_uri()
        install(
            tmp_path / "site",
            **{"direct_url.json": f'{{"url": "{url}", "dir_info": {{"editable": true}}}}'},
        )
        folders = inventory.editable_folders([str(tmp_path / "site")])
        found = inventory.git_trees(folders, Places("/"), notes)
        assert [each["path"] for each in found] == [str(tree)]

    def test_not_where_a_distribution_was_only_built_from(self, tree: Path, tmp_path: Path) -> None:
        url = tree.as_uri()
        install(tmp_path / "site", **{"direct_url.json": f'{{"url": "{url}", "dir_info": {{}}}}'})
        assert list(inventory.editable_folders([str(tmp_path / "site")])) == []

    def test_an_endless_path_ends(self, tmp_path: Path) -> None:
        (tmp_path / "odd.egg-link").write_text("//\n.\n")
        assert len(list(inventory.editable_folders([str(tmp_path)]))) < 5
