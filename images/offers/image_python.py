"""An image's Python, described so that packages can be chosen for it from outside.

Nothing of the image is run for it: all of it follows from what an inventory says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging import tags

from bitsect.images.interpreter import Interpreter
from bitsect.images.layers import Python

# glibc versions that wheels named in their own way before PEP 600.
_OLD_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_OLDEST_GLIBC = {"x86_64": 5, "i686": 5}
_OLDEST_GLIBC_ELSEWHERE = 17
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
#: The versions of glibc, after ``2.``, that uv can choose for; it knows no others.
_UV_GLIBC = (40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 28, 17)


def image_python(python: Python, path: str, platform: str) -> Interpreter | None:
    """The interpreter of an image; None where wheels for it cannot be told from others.

    :param path: inside the image.
    :param platform: of the image, as ``os/architecture``.
    """
    machine = _machine(platform)
    numbers = _numbers(python.version)
    if python.implementation != "cpython" or len(numbers) < 2 or not platform.startswith("linux/"):
        return None
    abi = f"cp{numbers[0]}{numbers[1]}" + ("t" if (python.cache_tag or "").endswith("t") else "")
    platforms = list(_platforms(python.libc or "", machine))
    usable = [
        *tags.cpython_tags(numbers[:2], [abi], platforms),
        *tags.compatible_tags(numbers[:2], f"cp{numbers[0]}{numbers[1]}", platforms),
    ]
    return Interpreter(
        path=path,
        version=python.version,
        implementation=python.implementation,
        build=python.build,
        tags=tuple(map(str, usable)),
        libc="-".join((python.libc or "").split()),
        markers={
            "implementation_name": python.implementation,
            "implementation_version": python.version,
            "os_name": "posix",
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "platform_release": "",
            "platform_version": "",
            "python_full_version": python.version,
            "python_version": ".".join(map(str, numbers[:2])),
            "sys_platform": "linux",
        },
    )


def uv_platform(interpreter: Interpreter) -> str | None:
    """What uv calls the platform, or the nearest older one; None if it knows none."""
    machine = interpreter.markers["platform_machine"]
    kind, _, version = interpreter.libc.partition("-")
    if kind == "musl":
        return f"{machine}-unknown-linux-musl"
    minor = _numbers(version)[1:2] if kind == "glibc" else []
    fitting = [each for each in _UV_GLIBC if minor and each <= minor[0]]
    return f"{machine}-manylinux_2_{fitting[0]}" if fitting else None


def _platforms(libc: str, machine: str) -> Iterator[str]:
    """Platform tags, best first."""
    yield f"linux_{machine}"
    kind, _, version = libc.partition(" ")
    numbers = _numbers(version)
    if kind == "glibc" and numbers[:1] == [2] and len(numbers) > 1:
        oldest = _OLDEST_GLIBC.get(machine, _OLDEST_GLIBC_ELSEWHERE)
        for minor in range(numbers[1], oldest - 1, -1):
            yield f"manylinux_2_{minor}_{machine}"
            if minor in _OLD_NAMES:
                yield f"{_OLD_NAMES[minor]}_{machine}"
    elif kind == "musl" and numbers[:1] == [1] and len(numbers) > 1:
        for minor in range(numbers[1], -1, -1):
            yield f"musllinux_1_{minor}_{machine}"


def _machine(platform: str) -> str:
    architecture = platform.partition("/")[2].partition("/")[0]
    return _MACHINES.get(architecture, architecture)


def _numbers(version: str) -> list[int]:
    """The leading numbers of a version; of ``3.14.0rc1``, 3 and 14 and 0."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return [int(part) for part in found[0].split(".")] if found else []
