"""What differs between images, by component and point, and what of it is only noise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest

from bitsect.images.contents.axes import Differences, axes_between
from bitsect.images.contents.model import ComponentAxis
from tests.images.contents.trees import LIBRARIES, SITE, ImageTree, elf_file


def differences(*images: ImageTree) -> Differences:
    return axes_between([(image.contents(), {}) for image in images])


def axes(*images: ImageTree) -> dict[str, ComponentAxis]:
    return {axis.component: axis for axis in differences(*images).axes}


def names(axis: ComponentAxis) -> tuple[str, ...]:
    return tuple(state.name for state in axis.states)


def short(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:8]


BLAS = f"{LIBRARIES}/libblas.so.3"


def blas(*choices: str) -> ImageTree:
    """Reference BLAS, and OpenBLAS where it is among the choices; the first one is made."""
    image = ImageTree().package("libblas3", "3.12", {f"{LIBRARIES}/blas/libblas.so.3": "slow"})
    places = {"reference": f"{LIBRARIES}/blas/libblas.so.3"}
    if "openblas" in choices:
        places["openblas"] = f"{LIBRARIES}/openblas/libblas.so.3"
        own = f"{LIBRARIES}/openblas/libopenblas.so.0"
        image.package("libopenblas0", "0.3.29", {places["openblas"]: "fast", own: "fast"})
        image.alternative("libopenblas.so.0", f"{LIBRARIES}/libopenblas.so.0", [own])
    return image.alternative("libblas.so.3", BLAS, [places[each] for each in choices])


def test_equal_images_differ_in_nothing() -> None:
    image = blas("openblas", "reference").distribution("foo").file("/opt/x", "y")
    assert differences(image, image) == Differences((), (), (), ())


def test_a_package_that_is_added_takes_its_alternatives_with_it_both_ways() -> None:
    good, bad = blas("reference"), blas("openblas", "reference")
    found = axes(good, bad)
    assert set(found) == {"apt:libopenblas0"}
    absent, present = found["apt:libopenblas0"].states
    assert (absent.name, present.name) == ("absent", "0.3.29")
    # Without it the choice is the other one: its links go with this axis, from the good image.
    assert absent.donor == 0
    assert "/etc/alternatives/libblas.so.3" in absent.paths
    assert "/etc/alternatives/libblas.so.3" in present.paths
    assert f"{LIBRARIES}/libopenblas.so.0" in present.paths
    assert f"{LIBRARIES}/libopenblas.so.0" not in absent.paths
    assert present.packages == ("libopenblas0:amd64",)
    assert absent.packages == ()
    assert set(axes(bad, good)) == {"apt:libopenblas0"}


def test_a_removed_choice_decides_over_a_package_that_only_changes() -> None:
    good = blas("openblas", "reference")
    bad = blas("reference").package("libblas3", "3.13", {f"{LIBRARIES}/blas/libblas.so.3": "new"})
    found = axes(good, bad)
    assert set(found) == {"apt:libblas3", "apt:libopenblas0"}
    assert "/etc/alternatives/libblas.so.3" in found["apt:libopenblas0"].states[1].paths


def test_a_choice_that_somebody_made_by_hand_is_a_link_that_differs() -> None:
    found = axes(blas("reference", "openblas"), blas("openblas", "reference"))
    assert set(found) == {"file:/etc/alternatives/libblas.so.3"}
    assert names(found["file:/etc/alternatives/libblas.so.3"]) == (
        f"{LIBRARIES}/blas/libblas.so.3",
        f"{LIBRARIES}/openblas/libblas.so.3",
    )


def versions(*each: str) -> list[ImageTree]:
    return [ImageTree().package("a", one, {"/opt/a": one}) for one in each]


def test_points_are_in_the_order_of_the_chain_and_a_return_is_a_new_point() -> None:
    axis = axes(*versions("1", "1", "2", "1", "3", "1"))["apt:a"]
    assert names(axis) == ("1", "2", "1 again", "3", "1 again again")
    assert axis.at == (0, 0, 1, 2, 3, 4)
    assert [state.donor for state in axis.states] == [0, 2, 3, 4, 5]
    assert axis.states[0].digest == axis.states[2].digest
    assert axis.index("3") == 3


def test_a_version_is_a_point_even_where_its_files_are_those_of_another_one() -> None:
    chain = versions("1", "1", "2")
    chain[1].package("a", "1.1", {"/opt/a": "1"})
    assert names(axes(*chain)["apt:a"]) == ("1", "1.1", "2")


def test_a_component_that_only_a_middle_image_has_is_an_axis() -> None:
    middle = ImageTree().distribution("foo")
    axis = axes(ImageTree(), middle, ImageTree())["pip:foo"]
    assert names(axis) == ("absent", "1.0", "absent again")
    assert (axis.states[0].donor, axis.states[1].donor) == (None, 1)


def test_equal_versions_with_different_builds_have_different_names() -> None:
    good = ImageTree().package("a", "1", {"/opt/a": "x"})
    bad = ImageTree().package("a", "1", {"/opt/a": "y"})
    first, second = axes(good, bad)["apt:a"].states
    assert first.name == f"1 (build {first.digest[7:15]})"
    assert second.name == f"1 (build {second.digest[7:15]})"


@pytest.mark.parametrize("kind", ["apt", "pip", "git"])
def test_files_that_somebody_edited_are_axes_by_themselves(kind: str) -> None:
    good = ImageTree()
    if kind == "apt":
        good.package("a", files={"/opt/a/x.py": "x", "/opt/a/y.py": "y", "/opt/a/z.py": "z"})
    elif kind == "pip":
        files = {"x.py": "x", "y.py": "y", "z.py": "z"}
        good.distribution("a", files=files, site="/opt/a")
    else:
        good.file("/opt/a/.git/HEAD", "a" * 40)
        for name in "xyz":
            good.file(f"/opt/a/{name}.py", name)
    bad = good.copy().file("/opt/a/x.py", "edited").remove("/opt/a/y.py").file("/opt/a/new.py", "n")
    found = axes(good, bad)
    assert {name: names(axis) for name, axis in found.items()} == {
        "file:/opt/a/x.py": (short("x"), short("edited")),
        "file:/opt/a/y.py": (short("y"), "absent"),
        "file:/opt/a/new.py": ("absent", short("n")),
    }


def test_an_edited_file_is_part_of_the_package_where_the_version_moved_too() -> None:
    good = ImageTree().package("a", "1", {"/opt/a": "x", "/opt/b": "b"}).file("/opt/a", "edited")
    bad = ImageTree().package("a", "2", {"/opt/a": "y", "/opt/b": "b"})
    assert set(axes(good, bad)) == {"apt:a"}
    assert names(axes(good, good.copy().file("/opt/b", "c"), bad)["apt:a"])[2] == "2"


def test_without_checksums_a_few_files_were_edited_and_many_were_built_anew() -> None:
    def image(count: int, content: str) -> ImageTree:
        files: dict[str, bytes | str] = {f"foo/m{index}.py": content for index in range(count)}
        return ImageTree().distribution("foo", files=files, record=False)

    assert len(axes(image(3, "a"), image(3, "b"))) == 3
    assert set(axes(image(40, "a"), image(40, "b"))) == {"pip:foo"}


def test_a_changed_mode_is_a_change() -> None:
    good = ImageTree().file("/opt/tool", "x", mode=0o644)
    [axis] = axes(good, ImageTree().file("/opt/tool", "x", mode=0o755)).values()
    assert len(set(names(axis))) == 2


def test_bytecode_times_and_owners_change_nothing_but_move_with_their_module() -> None:
    cache = f"{SITE}/__pycache__/foo.cpython-312.pyc"
    good = ImageTree().distribution("foo").file(cache, "1")
    assert axes(good, good.copy().file(cache, "2")) == {}
    bad = good.copy().file(f"{SITE}/foo.py", "edited").file(cache, "2")
    assert axes(good, bad)[f"file:{SITE}/foo.py"].states[1].paths == (cache, f"{SITE}/foo.py")


def test_variables_are_axes_by_their_values() -> None:
    contents = ImageTree().contents()
    chain: list[Mapping[str, str]] = [{"A": "1", "S": "x"}, {"A": "absent", "S": "x"}, {"S": "x"}]
    [axis] = axes_between([(contents, variables) for variables in chain]).axes
    assert axis.component == "env:A"
    assert [state.value for state in axis.states] == ["1", "absent", None]
    assert len(set(names(axis))) == 3
    assert axis.states[0].donor is None


def test_what_differs_in_documentation_alone_is_named_as_noise() -> None:
    good = ImageTree().package("tool", "1", {"/usr/bin/tool": "x", "/usr/share/man/tool.1": "1"})
    bad = ImageTree().package("tool", "2", {"/usr/bin/tool": "x", "/usr/share/man/tool.1": "2"})
    found = differences(good, bad.package("tool-doc"))
    assert found.axes == ()
    assert dict(found.noise) == {
        "apt:tool": "documentation, records of package managers",
        "apt:tool-doc": "documentation, records of package managers",
    }


def test_a_package_with_one_file_that_may_matter_is_no_noise() -> None:
    bad = ImageTree().package("doc", files={"/usr/share/doc/x": "1", "/etc/x.conf": "1"})
    found = differences(ImageTree(), bad)
    assert [axis.component for axis in found.axes] == ["apt:doc"]
    assert found.noise == ()


def loose(count: int, content: str, folder: str) -> ImageTree:
    image = ImageTree()
    for index in range(count):
        image.file(f"{folder}/f{index}", content)
    return image


def test_many_loose_files_of_a_folder_move_together() -> None:
    [axis] = axes(loose(33, "a", "/opt/app/data"), loose(33, "b", "/opt/app/data")).values()
    assert axis.component == "file:/opt/app/data/"
    assert len(axis.states[0].paths) == 33
    assert names(axis) == tuple(state.digest[7:15] for state in axis.states)


def test_a_few_do_not() -> None:
    assert len(axes(loose(32, "a", "/opt/app"), loose(32, "b", "/opt/app"))) == 32


def test_what_lies_loose_in_the_systems_own_folders_never_moves_together() -> None:
    assert len(axes(ImageTree(), loose(40, "b", "/usr/local/bin"))) == 40


def test_files_are_gathered_in_the_deepest_folder_that_holds_too_many() -> None:
    bad = ImageTree()
    for part, count in (("a", 40), ("b", 20), ("c", 20)):
        for index in range(count):
            bad.file(f"/opt/app/{part}/f{index}")
    found = axes(ImageTree(), bad)
    assert {name: len(axis.states[1].paths) for name, axis in found.items()} == {
        "file:/opt/app/": 40,
        "file:/opt/app/a/": 40,
    }


def test_a_renamed_package_is_two_axes_and_no_path_is_in_both() -> None:
    old, new = {"/usr/lib/libx.so": "1", "/usr/lib/p.so": "p"}, {"/usr/lib/libx.so": "2"}
    good = ImageTree().package("libx1", "1", old)
    found = differences(good, ImageTree().package("libx1t64", "1", {**new, "/usr/lib/p.so": "p"}))
    paths = [path for axis in found.axes for path in {p for s in axis.states for p in s.paths}]
    assert len(paths) == len(set(paths))
    by_name = {axis.component: axis for axis in found.axes}
    assert by_name["apt:libx1t64"].states[0].paths == ("/usr/lib/libx.so",)
    # A file with one content everywhere stays where it is, whoever has it.
    assert "/usr/lib/p.so" not in paths
    assert found.moved == (("apt:libx1", "apt:libx1t64"),)


def test_a_package_that_only_got_another_name_is_noise() -> None:
    files: dict[str, bytes | str] = {"/usr/lib/libx.so": "1"}
    good, bad = (
        ImageTree().package("libx1", files=files),
        ImageTree().package("libx1t64", files=files),
    )
    found = differences(good, bad)
    assert found.axes == ()
    assert {name for name, _ in found.noise} == {"apt:libx1", "apt:libx1t64"}
    assert all("another component" in reason for _, reason in found.noise)


def test_a_loose_file_that_a_distribution_takes_over_moves_with_the_distribution() -> None:
    good = ImageTree().distribution("foo", "1").file(f"{SITE}/extra.py", "loose")
    bad = ImageTree().distribution("foo", "2", {"foo.py": "2", "extra.py": "owned"})
    found = axes(good, bad)
    assert set(found) == {"pip:foo"}
    assert f"{SITE}/extra.py" in found["pip:foo"].states[0].paths


def test_a_library_that_nobody_packaged_moves_with_its_links() -> None:
    def image(version: str) -> ImageTree:
        tree = ImageTree().file(
            f"/opt/libx.so.{version}", elf_file("libx.so.1", build_id=version.encode())
        )
        return tree.link("/opt/libx.so.1", f"libx.so.{version}")

    axis = axes(image("1.0"), image("1.1"))["lib:libx.so.1"]
    assert names(axis) == ("1.0", "1.1")
    assert axis.states[1].paths == ("/opt/libx.so.1", "/opt/libx.so.1.1")


def test_a_second_library_of_a_name_does_not_hide_that_the_first_one_stayed() -> None:
    good = ImageTree().file("/opt/a/libx.so.1", elf_file("libx.so.1"))
    bad = good.copy().file("/opt/b/libx.so.1", elf_file("libx.so.1", build_id=b"new"))
    assert set(axes(good, bad)) == {"lib:libx.so.1@/opt/b"}


@pytest.mark.parametrize(
    ("name", "before", "after", "secrets"),
    [
        ("HF_TOKEN", "tok-1", "tok-2", ("tok-1", "tok-2")),
        ("hf_token", "tok-1", "tok-2", ("tok-1", "tok-2")),
        (
            "PIP_INDEX_URL",
            "https://bob:pw1@host/simple",
            "https://bob:pw2@host/simple",
            ("pw1", "pw2", "bob"),
        ),
    ],
)
def test_secrets_in_variables_are_told_apart_and_never_told(
    name: str, before: str, after: str, secrets: tuple[str, ...]
) -> None:
    # Given a variable whose value is a secret, or holds one
    chain = [(ImageTree().contents(), {name: value}) for value in (before, after)]

    # Then its points are two, and neither they nor a plain digest give it away
    (axis,) = axes_between(chain).axes
    names = [state.name for state in axis.states]
    assert len(set(names)) == 2
    plain = {hashlib.sha256(value.encode()).hexdigest() for value in (before, after)}
    for text in (*names, *(state.digest for state in axis.states)):
        assert not any(secret in text for secret in secrets)
        assert not any(digest[:8] in text for digest in plain)


def test_a_value_cannot_steer_a_terminal_or_write_lines() -> None:
    chain = [(ImageTree().contents(), {"X": value}) for value in ("a", "\x1b]0;o\x07\n## Approved")]
    (axis,) = axes_between(chain).axes
    assert all(state.name.isprintable() for state in axis.states)
