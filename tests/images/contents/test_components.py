"""What an image consists of: every file that may matter belongs to exactly one component."""

from __future__ import annotations

from collections.abc import Mapping

from bitsect.images.contents.components import components_of, components_of_chain
from bitsect.images.contents.model import Component
from tests.images.contents.trees import LIBRARIES, SITE, ImageTree, Link, elf_file

COMMIT = "0123456789abcdef" * 2 + "01234567"


def components(
    image: ImageTree, environment: Mapping[str, str] | None = None
) -> dict[str, Component]:
    return components_of(image.contents(), environment or {})


def owners(image: ImageTree) -> dict[str, str]:
    """The owner of each path; fails where a path has two."""
    found: dict[str, str] = {}
    for name, component in components(image).items():
        for path in component.paths:
            assert found.setdefault(path, name) == name
    return found


def test_a_package_with_its_paragraph_its_records_and_what_it_needs() -> None:
    image = ImageTree().package(
        "libfoo1", "1.2", {f"{LIBRARIES}/libfoo.so.1": elf_file("libfoo.so.1")}
    )
    image.package("libfoo-dev", "1.2", depends="libfoo1 (= 1.2), libc6")
    found = components(image)
    assert found["apt:libfoo1"].version == "1.2"
    assert found["apt:libfoo1"].packages == ("libfoo1:amd64",)
    assert f"{LIBRARIES}/libfoo.so.1" in found["apt:libfoo1"].paths
    assert "/var/lib/dpkg/info/libfoo1.list" in found["apt:libfoo1"].paths
    # What is not installed is not asked for.
    assert found["apt:libfoo-dev"].needs == ("apt:libfoo1",)
    assert found["apt:libfoo-dev"].locked == ("apt:libfoo1",)


def test_the_links_of_an_alternative_belong_to_whoever_has_the_choice() -> None:
    image = ImageTree()
    image.package("libblas3", files={"/usr/lib/blas/libblas.so.3": "reference"})
    image.package("libopenblas0", files={"/usr/lib/openblas/libblas.so.3": "fast"})
    choices = ["/usr/lib/openblas/libblas.so.3", "/usr/lib/blas/libblas.so.3"]
    image.alternative("libblas.so.3", "/usr/lib/libblas.so.3", choices)
    links = (
        "/etc/alternatives/libblas.so.3",
        "/usr/lib/libblas.so.3",
        "/var/lib/dpkg/alternatives/libblas.so.3",
    )
    assert {owners(image)[path] for path in links} == {"apt:libopenblas0"}
    image.alternative("libblas.so.3", "/usr/lib/libblas.so.3", choices[::-1])
    assert {owners(image)[path] for path in links} == {"apt:libblas3"}


def test_a_choice_that_nobody_packaged_has_its_alternative_too() -> None:
    image = ImageTree().file("/opt/mkl/libmkl.so", elf_file("libmkl.so"))
    image.alternative("libblas.so.3", "/usr/lib/libblas.so.3", ["/opt/mkl/libmkl.so"])
    found = owners(image)
    assert found["/opt/mkl/libmkl.so"] == "lib:libmkl.so"
    assert found["/usr/lib/libblas.so.3"] == "lib:libmkl.so"
    assert found["/etc/alternatives/libblas.so.3"] == "lib:libmkl.so"


def test_a_distribution_with_what_it_needs_wherever_that_comes_from() -> None:
    image = ImageTree().distribution("foo", "2.0", requires=["numpy==1.0", "bar", "gone"])
    image.distribution("bar", "0.1")
    debian = "/usr/lib/python3/dist-packages"
    image.package(
        "python3-numpy", files={f"{debian}/numpy-1.0.dist-info/METADATA": "Name: numpy\n"}
    )
    found = components(image)
    assert "pip:numpy" not in found
    assert f"{debian}/numpy-1.0.dist-info/METADATA" in found["apt:python3-numpy"].paths
    assert found["pip:foo"].needs == ("apt:python3-numpy", "pip:bar")
    assert found["pip:foo"].locked == ("apt:python3-numpy",)
    assert found["pip:foo"].version == "2.0"


def test_a_distribution_inside_another_one_is_part_of_it() -> None:
    inner = {"setuptools/_vendor/wheel-0.4.dist-info/METADATA": "Name: wheel\nVersion: 0.4\n"}
    found = components(ImageTree().distribution("setuptools", files=inner))
    assert "pip:wheel" not in found
    assert (
        f"{SITE}/setuptools/_vendor/wheel-0.4.dist-info/METADATA" in found["pip:setuptools"].paths
    )


def test_two_distributions_of_a_name_are_told_apart_by_their_folders() -> None:
    image = ImageTree().distribution("foo").distribution("foo", "2.0", site="/opt/v/site-packages")
    found = components(image)
    assert "pip:foo" not in found
    assert found[f"pip:foo@{SITE}"].version == "1.0"
    assert found["pip:foo@/opt/v/site-packages"].version == "2.0"


def test_what_has_a_folder_in_its_name_in_one_image_has_it_in_all() -> None:
    single = ImageTree().distribution("foo")
    double = single.copy().distribution("foo", "2.0", site="/opt/v/site-packages")
    first, second = components_of_chain([(single.contents(), {}), (double.contents(), {})])
    assert f"pip:foo@{SITE}" in first.components
    assert f"pip:foo@{SITE}" in second.components


def test_a_git_tree_owns_what_nobody_installed_and_each_submodule_owns_its_part() -> None:
    image = ImageTree().file("/opt/m/.git/HEAD", COMMIT).file("/opt/m/train.py")
    image.file("/opt/m/sub/.git", "gitdir: ../.git/modules/sub").file("/opt/m/sub/kernel.cu")
    image.file("/opt/m/.git/modules/sub/HEAD", "f" * 40)
    image.distribution("inside", site="/opt/m/venv/site-packages")
    found = components(image)
    assert found["git:/opt/m"].version == "0123456789ab"
    assert found["git:/opt/m"].paths == ("/opt/m/.git/HEAD", "/opt/m/train.py")
    assert found["git:/opt/m/sub"].version == "f" * 12
    assert set(found["git:/opt/m/sub"].paths) == {
        "/opt/m/.git/modules/sub/HEAD",
        "/opt/m/sub/.git",
        "/opt/m/sub/kernel.cu",
    }
    assert "/opt/m/venv/site-packages/inside.py" in found["pip:inside"].paths


def test_an_editable_distribution_owns_its_sources_unless_git_does() -> None:
    url = '{"url": "file:///work/foo", "dir_info": {"editable": true}}'
    image = ImageTree().distribution("foo", direct_url=url, files={}).file("/work/foo/foo.py")
    assert owners(image)["/work/foo/foo.py"] == "pip:foo"
    image.file("/work/foo/.git/HEAD", COMMIT)
    assert owners(image)["/work/foo/foo.py"] == "git:/work/foo"


def test_an_editable_distribution_does_not_own_a_whole_system() -> None:
    url = '{"url": "file:///usr/lib", "dir_info": {"editable": true}}'
    image = ImageTree().distribution("foo", direct_url=url, files={}).file("/usr/lib/other.conf")
    assert owners(image)["/usr/lib/other.conf"] == "file:/usr/lib/other.conf"


def test_an_interpreter_that_nobody_packaged_is_one_component() -> None:
    image = ImageTree().file("/usr/local/bin/python3.12", mode=0o755)
    image.file("/usr/local/lib/python3.12/os.py").distribution("foo")
    image.file("/usr/local/lib/libpython3.12.so.1.0", elf_file("libpython3.12.so.1.0"))
    found = components(image)
    assert "/usr/local/lib/libpython3.12.so.1.0" in found["python:cpython"].paths
    assert found["python:cpython"].version == "3.12"
    assert f"{SITE}/foo.py" in found["pip:foo"].paths


def test_a_library_goes_with_the_links_that_lead_to_it() -> None:
    image = ImageTree().file("/opt/nccl/libnccl.so.2.21.5", elf_file("libnccl.so.2"))
    image.link("/opt/nccl/libnccl.so.2", "libnccl.so.2.21.5")
    image.link("/usr/lib/libnccl.so", "/opt/nccl/libnccl.so.2")
    found = components(image)
    assert found["lib:libnccl.so.2"].version == "2.21.5"
    assert len(found["lib:libnccl.so.2"].paths) == 3


def test_libraries_of_one_name_in_two_folders_are_told_apart() -> None:
    image = ImageTree()
    for folder in ("/opt/a", "/opt/b"):
        image.file(f"{folder}/libx.so.1", elf_file("libx.so.1", build_id=folder.encode()))
    found = components(image)
    assert {name for name in found if name.startswith("lib:")} == {
        "lib:libx.so.1@/opt/a",
        "lib:libx.so.1@/opt/b",
    }
    assert found["lib:libx.so.1@/opt/a"].version == b"/opt/a".hex()[:12]


def test_a_program_is_no_library() -> None:
    assert owners(ImageTree().file("/opt/run", elf_file()))["/opt/run"] == "file:/opt/run"


def test_whatever_else_may_matter_is_a_component_and_noise_is_none() -> None:
    image = ImageTree().file("/etc/tuning.conf", "fast").link("/opt/current", "v2")
    image.file("/srv/data/vocab.txt").file("/var/log/x.log").file("/usr/share/doc/x").special(
        "/opt/p"
    )
    found = components(image)
    assert {name for name in found if not name.startswith("env:")} == {
        "file:/etc/tuning.conf",
        "file:/opt/current",
        "file:/srv/data/vocab.txt",
    }
    assert found["file:/opt/current"].version == "v2"


def test_bytecode_belongs_to_the_owner_of_its_module() -> None:
    image = ImageTree().distribution("foo").file(f"{SITE}/__pycache__/foo.cpython-312.pyc")
    image.file("/opt/run.py").file("/opt/__pycache__/run.cpython-312.pyc")
    image.file("/opt/__pycache__/gone.cpython-312.pyc")
    found = owners(image)
    assert found[f"{SITE}/__pycache__/foo.cpython-312.pyc"] == "pip:foo"
    assert found["/opt/__pycache__/run.cpython-312.pyc"] == "file:/opt/run.py"
    assert "/opt/__pycache__/gone.cpython-312.pyc" not in found


def test_a_file_that_two_list_belongs_to_one_of_them() -> None:
    image = ImageTree()
    for name in ("nvidia-cublas", "nvidia-cudnn"):
        image.distribution(name, files={"nvidia/__init__.py": "", f"nvidia/{name}.so": name})
    assert owners(image)[f"{SITE}/nvidia/__init__.py"] == "pip:nvidia-cublas"
    assert owners(image)[f"{SITE}/nvidia/nvidia-cudnn.so"] == "pip:nvidia-cudnn"


def test_a_variable_is_a_component_and_a_secret_is_not_shown() -> None:
    long = "/opt/lib:" * 20
    found = components(ImageTree(), {"A": "1", "E": "", "LONG": long, "API_TOKEN": "hunter2"})
    assert (found["env:A"].version, found["env:A"].value) == ("1", "1")
    assert found["env:E"].version == '""'
    assert found["env:LONG"].value == long
    assert len(found["env:LONG"].version) < 80
    assert "hunter2" not in found["env:API_TOKEN"].version
    assert found["env:API_TOKEN"].value == "hunter2"


def test_a_path_that_the_image_leaves_open_is_what_engines_set() -> None:
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert components(ImageTree()) == components(ImageTree(), {"PATH": path})


def test_a_link_in_place_of_a_packaged_file_still_belongs_to_the_package() -> None:
    image = ImageTree().package("libfoo1", files={"/usr/lib/libfoo.so.1": "x"})
    image.put("/usr/lib/libfoo.so.1", Link("/opt/patched.so"))
    assert owners(image)["/usr/lib/libfoo.so.1"] == "apt:libfoo1"
