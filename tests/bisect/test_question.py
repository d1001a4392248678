"""From two references to axes with points and odds."""

from __future__ import annotations

from typing import Any

import pytest

from bitsect.bisect.errors import UnusableEnds
from bitsect.bisect.question import PointOptions, ask_question, odds_of, ordered_ends
from bitsect.images.catalogue import AxisPoints
from bitsect.images.lock import LockedPackage, make_lock
from bitsect.images.reference import Reference, parse_reference
from bitsect.images.runtime.protocol import Stack
from tests.bisect.fakes import INTERPRETER


class FakeRuntime:
    """Resolves ``venv:numpy==1,scipy==2`` to exactly that."""

    name = "venv"

    def resolve(self, reference: Any) -> Stack:
        pins = dict(requirement.split("==") for requirement in reference.text[5:].split(","))
        lock = make_lock(
            INTERPRETER,
            [
                LockedPackage(name, version.partition("!")[0], "wheel", "", (f"sha256:{version}",))
                for name, version in pins.items()
            ],
        )
        components = {f"pip:{name}": version.partition("!")[0] for name, version in pins.items()}
        return Stack(reference.text, "venv", INTERPRETER, components, lock)


def between(name: str, good: str, bad: str) -> AxisPoints:
    return AxisPoints(name, (good, "1.5", bad), {"yanked": 2})


def asked(good: str, bad: str, here: str = "sha256:here") -> Any:
    references = [
        Reference("good", "venv", f"venv:{good}"),
        Reference("bad", "venv", f"venv:{bad}"),
    ]
    runtime: Any = FakeRuntime()
    return ask_question(
        references, runtime, between, PointOptions(), "sha256:p", ("--seed=0",), lambda stack: here
    )


def test_every_distribution_that_differs_is_an_axis() -> None:
    question = asked("numpy==1.0,scipy==1.1,six==1.16", "numpy==2.0,six==1.16,mkl==7")

    assert [(axis.component, axis.points) for axis in question.spec.axes] == [
        ("pip:mkl", ("absent", "7")),
        ("pip:numpy", ("1.0", "1.5", "2.0")),
        ("pip:scipy", ("1.1", "absent")),
    ]
    assert question.spec.left_out == {"pip:numpy": {"yanked": 2}}


def test_the_question_does_not_depend_on_its_wording() -> None:
    one, other = (
        asked("numpy==1.0,six==1", "numpy==2.0,six==1"),
        asked("six==1,numpy==1.0", "numpy==2.0,six==1"),
    )
    assert one.identity == other.identity
    assert one.identity != asked("numpy==1.1,six==1", "numpy==2.0,six==1").identity


def test_a_new_minor_release_is_likelier_to_change_bits_than_a_patch() -> None:
    versions = ("1.23.5", "1.24.0", "1.24.1", "2.0.0", "2.0.1rc1", "2.0.1")
    assert odds_of(versions) == (4, 1, 8, 1, 1)


def test_the_ends_come_in_either_order() -> None:
    good, bad = parse_reference("good:venv:numpy==1"), parse_reference("bad:venv:numpy==2")
    assert ordered_ends([good, bad]) == ordered_ends([bad, good]) == (good, bad)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (("venv:numpy==1", "bad:venv:numpy==2"), "sides"),
        (("good:venv:numpy==1", "good:venv:numpy==2"), "sides"),
        (("good:venv:numpy==1",), "sides"),
        (("good:venv:a==1", "bad:venv:b==1", "bad:venv:c==1"), "sides"),
        ((), "sides"),
        (("good:host:", "bad:venv:numpy==2"), "kind"),
        (("good:image:a", "bad:venv:numpy==2"), "kind"),
    ],
)
def test_ends_that_make_no_search_are_refused(texts: tuple[str, ...], reason: str) -> None:
    with pytest.raises(UnusableEnds) as caught:
        ordered_ends([parse_reference(text) for text in texts])
    assert caught.value.reason == reason


def test_equal_ends_are_refused() -> None:
    with pytest.raises(UnusableEnds) as caught:
        asked("numpy==1.0", "numpy==1.0")
    assert caught.value.reason == "same"


def test_one_version_in_two_builds_is_refused_and_named() -> None:
    # Given a torch of one version whose wheel is another at the bad end, while numpy moves
    with pytest.raises(UnusableEnds) as caught:
        asked("numpy==1.0,torch==2.13.0!one", "numpy==2.0,torch==2.13.0!other")
    assert caught.value.reason == "builds"
    assert caught.value.references[0] == "pip:torch 2.13.0"


def test_another_host_is_another_question() -> None:
    ends = ("numpy==1.0", "numpy==2.0")
    assert asked(*ends).identity != asked(*ends, here="sha256:elsewhere").identity
