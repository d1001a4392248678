"""From a chain of images to everything that can be mixed from it, and whoever mixes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from bitsect.cli.workshop import Workshop
from bitsect.images.contents.axes import Differences
from bitsect.images.contents.model import ComponentAxis
from bitsect.images.environments import default_cache_root
from bitsect.images.errors import InfrastructureError
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.offers.apt_offers import AptOffers
from bitsect.images.offers.image_python import image_python
from bitsect.images.offers.offer import Offers, Runs, with_offers
from bitsect.images.offers.pip_offers import PipOffers
from bitsect.images.runner import take_inventory
from bitsect.images.runtime.docker.mixing import MixingRuntime
from bitsect.images.runtime.docker.package_sources import PackageSources
from bitsect.images.runtime.docker.pruning import MadeImages
from bitsect.images.runtime.protocol import Stack

#: Components that an index is asked about at the same time.
ASKED_AT_ONCE = 8
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Donors:
    """Where states may come from that no image of the chain has.

    :param index: the user's package index, for Python distributions.
    :param apt_network: of the engine's, by name, for whatever asks the image's own package
        sources; ``none`` reaches those that lie in the image. None asks no source.
    """

    index: bool = True
    apt_network: str | None = None


def mixable(
    workshop: Workshop, chain: Sequence[Stack], donors: Donors, tell: Tell
) -> tuple[ImageSpace, MixingRuntime]:
    """What can be mixed from these images, good end first, and the runtime that mixes it.

    :param tell: told what an index could not be asked.
    """
    images = [stack.image for stack in chain if stack.image is not None]
    contents = [workshop.contents(stack) for stack in chain]
    differences = workshop.differences(chain)
    offers = list(_offers(workshop, chain, donors, differences, tell))
    for each in offers:
        differences = _extended(differences, each, tell)
    space = ImageSpace(images, contents, differences)
    return space, MixingRuntime(workshop.images, space, offers=offers)


def _offers(
    workshop: Workshop,
    chain: Sequence[Stack],
    donors: Donors,
    differences: Differences,
    tell: Tell,
) -> Iterator[Offers]:
    """Those that can be asked about a component in which the images differ."""
    kinds = {axis.component.partition(":")[0] for axis in differences.axes}
    if "pip" in kinds and donors.index:
        found = _pip_offers(workshop, chain)
        if found is not None:
            yield found
    if "apt" in kinds and donors.apt_network is not None:
        try:
            yield _apt_offers(workshop, chain[-1], donors.apt_network, differences)
        except InfrastructureError as error:
            tell(f"the image's package sources cannot be read: {error.detail}")


def _pip_offers(workshop: Workshop, chain: Sequence[Stack]) -> PipOffers | None:
    good = chain[0]
    handle = workshop.images.ensure(good)
    with workshop.images.open(handle) as session:
        python = take_inventory(session, workshop.payload).software.python
    assert good.image is not None, "a chain is made of images"
    interpreter = python and image_python(python, str(handle.python), good.image.platform)
    if not interpreter:
        return None
    contents = [workshop.contents(stack) for stack in chain]
    return PipOffers(interpreter, workshop.settings, contents, default_cache_root() / "offers")


def _apt_offers(
    workshop: Workshop, stack: Stack, network: str, differences: Differences
) -> AptOffers:
    docker = workshop.images
    assert stack.image is not None, "a chain is made of images"
    made = MadeImages(docker.engine, docker.marks, docker.marks.folder / "made")
    python = str(docker.ensure(stack).python)
    sources = PackageSources(docker.engine, docker.marks, made, stack.image, python, network)
    return AptOffers(
        sources, differences.axes, workshop.read_image, default_cache_root() / "offers"
    )


def _extended(differences: Differences, offers: Offers, tell: Tell) -> Differences:
    """With the states that an index offers between those that images have."""
    asked = [axis for axis in differences.axes if axis.component.startswith(f"{offers.kind}:")]

    def between(axis: ComponentAxis) -> Runs | InfrastructureError:
        try:
            return offers.between(axis)
        except InfrastructureError as error:
            return error

    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        answers = list(pool.map(between, asked))
    extended = {}
    for axis, answer in zip(asked, answers, strict=True):
        if isinstance(answer, InfrastructureError):
            tell(f"{axis.component}: no versions between the images, {answer.detail}")
        else:
            extended[axis.component] = with_offers(axis, answer)
    axes = tuple(extended.get(axis.component, axis) for axis in differences.axes)
    return msgspec.structs.replace(differences, axes=axes)
