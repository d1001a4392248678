"""Who installed a file, as far as package databases and RECORDs tell."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from bitsect.probes import inventory
from bitsect.probes.inventory import Notes
from tests.probes.test_inventory import install

Lists = Callable[..., str]


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    """Writes dpkg's lists of files by package; gives the root they lie below."""

    def write(**packages: list[str]) -> str:
        folder = tmp_path / "root/var/lib/dpkg/info"
        folder.mkdir(parents=True)
        for name, paths in packages.items():
            (folder / f"{name}.list").write_text("/.\n" + "".join(f"{path}\n" for path in paths))
        return str(tmp_path / "root")

    return write


def test_a_library_belongs_to_the_package_that_lists_it(lists: Lists, notes: Notes) -> None:
    root = lists(**{
        "libopenblas0:amd64": ["/usr/lib/blas/libblas.so.3", "/usr/share/doc/x"],
        "docs": ["/usr/share/doc/libblas.txt"],
        "python3": ["/usr/bin/python3"],
    })  # fmt: skip
    wanted = ["/usr/lib/blas/libblas.so.3", "/usr/lib/other.so", "/usr/bin/python3"]
    assert inventory.dpkg_owners(wanted, notes, root) == {
        "/usr/lib/blas/libblas.so.3": "apt:libopenblas0",
        "/usr/bin/python3": "apt:python3",
    }
    assert notes.problems == []


def test_no_database_is_no_owner(tmp_path: Path, notes: Notes) -> None:
    assert inventory.dpkg_owners(["/usr/lib/a.so"], notes, str(tmp_path)) == {}
    assert inventory.apk_owners(["/usr/lib/a.so"], notes, str(tmp_path)) == {}
    assert notes.problems == []


@pytest.mark.skipif(not os.path.islink("/lib"), reason="/lib is no link to /usr/lib here")
def test_a_list_from_before_the_folders_were_merged_still_counts(
    lists: Lists, notes: Notes
) -> None:
    library = next(Path("/usr/lib").glob("*/libc.so.6"))
    listed = str(library).removeprefix("/usr")
    owned = inventory.dpkg_owners([str(library)], notes, lists(libc6=[listed]))
    assert owned == {str(library): "apt:libc6"}


def test_a_link_belongs_to_whoever_installed_what_it_leads_to(
    lists: Lists, notes: Notes, tmp_path: Path
) -> None:
    # Given a choice among alternatives, which is a link that no package lists
    real, link = tmp_path / "openblas.so", tmp_path / "libblas.so.3"
    real.write_text("")
    link.symlink_to(real)
    owned = inventory.dpkg_owners([str(link)], notes, lists(openblas=[str(real)]))
    assert owned == {str(link): "apt:openblas"}


def test_a_distribution_owns_what_its_record_lists(tmp_path: Path, notes: Notes) -> None:
    site = tmp_path / "site"
    install(site, name="mine")
    (site / "nobodys.so").write_text("")
    files = [str(site / "mine.py"), str(site / "nobodys.so")]
    assert inventory.installers_of(files, [str(site)], notes) == {files[0]: "pip:mine"}


def test_the_interpreter_owns_its_own_modules_and_none_of_the_installed(tmp_path: Path) -> None:
    library = Path(sysconfig.get_path("stdlib"))
    assert inventory.python_owner(sys.executable) == "python:cpython"
    assert inventory.python_owner(str(library / "lib-dynload" / "math.so")) == "python:cpython"
    assert inventory.python_owner(str(library / "site-packages" / "x.so")) is None
    assert inventory.python_owner(str(tmp_path / "libpython3.so")) is None
    shared = f"{sys.base_prefix}/lib/libpython3.11.so.1.0"
    assert inventory.python_owner(shared) == "python:cpython"


def test_every_library_of_this_process_says_where_it_came_from(notes: Notes) -> None:
    places = inventory.Places(sys.prefix)
    found = inventory.loaded_libraries(places, notes)
    assert found
    by_name = {os.path.basename(each["path"]): each.get("owner") for each in found}
    executable = os.path.basename(os.path.realpath(sys.executable))
    assert by_name[executable] in ("python:cpython", f"apt:{executable}-minimal")
