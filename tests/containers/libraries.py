"""Small shared libraries that change the bits of dot products, compiled on this machine.

The system's ``libblas.so.3`` is covered by one in ``/usr/local/lib``, which comes first in the
loader's cache. It is empty: it asks for ``libsums.so.1``, which computes float32 dot products
itself, and for the system's own, which computes all else. So only ``libsums.so.1`` differs from
image to image, and torch and NumPy both go by it.

Everything is compiled for the plain processor of its family, so that its bits do not depend on
where it runs.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

SUMS = "libsums.so.1"
CORE = "libsumcore.so.1"
LOCAL = "usr/local/lib"
CONFIGURATION = "etc/sums.conf"

_SOURCES = Path(__file__).parent / "c"


@functools.cache
def cover() -> bytes:
    """The empty ``libblas.so.3`` over `SUMS` and the system's own."""
    system = f"/usr/lib/{_multiarch()}/libblas.so.3"
    with tempfile.TemporaryDirectory() as folder:
        # The loader takes a name with a slash as a path, so the two do not take each other's
        # place.
        parts = [
            _link(Path(folder) / f"{number}.so", name) for number, name in enumerate((SUMS, system))
        ]
        out = Path(folder) / "out"
        return _link(out, "libblas.so.3", "-Wl,--no-as-needed", *map(str, parts)).read_bytes()


@functools.cache
def sums(backward: str, source: str | None = None) -> bytes:
    """`SUMS`.

    :param backward: a C expression, see ``c/sums.c``.
    :param source: file with a function that the expression calls.
    """
    sources = [_source("sums.c"), *([_source(source)] if source else [])]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        return _link(out, SUMS, f"-DBACKWARD={backward}", *sources).read_bytes()


@functools.cache
def sums_with_core(generation: int, *, backward: bool, versioned: bool) -> dict[str, bytes]:
    """`SUMS` and `CORE` of one generation, by path: neither works with one of another.

    :param backward: what the pair does.
    :param versioned: the generations differ in a symbol's version, which can be read from the
        files; otherwise in its name, which shows only when the loader looks for it.
    """
    name = "sum_order" if versioned or generation == 1 else "sum_direction"
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "versions"
        script.write_text(f"CORE_{generation} {{ global: {name}; local: *; }};\n")
        core = _link(
            Path(folder) / CORE, CORE, f"-DNAME={name}", f"-DBACKWARD={int(backward)}",
            _source("core.c"), *([f"-Wl,--version-script={script}"] if versioned else []),
        )  # fmt: skip
        over = _link(
            Path(folder) / SUMS, SUMS, f"-DBACKWARD={name}()", _source("sums.c"), str(core),
            "-Wl,-z,now",
        )  # fmt: skip
        return {f"{LOCAL}/{part.name}": part.read_bytes() for part in (core, over)}


def _link(out: Path, soname: str, *arguments: str) -> Path:
    """Compiles and links a shared library; an empty one without sources."""
    subprocess.run(
        ["gcc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-s", "-Wl,--build-id=sha1",
         f"-Wl,-soname,{soname}", *arguments, "-o", str(out)],
        check=True,
    )  # fmt: skip
    return out


def _source(name: str) -> str:
    return str(_SOURCES / name)


def _multiarch() -> str:
    return subprocess.run(
        ["gcc", "-print-multiarch"], check=True, capture_output=True, text=True
    ).stdout.strip()
