"""Links are followed inside an image, and nowhere else."""

from __future__ import annotations

import pytest

from bitsect.images.contents.tree import Tree
from tests.images.contents.trees import ImageTree

IMAGE = (
    ImageTree()
    .file("/usr/lib/libfoo.so.1.2", "x")
    .link("/usr/lib/libfoo.so.1", "libfoo.so.1.2")
    .link("/lib", "usr/lib")
    .link("/opt/up", "../../../../usr/lib")
    .link("/opt/round", "about")
    .link("/opt/about", "/opt/round")
    .link("/opt/nowhere", "/not/there")
    .file("/usr/lib-other/x")
    .file("/usr/lib0")
)
TREE = Tree(IMAGE.contents().entries)


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/lib/libfoo.so.1", "/usr/lib/libfoo.so.1.2"),
        ("/opt/up/libfoo.so.1", "/usr/lib/libfoo.so.1.2"),
        ("/lib/../lib/./libfoo.so.1", "/usr/lib/libfoo.so.1.2"),
        ("/opt/nowhere", "/not/there"),
        ("/opt/round", None),
        ("/", "/"),
        ("/../..", "/"),
    ],
)
def test_a_path_leads_where_the_kernel_would_go(path: str, real: str | None) -> None:
    assert TREE.resolve(path) == real


def test_a_path_is_placed_without_following_its_last_link() -> None:
    assert TREE.placed("/lib/libfoo.so.1") == "/usr/lib/libfoo.so.1"
    assert TREE.placed("/lib") == "/lib"
    assert TREE.placed("/opt/round/x") == "/opt/round/x"


def test_only_regular_files_are_files() -> None:
    file = TREE.file("/lib/libfoo.so.1")
    assert file is not None
    assert file.size == 1
    assert TREE.file("/lib") is None
    assert TREE.file("/opt/nowhere") is None


def test_below_a_folder_is_nothing_of_its_neighbours() -> None:
    assert TREE.below("/usr/lib") == ["/usr/lib/libfoo.so.1", "/usr/lib/libfoo.so.1.2"]
    assert TREE.below("/not/there") == []


def test_a_loop_through_folders_ends() -> None:
    tree = Tree(ImageTree().link("/a", "b/x").link("/b", "a/y").contents().entries)
    assert tree.resolve("/a/b/c") is None
