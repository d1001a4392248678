"""Real images: pinned whole, compared, looked at again, and found again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from bitsect.images.manifest import load
from tests.containers.workshop import Workshop
from tests.end_to_end.conftest import Program
from tests.end_to_end.test_stacks import drifts

pytestmark = [pytest.mark.end_to_end, pytest.mark.engine]

TAG = "bitsect-test/pinned"
COMMIT = "0123456789" * 4


@pytest.fixture
def image(workshop: Workshop, engine: docker.DockerClient) -> Iterator[str]:
    """A small image with sources under git, a variable and a folder; under a tag of its own."""
    made = workshop.derived(
        f"{TAG}:made",
        workshop.small(),
        ["ENV OMP_NUM_THREADS=3 API_KEY=hunter2", "WORKDIR /workspace"],
        {"opt/megatron/.git/HEAD": f"{COMMIT}\n".encode(), "opt/megatron/a.py": b""},
    )
    engine.images.get(made).tag(TAG, "moving")
    yield f"{TAG}:moving"
    engine.images.remove(f"{TAG}:moving")


@pytest.fixture
def pinned(bitsect: Program, image: str, tmp_path: Path) -> Path:
    """Its manifest."""
    path = tmp_path / "stack.yaml"
    ran = bitsect("pin", image, "-o", str(path))
    assert ran.returncode == 0, ran.stderr
    return path


def test_all_four_layers_are_written_down(
    pinned: Path, image: str, engine: docker.DockerClient
) -> None:
    manifest, config = load(pinned), engine.images.get(image)
    assert manifest.image is not None
    assert manifest.image.config == config.id
    assert manifest.image.diff_ids == tuple(config.attrs["RootFS"]["Layers"])
    assert manifest.image.working_folder == "/workspace"
    assert manifest.image.environment["API_KEY"] == "<withheld>"
    assert manifest.controls.variables["OMP_NUM_THREADS"] == "3"
    assert manifest.hardware is not None
    assert manifest.evidence["image"]["requested"] == image

    # And every loaded library says which package it is of
    owners = {library.owner for library in manifest.software.libraries or ()}
    assert "apt:libc6" in owners
    assert None not in owners

    # And sources under git are found where images keep them
    assert [(tree.path, tree.commit) for tree in manifest.software.git_trees] == [
        ("/opt/megatron", COMMIT)
    ]


def test_it_is_as_pinned_and_found_again_by_its_digest(
    bitsect: Program, pinned: Path, image: str, engine: docker.DockerClient
) -> None:
    first = engine.images.get(image).id
    ran = bitsect("verify", str(pinned))
    assert (ran.returncode, ran.stdout) == (0, f"{image} is as pinned.\n"), ran.stderr

    # When its tag leads to another image
    engine.images.get("bitsect-test/small:base").tag(TAG, "moving")

    # Then the image is still found, and where the tag leads now is told
    ran = bitsect("verify", str(pinned), "--json")
    assert ran.returncode == 1, ran.stderr
    (moved,) = drifts(ran).values()
    assert moved["component"] == f"image:{image}"
    assert moved["after"] == engine.images.get("bitsect-test/small:base").id

    # And it can be had again
    made = bitsect("rebuild", str(pinned), "--json")
    assert made.returncode == 0, made.stderr
    assert engine.images.get(json.loads(made.stdout)["image"]).id == first


def test_what_two_images_differ_in_is_listed(
    bitsect: Program, image: str, workshop: Workshop
) -> None:
    ran = bitsect("diff", image, workshop.small(), "--json")
    assert ran.returncode == 1, ran.stderr
    found: dict[str, Any] = {each["component"]: each for each in json.loads(ran.stdout)}
    telling = {name for name, each in found.items() if not each["noise"]}
    assert telling == {
        "env:API_KEY", "env:OMP_NUM_THREADS", "git:/opt/megatron", "image:layers",
        "image:working_folder",
    }  # fmt: skip
    assert found["image:config"]["noise"]


def test_an_image_in_which_nothing_starts_is_read_from_its_files(
    bitsect: Program, workshop: Workshop, image: str, tmp_path: Path
) -> None:
    # Given an image whose Python nobody may execute
    broken = workshop.derived(f"{TAG}:broken", f"{TAG}:made", ["RUN chmod a-x /usr/bin/python3*"])
    file = str(tmp_path / "static.yaml")
    ran = bitsect("pin", broken, "-o", file)
    assert ran.returncode == 0, ran.stderr
    assert "nothing starts in it" in ran.stderr

    # Then its files tell the software, and nothing tells what only a start could
    manifest = load(Path(file))
    assert (manifest.hardware, manifest.software.libraries) == (None, None)
    assert "libc6" in {package.name for package in manifest.software.os_packages}
    assert [tree.commit for tree in manifest.software.git_trees] == [COMMIT]
    assert manifest.controls.variables["OMP_NUM_THREADS"] == "3"

    # And it is verified in the same way
    assert bitsect("verify", file).returncode == 0
