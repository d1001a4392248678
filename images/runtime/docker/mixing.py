"""Hybrids of images, as stacks like any other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from bitsect.images.contents.errors import ClashError
from bitsect.images.contents.model import ABSENT
from bitsect.images.errors import UnbuildableError, UnresolvedError
from bitsect.images.file_lock import FileLock
from bitsect.images.image_identity import Recipe, variables_of
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.offers.offer import Offers
from bitsect.images.reference import Reference
from bitsect.images.runtime.docker.building import HybridBuilder, clash
from bitsect.images.runtime.docker.committing import BaseImage, described
from bitsect.images.runtime.docker.pruning import MadeImage, MadeImages
from bitsect.images.runtime.docker.runtime import DockerRuntime
from bitsect.images.runtime.docker.session import ContainerSession
from bitsect.images.runtime.protocol import Handle, Stack


@dataclass(frozen=True)
class HybridHandle:
    """A hybrid that was made. Its image stays until it is released."""

    stack: Stack
    python: Path
    image: MadeImage
    made: MadeImages
    lock: FileLock

    @property
    def engine_id(self) -> str:
        return self.image.id

    @property
    def name(self) -> str:
        """Repository and tag, under which it stays until it is removed for room."""
        return self.image.own_name

    def discard(self) -> None:
        self.lock.release()
        self.made.remove(self.image)

    def release(self) -> None:
        self.lock.release()


class MixingRuntime:
    """The stacks of one space of images: its images and all their hybrids.

    :param docker: runs them.
    :param limit: bytes that hybrids may take on the engine's disk; None for a default.
    :param offers: for states that no image has.
    """

    name = DockerRuntime.name

    def __init__(
        self,
        docker: DockerRuntime,
        space: ImageSpace,
        limit: int | None = None,
        offers: Iterable[Offers] = (),
    ) -> None:
        self._docker = docker
        self._space = space
        self._made = MadeImages(docker.engine, docker.marks, docker.marks.folder / "made", limit)
        self._builder = HybridBuilder(
            docker.engine,
            docker.marks,
            self._made,
            space,
            self._python_of,
            {each.kind: each for each in offers},
        )

    def resolve(self, reference: Reference) -> Stack:
        """As `DockerRuntime.resolve`."""
        return self._docker.resolve(reference)

    def hybrid(self, base: Stack, pins: Mapping[str, str | None]) -> Stack:
        """A stack of the space with some components at other points; None removes one.

        Raises UnresolvedError for points that there are not, and for those of which two cannot
        be in one file system.
        """
        points = {component: point or ABSENT for component, point in sorted(pins.items())}
        changes = " ".join(f"{component}={point}" for component, point in points.items())
        recipe = self._recipe(base, pins)
        self._refuse_clashes(recipe, changes)
        notes = [
            f"[{state.offer}]"
            for state in self._space.states_of(recipe).values()
            if state.offer is not None
        ]
        return Stack(
            reference=" ".join([base.reference, "with", changes, *notes]),
            runtime=self.name,
            interpreter=None,
            components=self._space.components(recipe),
            image=self._space.images[0],
            recipe=recipe,
        )

    def rebuilt(self, stack: Stack) -> Stack:
        """An image of the chain, put together from the good one and all that they differ in.

        So the loader's cache is renewed in it, as in every hybrid, and whatever of the image is
        in no component is missing.
        """
        recipe = self._recipe(stack, {})
        self._refuse_clashes(recipe, stack.reference)
        return replace(
            stack,
            reference=f"{stack.reference}, put together",
            image=self._space.images[0],
            recipe=recipe,
            rebuilt=True,
        )

    def ensure(self, stack: Stack) -> Handle:
        """Make the hybrid unless it is there; an image of the chain need not be made.

        Raises UnbuildableError, InfrastructureError, and what `DockerRuntime.ensure` raises.
        """
        if stack.recipe is None:
            return self._docker.ensure(stack)
        index = self._space.chain_index(stack.recipe)
        if index is not None and not stack.rebuilt:
            whole = replace(stack, image=self._space.images[index], recipe=None)
            return self._docker.ensure(whole)
        image, lock = self._builder.ensure(stack.recipe, rebuilt=stack.rebuilt)
        try:
            python = self._python_of(described(self._docker.engine, image.id, image.key))
            if python is None:
                raise UnbuildableError(stack.reference, "it has no Python on its PATH")
        except BaseException:
            lock.release()
            raise
        return HybridHandle(stack, Path(python), image, self._made, lock)

    def open(self, handle: Handle) -> ContainerSession:
        """A session in an image of the chain or a hybrid."""
        return self._docker.open(handle)

    def _recipe(self, base: Stack, pins: Mapping[str, str | None]) -> Recipe:
        if base.recipe is not None:
            kept = {axis.component: None for axis in self._space.axes}
            return self._space.recipe({**kept, **self._space.components(base.recipe), **pins})
        digests = [image.config_digest for image in self._space.images]
        if base.image is None or base.image.config_digest not in digests:
            raise ValueError(f"not of these images: {base.reference}")
        return self._space.recipe(pins, digests.index(base.image.config_digest))

    def _refuse_clashes(self, recipe: Recipe, changes: str) -> None:
        if any(state.offer for state in self._space.states_of(recipe).values()):
            # Its files are not known before it was fetched; building finds out.
            return
        try:
            self._builder.plan(self._space.nearest(recipe), recipe)
        except ClashError as error:
            raise UnresolvedError((changes,), f"{error.path}: {clash(error)}") from error

    def _python_of(self, image: BaseImage) -> str | None:
        # Only its variables and its name on the engine matter here.
        identity = msgspec.structs.replace(
            self._space.images[0],
            engine_id=image.id,
            environment=variables_of(image.environment),
        )
        found = self._docker.python_of(identity)
        return None if found is None else str(found)
