"""Releases from an index, as files for an image."""

from __future__ import annotations

import base64
import csv
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from bitsect.images.contents.model import ComponentAxis, Contents
from bitsect.images.errors import InfrastructureError
from bitsect.images.interpreter import Interpreter, describe_interpreter
from bitsect.images.layers import Python
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.offers.image_python import image_python, uv_platform
from bitsect.images.offers.offer import with_offers
from bitsect.images.offers.pip_offers import CONSTRAINTS, PipOffers
from bitsect.images.pip_settings import PipSettings
from tests.images.mixing import samples

if TYPE_CHECKING:
    from tests.images.conftest import LocalIndex

SITE = "/usr/local/lib/python3.13/dist-packages"
PYTHON = "/usr/bin/python3"
COMPONENT = "pip:some-lib"


def record(**changes: object) -> Python:
    """What an inventory says of an image's Python."""
    fields = Python(
        version="3.13.5",
        implementation="cpython",
        build="main",
        compiler="GCC",
        cache_tag="cpython-313",
        executable=None,
        libc="glibc 2.41",
    )
    return msgspec.structs.replace(fields, **changes)


def installed(version: str, **files: bytes) -> dict[str, bytes]:
    """A distribution's files in an image."""
    info = f"{SITE}/some_lib-{version}.dist-info"
    return {
        f"{SITE}/some_lib.py": f"version = {version!r}\n".encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: some-lib\nVersion: {version}\n".encode(),
        f"{info}/RECORD": (
            f"some_lib.py,,\nsome_lib-{version}.dist-info/METADATA,,\n"
            + "".join(f"some_lib-{version}.dist-info/{name},,\n" for name in files)
        ).encode(),
        **{f"{info}/{name}": data for name, data in files.items()},
    }


def described() -> Interpreter:
    found = image_python(record(), PYTHON, "linux/amd64")
    assert found is not None
    return found


def offers_of(space: ImageSpace, settings: PipSettings, cache: Path) -> PipOffers:
    return PipOffers(described(), settings, space.contents, cache)


@pytest.fixture
def index(local_index: LocalIndex) -> LocalIndex:
    """Offers versions 1 to 4; with a script in all of them."""
    for version in ("1.0", "2.0", "3.0", "4.0"):
        local_index.add(
            "some-lib",
            version,
            files={
                "some_lib.py": f"version = {version!r}\n",
                f"some_lib-{version}.dist-info/entry_points.txt": (
                    "[console_scripts]\nsome-tool = some_lib:main\n"
                ),
            },
        )
    local_index.add("some-lib", "2.5", tag="cp39-cp39-win_amd64")
    return local_index


@pytest.fixture
def space(index: LocalIndex) -> ImageSpace:
    return samples.space(installed("1.0"), installed("4.0"))


def names(axis: ComponentAxis) -> list[str]:
    return [state.name for state in axis.states]


class TestImagePython:
    def test_its_tags_are_those_that_it_would_name_itself(self) -> None:
        # Given this machine's own Python, described as if it were an image's
        own = describe_interpreter()
        if own.implementation != "cpython" or not own.libc.startswith("glibc"):
            pytest.skip("this is no CPython on glibc")
        cache_tag = f"cpython-{''.join(own.version.split('.')[:2])}"
        python = record(version=own.version, cache_tag=cache_tag, libc=own.libc.replace("-", " "))
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[own.markers["platform_machine"]]

        found = image_python(python, PYTHON, f"linux/{machine}")

        assert found is not None
        assert found.tags == own.tags
        assert found.markers.keys() >= own.markers.keys() - {"extra"}

    def test_the_nearest_older_platform_is_chosen_for(self) -> None:
        assert uv_platform(described()) == "x86_64-manylinux_2_40"
        older = image_python(record(libc="glibc 2.29"), PYTHON, "linux/arm64")
        assert older is not None
        assert uv_platform(older) == "aarch64-manylinux_2_28"

    def test_musl_is_told_from_glibc(self) -> None:
        found = image_python(record(libc="musl 1.2.5"), PYTHON, "linux/amd64")
        assert found is not None
        assert "cp313-cp313-musllinux_1_2_x86_64" in found.tags
        assert not any("manylinux" in tag for tag in found.tags)
        assert uv_platform(found) == "x86_64-unknown-linux-musl"

    @pytest.mark.parametrize(
        "changes", [{"implementation": "pypy"}, {"version": "unknown"}, {"version": ""}]
    )
    def test_other_pythons_are_left_alone(self, changes: dict[str, object]) -> None:
        assert image_python(record(**changes), PYTHON, "linux/amd64") is None


class TestBetween:
    def test_releases_for_the_images_python_lie_between_its_ends(
        self, space: ImageSpace, local_settings: PipSettings, tmp_path: Path
    ) -> None:
        axis = space.axis(COMPONENT)

        found = with_offers(axis, offers_of(space, local_settings, tmp_path).between(axis))

        assert names(found) == ["1.0", "2.0", "3.0", "4.0"]
        assert [state.offer for state in found.states] == [
            None,
            "pip:some-lib==2.0",
            "pip:some-lib==3.0",
            None,
        ]
        assert found.at == (0, 3)

    def test_they_are_in_the_axis_own_direction(
        self, index: LocalIndex, local_settings: PipSettings, tmp_path: Path
    ) -> None:
        space = samples.space(installed("4.0"), installed("1.0"))
        axis = space.axis(COMPONENT)
        found = with_offers(axis, offers_of(space, local_settings, tmp_path).between(axis))
        assert names(found) == ["4.0", "3.0", "2.0", "1.0"]

    def test_what_an_image_lends_is_not_taken_from_an_index(
        self, index: LocalIndex, local_settings: PipSettings, tmp_path: Path
    ) -> None:
        # Given a chain that goes back and forth
        space = samples.space(installed("1.0"), installed("4.0"), installed("3.0"))
        axis = space.axis(COMPONENT)
        found = with_offers(axis, offers_of(space, local_settings, tmp_path).between(axis))
        assert names(found) == ["1.0", "2.0", "4.0", "3.0"]
        assert found.at == (0, 2, 3)

    @pytest.mark.parametrize(
        ("good", "bad"),
        [
            (installed("1.0"), installed("4.0+vendor1")),
            (installed("1.0"), installed("4.0", **{"direct_url.json": b"{}"})),
            (installed("1.0"), {}),
        ],
    )
    def test_only_between_versions_that_an_index_can_have_given(
        self,
        index: LocalIndex,
        local_settings: PipSettings,
        tmp_path: Path,
        good: dict[str, bytes],
        bad: dict[str, bytes],
    ) -> None:
        space = samples.space(good, bad)
        axis = space.axis(COMPONENT)
        assert offers_of(space, local_settings, tmp_path).between(axis) == [[]]

    def test_an_index_that_cannot_be_reached_is_an_error(
        self, space: ImageSpace, tmp_path: Path
    ) -> None:
        # Given a port that nobody listens at
        settings = PipSettings(index_url="http://127.0.0.1:9/simple", retries=0)
        with pytest.raises(InfrastructureError):
            offers_of(space, settings, tmp_path).between(space.axis(COMPONENT))

    @pytest.mark.parametrize(
        ("line", "named"),
        [("some_lib==1.0", True), ("Some.Lib >= 1", True), ("# some-lib", False), ("some", False)],
    )
    def test_a_constraint_that_is_not_followed_is_named(
        self,
        index: LocalIndex,
        local_settings: PipSettings,
        tmp_path: Path,
        line: str,
        named: bool,
    ) -> None:
        constraint = {CONSTRAINTS: f"other==1\n{line}\n".encode()}
        space = samples.space({**installed("1.0"), **constraint}, installed("4.0"))
        axis = space.axis(COMPONENT)
        [run] = offers_of(space, local_settings, tmp_path).between(axis)
        expected = "pip:some-lib==2.0"
        if named:
            expected += f" (not as {CONSTRAINTS} has it)"
        assert run[0].offer == expected


class TestFiles:
    @pytest.fixture
    def offers(
        self, space: ImageSpace, local_settings: PipSettings, tmp_path: Path
    ) -> tuple[PipOffers, ComponentAxis]:
        offers = offers_of(space, local_settings, tmp_path / "cache")
        axis = space.axis(COMPONENT)
        return offers, with_offers(axis, offers.between(axis))

    def test_they_lie_where_the_distribution_lies_in_the_image(
        self, offers: tuple[PipOffers, ComponentAxis]
    ) -> None:
        found, axis = offers
        contents = found.contents(axis, axis.states[1])
        info = f"{SITE}/some_lib-2.0.dist-info"
        files = {path for path, entry in contents.entries.items() if entry.kind == "file"}
        assert files == {
            f"{SITE}/some_lib.py",
            "/usr/local/bin/some-tool",
            *(f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "INSTALLER")),
            *(f"{info}/{name}" for name in ("REQUESTED", "entry_points.txt")),
        }
        assert contents.entries["/usr/local/bin/some-tool"].mode == 0o755
        assert contents.entries[f"{SITE}/some_lib.py"].mode == 0o644
        assert contents.entries[SITE].kind == "folder"
        assert contents.texts[f"{info}/INSTALLER"] == b"pip\n"

    def test_scripts_start_the_images_python(self, offers: tuple[PipOffers, ComponentAxis]) -> None:
        found, axis = offers
        with found.lent(axis, axis.states[1]) as root:
            script = (root / "usr/local/bin/some-tool").read_text()
        assert script.startswith(f"#!{PYTHON}\n")
        assert "some_lib" in script

    def test_the_record_is_true(self, offers: tuple[PipOffers, ComponentAxis]) -> None:
        found, axis = offers
        with found.lent(axis, axis.states[1]) as root:
            site = root / SITE.lstrip("/")
            record = site / "some_lib-2.0.dist-info" / "RECORD"
            rows = list(csv.reader(record.read_text().splitlines()))
            named = {(site / name).resolve() for name, _, _ in rows}
            assert named == {path.resolve() for path in root.rglob("*") if path.is_file()}
            for name, digest, size in rows:
                if name != "some_lib-2.0.dist-info/RECORD":
                    data = (site / name).read_bytes()
                    hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
                    assert digest == "sha256=" + hashed.decode().rstrip("=")
                    assert int(size) == len(data)
            assert [row[0] for row in rows if "bin" in row[0]] == ["../../../bin/some-tool"]

    def test_what_is_lent_is_what_was_described_every_time(
        self, offers: tuple[PipOffers, ComponentAxis], tmp_path: Path
    ) -> None:
        found, axis = offers
        contents = found.contents(axis, axis.states[1])
        for _ in range(2):
            with found.lent(axis, axis.states[1]) as root:
                for path, entry in contents.entries.items():
                    if entry.kind == "file":
                        data = (root / path.lstrip("/")).read_bytes()
                        assert entry.digest == "sha256:" + hashlib.sha256(data).hexdigest()
        # And nothing stays on the disk but what was learnt
        assert list((tmp_path / "cache" / "scratch").iterdir()) == []

    def test_what_was_learnt_needs_no_index_any_more(
        self,
        offers: tuple[PipOffers, ComponentAxis],
        space: ImageSpace,
        tmp_path: Path,
    ) -> None:
        found, axis = offers
        contents = found.contents(axis, axis.states[1])
        elsewhere = PipSettings(index_url=(tmp_path / "nowhere").as_uri())
        again = offers_of(space, elsewhere, tmp_path / "cache")
        assert again.contents(axis, axis.states[1]) == contents
        assert isinstance(contents, Contents)
