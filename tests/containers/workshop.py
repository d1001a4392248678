"""Makes the images that tests run in, once, and keeps them on the engine for the next run.

Nothing is downloaded but Debian's packages. An image is made anew when its recipe changes: a
label holds the recipe's digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker

from bitsect.images.file_lock import FileLock
from tests.containers.debian import SUITE, root_file_system

#: On every image that is made here and, inherited, on whatever is made from one.
LABEL = "bitsect-test"
_RECIPE = "bitsect-test.recipe"
_LOCK = Path(tempfile.gettempdir()) / "bitsect-test-images.lock"
# Programs of a container are found without a shell's help, as in images made by a Dockerfile.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ImageError(Exception):
    """An image could not be made.

    :param tag: its tag.
    :param tail: the last lines that were said about it.
    """

    def __init__(self, tag: str, tail: str) -> None:
        super().__init__(tag, tail)
        self.tag = tag
        self.tail = tail

    def __str__(self) -> str:
        return f"{self.tag} cannot be made:\n{self.tail}"


class Workshop:
    """Makes images on one engine.

    :param client: the connection to it.
    """

    def __init__(self, client: docker.DockerClient) -> None:
        self.client = client

    def torch(self) -> str:
        """Tag of the image with Debian's torch and NumPy, on the reference BLAS; 1.2 GB."""
        return self._base(
            "bitsect-test/torch:base", ("python3", "ca-certificates", "python3-torch")
        )

    def small(self) -> str:
        """Tag of an image with Python and nothing else, which is made in a few seconds."""
        return self._base("bitsect-test/small:base", ("python3",))

    def derived(
        self,
        tag: str,
        parent: str,
        steps: Sequence[str] = (),
        files: Mapping[str, bytes] | None = None,
    ) -> str:
        """Makes an image from another, unless it is there already; its tag.

        :param parent: tag of an image made here.
        :param steps: a Dockerfile's lines after FROM; programs that they run see the network.
        :param files: by path without the leading slash; laid down before the first step.
        """
        files = files or {}
        copy = ["COPY root /"] if files else []
        dockerfile = "\n".join([f"FROM {parent}", *copy, *steps]) + "\n"
        above = str(self.client.images.get(parent).id)
        recipe = _digest(above, dockerfile, {path: data.hex() for path, data in files.items()})
        return self._once(tag, recipe, lambda: self._build(tag, recipe, dockerfile, files))

    def clean(self, label: str = LABEL) -> list[str]:
        """Removes every image that was made here or from one; the tags that went.

        :param label: that an image has if it is to go.
        """
        removed = []
        images = self.client.images.list(filters={"label": label})
        # Whatever was made later may stand on what was made earlier.
        for image in sorted(images, key=lambda each: str(each.attrs["Created"]), reverse=True):
            removed += image.tags
            self.client.images.remove(str(image.id), force=True)
        return removed

    def _base(self, tag: str, packages: Sequence[str]) -> str:
        recipe = _digest(SUITE, _PATH, *packages)
        return self._once(tag, recipe, lambda: self._import(tag, recipe, packages))

    def _once(self, tag: str, recipe: str, make: Callable[[], None]) -> str:
        """Several runs of the tests, or developers, may share the engine."""
        with FileLock.exclusive(_LOCK):
            if self._recipe_of(tag) != recipe:
                make()
        return tag

    def _recipe_of(self, tag: str) -> str | None:
        try:
            return self.client.images.get(tag).labels.get(_RECIPE)
        except docker.errors.ImageNotFound:
            return None

    def _import(self, tag: str, recipe: str, packages: Sequence[str]) -> None:
        labels = " ".join(f"{name}={value}" for name, value in _labels(recipe).items())
        with root_file_system(packages) as tar:
            told = self.client.api.import_image_from_stream(
                tar, changes=[f"LABEL {labels}", f"ENV PATH={_PATH}"]
            )
        last = json.loads(told.splitlines()[-1])
        if "status" not in last:
            raise ImageError(tag, str(last.get("error", last)))
        # Only now is it known to be whole.
        self.client.api.tag(last["status"], tag)

    def _build(self, tag: str, recipe: str, dockerfile: str, files: Mapping[str, bytes]) -> None:
        try:
            self.client.images.build(
                fileobj=_context(dockerfile, files), custom_context=True, tag=tag,
                labels=_labels(recipe), network_mode="host", rm=True, forcerm=True,
            )  # fmt: skip
        except docker.errors.BuildError as error:
            raise ImageError(tag, _tail(error.build_log)) from error


def _labels(recipe: str) -> dict[str, str]:
    return {LABEL: "1", _RECIPE: recipe}


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _context(dockerfile: str, files: Mapping[str, bytes]) -> io.BytesIO:
    """What the engine builds from: a tar with the Dockerfile and, below ``root/``, the files."""
    packed = io.BytesIO()
    contents = {"Dockerfile": dockerfile.encode()}
    contents |= {f"root/{path}": data for path, data in files.items()}
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, data in contents.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    packed.seek(0)
    return packed


def _tail(log: Any) -> str:
    said = "".join(str(line.get("stream", line.get("error", ""))) for line in log)
    return "\n".join(said.splitlines()[-50:])
