"""The staged probe has exactly the probe's sources, whatever happens to its folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bitsect.images import payload as payload_module
from bitsect.images.errors import InfrastructureError
from bitsect.images.payload import Payload, staged_probe
from bitsect.probes import identity


@pytest.fixture
def payload(tmp_path: Path) -> Payload:
    return staged_probe(tmp_path)


def sources(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.py")}


def in_stack(payload: Payload, *arguments: str) -> str:
    environment = {"PYTHONPATH": str(payload.folder), "PATH": os.defpath}
    done = subprocess.run(
        [sys.executable, *arguments],
        # Python also imports from the folder that it is started in.
        cwd=payload.folder.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_it_has_the_probes_digest_and_its_name(payload: Payload) -> None:
    assert payload.digest == identity.probe_digest()
    assert payload.folder.name == payload.digest.removeprefix("sha256:")


def test_it_has_the_probe_and_nothing_else(payload: Payload) -> None:
    names = set(sources(payload.folder))
    assert {"bitsect/__init__.py", "bitsect/probes/inventory.py"} <= names
    assert all(name.startswith("bitsect/probes/") for name in names - {"bitsect/__init__.py"})


def test_a_stack_runs_it_and_reports_the_same_digest(payload: Payload) -> None:
    source = "from bitsect.probes import identity as i; print(i.__file__); print(i.probe_digest())"
    where, digest = in_stack(payload, "-c", source).splitlines()
    assert Path(where).is_relative_to(payload.folder)
    assert digest == payload.digest


def test_running_it_leaves_nothing_in_it(payload: Payload) -> None:
    before = sorted(payload.folder.rglob("*"))
    in_stack(payload, "-c", "import bitsect.probes.identity, bitsect.probes.inventory")
    assert sorted(payload.folder.rglob("*")) == before


def test_its_files_are_read_only(payload: Payload) -> None:
    modes = {path.stat().st_mode & 0o777 for path in payload.folder.rglob("*.py")}
    assert modes == {0o444}


def test_a_second_time_it_is_used_as_it_is(payload: Payload, tmp_path: Path) -> None:
    inode = payload.folder.stat().st_ino
    assert staged_probe(tmp_path) == payload
    assert payload.folder.stat().st_ino == inode


def _change_byte(folder: Path) -> None:
    path = folder / "bitsect" / "probes" / "errors.py"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(bytes(data))


def _replace_by_link(folder: Path) -> None:
    path = folder / "bitsect" / "__init__.py"
    other = folder.parent / "elsewhere.py"
    other.write_text("# other")
    path.unlink()
    path.symlink_to(other)


def _put_compiled(folder: Path) -> None:
    cache = folder / "bitsect" / "probes" / "__pycache__"
    cache.unlink()
    cache.mkdir()
    (cache / "errors.cpython-311.pyc").write_bytes(b"anything")


SPOILS: list[Callable[[Path], object]] = [
    _change_byte,
    _replace_by_link,
    _put_compiled,
    lambda folder: (folder / "bitsect" / "probes" / "errors.py").unlink(),
    lambda folder: (folder / "bitsect" / "probes" / "torch.py").write_text("raise SystemExit"),
    lambda folder: (folder / "bitsect" / "linked").symlink_to("/tmp", target_is_directory=True),
]


@pytest.mark.parametrize("spoil", SPOILS)
def test_whatever_was_done_to_it_is_undone(
    payload: Payload, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    # Given a staged probe that was tampered with
    right = sources(payload.folder)
    spoil(payload.folder)
    # When it is wanted again
    again = staged_probe(tmp_path)
    # Then it is as it was, and no leftovers lie about
    assert again == payload
    assert sources(again.folder) == right
    leftovers = [path for path in again.folder.parent.iterdir() if path.name.startswith(".")]
    assert leftovers == []


def test_many_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: staged_probe(tmp_path), range(16)))
    assert len(found) == 1
    names = {path.name for path in (tmp_path / "probe").iterdir()}
    assert names == {found.pop().folder.name, "lock"}


def test_many_at_once_repair_the_same_fault(payload: Payload, tmp_path: Path) -> None:
    _change_byte(payload.folder)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: staged_probe(tmp_path), range(4)))
    assert found == {payload}


def test_a_failed_staging_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(payload_module, "_write", full)
    with pytest.raises(InfrastructureError) as caught:
        staged_probe(tmp_path)
    assert caught.value.kind == "disk"
    assert [path.name for path in (tmp_path / "probe").iterdir()] == ["lock"]
