"""A search on Podman's socket, hybrids and all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import docker
import pytest

from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.marks import OWNER
from tests.containers import cases
from tests.containers.engine import copy_images
from tests.containers.workshop import Workshop
from tests.end_to_end.conftest import Program
from tests.images.docker.podman import podman_service

pytestmark = [pytest.mark.end_to_end, pytest.mark.engine]


@pytest.fixture
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # Podman takes no long path.
    with podman_service(tmp_path_factory.mktemp("podman")) as variables:
        yield variables["DOCKER_HOST"]


def test_a_search_on_podman(
    address: str, engine: docker.DockerClient, workshop: Workshop, bitsect: Program
) -> None:
    # Given two images that only Podman is asked about, with a package and a variable between them
    chain = cases.chain(workshop)
    good, bad = chain.images[:2]
    with closing(Engine.connect({"DOCKER_HOST": address})) as podman:
        copy_images(engine, podman.api, (good, bad))

        # When what changed between them is searched
        ran = bitsect(
            "bisect", "start", f"good:{good}", f"bad:{bad}", "--arms=data", "--no-index", "--json",
            DOCKER_HOST=address,
        )  # fmt: skip

        # Then it is found, and everything else is innocent
        assert ran.returncode == 0, ran.stderr
        answer = json.loads(ran.stdout)
        (finding,) = answer["findings"]
        assert [each["component"] for each in finding["culprits"]] == [f"apt:{cases.OPENBLAS}"]
        assert set(answer["innocent"]) == set(chain.innocents)
        assert answer["stacks"][0]["engine"] == podman.title

        # And what was made for it can be cleared away
        made = [each for each in podman.api.images() if OWNER in (each["Labels"] or {})]
        assert made
        # What somebody makes of a hybrid belongs to no process, so nobody clears it away
        assert {each["Labels"][OWNER] for each in made} == {""}
        assert bitsect("clean", DOCKER_HOST=address).returncode == 0
        assert len(podman.api.images()) == 2
        assert podman.api.containers(all=True) == []
