"""Getting the stack of a manifest again: by its lock, by its image's digests, or by its recipe.

It is then looked at again, because what was got is believed only as far as it was seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import msgspec

from bitsect.images.differences import Difference
from bitsect.images.drift import Drift, drift_of, moved_name
from bitsect.images.errors import BadReference, InfrastructureError
from bitsect.images.image_identity import Recipe
from bitsect.images.manifest import Manifest
from bitsect.images.manifest_errors import RebuildError
from bitsect.images.pinning import Pinner
from bitsect.images.reference import Reference, parse_reference
from bitsect.images.runtime.protocol import Runtime, Stack
from bitsect.images.stack_source import PinnedImage, StackSource


class Runtimes(Protocol):
    """Whoever knows the runtime that a reference asks for."""

    def runtime(self, reference: Reference) -> Runtime:
        """Raises BadReference if there is none."""
        ...


class Rebuilder(Protocol):
    """Whoever makes hybrids of images again."""

    def rebuild(self, recipe: Recipe) -> tuple[Runtime, Stack]:
        """The hybrid of a recipe, resolved, and the runtime whose ``ensure`` makes it.

        Raises RebuildError if an image of its chain is not to be had.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Found:
    """A stack that was found again, and the runtime that has it.

    :param moved: that the name it was asked for by leads to another image now.
    """

    runtime: Runtime
    stack: Stack
    moved: Difference | None = None


def found_again(
    source: StackSource, runtimes: Runtimes, rebuilder: Rebuilder | None = None
) -> Found:
    """The stack that a manifest describes, resolved by what cannot have moved since.

    Builds nothing. An image is pulled by its digest if it is not here. One that is not to be had
    at all is looked for by its name: what that leads to now is another image, and is seen to be.

    :param rebuilder: makes hybrids again.

    Raises RebuildError if it is not to be had; the errors of resolving it.
    """
    if source.lock is not None:
        return _environment(source, source.lock, runtimes)
    if source.recipe is not None:
        return _hybrid(source, source.recipe, runtimes, rebuilder)
    if source.image is not None:
        return _image(source, source.image, runtimes)
    reference = parse_reference(source.reference)
    runtime = runtimes.runtime(reference)
    return Found(runtime, runtime.resolve(reference))


def with_its_name_checked(source: StackSource, found: Found) -> Found:
    """The same, with whether the name of its image leads elsewhere by now.

    The name is looked up as always: what the engine does not have is pulled.
    """
    if source.image is None or source.recipe is not None or "@" in source.reference:
        return found
    stack = _resolved(found.runtime, parse_reference(source.reference))
    now = _config(stack) if stack else None
    moved = moved_name(source.reference, source.image.config, now) if now else None
    return dataclasses.replace(found, moved=moved)


class Rebuilt(msgspec.Struct, frozen=True):
    """A stack that was made again.

    :param python: of an environment; None for an image.
    :param image: by which the engine too knows an image or a hybrid; None for an environment.
    :param drift: how it differs from its manifest all the same.
    """

    python: str | None
    image: str | None
    drift: Drift


def verified(pinned: Manifest, found: Found, pinner: Pinner) -> Drift:
    """How a stack that was found again differs from its manifest."""
    now = pinner.manifest(found.runtime, found.stack, deep=True)
    return drift_of(pinned, now, found.stack.reference, found.moved)


def rebuilt(pinned: Manifest, found: Found, pinner: Pinner) -> Rebuilt:
    """A stack that was found again, made and looked at.

    An environment that was changed after it was built is built anew.

    Raises RebuildError for the Python that was running, which nothing says how to make.
    """
    stack = found.stack
    if stack.lock is None and stack.image is None:
        raise RebuildError(stack.reference, "host", ())
    drift = verified(pinned, found, pinner)
    if stack.lock is not None and _is_spoilt(drift):
        found.runtime.ensure(stack).discard()
        drift = verified(pinned, found, pinner)
    if stack.image is not None and stack.recipe is None:
        # It need not have a Python, as what is made ready must.
        return Rebuilt(None, stack.image.engine_id, drift)
    handle = found.runtime.ensure(stack)
    handle.release()
    if stack.image is not None:
        return Rebuilt(None, handle.name, drift)
    return Rebuilt(handle.name, None, drift)


def _is_spoilt(drift: Drift) -> bool:
    """Whether distributions are not as they were installed."""
    return any(each.component.startswith("pip:") and not each.noise for each in drift.differences)


def _environment(source: StackSource, lock: str, runtimes: Runtimes) -> Found:
    with TemporaryDirectory(prefix="bitsect-lock-") as folder:
        file = Path(folder) / "pylock.toml"
        file.write_text(lock, encoding="utf-8")
        reference = parse_reference(f"venv:{file}")
        runtime = runtimes.runtime(reference)
        try:
            stack = runtime.resolve(reference)
        except BadReference as error:
            # The file was never the user's.
            raise BadReference(source.reference, error.reason, error.candidates) from error
    return Found(runtime, _named(stack, source))


def _hybrid(
    source: StackSource, recipe: Recipe, runtimes: Runtimes, rebuilder: Rebuilder | None
) -> Found:
    if rebuilder is None:
        raise RebuildError(source.reference, "recipe", recipe.chain)
    runtime, stack = rebuilder.rebuild(recipe)
    return Found(runtime, _named(stack, source))


def _image(source: StackSource, image: PinnedImage, runtimes: Runtimes) -> Found:
    runtime = runtimes.runtime(parse_reference(source.reference))
    for reference in _references(source, image):
        stack = _resolved(runtime, reference)
        if stack is None:
            continue
        if _config(stack) == image.config or reference.text == source.reference:
            return Found(runtime, _named(stack, source))
    digests = tuple(digest for digest in (image.config, image.manifest) if digest)
    raise RebuildError(source.reference, "image", digests)


def _resolved(runtime: Runtime, reference: Reference) -> Stack | None:
    """What a reference leads to; None where that is neither here nor to be pulled."""
    try:
        return runtime.resolve(reference)
    except BadReference:
        return None
    except InfrastructureError as error:
        if error.kind != "registry":
            raise
        return None


def _references(source: StackSource, image: PinnedImage) -> Iterator[Reference]:
    """By what an image may be had, nearest first."""
    if image.repository:
        # Without its last digit it is looked for here alone: no registry knows it by this one.
        yield parse_reference(f"{image.repository}@{image.config[:-1]}")
        if image.manifest is not None:
            yield parse_reference(f"{image.repository}@{image.manifest}")
    yield parse_reference(image.config)
    yield parse_reference(source.reference)


def _named(stack: Stack, source: StackSource) -> Stack:
    """The stack as it was asked for when it was pinned, however it was found."""
    image = stack.image
    if image is not None:
        image = msgspec.structs.replace(image, requested=source.reference)
    return dataclasses.replace(stack, reference=source.reference, image=image)


def _config(stack: Stack) -> str | None:
    return None if stack.image is None else stack.image.config_digest
