"""The program that rearranges a container's files does what it is told, and only there."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bitsect.probes import arrange

SOURCE = Path(arrange.__file__)


def told(name: str, what: object) -> Any:
    return arrange.answer(json.dumps({name: what}))


def test_files_and_links_are_removed_and_what_links_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "kept").write_text("x")
    (tmp_path / "link").symlink_to("kept")

    answer = told("remove", [str(tmp_path / name) for name in ("file", "link", "never there")])

    assert answer == {"done": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_nothing_is_removed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("x")
    (tmp_path / "inside").symlink_to("outside")

    answer = told("remove", [str(tmp_path / "inside" / "file")])

    assert answer == {"failed": f"{tmp_path}/inside/file: a link leads there"}
    assert (tmp_path / "outside" / "file").exists()


def test_a_folder_is_not_removed_as_if_it_were_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert told("remove", [str(tmp_path / "folder")]) == {
        "failed": f"{tmp_path}/folder: it is a folder"
    }


@pytest.mark.parametrize("path", ["relative", "/", "//etc/passwd", "/a/../b", "/a/", ""])
def test_paths_that_are_not_plain_are_refused(path: str) -> None:
    assert told("remove", [path]) == {"failed": f"{path}: not a path of its own"}


def test_only_empty_folders_are_pruned_deepest_first(tmp_path: Path) -> None:
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    (tmp_path / "link").symlink_to("full")
    names = ("empty", "empty/deeper", "full", "link", "never there")

    answer = told("prune", [str(tmp_path / name) for name in names])

    assert answer == {"done": [str(tmp_path / "empty/deeper"), str(tmp_path / "empty")]}
    assert {path.name for path in tmp_path.iterdir()} == {"full", "link"}


def test_folders_are_made_unless_they_are_there(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(mode=0o700)
    owner = [os.getuid(), os.getgid()]
    paths = [str(tmp_path / name) for name in ("old", "new", "new/deeper")]

    answer = told("make", [[path, 0o750, *owner] for path in paths])

    assert answer == {"done": paths[1:]}
    modes = [Path(path).stat().st_mode & 0o7777 for path in paths]
    assert modes == [0o700, 0o750, 0o750]


def test_a_folder_is_not_made_where_something_else_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    answer = told("make", [[str(tmp_path / "file"), 0o755, os.getuid(), os.getgid()]])
    assert answer == {"failed": f"{tmp_path}/file: it is no folder"}


def test_strange_paths_are_told_with_what_is_there(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("four")
    file.chmod(0o640)
    link.symlink_to("file")
    owner = [os.getuid(), os.getgid()]
    right = {
        str(file): ["file", 4, 0o640, *owner],
        str(link): ["link", "file", 0o777, *owner],
        str(tmp_path / "nothing"): None,
    }

    assert told("look", right) == {"done": []}
    assert told("look", {str(file): None}) == {"done": [[str(file), ["file", 4, 0o640, *owner]]]}
    assert told("look", {str(link / "x"): None}) == {
        "done": [[str(link / "x"), [f"{link}/x: a link leads there"]]]
    }


def test_of_many_strange_paths_a_few_are_told(tmp_path: Path) -> None:
    many = {str(tmp_path / str(number)): ["file", 0, 0, 0, 0] for number in range(100)}
    assert len(told("look", many)["done"]) == arrange.MOST_NAMED


def test_a_program_is_run_and_what_it_says_is_told() -> None:
    assert told("run", [sys.executable, "-c", "print('ready')"]) == {"done": "ready\n"}


def test_a_failed_program_is_told_with_the_end_of_what_it_said() -> None:
    answer = told("run", [sys.executable, "-c", "print('x' * 9999 + 'end'); exit(3)"])
    assert answer["failed"].startswith(f"{sys.executable} ended with 3\n")
    assert answer["failed"].endswith("end\n")
    assert len(answer["failed"]) < arrange.MOST_SAID + 200


def test_a_program_that_is_not_there_is_no_fault() -> None:
    assert told("run", ["/no/such/program"]) == {"done": ""}


def test_each_line_is_answered_by_a_line_until_there_are_no_more(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    orders = [{"remove": [str(tmp_path / "a")]}, {"look": {str(tmp_path / "a"): None}}]

    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", SOURCE.read_text()],
        input="".join(json.dumps(order) + "\n" for order in orders),
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert [json.loads(line) for line in ended.stdout.splitlines()] == [{"done": 1}, {"done": []}]


def test_it_is_written_in_the_python_of_old_images() -> None:
    ast.parse(SOURCE.read_text(), feature_version=(3, 6))
