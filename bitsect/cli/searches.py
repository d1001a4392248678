"""Making a search ready: from references to a question, and to whoever runs its trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bitsect.bisect.image_question import ask_image_question, distinct_chain
from bitsect.bisect.laboratory import Laboratory
from bitsect.bisect.question import PointOptions, ask_question, ordered_ends
from bitsect.bisect.question_record import Question
from bitsect.bisect.reporting import Reporter
from bitsect.bisect.store import Store
from bitsect.cli.image_spaces import Donors, mixable
from bitsect.cli.workshop import Workshop
from bitsect.images.catalogue import pip_axis_points
from bitsect.images.errors import BadReference
from bitsect.images.mixing.rules import ImageRules
from bitsect.images.reference import Reference, parse_reference
from bitsect.images.runner import ProbeOptions
from bitsect.images.runtime.docker.tags import TaggedImage
from bitsect.images.runtime.protocol import Mixer, Stack


@dataclass(frozen=True)
class Search:
    """What a driver needs."""

    question: Question
    mixer: Mixer
    laboratory: Laboratory


@dataclass(frozen=True)
class Between:
    """Which images between the ends are looked at.

    :param via: references, in order.
    :param tags: a pattern that tags of the good end's repository must match.
    """

    via: tuple[str, ...] = ()
    tags: str | None = None


@dataclass(frozen=True)
class Asked:
    """A search as a person asked for it.

    :param timeout: seconds that one run of the probe may take.
    """

    references: Sequence[Reference]
    between: Between
    points: PointOptions
    donors: Donors
    probe: ProbeOptions
    timeout: float

    @property
    def arguments(self) -> tuple[str, ...]:
        """The probe's arguments without the folder that it writes to."""
        return tuple(self.probe.arguments("OUT")[1:])


def prepared(asked: Asked, workshop: Workshop, store: Store, reporter: Reporter) -> Search:
    """The search between two references, of whichever kind they are."""
    good, _ = ordered_ends(asked.references)
    reporter.stage("resolving both ends")
    prepare = _images if good.kind == "image" else _environments
    return prepare(asked, workshop, store, reporter)


def _environments(asked: Asked, workshop: Workshop, store: Store, reporter: Reporter) -> Search:
    if asked.between.via or asked.between.tags:
        raise BadReference("--via, --tags", "only images have images between them")
    laboratory = Laboratory(
        workshop.venv,
        workshop.payload,
        store,
        asked.probe,
        workshop.scratch_root,
        timeout=asked.timeout,
        phase=reporter.trial_phase,
    )
    question = ask_question(
        asked.references,
        workshop.venv,
        partial(
            pip_axis_points,
            interpreter=workshop.interpreter,
            settings=workshop.settings,
            prereleases=asked.points.prereleases,
            yanked=asked.points.yanked,
            sdists=asked.points.builds,
        ),
        asked.points,
        workshop.payload.digest,
        asked.arguments,
        laboratory.circumstances,
    )
    return Search(question, workshop.venv, laboratory)


def _images(asked: Asked, workshop: Workshop, store: Store, reporter: Reporter) -> Search:
    chain = _chain(asked, workshop, reporter)
    for stack in chain:
        reporter.stage(f"reading what {stack.reference} consists of")
        workshop.contents(stack)
    reporter.stage("comparing them")
    space, runtime = mixable(workshop, chain, asked.donors, reporter.notice)
    laboratory = Laboratory(
        runtime,
        workshop.payload,
        store,
        asked.probe,
        workshop.scratch_root,
        rules=ImageRules(space),
        conditions=workshop.conditions,
        timeout=asked.timeout,
        phase=reporter.trial_phase,
    )
    reporter.stage("looking at the machine that runs them")
    question = ask_image_question(
        chain,
        space,
        workshop.payload.digest,
        asked.arguments,
        laboratory.circumstances,
    )
    return Search(question, runtime, laboratory)


def _chain(asked: Asked, workshop: Workshop, reporter: Reporter) -> tuple[Stack, ...]:
    """Good end, images between, bad end; all resolved.

    :raises BadReference: one of them is none, or a pattern matches no tag.
    """
    good, bad = (workshop.images.resolve(each) for each in ordered_ends(asked.references))
    between = [workshop.images.resolve(_via(text)) for text in asked.between.via]
    if asked.between.tags:
        reporter.stage(f"listing tags that match {asked.between.tags}")
        found = workshop.tagged_between(good, bad, asked.between.tags)
        for each in found.unanswered:
            reporter.notice(f"{each.what} could not be asked: {each.reason}")
        if not found.matching:
            what = f"--tags {asked.between.tags}"
            raise BadReference(what, "no tag of the good end's repository matches it")
        names = ", ".join(image.reference for image in found.images)
        reporter.notice(f"images between the ends: {names or 'none'}")
        between += [_resolved(workshop, image) for image in found.images]
    return distinct_chain((good, *between, bad))


def _via(text: str) -> Reference:
    """:raises BadReference: it names a side, or no image."""
    reference = parse_reference(text)
    if reference.side is not None or reference.kind != "image":
        raise BadReference(text, "what lies between the ends is an image without a side")
    return reference


def _resolved(workshop: Workshop, image: TaggedImage) -> Stack:
    """The image that a tag led to when tags were listed, whatever it leads to now."""
    repository = image.reference.rpartition(":")[0]
    digest = image.manifest_digest or image.digest
    return workshop.images.resolve(parse_reference(f"{repository}@{digest}"))
