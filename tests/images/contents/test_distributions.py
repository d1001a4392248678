"""Python distributions, as installers of all times leave them."""

from __future__ import annotations

import pytest

from bitsect.images.contents.distributions import PythonDistribution, python_distributions
from bitsect.images.contents.tree import Tree
from bitsect.images.layers import Origin
from tests.images.contents.trees import SITE, ImageTree

COMMIT = "0123456789abcdef" * 2 + "01234567"


def only(image: ImageTree) -> PythonDistribution:
    contents = image.contents()
    [found] = python_distributions(contents, Tree(contents.entries))
    return found


def test_a_distribution_owns_what_its_record_lists_and_its_metadata() -> None:
    image = ImageTree().distribution(
        "Foo.Bar",
        "1.2",
        {"foo/__init__.py": "", "../../../bin/foo": "#!python"},
        requires=["numpy==2.1.0", "torch>=2", "pytest; extra == 'test'", "triton==3.*", "a b c"],
    )
    found = only(image)
    assert (found.name, found.version, found.site) == ("foo-bar", "1.2", SITE)
    assert {f"{SITE}/foo/__init__.py", "/usr/local/bin/foo"} <= set(found.paths)
    assert f"{SITE}/Foo.Bar-1.2.dist-info/RECORD" in found.paths
    assert found.requires == ("numpy", "torch", "triton")
    assert found.pinned == ("numpy",)
    assert found.point == "1.2"


def test_a_commit_that_it_was_built_from_is_part_of_its_point() -> None:
    url = f'{{"url": "https://x/y", "vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}'
    found = only(ImageTree().distribution("foo", direct_url=url))
    assert found.origin == Origin("vcs", url="https://x/y", commit=COMMIT)
    assert found.point == "1.0 (commit 0123456789ab)"


def test_an_editable_one_knows_its_sources() -> None:
    url = '{"url": "file:///work/my%20tree", "dir_info": {"editable": true}}'
    found = only(ImageTree().distribution("foo", direct_url=url))
    assert (found.editable, found.source) == (True, "/work/my tree")


def test_an_editable_one_of_old_is_a_file_with_a_path() -> None:
    image = ImageTree().file(f"{SITE}/my-foo.egg-link", "/work/foo\n.")
    image.file("/work/foo/my_foo.egg-info/PKG-INFO", "Name: my-foo\nVersion: 0.3\n")
    contents = image.contents()
    found = python_distributions(contents, Tree(contents.entries))[0]
    assert (found.name, found.version, found.source) == ("my-foo", "0.3", "/work/foo")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "[]",
        "null",
        '{"url": 7}',
        "[" * 100_000,
        '{"url": "x", "vcs_info": 3}',
        '{"url": "x", "vcs_info": {"commit_id": [1]}}',
        '{"url": "http://[", "dir_info": {"editable": true}}',
    ],
)
def test_an_origin_that_makes_no_sense_is_none(url: str) -> None:
    found = only(ImageTree().distribution("foo", direct_url=url))
    assert (found.name, found.origin) == ("foo", None)


def test_without_a_record_it_owns_what_is_called_as_it_says() -> None:
    image = ImageTree().distribution(
        "pyyaml", files={"yaml/__init__.py": "", "other.py": ""}, record=False
    )
    image.file(f"{SITE}/pyyaml-1.0.dist-info/top_level.txt", "yaml\n../../etc\n")
    found = only(image)
    assert f"{SITE}/yaml/__init__.py" in found.paths
    assert f"{SITE}/other.py" not in found.paths
    assert found.record is None


def test_an_older_installer_lists_its_files_otherwise() -> None:
    image = ImageTree().file(f"{SITE}/foo.py").file(f"{SITE}/foo-2.egg-info/PKG-INFO", "Name: foo")
    image.file(f"{SITE}/foo-2.egg-info/installed-files.txt", "../foo.py\nPKG-INFO\n")
    found = only(image)
    assert (found.name, found.version) == ("foo", "2")
    assert f"{SITE}/foo.py" in found.paths


def test_metadata_may_be_a_single_file() -> None:
    image = ImageTree().file(f"{SITE}/foo-0.1.egg-info", "Name: foo\nVersion: 0.1\n")
    found = only(image.file(f"{SITE}/foo.py"))
    assert (found.name, found.version) == ("foo", "0.1")
    assert set(found.paths) >= {f"{SITE}/foo.py", f"{SITE}/foo-0.1.egg-info"}


@pytest.mark.parametrize("record", ['"' + "x" * 200_000, "../../../../../etc/passwd,,\n", "\0,,"])
def test_a_record_that_lies_owns_nothing_outside_the_image(record: str) -> None:
    image = ImageTree().distribution("foo").file(f"{SITE}/foo-1.0.dist-info/RECORD", record)
    assert all(path.startswith("/") for path in only(image).paths)


def test_equal_installations_by_different_installers_have_equal_records() -> None:
    by_pip = only(ImageTree().distribution("foo"))
    other = ImageTree().distribution("foo")
    record = other.contents().texts[f"{SITE}/foo-1.0.dist-info/RECORD"].decode()
    rows = [row for row in record.splitlines() if "INSTALLER" not in row]
    rows += ["__pycache__/foo.cpython-312.pyc,,"]
    by_uv = only(other.file(f"{SITE}/foo-1.0.dist-info/RECORD", "\n".join(rows)))
    assert by_pip.record == by_uv.record
