"""Images and runtimes that are there only for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from bitsect.images.errors import BadReference, InfrastructureError
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.reference import Reference
from bitsect.images.runtime.protocol import Handle, Session, Stack


def digest_of(letter: str) -> str:
    """A digest that is one hexadecimal digit over and over."""
    return "sha256:" + letter * 64


def identity(config: str = "a", **changes: Any) -> ImageIdentity:
    """An image with something in every field."""
    fields: dict[str, Any] = {
        "requested": "team/train:26.03",
        "repository": "team/train",
        "engine_id": digest_of(config),
        "config_digest": digest_of(config),
        "manifest_digest": digest_of("b"),
        "index_digest": digest_of("c"),
        "diff_ids": (digest_of("d"), digest_of("e")),
        "platform": "linux/amd64",
        "environment": {"PATH": "/usr/bin", "OMP_NUM_THREADS": "2", "HF_TOKEN": "hunter2"},
        "entrypoint": ("/opt/nvidia/entrypoint.sh",),
        "command": ("bash",),
        "working_folder": "/workspace",
        "user": "trainer",
        "labels": {"maintainer": "someone"},
        "store": "graphdriver",
        "engine": "Docker Engine 29.0",
    }
    return ImageIdentity(**{**fields, **changes})


def image_stack(image: ImageIdentity, **changes: Any) -> Stack:
    """The stack that an image is."""
    return Stack(image.requested, "image", None, {}, image=image, **changes)


@dataclass
class FakeHandle:
    stack: Stack
    python: Path = Path("/usr/bin/python3")
    released: int = 0
    discarded: int = 0

    @property
    def name(self) -> str:
        return self.stack.image.short if self.stack.image else str(self.python)

    def discard(self) -> None:
        self.discarded += 1

    def release(self) -> None:
        self.released += 1


@dataclass
class FakeRuntime:
    """Knows stacks by reference.

    :param known: stacks by the text of a reference; an error is raised.
    :param refusal: raised instead of making a stack ready.
    """

    known: Mapping[str, Stack | Exception]
    name: str = "image"
    refusal: Exception | None = None
    asked: list[str] = field(default_factory=list)
    handles: list[FakeHandle] = field(default_factory=list)

    def resolve(self, reference: Reference) -> Stack:
        self.asked.append(reference.text)
        found = self.known.get(reference.text)
        if found is None:
            raise BadReference(reference.text, "no such image")
        if isinstance(found, Exception):
            raise found
        return found

    def ensure(self, stack: Stack) -> FakeHandle:
        if self.refusal is not None:
            raise self.refusal
        self.handles.append(FakeHandle(stack))
        return self.handles[-1]

    def open(self, handle: Handle) -> Session:
        return cast(Session, FakeSession(handle.stack))

    def runtime(self, reference: Reference) -> FakeRuntime:
        """As `rebuilding.Runtimes` has it: it is the one for every reference."""
        return self


@dataclass
class FakeSession:
    """Is opened and closed, and nothing else."""

    stack: Stack

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing was started."""


def unreachable() -> InfrastructureError:
    """What a registry gives that cannot be asked."""
    return InfrastructureError("registry", "registry")
