"""References of every form, with a real engine and a real registry."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterator

import docker
import pytest

from bitsect.images.errors import BadReference, InfrastructureError
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.reference import parse_reference
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.pull import PullProgress
from bitsect.images.runtime.docker.references import ReferenceResolver
from bitsect.images.runtime.docker.runtime import DockerRuntime
from bitsect.images.runtime.protocol import Stack
from tests.images.docker.registry import SmallImages, serving_registry

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture
def local(engine: docker.DockerClient) -> Iterator[SmallImages]:
    """Images that the engine has and no registry does."""
    images = SmallImages(engine, f"bitsect-test/references-{secrets.token_hex(4)}")
    yield images
    images.clean()


@pytest.fixture
def remote(engine: docker.DockerClient, host: str) -> Iterator[SmallImages]:
    """Images of a repository of their own in the registry, once they are pushed."""
    images = SmallImages(engine, f"{host}/team-{secrets.token_hex(4)}/stack")
    yield images
    images.clean()


def resolved(runtime: DockerRuntime, text: str) -> ImageIdentity:
    image = runtime.resolve(parse_reference(text)).image
    assert image is not None
    return image


def refused(runtime: DockerRuntime, text: str) -> BadReference:
    with pytest.raises(BadReference) as caught:
        runtime.resolve(parse_reference(text))
    assert caught.value.text == text
    return caught.value


class TestLocal:
    def test_a_name_and_a_tag(self, runtime: DockerRuntime, local: SmallImages) -> None:
        config = {"Env": ["A=1", "PATH=/x"], "Cmd": ["run"], "User": "me", "WorkingDir": "/w"}
        image = local.make(":a", config=config)
        found = resolved(runtime, f"{local.prefix}:a")
        assert found.engine_id == image
        assert found.repository == local.prefix
        assert found.requested == f"{local.prefix}:a"
        assert found.environment == {"A": "1", "PATH": "/x"}
        assert (found.entrypoint, found.command) == ((), ("run",))
        assert (found.user, found.working_folder) == ("me", "/w")
        assert found.platform == "linux/amd64"
        assert len(found.diff_ids) == 1
        if found.store == "graphdriver":
            assert found.config_digest == image
            assert (found.manifest_digest, found.index_digest) == (None, None)

    def test_a_name_alone_means_latest(self, runtime: DockerRuntime, local: SmallImages) -> None:
        local.make(":other")
        image = local.make(":latest")
        assert resolved(runtime, local.prefix).engine_id == image

    @pytest.mark.parametrize("digits", [6, 12, 64])
    def test_the_beginning_of_an_id(
        self, runtime: DockerRuntime, local: SmallImages, digits: int
    ) -> None:
        image = local.make(":a")
        short = image.removeprefix("sha256:")[:digits]
        for text in (short, f"sha256:{short}"):
            found = resolved(runtime, text)
            assert (found.engine_id, found.repository) == (image, "")

    @pytest.mark.parametrize("form", ["{name}@{tag}", "{name}@{short}", "{name}@sha256:{short}"])
    def test_a_name_and_a_tag_or_the_beginning_of_an_id(
        self, runtime: DockerRuntime, local: SmallImages, form: str
    ) -> None:
        image = local.make(":v1")
        local.make(":v2")
        text = form.format(name=local.prefix, tag="v1", short=image.removeprefix("sha256:")[:16])
        found = resolved(runtime, text)
        assert (found.engine_id, found.repository) == (image, local.prefix)

    def test_an_id_of_another_repository_is_not_meant(
        self, runtime: DockerRuntime, local: SmallImages
    ) -> None:
        image = local.make(":a")
        local.make("-other:a")
        short = image.removeprefix("sha256:")[:16]
        error = refused(runtime, f"{local.prefix}-other@sha256:{short}")
        assert error.candidates == (f"{local.prefix}-other:a",)

    def test_what_may_mean_several_images_names_them(
        self, runtime: DockerRuntime, local: SmallImages
    ) -> None:
        # Given two images whose ids begin alike
        letters: set[str] = set()
        for number in itertools.count():
            letter = local.make(f":{number}").removeprefix("sha256:")[0]
            if letter in letters:
                break
            letters.add(letter)
        # Then neither is taken, and both are named
        error = refused(runtime, f"{local.prefix}@sha256:{letter}")
        assert error.reason == "it may mean 2 images"
        assert len(error.candidates) == 2
        assert all(local.prefix in candidate for candidate in error.candidates)

    def test_a_tag_that_looks_like_another_images_id_is_ambiguous(
        self, runtime: DockerRuntime, local: SmallImages
    ) -> None:
        image = local.make(":a")
        short = image.removeprefix("sha256:")[:8]
        local.make(f":{short}")
        assert len(refused(runtime, f"{local.prefix}@{short}").candidates) == 2

    def test_another_platform(self, runtime: DockerRuntime, local: SmallImages) -> None:
        local.make(":a", architecture="s390x")
        error = refused(runtime, f"{local.prefix}:a")
        assert error.reason == "it is for linux/s390x, and the engine runs linux/amd64"

    def test_an_image_without_python(self, runtime: DockerRuntime, local: SmallImages) -> None:
        local.make(":a")
        stack = runtime.resolve(parse_reference(f"{local.prefix}:a"))
        with pytest.raises(BadReference) as caught:
            runtime.ensure(stack)
        assert caught.value.reason == "it has no Python on its PATH"


class TestRemote:
    def test_it_is_pulled_by_its_digest(self, runtime: DockerRuntime, remote: SmallImages) -> None:
        image = remote.make(":v1")
        digest = remote.push(":v1")
        remote.forget(image)
        found = resolved(runtime, f"{remote.prefix}:v1")
        assert (found.manifest_digest, found.config_digest) == (digest, image)
        assert found.repository == remote.prefix
        assert re.fullmatch(rf"{re.escape(remote.prefix)}@sha256:[0-9a-f]{{12}}", found.short)
        # What is shown for it is a reference to it again.
        assert resolved(runtime, found.short).config_digest == image

    @pytest.mark.parametrize("form", ["{name}@{digest}", "{name}:other@{digest}", "{name}@v1"])
    def test_by_digest_and_by_tag_after_an_at(
        self, runtime: DockerRuntime, remote: SmallImages, form: str
    ) -> None:
        image = remote.make(":v1")
        digest = remote.push(":v1")
        remote.forget(image)
        found = resolved(runtime, form.format(name=remote.prefix, digest=digest))
        assert (found.config_digest, found.manifest_digest) == (image, digest)

    def test_how_far_it_has_come_is_told(
        self, runtime: DockerRuntime, remote: SmallImages, real_engine: Engine
    ) -> None:
        image = remote.make(":v1")
        remote.push(":v1")
        remote.forget(image)
        told: list[PullProgress] = []
        ReferenceResolver(real_engine, runtime.identities, told.append).resolve(
            f"{remote.prefix}:v1"
        )
        assert told[-1].layers == told[-1].ready == 1
        assert [each.received for each in told] == sorted(each.received for each in told)

    def test_a_tag_that_moves_changes_nothing(
        self, runtime: DockerRuntime, remote: SmallImages
    ) -> None:
        # Given a stack that was resolved by its tag
        image = remote.make(":v1")
        remote.push(":v1")
        remote.forget(image)
        stack = runtime.resolve(parse_reference(f"{remote.prefix}:v1"))
        # When the tag moves, and the image is removed
        other = remote.make(":v1")
        remote.push(":v1")
        remote.forget(other)
        remote.forget(image)
        # Then the image that was resolved comes back
        assert pulled_again(runtime, stack).config_digest == image

    def test_an_image_that_is_gone_from_everywhere(
        self, runtime: DockerRuntime, local: SmallImages
    ) -> None:
        image = local.make(":a")
        stack = runtime.resolve(parse_reference(f"{local.prefix}:a"))
        local.forget(image)
        with pytest.raises(InfrastructureError) as caught:
            runtime.ensure(stack)
        assert caught.value.kind == "refused"
        assert f"{local.prefix}:a was removed" in caught.value.detail

    def test_a_tag_that_nobody_has_names_those_that_are_here(
        self, runtime: DockerRuntime, remote: SmallImages
    ) -> None:
        remote.make(":v1")
        remote.push(":v1")
        error = refused(runtime, f"{remote.prefix}:v2")
        assert "manifest unknown" in error.reason
        assert error.candidates == (f"{remote.prefix}:v1",)

    def test_a_registry_that_cannot_be_reached(
        self, runtime: DockerRuntime, local: SmallImages
    ) -> None:
        with pytest.raises(InfrastructureError) as caught:
            runtime.resolve(parse_reference("127.0.0.1:1/team/stack:v1"))
        assert caught.value.kind == "registry"
        assert "127.0.0.1:1/team/stack:v1" in caught.value.detail

    def test_another_platform_is_not_even_pulled(
        self, runtime: DockerRuntime, remote: SmallImages, engine: docker.DockerClient
    ) -> None:
        image = remote.make(":v1", architecture="s390x")
        remote.push(":v1")
        remote.forget(image)
        error = refused(runtime, f"{remote.prefix}:v1")
        assert error.reason == "it is for linux/s390x, and the engine runs linux/amd64"
        assert engine.images.list(remote.prefix) == []


def pulled_again(runtime: DockerRuntime, stack: Stack) -> ImageIdentity:
    """What the engine has of a stack's image once the runtime has looked for it."""
    assert stack.image is not None
    # The image has no Python, which is found out only once it is there.
    with pytest.raises(BadReference, match="no Python"):
        runtime.ensure(stack)
    return runtime.identities.of(stack.image.engine_id, "", stack.image.repository)


def test_another_kind_is_a_defect(runtime: DockerRuntime) -> None:
    with pytest.raises(ValueError, match="not an image's reference"):
        runtime.resolve(parse_reference("host:"))
    with pytest.raises(ValueError, match="not of this runtime"):
        runtime.ensure(Stack("host:", "host", None, {}))
