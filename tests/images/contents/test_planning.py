"""What turns a file system with some states into one with other states."""

from __future__ import annotations

import pytest

from bitsect.images.contents.axes import axes_between
from bitsect.images.contents.chain_owners import Chain
from bitsect.images.contents.errors import ClashError
from bitsect.images.contents.model import ComponentAxis, State
from bitsect.images.contents.planning import NewFolder, Plan, expected, plan
from tests.images.contents.filesystem import FileSystem
from tests.images.contents.trees import LIBRARIES, SITE, ImageTree, Link, elf_file

STATUS = "/var/lib/dpkg/status"


class Case:
    """Images, the axes between them, and plans on these."""

    def __init__(self, *images: ImageTree, variables: tuple[dict[str, str], ...] = ()) -> None:
        environments = variables or tuple({} for _ in images)
        self.chain: Chain = [
            (image.contents(), each) for image, each in zip(images, environments, strict=True)
        ]
        self.axes = axes_between(self.chain).axes

    def plan(self, wanted: dict[str, int], base: dict[str, int] | None = None) -> Plan:
        return plan(self.chain, self.axes, base or {}, wanted)

    def built(self, wanted: dict[str, int]) -> FileSystem:
        """The first image with these states."""
        system = FileSystem(self.chain[0][0])
        system.apply(self.plan(wanted), self.chain)
        return system


def test_nothing_is_done_for_what_has_its_state_already() -> None:
    case = Case(ImageTree().distribution("foo", "1"), ImageTree().distribution("foo", "2"))
    nothing = Plan((), (), (), (), (), {}, {}, 0)
    assert case.plan({}) == nothing
    assert case.plan({"pip:foo": 1}, {"pip:foo": 1}) == nothing


def test_only_what_differs_is_copied_and_what_the_new_state_lacks_is_deleted() -> None:
    good = ImageTree().package("a", "1", {"/opt/a/same": "s", "/opt/a/old/x": "o", "/opt/a/y": "1"})
    bad = ImageTree().package("a", "2", {"/opt/a/same": "s", "/opt/a/new/x": "n", "/opt/a/y": "22"})
    found = Case(good, bad).plan({"apt:a": 1})
    records = {f"/var/lib/dpkg/info/a.{end}" for end in ("list", "md5sums")}
    [(donor, copied)] = found.copies
    assert donor == 1
    assert set(copied) == {"/opt/a/new/x", "/opt/a/y"} | records
    assert found.deletions == ("/opt/a/old/x",)
    assert found.emptied == ("/opt/a/old",)
    assert found.folders == (NewFolder("/opt/a/new", 0o755, 0, 0),)
    assert found.bytes == sum(Case(good, bad).chain[1][0].entries[path].size for path in copied)


def test_new_folders_are_as_in_the_donor_outermost_first() -> None:
    bad = ImageTree().file("/opt/p/q/x").folder("/opt/p", mode=0o750).folder("/opt/p/q", mode=0o700)
    found = Case(ImageTree().file("/opt/z"), bad.file("/opt/z")).plan({"file:/opt/p/q/x": 1})
    assert [(each.path, each.mode) for each in found.folders] == [
        ("/opt/p", 0o750),
        ("/opt/p/q", 0o700),
    ]


def test_a_removed_distribution_leaves_no_folder_that_could_still_be_imported() -> None:
    good = ImageTree().distribution("foo", files={"foo/__init__.py": "", "foo/sub/x.py": ""})
    good.file(f"{SITE}/foo/__pycache__/__init__.cpython-312.pyc").distribution("bar")
    case = Case(good, ImageTree().distribution("bar"))
    system = case.built({"pip:foo": 1})
    assert not [path for path in (*system.files, *system.folders) if "/foo" in path]
    assert f"{SITE}/bar.py" in system.files


def test_bytecode_of_a_changed_module_never_stays() -> None:
    caches = [f"{SITE}/__pycache__/foo.cpython-312{end}.pyc" for end in ("", ".opt-1")]
    good = ImageTree().distribution("foo", "1", {"foo.py": "1", "same.py": "s"})
    for path in (*caches, f"{SITE}/__pycache__/same.cpython-312.pyc"):
        good.file(path, "good")
    bad = ImageTree().distribution("foo", "2", {"foo.py": "2", "same.py": "s"})
    for path in (caches[0], f"{SITE}/__pycache__/same.cpython-312.pyc"):
        bad.file(path, "bad")
    case = Case(good, bad)
    system = case.built({"pip:foo": 1})
    bad_entries = case.chain[1][0].entries
    assert system.content(caches[0]) == bad_entries[caches[0]].content
    assert system.content(caches[1]) is None
    # Its module is the same, so it is as good as the other one.
    same = f"{SITE}/__pycache__/same.cpython-312.pyc"
    assert system.content(same) == case.chain[0][0].entries[same].content


def blas(fast: bool) -> ImageTree:
    slow = f"{LIBRARIES}/blas/libblas.so.3"
    image = ImageTree().package("libblas3", files={slow: elf_file("libblas.so.3")}).package("bash")
    choices = [slow]
    if fast:
        own = f"{LIBRARIES}/openblas/libblas.so.3"
        image.package("libopenblas0", "0.3", {own: elf_file("libblas.so.3", build_id=b"fast")})
        choices = [own, slow]
        image.alternative("openblas", f"{LIBRARIES}/libopenblas.so.0", [own])
    return image.alternative("libblas.so.3", f"{LIBRARIES}/libblas.so.3", choices)


def test_a_package_moves_with_its_alternatives_and_its_paragraph() -> None:
    case = Case(blas(fast=False), blas(fast=True))
    found = case.plan({"apt:libopenblas0": 1})
    system = case.built({"apt:libopenblas0": 1})
    assert b"Package: libopenblas0\n" in found.files[STATUS]
    assert b"Package: bash\n" in found.files[STATUS]
    link = "/etc/alternatives/libblas.so.3"
    assert system.content(link) == ("link", 0o777, 0, 0, f"{LIBRARIES}/openblas/libblas.so.3")
    assert system.content("/etc/alternatives/openblas") is not None
    assert system.counting() == FileSystem(case.chain[1][0]).counting()


def test_and_back_again() -> None:
    case = Case(blas(fast=False), blas(fast=True))
    system = case.built({"apt:libopenblas0": 1})
    back = case.plan({}, {"apt:libopenblas0": 1})
    system.apply(back, case.chain)
    assert system.counting() == FileSystem(case.chain[0][0]).counting()
    assert b"libopenblas0" not in back.files[STATUS]


def test_paragraphs_are_those_of_the_wanted_states_whatever_moves_now() -> None:
    def image(version: str) -> ImageTree:
        tree = ImageTree().package("a", version, {"/opt/a": version})
        return tree.package("b", version, {"/opt/b": version}).package("same", "7")

    case = Case(image("1"), image("2"))
    text = case.plan({"apt:a": 1, "apt:b": 1}, {"apt:a": 1}).files[STATUS].decode()
    assert text.count("Version: 2") == 2
    assert text.count("Version: 7") == 1
    assert case.plan({"apt:a": 1}).files[STATUS].decode().count("Version: 2") == 1


def test_without_packages_on_the_move_the_database_stays() -> None:
    case = Case(
        ImageTree().package("a").file("/etc/x", "1"), ImageTree().package("a").file("/etc/x")
    )
    assert case.plan({"file:/etc/x": 1}).files == {}


def test_variables_are_set_changed_and_removed() -> None:
    variables = ({"A": "1", "B": "1"}, {"A": "2", "C": "3"})
    case = Case(ImageTree(), ImageTree(), variables=variables)
    assert case.plan({"env:A": 1, "env:B": 1, "env:C": 1}).environment == {
        "A": "2",
        "B": None,
        "C": "3",
    }


def test_copies_come_from_the_image_that_has_the_state() -> None:
    chain = [ImageTree().distribution("foo", each) for each in ("1", "2", "3")]
    case = Case(*chain)
    assert [donor for donor, _ in case.plan({"pip:foo": 1}).copies] == [1]
    assert [donor for donor, _ in case.plan({"pip:foo": 0}, {"pip:foo": 2}).copies] == [0]


def test_a_file_takes_the_place_of_a_folder_and_back() -> None:
    good = ImageTree().package("a", "1", {"/opt/x/one": "1"}).file("/opt/x/__pycache__/n.c.pyc")
    case = Case(good, ImageTree().package("a", "2", {"/opt/x": Link("y")}))
    system = case.built({"apt:a": 1})
    assert system.content("/opt/x") == ("link", 0o777, 0, 0, "y")
    assert not [path for path in system.files if path.startswith("/opt/x/")]
    system.apply(case.plan({}, {"apt:a": 1}), case.chain)
    assert system.counting() == FileSystem(case.chain[0][0]).counting()


def test_states_that_cannot_be_in_one_file_system_are_refused() -> None:
    good = ImageTree().package("a", files={"/opt/x/one": "1"})
    case = Case(good, ImageTree().package("b", files={"/opt/x": Link("y")}))
    with pytest.raises(ClashError) as caught:
        case.plan({"apt:b": 1})
    assert (caught.value.path, caught.value.component, caught.value.other) == (
        "/opt/x",
        "apt:b",
        "apt:a",
    )
    assert case.built({"apt:a": 1, "apt:b": 1}).content("/opt/x") is not None


def test_a_state_from_an_index_is_taken_from_what_it_offers() -> None:
    case = Case(ImageTree().distribution("foo", "2"), ImageTree().distribution("foo", "3"))
    [axis] = case.axes
    contents = ImageTree().distribution("foo", "2.5", {"foo.py": "2.5", "new/x.py": ""}).contents()
    offers = {"pip:foo==2.5": contents}
    state = State("2.5", "sha256:offer", None, offer="pip:foo==2.5")
    grown = ComponentAxis(axis.component, (axis.states[0], state, axis.states[1]), (0, 2))
    there = plan(case.chain, [grown], {}, {"pip:foo": 1}, offers)
    system = FileSystem(case.chain[0][0])
    system.apply(there, case.chain, offers)
    assert there.copies == ()
    assert [offer for offer, _ in there.offered] == ["pip:foo==2.5"]
    wanted = expected(case.chain, [grown], {"pip:foo": 1}, offers)
    assert {path: system.content(path) for path in wanted} == wanted
    system.apply(plan(case.chain, [grown], {"pip:foo": 1}, {"pip:foo": 2}, offers), case.chain)
    assert system.counting() == FileSystem(case.chain[1][0]).counting()


def test_what_is_expected_is_all_that_any_axis_moves_and_no_noise() -> None:
    good = ImageTree().package("a", "1", {"/opt/a": "1", "/usr/share/doc/a": "1", "/opt/old": ""})
    case = Case(good, ImageTree().package("a", "2", {"/opt/a": "2", "/opt/new": ""}))
    entries = case.chain[1][0].entries
    assert expected(case.chain, case.axes, {"apt:a": 1}) == {
        "/opt/a": entries["/opt/a"].content,
        "/opt/new": entries["/opt/new"].content,
        "/opt/old": None,
    }
