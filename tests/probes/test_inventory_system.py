"""What the inventory reads of the machine, from files made for it: libraries, system, GPUs."""

from __future__ import annotations

import ast
import ctypes
import hashlib
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from bitsect.probes import inventory
from bitsect.probes.inventory import Notes, Places

SOURCE = Path(inventory.__file__)


@pytest.fixture
def notes() -> Notes:
    return Notes()


# ---- ELF -----------------------------------------------------------------------------------


def note(name: bytes, kind: int, data: bytes, order: str = "<") -> bytes:
    padded = name + b"\0" * (-len(name) % 4)
    head = struct.pack(order + "III", len(name), len(data), kind)
    return head + padded + data + b"\0" * (-len(data) % 4)


def elf64(notes_segment: bytes, soname: bytes = b"libmine.so.1") -> bytes:
    """An ELF file of three segments: everything loaded, the dynamic section, the notes."""
    table, strings = 64 + 3 * 56, b"\0" + soname + b"\0"
    dynamic = struct.pack("<qQqQqQ", 14, 1, 5, 0x1000 + table, 0, 0)
    at_dynamic = table + len(strings)
    at_notes = at_dynamic + len(dynamic)
    total = at_notes + len(notes_segment)
    segments = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, offset, 0x1000 + offset, 0, size, size, 8)
        for kind, offset, size in (
            (1, 0, total), (2, at_dynamic, len(dynamic)), (4, at_notes, len(notes_segment)),
        )
    )  # fmt: skip
    ident = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    return ident + header + segments + strings + dynamic + notes_segment


def test_build_id_and_soname_are_found(tmp_path: Path, notes: Notes) -> None:
    path = tmp_path / "libmine.so.1.2"
    path.write_bytes(elf64(note(b"Other\0", 9, b"abc") + note(b"GNU\0", 3, b"\xde\xad\xbe\xef")))
    entry = inventory.describe_binary(str(path), Places(str(tmp_path)), notes)
    assert entry == {
        "path": "<prefix>/libmine.so.1.2", "size": path.stat().st_size,
        "build_id": "deadbeef", "soname": "libmine.so.1",
    }  # fmt: skip


def test_a_library_without_a_build_id_is_known_by_its_bytes(tmp_path: Path, notes: Notes) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(elf64(note(b"Other\0", 9, b"abc")))
    entry = inventory.describe_binary(str(path), Places("/x"), notes)
    assert entry is not None
    assert entry["build_id"] is None
    assert entry["sha256"] == "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def test_big_endian_notes_are_read() -> None:
    assert inventory.build_id_of_notes(note(b"GNU\0", 3, b"\x01\x02", ">"), ">") == "0102"
    assert inventory.build_id_of_notes(b"\1\2\3") is None


def test_what_is_no_library_is_left_out_and_what_is_cut_is_named(
    tmp_path: Path, notes: Notes
) -> None:
    text, cut = tmp_path / "text", tmp_path / "cut.so"
    text.write_text("hello")
    cut.write_bytes(elf64(b"")[:100])
    assert inventory.describe_binary(str(text), Places("/x"), notes) is None
    entry = inventory.describe_binary(str(cut), Places("/x"), notes)
    assert entry == {"path": str(cut), "size": None, "build_id": None}
    gone = inventory.describe_binary(str(tmp_path / "gone.so"), Places("/x"), notes)
    assert gone is not None
    assert [p["reason"] for p in notes.problems] == ["error", "FileNotFoundError"]


def test_mapped_files_are_read_from_the_kernels_table() -> None:
    maps = (
        "7f00-7f01 r-xp 00000000 fd:00 12   /usr/lib/libb with space.so\n"
        "7f01-7f02 r--p 00001000 fd:00 12   /usr/lib/libb with space.so\n"
        "7f02-7f03 rw-p 00000000 00:00 0    [heap]\n"
        "7f03-7f04 rw-p 00000000 00:00 0\n"
        "7f04-7f05 rw-s 00000000 00:05 9    /dev/nvidiactl\n"
        "7f05-7f06 r-xp 00000000 fd:00 13   /usr/lib/liba.so (deleted)\n"
    )
    assert inventory.mapped_files(maps) == [
        "/usr/lib/liba.so (deleted)",
        "/usr/lib/libb with space.so",
    ]


# ---- system, controls, hardware --------------------------------------------------------------


DPKG = """Package: libblas3
Status: install ok installed
Architecture: amd64
Version: 3.11.0-2
Description: text
 Version: not this

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: libacl1
Status: hold ok installed
Architecture: amd64
Version: 2.3
"""


def test_packages_of_the_system_are_read_from_its_own_file(tmp_path: Path, notes: Notes) -> None:
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(DPKG)
    (tmp_path / "var/lib/dpkg/status.d").mkdir()
    (tmp_path / "var/lib/dpkg/status.d/base").write_text("Package: base\nVersion: 12\n")
    found = inventory.os_packages(notes, str(tmp_path))
    assert [(p["name"], p["version"]) for p in found] == [
        ("base", "12"), ("libacl1", "2.3"), ("libblas3", "3.11.0-2"),
    ]  # fmt: skip
    assert found[1] == {
        "manager": "dpkg", "name": "libacl1", "version": "2.3", "architecture": "amd64",
    }  # fmt: skip


def test_a_system_without_packages_has_none(tmp_path: Path, notes: Notes) -> None:
    assert inventory.os_packages(notes, str(tmp_path)) == []
    assert notes.problems == []


RPM = """#!/bin/sh
printf 'openblas\\t0.3.26-1\\tx86_64\\nbad line\\n'
"""


def test_packages_of_rpm_are_told_by_rpm_and_missed_without_it(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a system with rpm's database, and no rpm
    (tmp_path / "var/lib/rpm").mkdir(parents=True)
    (tmp_path / "var/lib/rpm/rpmdb.sqlite").write_bytes(b"")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert inventory.os_packages(notes, str(tmp_path)) == []
    assert notes.problems[0]["what"].startswith("rpm -qa")

    # When there is one
    (tmp_path / "rpm").write_text(RPM)
    (tmp_path / "rpm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    # Then it is believed
    assert inventory.os_packages(notes, str(tmp_path)) == [
        {"name": "openblas", "version": "0.3.26-1", "architecture": "x86_64", "manager": "rpm"}
    ]


APK = """P:musl
V:1.2.5-r0
A:x86_64
F:lib
R:ld-musl-x86_64.so.1
F:usr/lib
R:libc.so

P:openblas
V:0.3.28-r0
A:x86_64
F:usr/lib
R:libopenblas.so.3
"""


def test_packages_of_apk_are_read_with_their_files(tmp_path: Path, notes: Notes) -> None:
    (tmp_path / "lib/apk/db").mkdir(parents=True)
    (tmp_path / "lib/apk/db/installed").write_text(APK)
    found = inventory.os_packages(notes, str(tmp_path))
    assert found == [
        {"manager": "apk", "name": "musl", "version": "1.2.5-r0", "architecture": "x86_64"},
        {"manager": "apk", "name": "openblas", "version": "0.3.28-r0", "architecture": "x86_64"},
    ]
    owned = inventory.apk_owners(
        ["/usr/lib/libopenblas.so.3", "/usr/lib/mine.so"], notes, str(tmp_path)
    )
    assert owned == {"/usr/lib/libopenblas.so.3": "apk:openblas"}


def test_alternatives_are_links(tmp_path: Path, notes: Notes) -> None:
    (tmp_path / "libblas.so.3").symlink_to("/usr/lib/openblas/libblas.so.3")
    (tmp_path / "README").write_text("")
    chosen = inventory.alternatives(notes, str(tmp_path))
    assert chosen == {"libblas.so.3": "/usr/lib/openblas/libblas.so.3"}
    assert inventory.alternatives(notes, str(tmp_path / "none")) == {}


def test_compilers_are_found_but_not_run(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "gcc"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o755)
    bundled = tmp_path / "site/triton/backends/nvidia/bin/ptxas"
    bundled.parent.mkdir(parents=True)
    bundled.write_bytes(elf64(note(b"GNU\0", 3, b"\x11")))
    bundled.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    found = inventory.compilers([str(tmp_path / "site")], Places(str(tmp_path)), notes)
    assert [(c["name"], c["path"], c["build_id"]) for c in found] == [
        ("gcc", "<prefix>/bin/gcc", None),
        ("ptxas", "<prefix>/site/triton/backends/nvidia/bin/ptxas", "11"),
    ]
    assert found[0]["sha256"].startswith("sha256:")
    assert not (tmp_path / "ran").exists()


def test_variables_that_numerics_may_depend_on() -> None:
    environment = {
        "OMP_NUM_THREADS": "2", "NCCL_SOCKET_IFNAME": "eth0", "HOME": "/root",
        "LD_LIBRARY_PATH": "/env/lib:/usr/lib", "NVIDIA_API_KEY": "hunter2",
        "CUDA_VISIBLE_DEVICES": "3",
    }  # fmt: skip
    found = inventory.variables(environment, Places("/env"))
    assert found["OMP_NUM_THREADS"] == "2"
    assert found["NCCL_SOCKET_IFNAME"] == "eth0"
    assert found["LD_LIBRARY_PATH"] == "<prefix>/lib:/usr/lib"
    assert found["MKL_CBWR"] is None
    assert found["NVIDIA_API_KEY"] == "<withheld>"
    assert "HOME" not in found
    # Which of several equal devices a run was given is no property of the stack.
    assert "CUDA_VISIBLE_DEVICES" not in found
    assert set(inventory.KNOWN_CONTROLS) <= set(found)
    assert list(found) == sorted(found)


@pytest.mark.parametrize("name", ["hf_token", "Api_Key", "DB_PASS", "PASS", "MYSQL_PWD"])
def test_a_name_tells_a_secret(name: str) -> None:
    assert inventory.without_secrets(name, "hunter2") == "<withheld>"


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "NCCL_BYPASS", "OMP_NUM_THREADS"])
def test_other_names_do_not(name: str) -> None:
    assert inventory.without_secrets(name, "8") == "8"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("https://bob:hunter2pw@host/simple", "https://<withheld>@host/simple"),
        ("postgres://u:p@w9@h/a@b", "postgres://<withheld>@h/a@b"),
        ("http://t0ken@one http://u:pw@two", "http://<withheld>@one http://<withheld>@two"),
        ("https://host/a@b", "https://host/a@b"),
        ("user@host", "user@host"),
    ],
)
def test_logins_of_urls_are_withheld(value: str, told: str) -> None:
    assert inventory.without_secrets("PIP_INDEX_URL", value) == told


def test_a_flag_that_a_torch_does_not_have_is_null() -> None:
    class Flags:
        class backends:
            allowed = True

        @staticmethod
        def threads() -> int:
            return 3

        @staticmethod
        def failing() -> int:
            raise RuntimeError

        precision = 1.5

    assert inventory.evaluate(Flags, "backends.allowed") is True
    assert inventory.evaluate(Flags, "threads()") == 3
    assert inventory.evaluate(Flags, "backends.absent.deep") is None
    assert inventory.evaluate(Flags, "failing()") is None
    assert inventory.evaluate(Flags, "precision") == "1.5"


def test_processors_of_both_families_are_told() -> None:
    x86 = inventory.cpu("model name\t: A CPU\nflags\t\t: sse avx avx\nmodel\t\t: 17\nflags\t: no\n")
    assert (x86["model_name"], x86["flags"], x86["model"]) == ("A CPU", ["avx", "sse"], "17")
    arm = inventory.cpu("Features\t: sve asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n")
    assert (arm["vendor"], arm["flags"], arm["model"]) == ("0x41", ["asimd", "sve"], "0xd4f")
    assert inventory.cpu(None)["flags"] is None
    assert inventory.cpu("")["logical_cpus"] == os.cpu_count()


class FakeNvml:
    """One H100 with ECC on, and no MIG function; counts its starts and ends."""

    def __init__(self, starts: bool = True) -> None:
        self.starts = starts
        self.ended = 0

    def nvmlInit_v2(self) -> int:
        return 0 if self.starts else 9

    def nvmlShutdown(self) -> int:
        self.ended += 1
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        assert index.value == 0
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, _: Any, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = 9, 0
        return 0

    def nvmlDeviceGetEccMode(self, _: Any, current: Any, pending: Any) -> int:
        current._obj.value, pending._obj.value = 1, 0
        return 0

    def nvmlDeviceGetName(self, _: Any, buffer: Any, size: Any) -> int:
        assert size.value == ctypes.sizeof(buffer)
        buffer.value = b"NVIDIA H100"
        return 0

    def nvmlDeviceGetVbiosVersion(self, *_: Any) -> int:
        return 3

    def nvmlDeviceGetUUID(self, _: Any, buffer: Any, size: Any) -> int:
        buffer.value = b"GPU-1234"
        return 0

    def nvmlSystemGetDriverVersion(self, buffer: Any, size: Any) -> int:
        buffer.value = b"580.10"
        return 0


def test_gpus_are_asked_for_what_is_theirs_and_their_serials_stay_apart(notes: Notes) -> None:
    library = FakeNvml()
    devices, driver, uuids = inventory.gpus(lambda name: library, notes)
    (device,) = devices
    assert (device["name"], device["compute_capability"]) == ("NVIDIA H100", "9.0")
    assert (device["vbios"], device["mig"], device["ecc"]) == (None, None, True)
    assert (driver, uuids) == ("580.10", ["GPU-1234"])
    assert library.ended == 1


def test_no_library_is_no_gpu_and_one_that_does_not_start_is_named(notes: Notes) -> None:
    def absent(name: str) -> Any:
        raise OSError(name)

    assert inventory.gpus(absent, notes) == ([], None, [])
    assert notes.problems == []
    assert inventory.gpus(lambda name: FakeNvml(starts=False), notes) == ([], None, [])
    assert notes.problems[0]["what"] == "libnvidia-ml.so.1"


def test_files_that_cannot_be_read_are_named(tmp_path: Path, notes: Notes) -> None:
    assert inventory.read_bytes(str(tmp_path / "absent"), notes, required=False) is None
    assert notes.problems == []
    assert inventory.read_bytes(str(tmp_path), notes, required=False) is None
    assert inventory.read_bytes(str(tmp_path / "absent"), notes) is None
    assert [p["reason"] for p in notes.problems] == ["IsADirectoryError", "FileNotFoundError"]


def test_without_proc_the_rest_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = inventory.read_bytes

    def unmounted(path: str, notes: Notes, required: bool = True) -> bytes | None:
        return genuine("/absent" + path if path.startswith("/proc/") else path, notes, required)

    monkeypatch.setattr(inventory, "read_bytes", unmounted)
    report = inventory.take()
    assert report["software"]["libraries"] is None
    assert report["hardware"]["cpu"]["flags"] is None
    named = {problem["what"] for problem in report["evidence"]["problems"]}
    assert {"/absent/proc/self/maps", "/absent/proc/cpuinfo"} <= named


def test_paths_inside_the_environment_do_not_say_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    places = Places(str(tmp_path / "link"))
    assert places.short(str(tmp_path / "real" / "lib")) == "<prefix>/lib"
    assert places.short(str(tmp_path / "link" / "lib")) == "<prefix>/lib"
    assert places.short(str(tmp_path / "really")) == str(tmp_path / "really")
    assert Places("/usr").short("/usr/lib/libm.so.6") == "/usr/lib/libm.so.6"


def test_the_file_is_one_that_python_3_6_can_read() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 6))
    modules = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    # Beside the standard library, only what the warm-up is about.
    tops = {module.partition(".")[0] for module in modules}
    assert tops - {"numpy", "torch"} <= set(sys.stdlib_module_names)
    assert "__future__" not in modules
