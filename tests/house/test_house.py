"""The house's own rules: what may shadow, import, name or skip what."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("probes", "images", "bisect", "tui")


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def test_the_standard_librarys_bisect_is_not_shadowed() -> None:
    # Given a Python started in the repository's root, where a folder bisect/ stands
    ran = subprocess.run(
        [sys.executable, "-c", "import random, bisect; print(bisect.__file__)"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip

    # Then it is the standard library's bisect that comes
    assert Path(ran.stdout.strip()).parent == Path(tomllib.__file__).parents[1]


def test_a_regular_package_would_shadow_it(tmp_path: Path) -> None:
    # Given the same with an __init__.py in the folder, as a control of the test above
    (tmp_path / "bisect").mkdir()
    (tmp_path / "bisect" / "__init__.py").write_text("")
    ran = subprocess.run(
        [sys.executable, "-c", "import bisect; print(bisect.__file__)"],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert Path(ran.stdout.strip()) == tmp_path / "bisect" / "__init__.py"


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_one_folder_with_two_names(part: str) -> None:
    link = ROOT / "bitsect" / part
    assert link.is_symlink()
    assert link.readlink() == Path("..") / part
    assert link.is_dir()
    assert not (link / "__init__.py").exists()


def test_a_wheel_holds_plain_files(tmp_path: Path) -> None:
    # Given a copy of the sources, so that nothing is built here
    sources = tmp_path / "sources"
    for path in tracked_files():
        place = sources / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    for part in PARTS:
        (sources / part).mkdir(exist_ok=True)
        (sources / "bitsect" / part).symlink_to(Path("..") / part)

    # When a wheel is built and unpacked
    subprocess.run(
        [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps",
            "--no-build-isolation", "--disable-pip-version-check",
            "--wheel-dir", str(tmp_path), str(sources),
        ],
        check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "unpacked", "zip")

    # Then every module of the four parts is a plain file under bitsect/, and nothing else is
    packed = {
        path.relative_to(tmp_path / "unpacked").as_posix()
        for path in (tmp_path / "unpacked").rglob("*.py")
    }
    expected = {
        ("bitsect/" if path.relative_to(ROOT).parts[0] in PARTS else "")
        + path.relative_to(ROOT).as_posix()
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in (*PARTS, "bitsect")
    }
    assert packed == expected


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("probes/planted.py", "import bitsect.images.errors", "Imports point down"),
        ("images/planted.py", "import bitsect.cli", "Imports point down"),
        ("probes/planted.py", "import msgspec", "The probe needs torch"),
        ("bisect/planted.py", "import rich", "do not know how they are shown"),
        ("images/planted.py", "import torch", "Only the probe touches torch"),
        ("images/planted.py", "import docker.errors", "The engine's SDK stays"),
        ("images/mixing/planted.py", "from docker.types import Mount", "The engine's SDK stays"),
        ("images/runtime/planted.py", "import docker", "The engine's SDK stays"),
        ("bitsect/cli/planted.py", "import docker", "The engine's SDK stays"),
        ("bisect/engine/planted.py", "import time", "The engine is pure"),
    ],
)
def test_a_forbidden_import_is_caught(
    tmp_path: Path, module: str, line: str, contract: str
) -> None:
    # Given a copy of the house with one bad import
    for name in ("bitsect", *PARTS):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / module).write_text(line + "\n")

    # When the contracts are checked there
    ran = subprocess.run(
        [
            sys.executable, "-c",
            "import sys; sys.path.insert(0, '.');"
            " from importlinter.cli import lint_imports_command as run; run()",
            "--no-cache",
        ],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip

    # Then that contract, and the run, are broken
    broken = [text for text in ran.stdout.splitlines() if "BROKEN" in text]
    assert any(contract in text for text in broken), ran.stdout + ran.stderr
    assert ran.returncode != 0


def test_files_stay_readable() -> None:
    longest = {
        path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines())
        for path in tracked_files()
        if path.suffix == ".py"
    }
    # The inventory is one file by contract: it is carried into a stack alone.
    allowed = {"probes/inventory.py": 1170}
    too_long = {
        name: lines
        for name, lines in longest.items()
        if lines > allowed.get(name, 600 if name.startswith("tests/") else 450)
    }
    assert too_long == {}


def test_every_pin_is_exact() -> None:
    lines = (ROOT / "requirements" / "constraints.txt").read_text().splitlines()
    pins = [line.partition("#")[0].strip() for line in lines]
    assert all("==" in pin and "*" not in pin for pin in pins if pin)
    assert "torch==2.13.0" in pins


def test_the_project_names_no_index() -> None:
    hosts = ("pythonhosted", "pypi.org", "npmjs", "docker.io/", "nvcr.io")
    here = Path(__file__)
    named = [
        (path.relative_to(ROOT).as_posix(), host)
        for path in tracked_files()
        if path != here and path.suffix in (".py", ".toml", ".txt", ".sh", ".md", "")
        for host in hosts
        if host in path.read_text(errors="replace")
    ]
    assert named == []
