"""What cannot be done with images is said in one line, and nothing is left half-written."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.containers import cases
from tests.containers.workshop import LABEL, Workshop
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
    # Given somebody who may not use the engine. Not another user, whose Python may lie where
    # only root goes, but root without any privileges
    ran = subprocess.run(
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs",
         sys.executable, "-m", "bitsect", "probe", "any/image:1"],
        env={**surroundings, "DOCKER_HOST": f"unix://{locked(tmp_path)}"},
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    line = only_line(ran)
    assert "not allowed" in line
    assert f"{tmp_path}/socket" in line


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


def test_tags_that_match_nothing(bitsect: Program, tags: tuple[str, str]) -> None:
    good, bad = tags
    line = only_line(bitsect("bisect", "start", f"good:{good}", f"bad:{bad}", "--tags", "none-*"))
    assert "'--tags none-*'" in line
    assert "no tag of the good end's repository matches it" in line


def test_an_image_for_other_machines(bitsect: Program, foreign: str) -> None:
    line = only_line(bitsect("probe", foreign))
    assert foreign in line
    assert "it is for linux/s390x, and the engine runs linux/" in line


@pytest.fixture
def foreign(workshop: Workshop) -> str:
    """An image for machines that hardly run these tests."""
    tag = "bitsect-test/foreign:1"
    layer = packed({})
    config = {
        "architecture": "s390x",
        "os": "linux",
        "config": {"Labels": {LABEL: "1"}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    content = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    saved = packed(
        {
            "manifest.json": json.dumps(content).encode(),
            "config.json": json.dumps(config).encode(),
            "layer.tar": layer,
        }
    )
    workshop.client.images.load(saved)
    return tag


def packed(files: dict[str, bytes]) -> bytes:
    """A tar archive of them."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def test_a_tag_that_was_pushed_again_is_another_search(
    bitsect: Program, workshop: Workshop
) -> None:
    # Given a search whose bad end was named by a tag
    good, images = workshop.torch(), workshop.client.images
    harmless = cases.chain(workshop).images[0]
    moved = "bitsect-test/moved:latest"
    command = ("bisect", "start", f"good:{good}", f"bad:{moved}", "--arms=data")
    try:
        images.get(cases.openblas(workshop)).tag(moved)
        first = bitsect(*command)
        # When the tag leads elsewhere
        images.get(harmless).tag(moved)
        second = bitsect(*command)
    finally:
        images.remove(moved)

    # Then that is said, and nothing of the first is taken for an answer
    assert first.returncode == 0, first.stderr
    assert f"{moved} is sha256:" in second.stderr
    assert "so this is another search" in second.stderr
    assert "nothing to bisect: the two stacks agree" in only_line(second)
