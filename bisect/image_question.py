"""From images, two of them or a chain, to a question that can be searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bitsect.bisect.engine.model import Axis
from bitsect.bisect.errors import UnusableEnds
from bitsect.bisect.question import odds_of
from bitsect.bisect.question_record import REST, Question
from bitsect.bisect.records import EndRecord, Milestone, SessionSpec
from bitsect.images.contents.model import ABSENT, ComponentAxis
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.runtime.protocol import Stack


def distinct_chain(stacks: Sequence[Stack]) -> tuple[Stack, ...]:
    """A chain without images that are named twice in a row.

    :raises UnusableEnds: both ends are one image, or an image comes back further on.
    """
    good, bad = stacks[0], stacks[-1]
    if _config(good) == _config(bad):
        raise UnusableEnds("image", good.reference, bad.reference)
    chain = [good]
    for stack in stacks[1:]:
        if _config(stack) == _config(chain[-1]):
            continue
        if _config(stack) in map(_config, chain):
            raise UnusableEnds("twice", stack.reference)
        chain.append(stack)
    return tuple(chain)


def ask_image_question(
    chain: Sequence[Stack],
    space: ImageSpace,
    probe: str,
    arguments: tuple[str, ...],
    circumstances_of: Callable[[Stack], str],
) -> Question:
    """The question what changed between the first and the last image of a chain.

    :param chain: resolved, good end first; what `space` was made of.
    Where they differ in no component, whatever else they differ in is the only one: if bits
    differ all the same, it is to blame.
    """
    good, bad = chain[0], chain[-1]
    good, bad = (_with_components(space, stack, at) for stack, at in ((good, 0), (bad, -1)))
    spec = SessionSpec(
        good=EndRecord(good.reference, dict(good.components), _config(good)),
        bad=EndRecord(bad.reference, dict(bad.components), _config(bad)),
        axes=tuple(_axis(axis) for axis in space.axes) or (Axis(REST, ("good", "bad")),),
        probe=probe,
        arguments=arguments,
        interpreter="the image's own",
        circumstances=circumstances_of(good),
        options={},
        milestones=tuple(
            Milestone(stack.reference, _points(space, at), _config(stack))
            for at, stack in enumerate(chain[1:-1], 1)
            if space.axes
        ),
        blocks=space.blocks,
        noise=space.noise,
    )
    return Question(good, bad, spec)


def _axis(axis: ComponentAxis) -> Axis:
    names = tuple(state.name for state in axis.states)
    # Releases that an index offers between the images keep their promises; images promise nothing.
    versions = axis.component.startswith("pip:") and any(state.offer for state in axis.states)
    return Axis(axis.component, names, odds_of(names) if versions else ())


def _points(space: ImageSpace, at: int) -> dict[str, str]:
    return {axis.component: axis.states[axis.at[at]].name for axis in space.axes}


def _with_components(space: ImageSpace, stack: Stack, at: int) -> Stack:
    points = _points(space, at)
    present = {name: point for name, point in points.items() if point != ABSENT}
    return Stack(
        reference=stack.reference,
        runtime=stack.runtime,
        interpreter=None,
        components=present,
        image=stack.image,
        recipe=stack.recipe,
    )


def _config(stack: Stack) -> str:
    assert stack.image is not None, "a chain is made of images"
    return stack.image.config_digest
