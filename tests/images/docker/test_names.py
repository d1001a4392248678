"""Names of images, taken apart and compared; the frames and lines of what containers say."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitsect.images.runtime.docker.launch import Launch
from bitsect.images.runtime.docker.names import ImageName, same_repository
from bitsect.images.runtime.docker.wire import STDERR, STDOUT, Frames
from bitsect.images.runtime.protocol import RunSpec
from bitsect.images.runtime.sink import Sink

FULL = "sha256:" + "ab" * 32


class TestNames:
    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("a", ("a", None, None)),
            ("a:1", ("a", "1", None)),
            ("host:5000/a/b", ("host:5000/a/b", None, None)),
            ("host:5000/a/b:1", ("host:5000/a/b", "1", None)),
            ("a@1", ("a", None, "1")),
            (f"a:1@{FULL}", ("a", "1", FULL)),
        ],
    )
    def test_parts(self, text: str, parts: tuple[str, str | None, str | None]) -> None:
        name = ImageName.of(text)
        assert (name.repository, name.tag, name.at) == parts

    @pytest.mark.parametrize(
        ("text", "digest", "tag", "prefix"),
        [
            ("a", None, "latest", None),
            ("a:1", None, "1", None),
            (f"a@{FULL}", FULL, None, "ab" * 32),
            ("a@sha256:abc", None, None, "abc"),
            ("a@abc", None, "abc", "abc"),
            ("a@v1", None, "v1", None),
        ],
    )
    def test_meanings(
        self, text: str, digest: str | None, tag: str | None, prefix: str | None
    ) -> None:
        name = ImageName.of(text)
        assert (name.digest, name.remote_tag, name.digest_prefix) == (digest, tag, prefix)

    @pytest.mark.parametrize(
        ("text", "prefix"),
        [("abcdef", "abcdef"), ("sha256:abcdef", "abcdef"), ("abc:1", None), ("abc@1", None)],
    )
    def test_ids(self, text: str, prefix: str | None) -> None:
        assert ImageName.of(text).id_prefix == prefix

    @pytest.mark.parametrize(
        ("written", "listed", "same"),
        [
            ("a/b", "a/b", True),
            ("a/b", "localhost/a/b", True),
            ("localhost/a/b", "a/b", False),
            ("b", "library/b", True),
            ("host:5000/a", "host:5000/a", True),
            ("a", "host:5000/a", False),
            ("a", "b", False),
        ],
    )
    def test_the_same_repository(self, written: str, listed: str, same: bool) -> None:
        assert same_repository(written, listed) is same


class TestFrames:
    @given(
        st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=50))),
        st.lists(st.integers(1, 20), min_size=1),
    )
    def test_they_come_out_whole_however_they_were_cut(
        self, pieces: list[tuple[int, bytes]], cuts: list[int]
    ) -> None:
        data = b"".join(
            struct.pack(">BxxxL", stream, len(piece)) + piece for stream, piece in pieces
        )
        frames, found = Frames(), {STDOUT: b"", STDERR: b""}
        while data:
            for cut in cuts:
                for stream, piece in frames.feed(data[:cut]):
                    found[stream] += piece
                data = data[cut:]
        for stream in found:
            assert found[stream] == b"".join(piece for each, piece in pieces if each == stream)


class TestLaunch:
    @given(st.binary(max_size=100), st.booleans(), st.lists(st.integers(1, 40), min_size=1))
    def test_the_launchers_lines_are_not_the_programs(
        self, tmp_path_factory: pytest.TempPathFactory, said: bytes, started: bool, cuts: list[int]
    ) -> None:
        folder = tmp_path_factory.mktemp("launch")
        with (folder / "stderr").open("wb", 0) as stderr:
            launch = Launch(RunSpec(("x",), 1.0), Sink(stderr, 0), Sink(stderr, 1 << 20))
            token = str(launch.order({}, "/", [])["token"]).encode()
            data = (token + b"\n" if started else b"") + said
            while data:
                for cut in cuts:
                    if data[:cut]:
                        assert launch.takers[STDERR](data[:cut])
                    data = data[cut:]
            launch.finish()
        assert (folder / "stderr").read_bytes() == said
        assert (launch.started, launch.failure) == (started, None)

    def test_a_reason_is_heard(self, tmp_path: Path) -> None:
        with (tmp_path / "stderr").open("wb", 0) as stderr:
            launch = Launch(RunSpec(("x",), 1.0), Sink(stderr, 0), Sink(stderr, 1 << 20))
            token = str(launch.order({}, "/", [])["token"]).encode()
            assert launch.takers[STDERR](token + b"\n" + token)
            assert launch.takers[STDERR](b"No such file\n")
            launch.finish()
        assert (tmp_path / "stderr").read_bytes() == b""
        assert launch.failure == "No such file"
