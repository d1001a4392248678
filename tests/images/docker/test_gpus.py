"""How GPUs are asked for, and that they are missed where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

import pytest
from msgspec import structs

from bitsect.images.errors import InfrastructureError
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.gpus import FoundGpus, check_gpus, device_requests
from bitsect.images.runtime.docker.runtime import DockerRuntime, FoundImage
from tests.images.docker.fake_engine import FakeEngine, serving
from tests.images.docker.programs import containers, run

UUIDS = ("GPU-aaaa", "GPU-bbbb")


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeEngine]:
    with serving(tmp_path) as served:
        yield served


@contextmanager
def knowing(fake: FakeEngine, *, names: bool) -> Iterator[Engine]:
    """An engine that knows GPUs by names of their own, or does not."""
    fake.introduce(CDISpecDirs=["/etc/cdi"] if names else None)
    with closing(Engine.connect(fake.environment)) as engine:
        yield engine


class TestRequests:
    def test_none(self, fake: FakeEngine) -> None:
        with knowing(fake, names=True) as engine:
            assert device_requests(engine, "", "auto") == []

    @pytest.mark.parametrize(("way", "names"), [("auto", True), ("cdi", False)])
    def test_by_their_names(
        self, fake: FakeEngine, way: Literal["auto", "cdi"], names: bool
    ) -> None:
        with knowing(fake, names=names) as engine:
            (request,) = device_requests(engine, "0, GPU-aaaa", way)
        assert request["Driver"] == "cdi"
        assert request["DeviceIDs"] == ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-aaaa"]
        assert request["Count"] == 0

    @pytest.mark.parametrize(("way", "names"), [("auto", False), ("device_request", True)])
    def test_by_their_capability(
        self, fake: FakeEngine, way: Literal["auto", "device_request"], names: bool
    ) -> None:
        with knowing(fake, names=names) as engine:
            (every,) = device_requests(engine, "all", way)
            (some,) = device_requests(engine, "0,1", way)
        assert (every["Count"], every["Capabilities"]) == (-1, [["gpu"]])
        assert (some["DeviceIDs"], some["Count"]) == (["0", "1"], 0)


class TestCheck:
    @pytest.mark.parametrize(
        ("gpus", "found"),
        [
            ("all", FoundGpus(1, UUIDS[:1])),
            ("0,1", FoundGpus(2, UUIDS)),
            ("GPU-bbbb", FoundGpus(1, UUIDS[1:])),
            ("GPU-bbbb", FoundGpus(1, (), "no NVML")),
        ],
    )
    def test_they_are_there(self, fake: FakeEngine, gpus: str, found: FoundGpus) -> None:
        with knowing(fake, names=True) as engine:
            check_gpus(gpus, found, engine)

    @pytest.mark.parametrize(
        ("gpus", "found"),
        [
            ("all", FoundGpus(0, (), "libnvidia-ml.so.1: no such file")),
            ("0,1", FoundGpus(1, UUIDS[:1])),
            ("GPU-bbbb", FoundGpus(1, UUIDS[:1])),
        ],
    )
    def test_they_are_not(self, fake: FakeEngine, gpus: str, found: FoundGpus) -> None:
        with knowing(fake, names=True) as engine, pytest.raises(InfrastructureError) as caught:
            check_gpus(gpus, found, engine)
        assert caught.value.kind == "refused"
        assert f"GPUs {gpus} were asked of Docker Engine 29.0" in caught.value.detail
        assert found.problem is None or found.problem in caught.value.detail


@pytest.mark.engine
class TestRealEngine:
    @pytest.fixture
    def asking(self, runtime: DockerRuntime) -> Iterator[DockerRuntime]:
        """A runtime that wants GPUs, on a machine that has none for containers."""
        plain = runtime.options
        runtime.options = structs.replace(plain, gpus="all")
        yield runtime
        runtime.options = plain

    def test_a_request_that_is_refused_is_the_hosts_fault(
        self, asking: DockerRuntime, handle: FoundImage, real_engine: Engine
    ) -> None:
        with asking.open(handle) as session, pytest.raises(InfrastructureError) as caught:
            run(session, "pass")
        assert caught.value.kind == "refused"
        assert containers(real_engine, asking) == []

    def test_so_is_one_that_is_dropped_without_a_word(
        self,
        asking: DockerRuntime,
        handle: FoundImage,
        real_engine: Engine,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def dropped(*_: object) -> list[object]:
            return []

        monkeypatch.setattr("bitsect.images.runtime.docker.limits.device_requests", dropped)
        with asking.open(handle) as session, pytest.raises(InfrastructureError) as caught:
            run(session, "pass")
        assert "started the container with 0 (libnvidia-ml.so.1:" in caught.value.detail
        assert containers(real_engine, asking) == []
