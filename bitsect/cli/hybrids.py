"""Making a hybrid of images again, from its recipe alone."""

from __future__ import annotations

from bitsect.cli.image_spaces import Donors, mixable
from bitsect.cli.workshop import Workshop
from bitsect.images.errors import BadReference
from bitsect.images.image_identity import Recipe
from bitsect.images.manifest_errors import RebuildError
from bitsect.images.reference import parse_reference
from bitsect.images.runtime.protocol import Runtime, Stack


class HybridRebuilder:
    """Finds the images of a recipe on the engine, and mixes them again.

    :param reference: what the hybrid was called, for errors.
    """

    def __init__(self, workshop: Workshop, reference: str) -> None:
        self._workshop = workshop
        self._reference = reference

    def rebuild(self, recipe: Recipe) -> tuple[Runtime, Stack]:
        """The hybrid, resolved, and the runtime that makes it.

        :raises RebuildError: an image of its chain is not on the engine, or they are no longer
            told apart as when the recipe was written.
        """
        chain = [self._image(digest) for digest in recipe.chain]
        missing = [digest for digest, image in zip(recipe.chain, chain, strict=True) if not image]
        found = [image for image in chain if image]
        if missing:
            raise RebuildError(self._reference, "recipe", tuple(missing))
        # Its states may be of an index, which then is asked again.
        space, runtime = mixable(self._workshop, found, Donors(), lambda what: None)
        if not space.knows(recipe):
            raise RebuildError(self._reference, "recipe", recipe.chain)
        stack = Stack(
            reference=self._reference,
            runtime=found[0].runtime,
            interpreter=None,
            components=space.components(recipe),
            image=found[0].image,
            recipe=recipe,
        )
        return runtime, stack

    def _image(self, digest: str) -> Stack | None:
        try:
            return self._workshop.images.resolve(parse_reference(digest))
        except BadReference:
            return None
