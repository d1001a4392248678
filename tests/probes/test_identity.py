"""The probe's digest follows its files, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import bitsect
from bitsect.probes.identity import digest_of_files, probe_digest


def write(root: Path, files: dict[str, bytes]) -> list[str]:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return list(files)


def test_the_digest_covers_every_file_of_the_probe() -> None:
    root = Path(bitsect.__file__).parent
    names = [path.relative_to(root).as_posix() for path in (root / "probes").rglob("*.py")]

    assert re.fullmatch("sha256:[0-9a-f]{64}", probe_digest())
    assert {"probes/identity.py", "probes/fingerprint.py", "probes/trace.py"} <= set(names)
    assert probe_digest() == digest_of_files(root, ["__init__.py", *names])


def test_the_place_and_the_order_of_files_do_not_matter(tmp_path: Path) -> None:
    files = {"a.py": b"1", "b/c.py": b"2"}
    here = write(tmp_path / "here", files)
    there = write(tmp_path / "there", files)

    assert digest_of_files(tmp_path / "here", here) == digest_of_files(
        tmp_path / "there", there[::-1]
    )


def test_names_bytes_and_the_border_between_files_matter(tmp_path: Path) -> None:
    variants: list[dict[str, bytes]] = [
        {"a.py": b"1", "b.py": b"2"},
        {"a.py": b"1", "b.py": b"3"},
        {"a.py": b"1", "c.py": b"2"},
        {"a.py": b"12", "b.py": b""},
        {"a.py": b"", "b.py": b"12"},
        {"a.py": b"1"},
    ]
    digests = set()
    for index, files in enumerate(variants):
        folder = tmp_path / str(index)
        digests.add(digest_of_files(folder, write(folder, files)))

    assert len(digests) == len(variants)
