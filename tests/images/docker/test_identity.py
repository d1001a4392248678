"""What an image is, on engines that keep images in containerd, where its id says little."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from docker.errors import NotFound

from bitsect.images.errors import BadReference, InfrastructureError
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.identity import Identities, same_platform
from bitsect.images.runtime.docker.references import ReferenceResolver
from tests.images.docker.fake_engine import Answer, FakeEngine, serving

CONTAINERD = [["driver-type", "io.containerd.snapshotter.v1"]]
LAYERS = ["sha256:" + "1" * 64, "sha256:" + "2" * 64]
INDEX = "application/vnd.oci.image.index.v1+json"
ID = "sha256:" + "a" * 64


def config(layers: list[str], architecture: str = "amd64") -> bytes:
    document = {"architecture": architecture, "rootfs": {"type": "layers", "diff_ids": layers}}
    return json.dumps(document).encode()


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def exported(*blobs: bytes) -> bytes:
    """An image as the engine exports it."""
    packed = io.BytesIO()
    files = {f"blobs/sha256/{digest(blob).removeprefix('sha256:')}": blob for blob in blobs}
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in {"oci-layout": b"{}", **files, "index.json": b"{}"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def described(**changes: object) -> Mapping[str, object]:
    image: dict[str, object] = {
        "Id": ID,
        "RepoTags": ["team/stack:v1"],
        "RepoDigests": [f"team/stack@{ID}"],
        "Descriptor": {"mediaType": INDEX, "digest": ID},
        "Os": "linux",
        "Architecture": "amd64",
        "RootFS": {"Layers": LAYERS},
        "Config": {"Env": ["A=1"]},
    }
    return {**image, **changes}


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeEngine]:
    """One that keeps images in containerd, and has one."""
    with serving(tmp_path) as served:
        served.introduce(DriverStatus=CONTAINERD)
        served.answers[f"GET /images/{ID}/json"] = Answer.of(described())
        served.answers["GET /images/json"] = Answer.of([described()])
        served.answers[f"GET /images/{ID}/get"] = Answer(
            exported(b"a layer" * 10000, b"{}", config(["other"]), config(LAYERS))
        )
        yield served


@pytest.fixture
def engine(fake: FakeEngine) -> Iterator[Engine]:
    with closing(Engine.connect(fake.environment)) as engine:
        yield engine


@pytest.fixture
def identities(engine: Engine, tmp_path: Path) -> Identities:
    return Identities(engine, tmp_path / "configs")


def test_the_config_is_found_among_what_is_exported(identities: Identities) -> None:
    found = identities.of(ID, "team/stack:v1", "team/stack")
    assert found.config_digest == digest(config(LAYERS))
    assert (found.engine_id, found.manifest_digest, found.index_digest) == (ID, ID, ID)
    assert found.store == "containerd"
    assert found.diff_ids == tuple(LAYERS)


def test_it_is_looked_for_once(
    identities: Identities, engine: Engine, fake: FakeEngine, tmp_path: Path
) -> None:
    first = identities.of(ID, "", "").config_digest
    again = Identities(engine, tmp_path / "configs")
    assert again.of(ID, "", "").config_digest == first
    assert fake.requests.count(f"GET /images/{ID}/get") == 1


def test_what_was_kept_in_part_is_looked_for_again(
    identities: Identities, fake: FakeEngine, tmp_path: Path
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / ("a" * 64)).write_text("sha256:12")
    assert identities.of(ID, "", "").config_digest == digest(config(LAYERS))
    assert fake.requests.count(f"GET /images/{ID}/get") == 1


@pytest.mark.parametrize(
    "data",
    [exported(config(["other"])), b"no archive at all", b""],
    ids=["no config", "no archive", "nothing"],
)
def test_an_export_without_it_is_the_engines_fault(
    identities: Identities, fake: FakeEngine, data: bytes
) -> None:
    fake.answers[f"GET /images/{ID}/get"] = Answer(data)
    with pytest.raises(InfrastructureError) as caught:
        identities.of(ID, "", "")
    assert caught.value.kind == "refused"


def test_a_blob_under_a_wrong_name_is_no_config(identities: Identities, fake: FakeEngine) -> None:
    lying = exported(config(LAYERS)).replace(
        digest(config(LAYERS)).removeprefix("sha256:").encode(), b"b" * 64
    )
    fake.answers[f"GET /images/{ID}/get"] = Answer(lying)
    with pytest.raises(InfrastructureError):
        identities.of(ID, "", "")


def test_an_image_that_is_not_there(identities: Identities) -> None:
    with pytest.raises(NotFound):
        identities.of("absent", "", "")


def test_the_beginning_of_a_configs_digest_is_a_reference(
    engine: Engine, identities: Identities
) -> None:
    short = digest(config(LAYERS)).removeprefix("sha256:")[:12]
    resolver = ReferenceResolver(engine, identities)
    for text in (f"team/stack@{short}", f"team/stack@sha256:{short}"):
        assert resolver.resolve(text).engine_id == ID


def test_with_no_such_digest_it_is_refused(engine: Engine, identities: Identities) -> None:
    with pytest.raises(BadReference) as caught:
        ReferenceResolver(engine, identities).resolve("team/stack@sha256:beef")
    assert caught.value.candidates == ("team/stack:v1",)


@pytest.mark.parametrize(
    ("image", "same"),
    [("linux/amd64", True), ("linux/amd64/v2", True), ("linux/arm64", False), ("x/amd64", False)],
)
def test_platforms(image: str, same: bool) -> None:
    assert same_platform(image, "linux/amd64") is same
