"""What cannot be done with images is said in one line, and nothing is left half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.containers.workshop import Workshop
from tests.end_to_end.conftest import Program

pytestmark = [pytest.mark.end_to_end, pytest.mark.engine]

NOBODY = 65534


def only_line(ran: subprocess.CompletedProcess[str]) -> str:
    """The one line with which a command refuses."""
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    return line


@pytest.fixture
def tags(workshop: Workshop) -> tuple[str, str]:
    """Two images with little in them."""
    small = workshop.small()
    return small, workshop.derived("bitsect-test/other:1", small, ["ENV OTHER=1"])


def test_no_engine(bitsect: Program, data: Path) -> None:
    nowhere = "unix:///nowhere/docker.sock"
    line = only_line(bitsect("bisect", "start", "good:a:1", "bad:a:2", DOCKER_HOST=nowhere))
    assert "the container engine cannot be used" in line
    assert "/nowhere/docker.sock" in line
    assert not list(data.glob("blobs/*/*"))


def test_no_permission_on_its_socket(surroundings: dict[str, str], tmp_path: Path) -> None:
    # Given somebody who may not use the engine
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    if not os.access(Path(sys.executable).resolve(), os.X_OK, follow_symlinks=True):
        pytest.fail("this Python cannot be started")
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    environment = {
        **surroundings,
        "HOME": str(home),
        "BITSECT_DATA": str(home / "data"),
        "BITSECT_CACHE": str(home / "cache"),
    }
    # Not another user, whose Python may lie where only root goes: root without its privileges
    ran = subprocess.run(
        [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--regid=65534",
         "--clear-groups", sys.executable, "-m", "bitsect", "probe", "any/image:1"],
        env={**environment, "DOCKER_HOST": f"unix://{locked(tmp_path)}"},
        capture_output=True, text=True, cwd=home,
    )  # fmt: skip
    line = only_line(ran)
    assert "not allowed" in line
    assert "socket" in line


def locked(folder: Path) -> Path:
    """A socket that only another user may use."""
    path = folder / "socket"
    os.mknod(path, 0o140000)
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o600)
    return path


def test_a_tag_that_is_not_there_comes_with_those_that_are(
    bitsect: Program, tags: tuple[str, str]
) -> None:
    small, _ = tags
    line = only_line(bitsect("bisect", "start", f"good:{small}", "bad:bitsect-test/small:bass"))
    assert "bitsect-test/small:bass" in line
    assert small in line


def test_a_digest_that_several_images_begin_with(bitsect: Program, workshop: Workshop) -> None:
    # Given images of which two ids begin alike, under one name
    repository = "bitsect-test/alike"
    small = workshop.small()
    seen: dict[str, str] = {}
    for number in range(40):
        tag = f"{repository}:{number}"
        image = workshop.derived(tag, small, [f"ENV NUMBER={number}"])
        digest = str(workshop.client.images.get(image).id).removeprefix("sha256:")
        if digest[0] in seen:
            break
        seen[digest[0]] = tag
    line = only_line(bitsect("probe", f"{repository}@{digest[0]}"))
    assert "it may mean 2 images" in line


def test_one_end_is_no_image(bitsect: Program, tags: tuple[str, str]) -> None:
    line = only_line(bitsect("bisect", "start", f"good:{tags[0]}", "bad:venv:torch==2.13.0"))
    assert "two images" in line


@pytest.mark.parametrize("via", ["good:a:1", "host:", "venv:torch==2.13.0"])
def test_what_lies_between_is_an_image_without_a_side(
    bitsect: Program, tags: tuple[str, str], via: str
) -> None:
    good, bad = tags
    line = only_line(bitsect("bisect", "start", f"good:{good}", f"bad:{bad}", "--via", via))
    assert "an image without a side" in line


def test_images_between_environments(bitsect: Program) -> None:
    ends = ("good:venv:torch==2.13.0", "bad:venv:torch==2.13.0")
    line = only_line(bitsect("bisect", "start", *ends, "--via", "a:1"))
    assert "only images have images between them" in line


def test_an_image_without_torch(bitsect: Program, tags: tuple[str, str]) -> None:
    good, bad = tags
    line = only_line(bitsect("bisect", "start", f"good:{good}", f"bad:{bad}"))
    assert "torch is not installed" in line
    assert "the good end" in line


def test_an_image_without_python(bitsect: Program, workshop: Workshop) -> None:
    bare = workshop.derived("bitsect-test/bare:1", workshop.small(), ["RUN rm /usr/bin/python3*"])
    line = only_line(bitsect("probe", bare))
    assert "it has no Python on its PATH" in line


def test_a_size_that_is_none(bitsect: Program) -> None:
    line = only_line(bitsect("bisect", "start", "good:a:1", "bad:a:2", "--memory", "much"))
    assert "'much' is no size" in line


def test_a_tag_that_was_pushed_again_is_another_search(
    bitsect: Program, workshop: Workshop
) -> None:
    # Given a search between two tags
    small, torch = workshop.small(), workshop.torch()
    again = workshop.derived("bitsect-test/moving:first", torch, ["ENV A=1"])
    later = workshop.derived("bitsect-test/moving:second", torch, ["ENV OMP_NUM_THREADS=1"])
    assert small
    workshop.client.images.get(later).tag("bitsect-test/moved", "latest")
    command = ("bisect", "start", f"good:{torch}", "bad:bitsect-test/moved:latest", "--arms=data")
    try:
        first = bitsect(*command)
        # When the tag leads elsewhere
        workshop.client.images.get(again).tag("bitsect-test/moved", "latest")
        second = bitsect(*command)
    finally:
        workshop.client.images.remove("bitsect-test/moved:latest")
    # Then nothing of the first is taken for the second
    assert first.returncode in (0, 2)
    assert "nothing to bisect" in second.stderr
    if first.returncode == 0:
        assert "so this is another search" in second.stderr
