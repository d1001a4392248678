"""What of two images only their files tell."""

from __future__ import annotations

from bitsect.images.contents.axes import Differences
from bitsect.images.contents.file_differences import file_differences
from bitsect.images.contents.model import ABSENT, ComponentAxis, State
from bitsect.images.differences import Difference


def axis(component: str, before: str, after: str) -> ComponentAxis:
    states = tuple(State(name, f"sha256:{name}", 0) for name in (before, after))
    return ComponentAxis(component, states, (0, 1))


def test_what_the_manifests_tell_already_is_not_told_twice() -> None:
    # Given a package that both tell, and a file that nobody owns
    found = Differences(
        axes=(axis("apt:bc", ABSENT, "1.07"), axis("file:/etc/x.conf", "11aa", "22bb")),
        noise=(("apt:x-doc", "documentation"), ("apt:y-doc", "documentation")),
        blocks=(),
        moved=(),
    )
    # Then the file is told, and what is noise as noise
    assert list(file_differences(found, {"apt:bc", "apt:y-doc"})) == [
        Difference("file:/etc/x.conf", "11aa", "22bb", False, "software"),
        Difference("apt:x-doc", None, "documentation", True, "software"),
    ]


def test_what_is_not_there_has_no_point() -> None:
    (row,) = file_differences(Differences((axis("lib:a.so", ABSENT, "1"),), (), (), ()), ())
    assert (row.before, row.after) == (None, "1")
