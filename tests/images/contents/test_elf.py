"""What the loader goes by, read from whole, damaged and lying ELF files."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitsect.images.contents.elf import read_elf
from bitsect.images.contents.model import Elf
from bitsect.probes import inventory
from tests.images.contents.trees import elf_file

LIBRARY = elf_file(
    soname="libblas.so.3",
    needed=["libc.so.6", "libm.so.6"],
    provides=["BLAS_3.0", "BLAS_3.1"],
    requires={"libc.so.6": ["GLIBC_2.2.5", "GLIBC_2.38"], "libm.so.6": ["GLIBC_2.29", "?GLIBC_9"]},
    build_id=bytes.fromhex("00ff10"),
    search="$ORIGIN/../lib:/opt/lib",
)


def test_a_library_tells_all_that_the_loader_goes_by() -> None:
    assert read_elf(io.BytesIO(LIBRARY)) == Elf(
        build_id="00ff10",
        soname="libblas.so.3",
        needed=("libc.so.6", "libm.so.6"),
        provides=("BLAS_3.0", "BLAS_3.1"),
        requires=("libc.so.6:GLIBC_2.2.5", "libc.so.6:GLIBC_2.38", "libm.so.6:GLIBC_2.29"),
        search=("$ORIGIN/../lib", "/opt/lib"),
    )


def test_a_program_without_a_dynamic_section_has_no_facts() -> None:
    assert read_elf(io.BytesIO(elf_file(kind=2))) == Elf(build_id=None, soname=None)


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"#!/bin/sh\n" * 9, elf_file(kind=1), elf_file()[:80]]
)
def test_what_is_not_loaded_has_none(data: bytes) -> None:
    assert read_elf(io.BytesIO(data)) is None


def test_the_python_that_runs_this_is_read_as_the_inventory_reads_it() -> None:
    program = Path(sys.executable).resolve()
    with program.open("rb") as stream:
        found = read_elf(stream)
    assert found is not None
    assert found.build_id == inventory.Elf(str(program)).build_id
    assert any(each.startswith("libc.so") for each in found.needed)


@given(st.integers(0, len(LIBRARY)), st.binary(max_size=64))
def test_a_file_that_lies_costs_facts_and_nothing_else(at: int, garbage: bytes) -> None:
    damaged = LIBRARY[:at] + garbage + LIBRARY[at + len(garbage) :]
    found = read_elf(io.BytesIO(damaged))
    assert found is None or isinstance(found, Elf)


def test_versions_in_a_circle_come_to_an_end() -> None:
    # Every record says that the next one is itself, one byte further: it never says 0.
    records = LIBRARY.replace(b"\x1c\0\0\0", b"\x01\0\0\0")
    assert isinstance(read_elf(io.BytesIO(records)), Elf)
