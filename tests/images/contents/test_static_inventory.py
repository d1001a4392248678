"""What is installed, told without starting anything."""

from __future__ import annotations

from bitsect.images.contents.static_inventory import static_software
from bitsect.images.layers import GitTree, OsPackage, Submodule
from tests.images.contents.trees import SITE, ImageTree, elf_file


def test_an_image_without_anything_has_no_software() -> None:
    found = static_software(ImageTree().contents(), {})
    assert (found.python, found.libraries, found.torch, found.warm_up) == (None, None, None, False)
    assert (found.distributions, found.os_packages, found.compilers) == ((), (), ())


def test_packages_and_alternatives_are_those_of_the_database() -> None:
    image = ImageTree().package("libc6", "2.41").package("bash", "5", architecture="all")
    image.alternative("awk", "/usr/bin/awk", ["/usr/bin/mawk"])
    found = static_software(image.contents(), {})
    assert found.os_packages == (
        OsPackage("dpkg", "bash", "5", "all"),
        OsPackage("dpkg", "libc6", "2.41", "amd64"),
    )
    assert found.alternatives == {"awk": "/usr/bin/mawk"}


def test_files_that_are_not_as_recorded_are_named() -> None:
    files = {"same.py": "1", "bytes.py": "1", "size.py": "1", "gone.py": "1"}
    image = ImageTree().distribution("foo", files=files)
    image.file(f"{SITE}/bytes.py", "2").file(f"{SITE}/size.py", "22").remove(f"{SITE}/gone.py")
    [found] = static_software(image.contents(), {}).distributions
    assert found.altered == ("bytes.py", "size.py")
    assert found.missing == ("gone.py",)
    assert (found.name, found.version, found.location) == ("foo", "1.0", SITE)
    assert found.files == 7


def test_of_two_distributions_of_a_name_the_pythons_own_is_not_shadowed() -> None:
    image = (
        ImageTree().distribution("foo").distribution("foo", "2", site="/opt/v/lib/site-packages")
    )
    image.file("/opt/v/bin/python3", mode=0o755)
    found = static_software(image.contents(), {"PATH": "/opt/v/bin"}).distributions
    assert [(each.version, each.shadowed) for each in found] == [("2", False), ("1.0", True)]


def test_compilers_are_found_where_a_compilation_would_look() -> None:
    image = ImageTree().file("/usr/bin/x-gcc-14", elf_file(build_id=b"gcc"), mode=0o755)
    image.link("/usr/bin/gcc", "x-gcc-14").file("/usr/bin/ld", "#!/bin/sh", mode=0o755)
    image.file("/usr/bin/clang", mode=0o644).file("/opt/cuda/bin/nvcc", elf_file(), mode=0o755)
    image.file(f"{SITE}/triton/backends/nvidia/bin/ptxas", elf_file(build_id=b"p"), mode=0o755)
    found = static_software(image.contents(), {"CUDA_HOME": "/opt/cuda"}).compilers
    by_name = {each.name: each for each in found}
    assert set(by_name) == {"gcc", "ld", "nvcc", "ptxas"}
    assert by_name["gcc"].path == "/usr/bin/x-gcc-14"
    assert by_name["gcc"].build_id == b"gcc".hex()
    assert by_name["gcc"].sha256 is None
    assert (by_name["ld"].sha256 or "").startswith("sha256:")


def test_git_trees_have_their_submodules() -> None:
    image = ImageTree().file("/opt/m/.git/HEAD", "a" * 40)
    image.file("/opt/m/sub/.git", "gitdir: ../.git/modules/sub")
    image.file("/opt/m/.git/modules/sub/HEAD", "b" * 40)
    assert static_software(image.contents(), {}).git_trees == (
        GitTree("/opt/m", "a" * 40, submodules=(Submodule("sub", "b" * 40),)),
    )
