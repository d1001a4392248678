"""What the inventory reads of installed distributions, from folders made for it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bitsect.probes import inventory
from bitsect.probes.inventory import Notes, Places


@pytest.fixture
def notes() -> Notes:
    return Notes()


def record_row(path: Path, name: str) -> str:
    data = path.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def install(site: Path, name: str = "some.Package", version: str = "1.2", **files: str) -> Path:
    """Make a distribution with a module, as an installer would, and return its dist-info."""
    info = site / f"{name.replace('.', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text("value = 1\n")
    contents = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: no\n",
        "INSTALLER": "uv\n",
        **files,
    }
    for file, text in contents.items():
        (info / file).write_text(text)
    rows = [record_row(site / f"{name}.py", f"{name}.py"), f"{info.name}/RECORD,,"]
    rows += [record_row(info / file, f"{info.name}/{file}") for file in contents]
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    return info


def found_in(site: Path, notes: Notes, deep: bool = False) -> list[dict[str, Any]]:
    return inventory.distributions([str(site)], Places(str(site.parent)), notes, deep)


def test_a_distribution_is_named_and_agrees_with_its_record(tmp_path: Path, notes: Notes) -> None:
    install(tmp_path / "site")
    (entry,) = found_in(tmp_path / "site", notes, deep=True)
    record = entry.pop("record")
    assert record.startswith("sha256:")
    assert entry == {
        "name": "some-package", "version": "1.2", "location": "<prefix>/site", "installer": "uv",
        "editable": False, "origin": None, "files": 4, "altered": [], "missing": [],
        "unreadable": [], "shadowed": False,
    }  # fmt: skip
    assert notes.problems == []


def test_a_file_of_another_size_is_altered_and_one_of_equal_size_only_when_looked_into(
    tmp_path: Path, notes: Notes
) -> None:
    install(tmp_path / "site")
    module = tmp_path / "site" / "some.Package.py"
    module.write_text("value = 2\n")
    assert found_in(tmp_path / "site", notes)[0]["altered"] == []
    assert found_in(tmp_path / "site", notes, deep=True)[0]["altered"] == ["some.Package.py"]
    module.write_text("value = 10\n")
    assert found_in(tmp_path / "site", notes)[0]["altered"] == ["some.Package.py"]


def test_a_file_that_is_gone_is_missing(tmp_path: Path, notes: Notes) -> None:
    install(tmp_path / "site")
    (tmp_path / "site" / "some.Package.py").unlink()
    assert found_in(tmp_path / "site", notes)[0]["missing"] == ["some.Package.py"]


def test_a_file_that_cannot_be_reached_is_unreadable(tmp_path: Path, notes: Notes) -> None:
    info = install(tmp_path / "site")
    with (info / "RECORD").open("a") as stream:
        stream.write("some.Package.py/below_a_file.txt,sha256=x,1\n")
    # A path below a file: the system refuses it otherwise than one that is merely absent.
    (entry,) = found_in(tmp_path / "site", notes)
    assert entry["unreadable"] == ["some.Package.py/below_a_file.txt"]


def test_the_record_digest_does_not_depend_on_installer_folder_or_compilation() -> None:
    rows = [("a.py", "sha256=x", "3"), ("../../../bin/a", "sha256=one", "230")]
    other = [
        ("../../../bin/a", "sha256=two", "241"), ("a.py", "sha256=x", "3"),
        ("a-1.dist-info/INSTALLER", "sha256=i", "3"), ("a-1.dist-info/RECORD", "", ""),
    ]  # fmt: skip
    assert inventory.record_digest(rows) == inventory.record_digest(other)
    assert inventory.record_digest(rows) != inventory.record_digest([("a.py", "sha256=y", "3")])
    assert inventory.record_digest(rows) != inventory.record_digest(rows[:1])


def test_compiled_files_count_for_nothing(tmp_path: Path, notes: Notes) -> None:
    plain, compiled = tmp_path / "one" / "site", tmp_path / "two" / "site"
    install(plain)
    info = install(compiled)
    with (info / "RECORD").open("a") as stream:
        stream.write("__pycache__/some.Package.cpython-311.pyc,,\n")
    assert found_in(plain, notes) == found_in(compiled, notes)


@pytest.mark.parametrize(
    ("text", "origin", "editable"),
    [
        (
            '{"url": "https://me:secret@host/r.git", "vcs_info": {"commit_id": "c0"}}',
            {"kind": "vcs", "url": "https://host/r.git", "commit": "c0"},
            False,
        ),
        (
            '{"url": "file:///w.whl", "archive_info": {"hashes": {"sha256": "ab"}}}',
            {"kind": "archive", "hash": "sha256=ab"},
            False,
        ),
        ('{"url": "file:///src", "dir_info": {"editable": true}}', {"kind": "folder"}, True),
        (
            '{"url": "file:///w.tgz", "archive_info": {"hash": "md5=1"}, "subdirectory": "x"}',
            {"kind": "archive", "hash": "md5=1", "subdirectory": "x"},
            False,
        ),
    ],
)
def test_where_a_distribution_came_from_is_pinned(
    tmp_path: Path, notes: Notes, text: str, origin: dict[str, str], editable: bool
) -> None:
    install(tmp_path / "site", **{"direct_url.json": text})
    (entry,) = found_in(tmp_path / "site", notes)
    assert (entry["origin"], entry["editable"]) == (origin, editable)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda info: (info / "METADATA").unlink(), "FileNotFoundError"),
        (lambda info: (info / "METADATA").write_text("Nonsense"), "no name or version"),
        (lambda info: (info / "RECORD").unlink(), "FileNotFoundError"),
        (lambda info: (info / "RECORD").write_bytes(b'"' + b"x" * 200_000), "Error"),
        (lambda info: (info / "direct_url.json").write_text("[1]"), "AttributeError"),
        (lambda info: (info / "direct_url.json").write_text("{"), "JSONDecodeError"),
    ],
)
def test_a_broken_distribution_is_still_listed_and_the_break_is_named(
    tmp_path: Path, notes: Notes, damage: Callable[[Path], object], reason: str
) -> None:
    info = install(tmp_path / "site", name="broken")
    damage(info)
    (entry,) = found_in(tmp_path / "site", notes)
    assert (entry["name"], entry["version"]) == ("broken", "1.2")
    assert [reason in problem["reason"] for problem in notes.problems] == [True]
    assert str(info) in notes.problems[0]["what"]


def test_metadata_that_is_no_text_does_no_harm(tmp_path: Path, notes: Notes) -> None:
    info = install(tmp_path / "site", name="latin")
    (info / "METADATA").write_bytes(b"Name: latin\nVersion: 1.2\nAuthor: \xe9\n")
    assert found_in(tmp_path / "site", notes)[0]["version"] == "1.2"


def test_the_second_of_one_name_is_shadowed(tmp_path: Path, notes: Notes) -> None:
    install(tmp_path / "a", version="1.0")
    install(tmp_path / "b", version="2.0")
    paths = [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "a"), "/no/such/folder"]
    found = inventory.distributions(paths, Places(str(tmp_path)), notes, False)
    assert [(e["version"], e["shadowed"]) for e in found] == [("1.0", False), ("2.0", True)]


def test_older_forms_of_metadata_are_read(tmp_path: Path, notes: Notes) -> None:
    site = tmp_path / "site"
    (site / "old-3.egg-info").mkdir(parents=True)
    (site / "old-3.egg-info" / "PKG-INFO").write_text("Name: old\nVersion: 3\n")
    (site / "single-4.egg-info").write_text("Name: single\nVersion: 4\n")
    (site / "linked.egg-link").write_text("/src/linked\n.\n")
    found = {e["name"]: (e["version"], e["editable"]) for e in found_in(site, notes)}
    assert found == {"old": ("3", False), "single": ("4", False), "linked": (None, True)}
    assert notes.problems == []


def test_archives_and_leftovers_are_named(tmp_path: Path, notes: Notes) -> None:
    site = tmp_path / "site"
    (site / "~umpy-1.2.dist-info").mkdir(parents=True)
    (site / "~umpy-1.2.dist-info" / "METADATA").write_text("Name: numpy\nVersion: 1.2\n")
    (tmp_path / "lib.zip").write_bytes(b"PK")
    inventory.distributions(
        [str(tmp_path / "lib.zip"), str(site)], Places(str(tmp_path)), notes, False
    )
    reasons = [problem["reason"] for problem in notes.problems]
    assert any("archive" in reason for reason in reasons)
    assert any("interrupted" in reason for reason in reasons)


def test_files_are_given_to_the_distribution_that_owns_them(tmp_path: Path, notes: Notes) -> None:
    site = tmp_path / "site"
    install(site, name="mine")
    (site / "nobodys.py").write_text("")
    files = [str(site / "mine.py"), str(site / "nobodys.py"), "/elsewhere/mine.py"]
    assert inventory.owners_of(files, [str(site)], notes) == {str(site / "mine.py"): "mine"}
