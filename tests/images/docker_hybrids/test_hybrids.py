"""Hybrids of small images, made on a real engine."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bitsect.images.errors import UnresolvedError
from bitsect.images.runtime.protocol import Stack
from tests.containers.workshop import Workshop
from tests.images.docker_hybrids.mix import Mix

pytestmark = pytest.mark.engine

GREETING = "file:/opt/hybrid/greeting"
GONE = "file:/opt/hybrid/gone"
NEW = "file:/srv/new/deep/file"
LINK = "file:/srv/link"
LANGUAGE = "env:LANGUAGE"
LOUDNESS = "env:LOUDNESS"
COLOUR = "env:COLOUR"

# Version 2, effective, and the one to open raw sockets.
CAPABILITY = "01000002002000000000000000000000" + "00000000"
MAKE_CAPABLE = (
    f"os.setxattr('/srv/new/deep/file', 'security.capability', bytes.fromhex('{CAPABILITY}'))"
)

Mixes = Callable[..., Mix]


@pytest.fixture
def ends(workshop: Workshop) -> tuple[str, str]:
    """Two images that differ in files, a link and variables, each of them once for all."""
    good = workshop.derived(
        "bitsect-test/hybrid:good",
        workshop.small(),
        ["ENV LANGUAGE=en COLOUR=green", 'CMD ["python3"]', "WORKDIR /opt/hybrid"],
        {"opt/hybrid/greeting": b"hello\n", "opt/hybrid/gone": b"soon\n"},
    )
    bad = workshop.derived(
        "bitsect-test/hybrid:bad",
        workshop.small(),
        [
            "ENV LANGUAGE=de LOUDNESS=11",
            "RUN chgrp 7 /srv/new/deep/file && chmod 4755 /srv/new/deep/file"
            " && ln -s new/deep/file /srv/link",
            f'RUN python3 -c "import os; {MAKE_CAPABLE}"',
            "LABEL vendor=someone",
            'ENTRYPOINT ["/bin/false"]',
            "USER 1000",
        ],
        {"opt/hybrid/greeting": b"hallo\n", "srv/new/deep/file": b"new\n"},
    )
    return good, bad


@pytest.fixture
def mix(mix_of: Mixes, ends: tuple[str, str]) -> Mix:
    return mix_of(*ends)


SEEN = """
import json, os
def seen(path):
    if os.path.islink(path):
        return os.readlink(path)
    return open(path).read().strip() if os.path.isfile(path) else None
print(json.dumps({
    "greeting": seen("/opt/hybrid/greeting"), "gone": seen("/opt/hybrid/gone"),
    "new": seen("/srv/new/deep/file"), "link": seen("/srv/link"),
    "folder": os.path.isdir("/srv/new"),
    "variables": {name: os.environ.get(name) for name in ("LANGUAGE", "LOUDNESS", "COLOUR")},
}))
"""

GOOD = {
    "greeting": "hello",
    "gone": "soon",
    "new": None,
    "link": None,
    "folder": False,
    "variables": {"LANGUAGE": "en", "LOUDNESS": None, "COLOUR": "green"},
}
BAD = {
    "greeting": "hallo",
    "gone": None,
    "new": "new",
    "link": "new/deep/file",
    "folder": True,
    "variables": {"LANGUAGE": "de", "LOUDNESS": "11", "COLOUR": None},
}


def seen(mix: Mix, stack: Stack) -> object:
    return json.loads(mix.python(stack, SEEN))


def test_every_difference_is_a_component(mix: Mix) -> None:
    assert set(mix.points(0)) == {GREETING, GONE, NEW, LINK, LANGUAGE, LOUDNESS, COLOUR}


def test_the_ends_themselves_are_not_made(mix: Mix) -> None:
    everything = mix.with_bad(*mix.points(0))

    assert seen(mix, mix.runtime.hybrid(mix.good, {})) == GOOD
    assert seen(mix, everything) == BAD
    assert mix.hybrids() == []


def test_files_come_change_and_go_one_by_one(mix: Mix) -> None:
    assert seen(mix, mix.with_bad(GREETING)) == {**GOOD, "greeting": "hallo"}
    assert seen(mix, mix.with_bad(GONE)) == {**GOOD, "gone": None}
    assert seen(mix, mix.with_bad(NEW)) == {**GOOD, "new": "new", "folder": True}
    assert seen(mix, mix.with_bad(LINK)) == {**GOOD, "link": "new/deep/file"}
    assert mix.containers() == []


def test_variables_are_set_changed_and_unset_one_by_one(mix: Mix) -> None:
    green: dict[str, str | None] = {"LANGUAGE": "en", "LOUDNESS": None, "COLOUR": "green"}
    for component, change in (
        (LANGUAGE, {"LANGUAGE": "de"}),
        (LOUDNESS, {"LOUDNESS": "11"}),
        (COLOUR, {"COLOUR": None}),
    ):
        expected = {**GOOD, "variables": {**green, **change}}
        assert seen(mix, mix.with_bad(component)) == expected


def test_the_bad_image_without_one_difference_is_made_from_the_bad_one(mix: Mix) -> None:
    others = set(mix.points(0)) - {NEW, LOUDNESS}

    hybrid = mix.with_bad(*others)

    expected = {**BAD, "new": None, "folder": False}
    expected["variables"] = {"LANGUAGE": "de", "LOUDNESS": None, "COLOUR": None}
    assert seen(mix, hybrid) == expected
    # Nothing of what only the bad image's config says is left.
    [name] = mix.hybrids()
    config = mix.docker.engine.image(name)["Config"]
    assert (config["Entrypoint"], config["Cmd"]) == ([], ["python3"])
    assert config["WorkingDir"] == "/opt/hybrid"
    assert config["Labels"]["vendor"] == ""


def test_owner_and_all_permissions_come_along(mix: Mix) -> None:
    code = (
        "import os; s = os.lstat('/srv/new/deep/file'); print(oct(s.st_mode), s.st_uid, s.st_gid)"
    )
    assert mix.python(mix.with_bad(NEW), code) == "0o104755 0 7"


def test_capabilities_of_a_file_come_along(mix: Mix) -> None:
    code = "import os; print(os.getxattr('/srv/new/deep/file', 'security.capability').hex())"
    assert mix.python(mix.with_bad(NEW), code) == CAPABILITY


def test_a_hybrid_can_be_made_from_a_hybrid(mix: Mix) -> None:
    # Given one that is nearer to the next than either end
    first = mix.with_bad(GREETING, NEW, LOUDNESS)
    assert mix.python(first, "print(1)") == "1"

    second = mix.with_bad(GREETING, NEW, COLOUR, LINK)
    found = seen(mix, second)

    assert found == {
        **GOOD,
        "greeting": "hallo",
        "new": "new",
        "folder": True,
        "link": "new/deep/file",
        "variables": {"LANGUAGE": "en", "LOUDNESS": None, "COLOUR": None},
    }
    assert second.recipe is not None
    assert first.recipe is not None
    made = {
        image["Config"]["Labels"]["bitsect.recipe"]: image["Config"]["Labels"]
        for image in map(mix.docker.engine.image, mix.hybrids())
    }
    labels = made[second.recipe.digest]
    assert labels["bitsect.base"] == first.recipe.digest
    assert json.loads(labels["bitsect.states"]) == dict(second.recipe.states)
    assert labels["bitsect.owner"] == ""


def test_the_same_hybrid_is_the_same_however_it_is_asked_for(mix: Mix) -> None:
    bad = mix.points(-1)
    one = mix.runtime.hybrid(mix.good, {GREETING: bad[GREETING], GONE: None})
    other = mix.runtime.hybrid(mix.with_bad(GREETING), {GONE: None})
    third = mix.runtime.hybrid(
        mix.bad,
        {name: point for name, point in mix.points(0).items() if name not in (GREETING, GONE)},
    )
    assert one.recipe == other.recipe == third.recipe
    assert one.components == other.components


def test_a_stack_says_what_it_consists_of(mix: Mix) -> None:
    stack = mix.with_bad(GREETING, LOUDNESS)
    assert stack.components[LOUDNESS] == "11"
    assert NEW not in stack.components
    assert stack.image == mix.space.images[0]
    assert stack.reference.startswith("bitsect-test/hybrid:good with env:LOUDNESS=11 file:/opt")


@pytest.mark.parametrize("pins", [{GREETING: "nonsense"}, {"pip:nothing": "1.0"}, {GREETING: None}])
def test_points_that_there_are_not_cannot_be_resolved(
    mix: Mix, pins: dict[str, str | None]
) -> None:
    with pytest.raises(UnresolvedError):
        mix.runtime.hybrid(mix.good, pins)
