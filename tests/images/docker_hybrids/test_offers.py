"""States that no image has: from a package index, and from an image's own package sources."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest

from bitsect.images.contents.axes import axes_between
from bitsect.images.contents.model import Contents
from bitsect.images.contents.reader import read_contents
from bitsect.images.errors import InfrastructureError, UnbuildableError
from bitsect.images.layers import Python
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.offers.apt_offers import AptOffers
from bitsect.images.offers.image_python import image_python
from bitsect.images.offers.offer import Offers, offered
from bitsect.images.offers.pip_offers import PipOffers
from bitsect.images.pip_settings import PipSettings
from bitsect.images.runtime.docker.files import exported
from bitsect.images.runtime.docker.package_sources import PackageSources
from bitsect.images.runtime.docker.pruning import MadeImages
from bitsect.images.runtime.docker.runtime import DockerRuntime
from tests.containers.distributions import distribution
from tests.containers.workshop import Workshop
from tests.images.docker_hybrids.mix import Mix

if TYPE_CHECKING:
    from tests.images.conftest import LocalIndex

pytestmark = pytest.mark.engine

PIP, APT = "pip:some-lib", "apt:some-tool"


def with_offers_of(mix: Mix, *offers: Offers) -> Mix:
    """The same images, with what lies between them."""
    chain = mix.space.chain
    differences = offered(axes_between(chain), offers)
    space = ImageSpace(mix.space.images, mix.space.contents, differences)
    return Mix(mix.docker, space, offers)


class TestPip:
    @pytest.fixture
    def mix(
        self,
        workshop: Workshop,
        mix_of: Callable[..., Mix],
        local_index: LocalIndex,
        local_settings: PipSettings,
        tmp_path: Path,
    ) -> Mix:
        ends = [
            workshop.derived(
                f"bitsect-test/offers:pip-{end}",
                workshop.small(),
                files={
                    **distribution("some-lib", version),
                    "etc/pip/constraint.txt": b"some-lib==1.0\n",
                },
            )
            for end, version in (("good", "1.0"), ("bad", "4.0"))
        ]
        for version in ("2.0", "3.0"):
            files = {"some_lib/__init__.py": f"version = {version!r}\n", "some_lib/own.py": ""}
            local_index.add("some-lib", version, files=files)
        mix = mix_of(*ends)
        version = mix.python(mix.good, "import platform; print(platform.python_version())")
        python = Python(version, "cpython", "main", "GCC", "cpython-3", None, libc="glibc 2.36")
        interpreter = image_python(python, "/usr/bin/python3", mix.space.images[0].platform)
        assert interpreter is not None
        cache = tmp_path / "offers"
        return with_offers_of(
            mix, PipOffers(interpreter, local_settings, mix.space.contents, cache)
        )

    def test_a_release_between_two_images_is_put_where_theirs_are(self, mix: Mix) -> None:
        assert [state.name for state in mix.space.axis(PIP).states] == ["1.0", "2.0", "3.0", "4.0"]
        stack = mix.runtime.hybrid(mix.good, {PIP: "2.0"})

        code = (
            "import some_lib, importlib.metadata as m;"
            " print(some_lib.version, m.version('some-lib'), some_lib.__file__)"
        )
        found = mix.python(stack, code).split()

        assert found[:2] == ["2.0", "2.0"]
        # And what the image said about it is not hidden
        assert "(not as /etc/pip/constraint.txt has it)" in stack.reference

    def test_a_release_takes_the_place_of_another_one_whole(self, mix: Mix) -> None:
        # Given a hybrid with one release, from which the next is made
        mix.python(mix.runtime.hybrid(mix.good, {PIP: "2.0"}), "pass")
        code = (
            "import os, some_lib; folder = os.path.dirname(os.path.dirname(some_lib.__file__));"
            " print(some_lib.version, *sorted(n for n in os.listdir(folder) if 'some' in n),"
            " os.path.exists(folder + '/some_lib/own.py'))"
        )
        third = mix.python(mix.runtime.hybrid(mix.good, {PIP: "3.0"}), code)
        assert third == "3.0 some_lib some_lib-3.0.dist-info True"
        fourth = mix.python(mix.runtime.hybrid(mix.good, {PIP: "4.0"}), code)
        assert fourth == "4.0 some_lib some_lib-4.0.dist-info False"


def package(folder: Path, version: str, depends: str = "") -> None:
    """A Debian package with one program that says its version."""
    root = folder / f"root-{version}"
    program = root / "usr" / "bin" / "some-tool"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    control = root / "DEBIAN" / "control"
    control.parent.mkdir()
    wants = f"Depends: {depends}\n" if depends else ""
    control.write_text(
        f"Package: some-tool\nVersion: {version}\nArchitecture: all\n"
        f"Maintainer: Tests <tests@example.invalid>\n{wants}Description: a test\n"
    )
    deb = folder / f"some-tool_{version}_all.deb"
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", root, deb],
        # The same bytes every time, so that the image is made once.
        env={**os.environ, "SOURCE_DATE_EPOCH": "0"}, check=True, capture_output=True,
    )  # fmt: skip


def repository(folder: Path) -> dict[str, bytes]:
    """The packages of a folder as files of an image that apt can read."""
    files, paragraphs = {}, []
    for deb in sorted(folder.glob("*.deb")):
        data = deb.read_bytes()
        fields = subprocess.run(
            ["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True
        ).stdout.strip()
        paragraphs.append(
            f"{fields}\nFilename: ./{deb.name}\nSize: {len(data)}\n"
            f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
        )
        files[f"srv/packages/{deb.name}"] = data
    listing = "\n".join(paragraphs).encode()
    files["srv/packages/Packages.gz"] = gzip.compress(listing, mtime=0)
    return files


class TestApt:
    @pytest.fixture
    def ends(self, workshop: Workshop, tmp_path: Path) -> tuple[str, str]:
        folder = tmp_path / "packages"
        folder.mkdir()
        for version in ("1.0", "1.5~rc1", "1.5", "2.0"):
            package(folder, version)
        package(folder, "1.7", depends="nobody-has-this")
        steps = (
            "RUN rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*"
            " && echo 'deb [trusted=yes] file:/srv/packages ./' > /etc/apt/sources.list"
            " && apt-get update && apt-get install --yes some-tool="
        )
        good, bad = (
            workshop.derived(
                f"bitsect-test/offers:apt-{end}",
                workshop.small(),
                [steps + version],
                repository(folder),
            )
            for end, version in (("good", "1.0"), ("bad", "2.0"))
        )
        return good, bad

    @pytest.fixture
    def mix(
        self,
        mix_of: Callable[..., Mix],
        ends: tuple[str, str],
        docker_runtime: DockerRuntime,
        tmp_path: Path,
    ) -> Mix:
        mix = mix_of(*ends)
        engine, marks = docker_runtime.engine, docker_runtime.marks
        made = MadeImages(engine, marks, marks.folder / "made")
        sources = PackageSources(engine, marks, made, mix.space.images[0], "/usr/bin/python3")

        def contents_of(image: str) -> Contents:
            with exported(engine, image, marks) as stream:
                return read_contents(cast(BinaryIO, stream))

        offers = AptOffers(sources, mix.space.axes, contents_of, tmp_path / "offers")
        return with_offers_of(mix, offers)

    def test_versions_of_the_images_own_sources_lie_between(self, mix: Mix) -> None:
        states = mix.space.axis(APT).states
        assert [state.name for state in states] == ["1.0", "1.5~rc1", "1.5", "1.7", "2.0"]
        assert states[2].offer == "apt:some-tool=1.5"

    def test_a_version_is_installed_and_the_package_database_says_so(self, mix: Mix) -> None:
        stack = mix.runtime.hybrid(mix.good, {APT: "1.5"})
        code = (
            "import subprocess;"
            " run = lambda *a: subprocess.run(a, capture_output=True, text=True).stdout.strip();"
            " print(run('some-tool'), run('dpkg-query', '-W', 'some-tool'))"
        )

        assert mix.python(stack, code).split() == ["1.5", "some-tool", "1.5"]
        # And it stays so where another component is exchanged on top of it
        later = mix.runtime.hybrid(mix.good, {APT: "1.5~rc1"})
        assert mix.python(later, code).split() == ["1.5~rc1", "some-tool", "1.5~rc1"]
        assert mix.containers() == []

    def test_a_network_that_there_is_not_is_no_fault_of_the_images(
        self, mix_of: Callable[..., Mix], ends: tuple[str, str]
    ) -> None:
        mix = mix_of(*ends)
        engine, marks = mix.docker.engine, mix.docker.marks
        sources = PackageSources(
            engine,
            marks,
            MadeImages(engine, marks, marks.folder / "made"),
            mix.space.images[0],
            "/usr/bin/python3",
            network="bitsect-test-no-such-network",
        )
        with pytest.raises(InfrastructureError, match="bitsect-test-no-such-network"):
            sources.versions(["some-tool"])
        assert mix.containers() == []

    def test_a_version_that_cannot_be_installed_is_unbuildable(self, mix: Mix) -> None:
        stack = mix.runtime.hybrid(mix.good, {APT: "1.7"})
        with pytest.raises(UnbuildableError) as caught:
            mix.runtime.ensure(stack)
        assert caught.value.what == "some-tool=1.7"
        assert "nobody-has-this" in caught.value.tail
        assert mix.hybrids() == []
        assert mix.containers() == []
