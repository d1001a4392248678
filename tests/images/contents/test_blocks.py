"""Which components probably cannot move without each other."""

from __future__ import annotations

from bitsect.images.contents.axes import axes_between
from tests.images.contents.trees import LIBRARIES, SITE, ImageTree, Link, elf_file


def blocks(*images: ImageTree) -> tuple[tuple[str, ...], ...]:
    return axes_between([(image.contents(), {}) for image in images]).blocks


def user(version: str, needs: dict[str, list[str]]) -> bytes:
    return (
        elf_file(needed=list(needs), requires={k: v for k, v in needs.items() if v})
        + version.encode()
    )


def library(soname: str, version: str, *provides: str) -> dict[str, bytes | str]:
    return {f"{LIBRARIES}/{soname}": elf_file(soname, provides=provides) + version.encode()}


def test_a_library_that_only_one_image_has_goes_with_who_asks_for_it() -> None:
    good = ImageTree().distribution("foo", "1").distribution("other", "1")
    bad = ImageTree().distribution("foo", "2", {"foo.so": user("2", {"libnew.so.1": []})})
    bad.package("libnew1", files=library("libnew.so.1", "1")).distribution("other", "2")
    assert blocks(good, bad) == (("apt:libnew1", "pip:foo"),)
    assert blocks(bad, good) == (("apt:libnew1", "pip:foo"),)


def test_a_version_of_symbols_that_only_one_image_has_goes_with_who_asks_for_it() -> None:
    good = ImageTree().package("libc6", "2.36", library("libc.so.6", "1", "GLIBC_2.36"))
    good.distribution("foo", "1", {"foo.so": user("1", {"libc.so.6": ["GLIBC_2.36"]})})
    good.distribution("bar", "1", {"bar.so": user("1", {"libc.so.6": ["GLIBC_2.36"]})})
    bad = ImageTree().package(
        "libc6", "2.41", library("libc.so.6", "2", "GLIBC_2.36", "GLIBC_2.38")
    )
    bad.distribution("foo", "2", {"foo.so": user("2", {"libc.so.6": ["GLIBC_2.38"]})})
    bad.distribution("bar", "2", {"bar.so": user("2", {"libc.so.6": ["GLIBC_2.36"]})})
    assert blocks(good, bad) == (("apt:libc6", "pip:foo"),)


def test_a_library_that_is_there_anyway_binds_nobody() -> None:
    good = ImageTree().package("libblas3", files=library("libblas.so.3", "reference"))
    bad = good.copy().distribution("foo", "1", {"foo.so": user("1", {"libblas.so.3": []})})
    bad.package("libopenblas0", files={"/usr/lib/openblas/libblas.so.3": elf_file("libblas.so.3")})
    assert blocks(good, bad) == ()


def test_a_library_that_moves_along_binds_nobody_else() -> None:
    own: dict[str, bytes | str] = {
        "foo.so": user("2", {"libx.so.1": []}),
        "foo.libs/libx.so.1": elf_file("libx.so.1"),
    }
    good = ImageTree().distribution("foo", "1")
    bad = (
        ImageTree().distribution("foo", "2", own).package("libx1", files=library("libx.so.1", "1"))
    )
    assert blocks(good, bad) == ()


def test_a_library_under_the_name_of_its_link_is_found() -> None:
    good = ImageTree().distribution("foo", "1")
    bad = ImageTree().distribution("foo", "2", {"foo.so": user("2", {"libx.so.1": []})})
    bad.file("/opt/libx.so.1.2", elf_file("libx.so.1")).link("/opt/libx.so.1", "libx.so.1.2")
    assert blocks(good, bad) == (("lib:libx.so.1", "pip:foo"),)


def test_packages_that_accept_each_other_in_one_version_move_together() -> None:
    def image(version: str) -> ImageTree:
        tree = ImageTree().package("libfoo1", version, {"/opt/foo": version})
        tree.package("libfoo-dev", version, {"/opt/dev": version}, depends=f"libfoo1 (= {version})")
        return tree.package("other", version, {"/opt/o": version}, depends="libfoo1 (>= 1)")

    assert blocks(image("1"), image("2")) == (("apt:libfoo-dev", "apt:libfoo1"),)


def test_exact_pins_of_distributions_bind_nobody() -> None:
    def image(version: str) -> ImageTree:
        tree = ImageTree().distribution("torch", version, requires=[f"triton=={version}"])
        return tree.distribution("triton", version)

    assert blocks(image("1"), image("2")) == ()


def python(series: str) -> ImageTree:
    image = ImageTree().file(f"/usr/local/bin/python{series}", series, mode=0o755)
    return image.file(f"/usr/local/lib/python{series}/os.py", series)


def test_an_interpreter_of_another_series_moves_with_what_was_made_for_it() -> None:
    def image(series: str) -> ImageTree:
        tree = python(series).distribution("pure", series, site="/opt/pure/python")
        tree.distribution("bound", series, site=f"/usr/local/lib/python{series}/site-packages")
        compiled = f"x.cpython-{series.replace('.', '')}-x86_64-linux-gnu.so"
        return tree.package("python3-x", series, {f"/usr/lib/python3/dist-packages/{compiled}": ""})

    assert blocks(image("3.11"), image("3.12")) == (
        ("apt:python3-x", "pip:bound", "python:cpython"),
    )


def test_an_interpreter_of_the_same_series_moves_alone() -> None:
    good = python("3.12").distribution("foo", "1")
    bad = python("3.12").distribution("foo", "2").file("/usr/local/lib/python3.12/os.py", "patched")
    assert blocks(good, bad) == ()


def test_debians_pythons_move_together_too() -> None:
    def image(series: str) -> ImageTree:
        program = f"/usr/bin/python{series}"
        tree = ImageTree().package(f"python{series}-minimal", files={program: series})
        tree.package(f"libpython{series}-minimal", files={f"/usr/lib/python{series}/os.py": series})
        return tree.package("python3", series, {"/usr/bin/python3": Link(f"python{series}")})

    [block] = blocks(image("3.11"), image("3.12"))
    assert block == (
        "apt:libpython3.11-minimal",
        "apt:libpython3.12-minimal",
        "apt:python3",
        "apt:python3.11-minimal",
        "apt:python3.12-minimal",
    )


def test_who_had_the_same_file_moves_together() -> None:
    good = ImageTree().package("libx1", files={"/usr/lib/x.conf": "1", "/opt/a": "a"})
    bad = ImageTree().package("libx2", files={"/usr/lib/x.conf": "2", "/opt/b": "b"})
    assert blocks(good, bad) == (("apt:libx1", "apt:libx2"),)


def test_who_lists_the_same_file_moves_together_if_it_differs() -> None:
    def image(version: str, shared: str) -> ImageTree:
        tree = ImageTree()
        for name in ("a", "b"):
            tree.distribution(name, version, {f"{name}.py": version, "ns/__init__.py": shared})
        return tree

    assert blocks(image("1", ""), image("2", "")) == ()
    assert blocks(image("1", "x"), image("2", "y")) == (("pip:a", "pip:b"),)


def test_the_links_of_an_alternative_bind_nobody_who_stays() -> None:
    general = f"{LIBRARIES}/libblas.so.3"
    slow, fast = f"{LIBRARIES}/blas/libblas.so.3", f"{LIBRARIES}/openblas/libblas.so.3"
    good = ImageTree().package("libblas3", "1", {slow: "1"}).alternative("blas", general, [slow])
    bad = (
        ImageTree().package("libblas3", "2", {slow: "2"}).package("libopenblas0", "1", {fast: "1"})
    )
    assert blocks(good, bad.alternative("blas", general, [fast, slow])) == ()


def test_the_links_of_an_alternative_bind_whose_file_they_lead_to() -> None:
    general = f"{LIBRARIES}/libblas.so.3"
    slow, fast = f"{LIBRARIES}/blas/libblas.so.3", f"{LIBRARIES}/openblas/libblas.so.3"
    good = ImageTree().package("libblas3", "1", {slow: "1"}).alternative("blas", general, [slow])
    bad = ImageTree().package("libopenblas0", "1", {fast: "1"}).alternative("blas", general, [fast])
    assert blocks(good, bad) == (("apt:libblas3", "apt:libopenblas0"),)


def test_a_file_in_place_of_a_folder_binds_all_that_lies_in_that() -> None:
    good = ImageTree().package("a", files={"/opt/x/one": "1"}).distribution("b", site="/opt/x/py")
    bad = ImageTree().package("new", files={"/opt/x": Link("y")})
    assert blocks(good, bad) == (("apt:a", "apt:new", "pip:b"),)


def test_relations_join_to_one_block() -> None:
    good = ImageTree().distribution("a", "1")
    bad = ImageTree().distribution("a", "2", {"a.so": user("2", {"libx.so.1": []})})
    bad.package(
        "libx1", files={f"{LIBRARIES}/libx.so.1": elf_file("libx.so.1", needed=["liby.so.1"])}
    )
    bad.package("liby1", files=library("liby.so.1", "1")).file(f"{SITE}/alone.py")
    assert blocks(good, bad) == (("apt:libx1", "apt:liby1", "pip:a"),)
