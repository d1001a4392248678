"""How an engine is found, and what it means when it is not, refuses, or goes away."""

from __future__ import annotations

import io
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import docker
import pytest
import requests
from docker.errors import APIError, NotFound

from bitsect.images.errors import InfrastructureError
from bitsect.images.runtime.docker.engine import Engine, engine_faults
from tests.images.docker.fake_engine import Answer, FakeEngine, serving

NOBODY = 65534


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeEngine]:
    with serving(tmp_path) as served:
        yield served


def connecting(environment: dict[str, str]) -> InfrastructureError:
    """The error that it gives."""
    with pytest.raises(InfrastructureError) as raised:
        Engine.connect(environment)
    return raised.value


@pytest.mark.usefixtures("unanswered")
class TestNoEngine:
    def test_nothing_is_there(self, tmp_path: Path) -> None:
        error = connecting({"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
        assert error.kind == "engine"
        assert f"{tmp_path}/none.sock" in error.detail
        assert "No such file or directory" in error.detail

    def test_nobody_listens(self) -> None:
        error = connecting({"DOCKER_HOST": "tcp://127.0.0.1:1"})
        assert (error.kind, "Connection refused" in error.detail) == ("engine", True)

    def test_the_address_is_none(self) -> None:
        assert connecting({"DOCKER_HOST": "nonsense"}).kind == "engine"

    def test_it_is_somebody_elses_socket(self, fake: FakeEngine) -> None:
        socket = Path(fake.address.removeprefix("unix://"))
        socket.chmod(0)
        with as_nobody(socket):
            error = connecting(fake.environment)
        assert error.kind == "permission"
        assert str(socket) in error.detail

    def test_it_is_no_engine(self, fake: FakeEngine) -> None:
        fake.answers["GET /version"] = Answer(b"<html>hello</html>")
        assert connecting(fake.environment).kind == "engine"

    def test_it_answers_something_else(self, fake: FakeEngine) -> None:
        fake.answers["GET /info"] = Answer.of({"hello": "world"})
        assert connecting(fake.environment).kind == "engine"

    def test_it_is_too_old(self, fake: FakeEngine) -> None:
        fake.introduce("1.39")
        error = connecting(fake.environment)
        assert error.kind == "engine"
        assert "1.39" in error.detail
        assert "1.40 is needed" in error.detail


@contextmanager
def as_nobody(socket: Path) -> Iterator[None]:
    """Without the superuser's permissions, but with the way to the socket open."""
    if os.geteuid() != 0:
        yield
        return
    for folder in list(socket.parents)[:-1]:
        if not folder.stat().st_mode & stat.S_IXOTH:
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


class TestDescription:
    def test_what_docker_says(self, fake: FakeEngine) -> None:
        with closing(Engine.connect(fake.environment)) as engine:
            assert engine.title == "Docker Engine 29.0"
            assert engine.api_version == (1, 44)
            assert (engine.store, engine.platform) == ("graphdriver", "linux/amd64")
            assert (engine.memory, engine.cpus) == (8 << 30, 4)
            assert not engine.is_podman
            assert not engine.has_cdi

    def test_images_kept_in_containerd(self, fake: FakeEngine) -> None:
        status = [["driver-type", "io.containerd.snapshotter.v1"]]
        fake.introduce(Driver="overlayfs", DriverStatus=status)
        with closing(Engine.connect(fake.environment)) as engine:
            assert engine.store == "containerd"

    def test_podman(self, fake: FakeEngine) -> None:
        fake.answers["GET /version"] = Answer.of(
            {
                "Version": "4.3.1",
                "ApiVersion": "1.41",
                "Os": "linux",
                "Arch": "amd64",
                "Components": [{"Name": "Podman Engine"}, {"Name": "Conmon"}],
            }
        )
        with closing(Engine.connect(fake.environment)) as engine:
            assert (engine.title, engine.is_podman) == ("Podman Engine 4.3.1", True)

    @pytest.mark.parametrize(
        ("info", "has"),
        [
            ({"CDISpecDirs": ["/etc/cdi"]}, True),
            ({"CDISpecDirs": None}, False),
            ({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": []}, False),
            ({"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}, True),
            ({"DiscoveredDevices": [{"Source": "cdi", "ID": "other.com/nic=0"}]}, False),
        ],
    )
    def test_whether_it_names_gpus(
        self, fake: FakeEngine, info: dict[str, object], has: bool
    ) -> None:
        fake.introduce("1.50", **info)
        with closing(Engine.connect(fake.environment)) as engine:
            assert engine.has_cdi is has

    def test_the_command_lines_context_is_followed(
        self, fake: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        # The SDK keeps contexts beside this file, or else in the working folder.
        (tmp_path / "config.json").write_text("{}")
        docker.context.ContextAPI.create_context("other", host=fake.address)
        with closing(Engine.connect({"DOCKER_CONTEXT": "other"})) as engine:
            assert engine.version == "29.0"

    @pytest.mark.parametrize(
        ("config", "variables"),
        [("{}", {"DOCKER_CONTEXT": "nowhere"}), ('{"currentContext": "nowhere"}', {})],
    )
    def test_a_context_that_is_none_is_not_passed_over(
        self,
        config: str,
        variables: dict[str, str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        (tmp_path / "config.json").write_text(config)
        error = connecting(variables)
        assert (error.kind, error.detail) == ("engine", "there is no context 'nowhere' of Docker's")


class TestFaults:
    @pytest.fixture
    def engine(self, fake: FakeEngine) -> Iterator[Engine]:
        with closing(Engine.connect(fake.environment)) as engine:
            yield engine

    def test_what_is_not_there_is_for_the_caller(self, engine: Engine) -> None:
        with pytest.raises(NotFound):
            engine.image("absent")

    def test_so_is_a_conflict(self, engine: Engine, fake: FakeEngine) -> None:
        fake.answers["POST /containers/x/start"] = Answer.error(409, "busy")
        with pytest.raises(APIError), engine_faults("starting"):
            engine.api.start("x")

    @pytest.mark.parametrize(
        ("said", "kind"),
        [
            ("write /var/lib/x: no space left on device", "disk"),
            ("Disk quota exceeded", "disk"),
            ("something else", "refused"),
        ],
    )
    def test_a_refusal(self, engine: Engine, fake: FakeEngine, said: str, kind: str) -> None:
        fake.answers["POST /containers/x/start"] = Answer.error(500, said)
        with pytest.raises(InfrastructureError) as caught, engine_faults("starting"):
            engine.api.start("x")
        assert (caught.value.kind, caught.value.detail) == (kind, f"starting: {said}")

    def test_an_answer_that_breaks_off(self, engine: Engine, fake: FakeEngine) -> None:
        fake.answers["GET /containers/x/export"] = Answer(b"half", broken=True)
        with (
            pytest.raises(InfrastructureError) as caught,
            engine_faults("exporting"),
            engine.stream("GET", "/containers/x/export") as answer,
        ):
            shutil.copyfileobj(answer.raw, io.BytesIO())
        assert caught.value.kind == "engine"

    def test_a_stream_that_is_refused(self, engine: Engine) -> None:
        with pytest.raises(NotFound), engine.stream("GET", "/containers/x/export"):
            pass

    @pytest.mark.parametrize(
        "error",
        [
            ConnectionResetError(104, "Connection reset by peer"),
            TimeoutError("timed out"),
            requests.exceptions.ReadTimeout("Read timed out"),
        ],
    )
    def test_a_lost_connection(self, error: Exception) -> None:
        with pytest.raises(InfrastructureError) as caught, engine_faults("asking"):
            raise error
        assert caught.value.kind == "engine"
        assert caught.value.detail.startswith("asking: ")

    def test_other_errors_are_not_the_engines(self) -> None:
        with pytest.raises(FileNotFoundError), engine_faults("asking"):
            Path("/nowhere").read_bytes()
