"""Debian's package database: packages, their files, alternatives, and the status file."""

from __future__ import annotations

from bitsect.images.contents.alternatives import chosen_alternatives
from bitsect.images.contents.dpkg import Package, installed_packages, status_with
from bitsect.images.contents.tree import Tree
from tests.images.contents.trees import ImageTree, Link


def packages_of(image: ImageTree) -> dict[str, Package]:
    contents = image.contents()
    found = installed_packages(contents, Tree(contents.entries))
    return {each.component: each for each in found}


def test_a_package_has_its_version_its_needs_and_its_files() -> None:
    image = ImageTree().package(
        "libfoo-dev",
        "1.2-3",
        {"/usr/include/foo.h": "x"},
        depends="libfoo1 (= 1.2-3), libc6:any (>= 2.38), mawk | gawk (= 1), libc6",
    )
    package = packages_of(image)["apt:libfoo-dev"]
    assert (package.version, package.architecture) == ("1.2-3", "amd64")
    assert package.entry == "libfoo-dev:amd64"
    assert package.depends == ("libfoo1", "libc6", "mawk", "gawk")
    assert package.exact == ("libfoo1",)
    assert "/usr/include/foo.h" in package.paths
    assert "/var/lib/dpkg/info/libfoo-dev.md5sums" in package.paths


def test_a_list_may_name_folders_by_the_links_that_lead_to_them() -> None:
    image = ImageTree().link("/lib", "usr/lib").package("libfoo1", files={})
    image.file("/var/lib/dpkg/info/libfoo1.list", "/.\n/lib\n/lib/libfoo.so.1\n")
    image.file("/usr/lib/libfoo.so.1")
    assert "/usr/lib/libfoo.so.1" in packages_of(image)["apt:libfoo1"].paths


def test_a_diverted_file_is_where_the_diversion_put_it() -> None:
    image = ImageTree().package("dash", files={"/bin/sh": "dash"})
    image.package("bash", files={"/bin/sh": "bash"})
    image.file("/var/lib/dpkg/diversions", "/bin/sh\n/bin/sh.distrib\ndash\n")
    found = packages_of(image)
    assert "/bin/sh" in found["apt:dash"].paths
    assert "/bin/sh.distrib" in found["apt:bash"].paths
    assert "/bin/sh" not in found["apt:bash"].paths


def test_a_package_of_another_architecture_says_so() -> None:
    image = ImageTree().package("libc6").package("bash").package("tzdata", architecture="all")
    image.package("libfoo1", architecture="i386", files={"/usr/lib/i386-linux-gnu/libfoo.so": ""})
    assert set(packages_of(image)) == {
        "apt:bash",
        "apt:libc6",
        "apt:libfoo1:i386",
        "apt:tzdata",
    }


def test_of_a_removed_package_only_the_configuration_is_left_and_it_is_none() -> None:
    image = ImageTree().package("bash")
    status = image.contents().texts["/var/lib/dpkg/status"].decode()
    text = f"{status}Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\n\n"
    other = ImageTree().file("/var/lib/dpkg/status", text)
    assert set(packages_of(other)) == {"apt:bash"}


def test_an_image_without_a_package_manager_has_a_file_for_each_package() -> None:
    image = ImageTree().file("/usr/lib/libz.so.1", "z")
    image.file(
        "/var/lib/dpkg/status.d/zlib1g", "Package: zlib1g\nVersion: 1.3\nArchitecture: amd64"
    )
    image.file("/var/lib/dpkg/status.d/zlib1g.md5sums", "0123  usr/lib/libz.so.1\n")
    package = packages_of(image)["apt:zlib1g"]
    assert package.entry is None
    assert "/usr/lib/libz.so.1" in package.paths
    assert "/var/lib/dpkg/status.d/zlib1g" in package.paths


def test_equal_builds_have_equal_checksums() -> None:
    first = packages_of(ImageTree().package("a", files={"/opt/a": "1"}))["apt:a"]
    edited = packages_of(ImageTree().package("a", files={"/opt/a": "1"}).file("/opt/a", "2"))[
        "apt:a"
    ]
    rebuilt = packages_of(ImageTree().package("a", files={"/opt/a": "2"}))["apt:a"]
    assert first.checksums == edited.checksums != rebuilt.checksums


def test_an_alternative_has_all_links_that_are_switched_with_it() -> None:
    image = ImageTree().package("mawk", files={"/usr/bin/mawk": "", "/usr/bin/mawk-awk.1": ""})
    image.alternative("awk", "/usr/bin/awk", ["/usr/bin/mawk"], {"awk.1": "/usr/share/man/awk.1"})
    contents = image.contents()
    [awk] = chosen_alternatives(contents, Tree(contents.entries))
    assert awk.target == "/usr/bin/mawk"
    assert set(awk.paths) == {
        "/etc/alternatives/awk",
        "/etc/alternatives/awk.1",
        "/usr/bin/awk",
        "/usr/share/man/awk.1",
        "/var/lib/dpkg/alternatives/awk",
    }


def test_a_general_name_that_is_no_such_link_is_left_alone() -> None:
    image = ImageTree().alternative("awk", "/usr/bin/awk", ["/usr/bin/mawk"])
    image.put("/usr/bin/awk", Link("/opt/own/awk"))
    contents = image.contents()
    [awk] = chosen_alternatives(contents, Tree(contents.entries))
    assert "/usr/bin/awk" not in awk.paths


def test_records_of_alternatives_that_make_no_sense_are_survived() -> None:
    image = ImageTree().link("/etc/alternatives/x", "/opt/x")
    for text in ("", "auto", "auto\n/usr/bin/x\nfollower", "\n\n\n"):
        contents = image.file("/var/lib/dpkg/alternatives/x", text).contents()
        [found] = chosen_alternatives(contents, Tree(contents.entries))
        assert "/etc/alternatives/x" in found.paths


GOOD = (
    b"Package: a\nArchitecture: amd64\nVersion: 1\n\nPackage: b\nArchitecture: all\nVersion: 1\n\n"
)
BAD = (
    b"Package: b\nArchitecture: all\nVersion: 2\nDescription: b\n .\n more\n\n\n"
    b"Package: c\nVersion: 2\n"
)


def test_paragraphs_are_replaced_removed_and_added_as_the_donor_has_them() -> None:
    assert status_with(GOOD, BAD, ["a:amd64", "b:all", "c:", "d:all"]) == (
        b"Package: b\nArchitecture: all\nVersion: 2\nDescription: b\n .\n more\n\n"
        b"Package: c\nVersion: 2\n\n"
    )


def test_other_paragraphs_stay_as_they_are() -> None:
    assert status_with(GOOD, BAD, []) == GOOD
    assert status_with(GOOD, BAD, ["c:"]) == GOOD + b"Package: c\nVersion: 2\n\n"
    assert status_with(b"", b"", ["a:amd64"]) == b""
