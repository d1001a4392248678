"""What the tool leaves on the engine is seen, whatever state it is in, and can be removed."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from bitsect.images.runtime.docker.marks import Marks
from tests.containers.remnants import Remnants, remnants, remove
from tests.containers.workshop import Workshop

pytestmark = pytest.mark.engine

TAG = "bitsect-test/remnants:made"


def test_all_that_is_left_is_found_and_removed(
    workshop: Workshop, engine: docker.DockerClient, tmp_path: Path
) -> None:
    # Given an image, a volume and a container that was never started, with the tool's labels
    assert remnants(engine, tmp_path) == Remnants()
    marks = Marks(tmp_path)
    image = engine.images.get(
        workshop.derived(
            TAG,
            workshop.small(),
            [f"LABEL {name}={value}" for name, value in marks.on_kept("tried").items()],
        )
    )
    volume = engine.volumes.create(labels=marks.on_kept("tried"))
    container = engine.containers.create(
        workshop.small(), ["true"], labels=marks.on_container("tried")
    )
    marks.release()

    # Then they are found, by this cache folder alone
    found = remnants(engine, tmp_path)
    assert found == Remnants((str(container.id),), (str(volume.id),), (str(image.id),))
    assert remnants(engine, tmp_path / "other") == Remnants()

    # And can be removed
    remove(engine, found)
    assert remnants(engine, tmp_path) == Remnants()
