"""Which paths can never change a bit."""

from __future__ import annotations

import pytest

from bitsect.images.contents.noise import bytecode_source, is_noise, noise_reason


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/usr/share/doc/libc6/copyright", "documentation"),
        ("/usr/local/share/man/man1/tool.1", "documentation"),
        ("/usr/share/locale/de/LC_MESSAGES/x.mo", "translations"),
        ("/opt/app/__pycache__/m.cpython-312.pyc", "caches"),
        ("/root/.triton/cache/kernel.cubin", "caches"),
        ("/etc/ld.so.cache", "caches"),
        ("/var/log/dpkg.log", "logs and scratch"),
        ("/var/lib/dpkg/info/libc6.list", "records of package managers"),
        ("/var/lib/dpkg/status-old", "records of package managers"),
        ("/usr/lib/python3/dist-packages/x-1.dist-info/RECORD", "records of package managers"),
        ("/opt/megatron/.git/index", "records of version control"),
        ("/opt/megatron/sub/.git", "records of version control"),
        ("/etc/machine-id", "accounts and names of the machine"),
        ("/root/.python_history", "what was typed"),
    ],
)
def test_noise_has_a_reason(path: str, reason: str) -> None:
    assert noise_reason(path) == reason
    assert is_noise(path)


@pytest.mark.parametrize(
    "path",
    [
        "/usr/lib/x86_64-linux-gnu/libblas.so.3",
        "/etc/alternatives/libblas.so.3-x86_64-linux-gnu",
        "/etc/ld.so.conf.d/cuda.conf",
        "/etc/environment",
        "/usr/lib/locale/C.utf8/LC_CTYPE",
        "/usr/lib/python3/dist-packages/x-1.dist-info/METADATA",
        "/usr/lib/python3/dist-packages/x.pyc",
        "/usr/lib/python3/dist-packages/x/share/doc/data.bin",
        "/opt/app/.gitignore",
        "/opt/tmp/kernel.so",
        "/usr/share/zoneinfo/UTC",
    ],
)
def test_what_a_program_may_compute_with_is_no_noise(path: str) -> None:
    assert noise_reason(path) is None
    assert not is_noise(path)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/a/__pycache__/m.cpython-312.pyc", "/a/m.py"),
        ("/a/__pycache__/m.cpython-312.opt-1.pyc", "/a/m.py"),
        ("/a/__pycache__/m.n.pypy310-pp73.pyc", "/a/m.n.py"),
        ("/a/m.pyc", None),
        ("/a/m.py", None),
    ],
)
def test_bytecode_names_its_module(path: str, source: str | None) -> None:
    assert bytecode_source(path) == source
