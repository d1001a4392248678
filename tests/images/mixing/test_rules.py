"""How trials of images are judged: what is there, and what was used."""

from __future__ import annotations

import json
from dataclasses import dataclass

import msgspec
import pytest

from bitsect.images.contents.axes import Differences
from bitsect.images.contents.model import ABSENT, ComponentAxis, Contents, State
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.layers import Binary, OsPackage
from bitsect.images.manifest import Manifest, from_inventory
from bitsect.images.mixing.rules import ImageRules
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.runtime.protocol import Stack
from bitsect.probes import inventory


@dataclass(frozen=True)
class Seen:
    """What a run used."""

    libraries: tuple[Binary, ...] = ()
    distributions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


SITE = "/usr/lib/python3/dist-packages"


def axis(
    component: str, before: str, after: str, *paths: str, packages: tuple[str, ...] = ()
) -> ComponentAxis:
    states = tuple(
        State(name, f"sha256:{component}{name}", None if name == ABSENT else at, paths, packages)
        for at, name in enumerate((before, after))
    )
    return ComponentAxis(component, states, (0, 1))


def metadata(site: str, name: str) -> str:
    return f"{site}/{name}-2.dist-info/METADATA"


AXES = (
    axis("apt:libblas", ABSENT, "3.12", "/usr/lib/libblas.so.3", packages=("libblas:amd64",)),
    axis("apt:libblas:i386", ABSENT, "3.12", packages=("libblas:i386",)),
    axis("env:GREETING", ABSENT, "hello"),
    axis("env:OMP_NUM_THREADS", ABSENT, "1"),
    axis("file:/etc/blas.conf", "11aa", "22bb", "/etc/blas.conf"),
    axis("pip:numpy", "2.2 (build ab12)", "2.2 (build cd34)", metadata(SITE, "numpy")),
    axis("pip:torch@/opt/old", "1", "2", metadata("/opt/old", "torch")),
)


@pytest.fixture(scope="module")
def rules() -> ImageRules:
    image = ImageIdentity(
        "a:1", "a", "sha256:e", "sha256:c", None, None, (), "linux/amd64", {}, (), (), "", "",
        {}, "graphdriver", "Docker Engine 20",
    )  # fmt: skip
    other = msgspec.structs.replace(image, config_digest="sha256:d")
    empty = Contents({}, {})
    return ImageRules(ImageSpace([image, other], [empty, empty], Differences(AXES, (), (), ())))


@pytest.fixture(scope="module")
def here() -> Manifest:
    return from_inventory(json.loads(json.dumps(inventory.take())))


def with_software(manifest: Manifest, numpy: str | None, blas: str | None) -> Manifest:
    (template, *_) = [d for d in manifest.software.distributions if not d.shadowed]
    packages = () if blas is None else (OsPackage("dpkg", "libblas", blas, "amd64"),)
    one = msgspec.structs.replace(template, name="numpy", version=numpy, location=SITE)
    other = msgspec.structs.replace(one, name="pip", version="1")
    software = msgspec.structs.replace(
        manifest.software, distributions=(one, other) if numpy else (other,), os_packages=packages
    )
    return msgspec.structs.replace(manifest, software=software)


def stack(**points: str) -> Stack:
    components = {"pip:numpy": "2.2 (build cd34)", "pip:torch@/opt/old": "2"}
    return Stack("a:1 with things", "image", None, {**components, **points})


class TestContradictions:
    def test_what_is_as_asked_is_none(self, rules: ImageRules, here: Manifest) -> None:
        asked = stack(**{"apt:libblas": "3.12"})
        assert rules.contradiction(asked, with_software(here, "2.2", "3.12")) == ""

    def test_a_package_at_another_version_is_one(self, rules: ImageRules, here: Manifest) -> None:
        asked = stack(**{"apt:libblas": "3.12"})
        said = rules.contradiction(asked, with_software(here, "2.2", "3.11"))
        assert said == "apt:libblas: asked for 3.12, found 3.11"

    def test_a_package_that_should_be_gone_is_one(self, rules: ImageRules, here: Manifest) -> None:
        said = rules.contradiction(stack(), with_software(here, "2.2", "3.12"))
        assert said == "apt:libblas: asked for absent, found 3.12"

    def test_a_distribution_that_is_not_there_is_one(
        self, rules: ImageRules, here: Manifest
    ) -> None:
        said = rules.contradiction(stack(), with_software(here, None, None))
        assert "pip:numpy: asked for 2.2 (build cd34), found nothing" in said

    def test_what_the_inventory_cannot_see_is_none(self, rules: ImageRules, here: Manifest) -> None:
        # Given a distribution in a folder that the stack's Python does not import from, and a
        # package of another architecture
        asked = stack(**{"apt:libblas": "3.12", "pip:torch@/opt/old": "1"})
        assert rules.contradiction(asked, with_software(here, "2.2", "3.12")) == ""


class TestTouched:
    @pytest.mark.parametrize(
        ("used", "touched"),
        [
            (Seen(files=("/usr/lib/libblas.so.3",)), "apt:libblas"),
            (Seen(files=("/etc/blas.conf", "/etc/passwd")), "file:/etc/blas.conf"),
            (Seen(distributions=("numpy",)), "pip:numpy"),
            (Seen(distributions=("torch",)), "pip:torch@/opt/old"),
            (Seen(variables=("GREETING",)), "env:GREETING"),
        ],
        ids=["library", "file", "distribution", "one of two of a name", "variable"],
    )
    def test_what_was_used_is_touched(self, rules: ImageRules, used: Seen, touched: str) -> None:
        # Variables that steer numerics are read by compiled code, which nobody sees
        assert rules.touched(stack(), used) == tuple(
            each.component for each in AXES if each.component in (touched, "env:OMP_NUM_THREADS")
        )
