"""Images made by hand: packages, alternatives, distributions and libraries, as tar streams."""

from __future__ import annotations

import base64
import hashlib
import io
import struct
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from bitsect.images.contents.model import Contents
from bitsect.images.contents.reader import read_contents

SITE = "/usr/local/lib/python3.12/site-packages"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


class Link(str):
    """In place of a file's content: a link with this target."""


class ImageTree:
    """A file system, as an engine would export it."""

    def __init__(self) -> None:
        self._members: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
        self._paragraphs: dict[str, str] = {}

    def copy(self) -> ImageTree:
        """Another one that begins with the same files."""
        other = ImageTree()
        other._members = dict(self._members)
        other._paragraphs = dict(self._paragraphs)
        return other

    def file(self, path: str, content: bytes | str = b"", mode: int = 0o644) -> Self:
        data = content.encode() if isinstance(content, str) else content
        return self._add(path, tarfile.REGTYPE, data, mode=mode)

    def link(self, path: str, target: str) -> Self:
        return self._add(path, tarfile.SYMTYPE, linkname=target)

    def hard_link(self, path: str, target: str) -> Self:
        return self._add(path, tarfile.LNKTYPE, linkname=target.lstrip("/"))

    def folder(self, path: str, mode: int = 0o755) -> Self:
        return self._add(path, tarfile.DIRTYPE, mode=mode)

    def special(self, path: str) -> Self:
        return self._add(path, tarfile.FIFOTYPE)

    def put(self, path: str, content: bytes | str) -> Self:
        """A file, or a link where the content is one."""
        return self.link(path, content) if isinstance(content, Link) else self.file(path, content)

    def remove(self, path: str) -> Self:
        """Takes a path and all below it away."""
        for each in list(self._members):
            if each == path or each.startswith(f"{path}/"):
                del self._members[each]
        return self

    def drop_clashes(self) -> Self:
        """Takes away what lies below a file, as no file system could hold it."""
        for path, (info, _) in list(self._members.items()):
            if not info.isdir():
                for each in list(self._members):
                    if each.startswith(f"{path}/"):
                        del self._members[each]
        return self

    def package(
        self,
        name: str,
        version: str = "1.0",
        files: Mapping[str, bytes | str] | None = None,
        architecture: str = "amd64",
        depends: str = "",
    ) -> Self:
        """An installed Debian package with its entries in the database."""
        files = {f"/usr/share/doc/{name}/copyright": "free"} if files is None else files
        for path, content in files.items():
            self.put(path, content)
        listed = sorted({folder for path in files for folder in _folders(path)} | set(files))
        sums = [
            f"{hashlib.md5(_bytes(content)).hexdigest()}  {path.lstrip('/')}\n"
            for path, content in sorted(files.items())
            if not isinstance(content, Link)
        ]
        self.file(f"/var/lib/dpkg/info/{name}.list", "\n".join(["/.", *listed]) + "\n")
        self.file(f"/var/lib/dpkg/info/{name}.md5sums", "".join(sums))
        fields = {
            "Package": name,
            "Status": "install ok installed",
            "Architecture": architecture,
            "Version": version,
            "Depends": depends,
        }
        lines = [f"{field}: {value}" for field, value in fields.items() if value]
        self._paragraphs[f"{name}:{architecture}"] = "\n".join(lines)
        return self

    def alternative(
        self,
        name: str,
        general: str,
        choices: Sequence[str],
        followers: Mapping[str, str] | None = None,
    ) -> Self:
        """A group of update-alternatives; the first choice is the one that is made."""
        pairs = list((followers or {}).items())
        lines = ["auto", general, *(line for pair in pairs for line in pair), ""]
        for choice in choices:
            lines += [choice, "10", *(f"{choice}-{follower}" for follower, _ in pairs)]
        self.file(f"/var/lib/dpkg/alternatives/{name}", "\n".join([*lines, "", ""]))
        self.link(f"/etc/alternatives/{name}", choices[0]).link(
            general, f"/etc/alternatives/{name}"
        )
        for follower, path in pairs:
            self.link(f"/etc/alternatives/{follower}", f"{choices[0]}-{follower}")
            self.link(path, f"/etc/alternatives/{follower}")
        return self

    def distribution(
        self,
        name: str,
        version: str = "1.0",
        files: Mapping[str, bytes | str] | None = None,
        site: str = SITE,
        requires: Sequence[str] = (),
        direct_url: str | None = None,
        record: bool = True,
    ) -> Self:
        """An installed Python distribution; `files` are relative to the site folder."""
        module = name.replace("-", "_")
        info = f"{module}-{version}.dist-info"
        metadata = [f"Name: {name}", f"Version: {version}"]
        metadata += [f"Requires-Dist: {each}" for each in requires]
        content: dict[str, bytes | str] = {
            **({f"{module}.py": f"version = '{version}'"} if files is None else files),
            f"{info}/METADATA": "\n".join(["Metadata-Version: 2.1", *metadata, "", "About it."]),
            f"{info}/INSTALLER": "pip\n",
        }
        if direct_url is not None:
            content[f"{info}/direct_url.json"] = direct_url
        rows = [_row(path, _bytes(each)) for path, each in content.items()]
        if record:
            content[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
        for path, each in content.items():
            self.put(f"{site}/{path}", each)
        return self

    def tar(self) -> bytes:
        """The archive, with the folders that lead to its members."""
        whole = self.copy()
        if whole._paragraphs:
            text = "\n\n".join(whole._paragraphs[key] for key in sorted(whole._paragraphs))
            whole.file("/var/lib/dpkg/status", f"{text}\n\n")
        for path in list(whole._members):
            for folder in _folders(path):
                if folder not in whole._members:
                    whole.folder(folder)
        stream = io.BytesIO()
        # Hard links come after what they lead to, everything else in order.
        order = sorted(whole._members, key=lambda each: (whole._members[each][0].islnk(), each))
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for path in order:
                info, data = whole._members[path]
                archive.addfile(info, io.BytesIO(data))
        return stream.getvalue()

    def contents(self) -> Contents:
        return read_contents(io.BytesIO(self.tar()))

    def _add(
        self, path: str, kind: bytes, data: bytes = b"", mode: int = 0o777, linkname: str = ""
    ) -> Self:
        info = tarfile.TarInfo(path.lstrip("/"))
        info.type, info.mode, info.linkname = kind, mode, linkname
        info.size, info.mtime = len(data), 1_700_000_000
        self._members[path] = (info, data)
        return self


def elf_file(
    soname: str | None = None,
    needed: Iterable[str] = (),
    provides: Iterable[str] = (),
    requires: Mapping[str, Sequence[str]] | None = None,
    build_id: bytes = b"",
    search: str | None = None,
    kind: int = 3,
) -> bytes:
    """A shared library as far as the loader looks before it maps one: 64 bits, no code."""
    names = _Names()
    tags = [(1, names.add(each)) for each in needed]
    tags += [(14, names.add(soname))] if soname is not None else []
    tags += [(29, names.add(search))] if search is not None else []
    defined = _defined(names, soname or "base", list(provides))
    wanted = _wanted(names, requires or {})
    note = struct.pack("<III4s", 4, len(build_id), 3, b"GNU\0") + build_id if build_id else b""
    start = 64 + 3 * 56
    parts = [note, names.table, defined, wanted]
    at = [start + sum(map(len, parts[:index])) for index in range(len(parts) + 1)]
    tags += [(5, at[1])]
    tags += [(0x6FFFFFFC, at[2])] if defined else []
    tags += [(0x6FFFFFFE, at[3])] if wanted else []
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in [*tags, (0, 0)])
    total = at[4] + len(dynamic)
    head = struct.pack("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, kind, 62, 1, 0, 64, 0, 0, 64,
                       56, 3, 64, 0, 0)  # fmt: skip
    segments = [(1, 0, total), (2, at[4], len(dynamic)), (4, at[0], len(note))]
    table = b"".join(
        struct.pack("<IIQQQQQQ", segment, 4, offset, offset, offset, length, length, 8)
        for segment, offset, length in segments
    )
    return head + table + b"".join(parts) + dynamic


class _Names:
    """A string table."""

    def __init__(self) -> None:
        self.table = b"\0"

    def add(self, name: str) -> int:
        at = len(self.table)
        self.table += name.encode() + b"\0"
        return at


def _defined(names: _Names, base: str, versions: list[str]) -> bytes:
    """Versions of symbols that are provided, the file's own name first as linkers write it."""
    if not versions:
        return b""
    records = b""
    for index, version in enumerate([base, *versions], start=1):
        step = 28 if index <= len(versions) else 0
        records += struct.pack("<HHHHIII", 1, int(index == 1), index, 1, 0, 20, step)
        records += struct.pack("<II", names.add(version), 0)
    return records


def _wanted(names: _Names, requires: Mapping[str, Sequence[str]]) -> bytes:
    """Versions of symbols that are asked for; one that begins with ``?`` may be missing."""
    records = b""
    for left, (soname, versions) in enumerate(requires.items(), start=1 - len(requires)):
        step = 16 + 16 * len(versions) if left else 0
        records += struct.pack("<HHIII", 1, len(versions), names.add(soname), 16, step)
        for index, version in enumerate(versions, start=1):
            step = 16 if index < len(versions) else 0
            weak = 2 if version.startswith("?") else 0
            records += struct.pack("<IHHII", 0, weak, 2, names.add(version.lstrip("?")), step)
    return records


def _folders(path: str) -> list[str]:
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: index + 1]) for index in range(len(parts))]


def _row(path: str, content: bytes) -> str:
    value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={value},{len(content)}"


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content
