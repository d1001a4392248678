"""Contents read from tar streams: whole, torn and lying ones."""

from __future__ import annotations

import hashlib
import io
import tarfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitsect.images.contents import tar_members
from bitsect.images.contents.errors import ArchiveError
from bitsect.images.contents.model import Contents
from bitsect.images.contents.reader import read_contents
from tests.images.contents.trees import ImageTree, elf_file

STATUS = "/var/lib/dpkg/status"


def read(data: bytes) -> Contents:
    return read_contents(io.BytesIO(data))


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as writer:
        for info, data in members:
            writer.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def file(name: str, data: bytes = b"") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, data


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def test_each_kind_of_member_has_an_entry() -> None:
    image = ImageTree().file("/opt/tool", "run", mode=0o4755).link("/opt/again", "tool")
    found = image.folder("/opt/empty", mode=0o700).special("/opt/pipe").contents().entries
    tool = found["/opt/tool"]
    assert (tool.kind, tool.mode, tool.size) == ("file", 0o4755, 3)
    assert tool.digest == "sha256:" + hashlib.sha256(b"run").hexdigest()
    assert (found["/opt/again"].kind, found["/opt/again"].target) == ("link", "tool")
    assert (found["/opt/empty"].kind, found["/opt/empty"].mode) == ("folder", 0o700)
    assert found["/opt/pipe"].kind == "special"


def test_a_large_library_is_read_like_a_small_one() -> None:
    data = elf_file(soname="libbig.so.1") + bytes(20 << 20)
    entry = (
        ImageTree().file("/usr/lib/libbig.so.1", data).contents().entries["/usr/lib/libbig.so.1"]
    )
    assert entry.elf is not None
    assert entry.elf.soname == "libbig.so.1"
    assert entry.digest == "sha256:" + hashlib.sha256(data).hexdigest()


def test_a_hard_link_is_the_file_that_it_leads_to() -> None:
    image = ImageTree().file("/usr/bin/perl", "perl").hard_link("/usr/bin/perl5", "/usr/bin/perl")
    entries = image.contents().entries
    assert entries["/usr/bin/perl5"] == entries["/usr/bin/perl"]


def test_texts_that_say_what_is_installed_are_kept_and_others_are_not() -> None:
    image = ImageTree().package("libfoo").file("/opt/readme", "no").file("/etc/os-release", "ID=x")
    texts = image.contents().texts
    assert set(texts) == {
        STATUS,
        "/var/lib/dpkg/info/libfoo.list",
        "/var/lib/dpkg/info/libfoo.md5sums",
        "/etc/os-release",
    }
    assert b"Package: libfoo" in texts[STATUS]


def test_a_text_is_kept_through_a_hard_link() -> None:
    image = ImageTree().file("/a/x.dist-info/METADATA", "Name: x")
    image.hard_link("/b/x.dist-info/METADATA", "/a/x.dist-info/METADATA")
    assert image.contents().texts["/b/x.dist-info/METADATA"] == b"Name: x"


def test_a_text_that_is_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitsect.images.contents.reader.LARGEST_TEXT", 5)
    found = ImageTree().file("/etc/os-release", "ID=long").contents()
    assert found.texts == {}
    assert [path for path, _ in found.skipped] == ["/etc/os-release"]
    assert found.entries["/etc/os-release"].size == 7


def test_what_an_engine_puts_into_every_container_is_left_out() -> None:
    image = ImageTree().file("/.dockerenv").file("/etc/hosts").file("/etc/hostname")
    image.link("/etc/mtab", "/proc/mounts").file("/etc/resolv.conf")
    image.file("/proc/cpuinfo").file("/sys/power").special("/dev/console").file("/etc/fstab")
    assert set(image.contents().entries) == {"/dev", "/etc", "/etc/fstab", "/proc", "/sys"}


def test_of_two_members_with_one_path_the_last_one_counts() -> None:
    found = read(archive(file("etc/os-release", b"old"), link("./etc//os-release", "new")))
    assert found.entries["/etc/os-release"].target == "new"
    assert found.texts == {}


@pytest.mark.parametrize(
    "odd",
    [
        file("../../etc/shadow", b"x"),
        file("a/../../b", b"x"),
        file("line\nbreak"),
        file("bell\x07"),
        file("/".join("d" * 300)),
        link("nowhere", "is/not/there", tarfile.LNKTYPE),
        link("outside", "../../etc/shadow", tarfile.LNKTYPE),
        link("not-text", "bad\udcff"),
        file("not-\udcff-text"),
    ],
)
def test_odd_members_are_named_and_left_out(odd: tuple[tarfile.TarInfo, bytes]) -> None:
    found = read(archive(odd, file("fine")))
    assert set(found.entries) == {"/fine"}
    [(name, reason)] = found.skipped
    assert name.isprintable()
    assert reason


def test_a_file_with_holes_is_named_and_left_out() -> None:
    info, data = file("sparse", b"0" * 512)
    info.pax_headers = {"GNU.sparse.size": "9" * 18, "GNU.sparse.numblocks": "0"}
    found = read(archive((info, data), file("fine")))
    assert set(found.entries) == {"/fine"}
    assert found.skipped == (("sparse", "a file with holes"),)


def test_an_empty_archive_has_no_entries() -> None:
    assert read(archive()) == Contents({}, {})


@pytest.mark.parametrize("at", [0, 100, 512, 700, 1024, 1536, 2000])
def test_an_archive_that_ends_too_early_is_refused(at: int) -> None:
    whole = archive(file("a", b"x" * 600), file("b", b"y" * 10))
    with pytest.raises(ArchiveError):
        read(whole[:at])


def test_a_damaged_header_is_not_taken_for_the_end() -> None:
    whole = archive(file("a", b"x"), file("b", b"y"))
    with pytest.raises(ArchiveError, match="checksum"):
        read(whole[:1024] + b"?" + whole[1025:])


def test_a_header_without_end_is_refused() -> None:
    info, data = file("x")
    info.pax_headers = {"comment": "c" * (tar_members.LONGEST_EXTENSION + 1)}
    with pytest.raises(ArchiveError, match="a header of"):
        read(archive((info, data)))


@pytest.mark.parametrize("size", ["-512", "1e9", "9" * 30, "9" * 5000])
def test_a_size_that_lies_is_refused(size: str) -> None:
    info, data = file("x", b"data")
    whole = archive((info, data), file("y"))
    header = tarfile.TarInfo("pax")
    header.type = tarfile.XHDTYPE
    record = f" size={size}\n"
    length = len(record) + len(str(len(record) + 3))
    body = f"{length}{record}".encode()
    header.size = len(body)
    with pytest.raises(ArchiveError):
        read(header.tobuf() + body.ljust(-(-len(body) // 512) * 512, b"\0") + whole)


def test_more_members_than_any_image_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitsect.images.contents.reader.MOST_MEMBERS", 2)
    with pytest.raises(ArchiveError, match="more than 2"):
        read(archive(file("a"), file("b"), file("c")))


def test_times_and_owners_beyond_all_bounds_are_kept_within() -> None:
    info, data = file("x")
    info.pax_headers = {"mtime": "1e300", "uid": "9" * 25}
    entry = read(archive((info, data))).entries["/x"]
    assert entry.mtime == 2**53 - 1
    assert entry.uid == 2**31 - 1


@given(st.binary(max_size=2000), st.integers(0, 3000))
def test_no_stream_of_bytes_breaks_the_reader(garbage: bytes, at: int) -> None:
    whole = ImageTree().package("libfoo").file("/usr/lib/libx.so", elf_file()).tar()
    with suppress(ArchiveError):
        assert isinstance(read(whole[:at] + garbage + whole[at + len(garbage) :]), Contents)
