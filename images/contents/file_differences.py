"""What two images differ in that no manifest lists, since only their files tell it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bitsect.images.contents.axes import Differences
from bitsect.images.contents.model import ABSENT, State
from bitsect.images.differences import Difference


def file_differences(found: Differences, known: Collection[str]) -> Iterator[Difference]:
    """The components in which two images differ, as rows of a comparison of their manifests.

    :param found: between the two.
    :param known: components that the comparison names already.
    """
    for axis in found.axes:
        if axis.component not in known:
            before, after = _point(axis.states[0]), _point(axis.states[-1])
            yield Difference(axis.component, before, after, False, "software")
    for component, why in found.noise:
        if component not in known:
            yield Difference(component, None, why, True, "software")


def _point(state: State) -> str | None:
    return None if state.name == ABSENT else state.name
