"""Contents that were read once are not read again, unless what was kept is damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bitsect.images.contents.cache import ContentsCache
from bitsect.images.contents.model import Contents
from tests.images.contents.trees import ImageTree

DIGEST = "sha256:" + "ab" * 32
CONTENTS = ImageTree().package("libfoo").link("/opt/x", "y").contents()


class Reader:
    """Counts how often contents are made."""

    def __init__(self, contents: Contents = CONTENTS) -> None:
        self.contents = contents
        self.calls = 0

    def __call__(self) -> Contents:
        self.calls += 1
        return self.contents


def test_contents_are_made_once(tmp_path: Path) -> None:
    reader = Reader()
    assert ContentsCache(tmp_path / "new").get(DIGEST, reader) == CONTENTS
    assert ContentsCache(tmp_path / "new").get(DIGEST, reader) == CONTENTS
    assert reader.calls == 1


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    "damage",
    [
        flipped,
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data.replace(b"contents 1", b"contents 0"),
    ],
)
def test_a_damaged_or_older_file_is_made_again(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    cache, reader = ContentsCache(tmp_path), Reader()
    cache.get(DIGEST, reader)
    place = cache.path(DIGEST)
    whole = place.read_bytes()
    place.write_bytes(damage(whole))
    assert cache.get(DIGEST, reader) == CONTENTS
    assert reader.calls == 2
    assert place.read_bytes() == whole


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".partial-1234").write_bytes(b"half")
    cache = ContentsCache(tmp_path)
    cache.get(DIGEST, Reader())
    assert {each.name for each in tmp_path.iterdir()} == {".lock", cache.path(DIGEST).name}


def test_nothing_is_kept_of_what_could_not_be_read(tmp_path: Path) -> None:
    def fails() -> Contents:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        ContentsCache(tmp_path / "new").get(DIGEST, fails)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["", "sha256:../../x", "latest", DIGEST + "0"])
def test_what_is_no_digest_names_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a digest"):
        ContentsCache(tmp_path).get(name, Reader())
