"""Searches between real images: what changed the bits is found, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.containers import cases
from tests.containers.cases import Ends
from tests.containers.workshop import Workshop
from tests.end_to_end.conftest import Program

pytestmark = [pytest.mark.end_to_end, pytest.mark.engine]

#: Trials, repeats included, that the case with one package and ten harmless differences may take.
MOST_RUNS = 12


def answered(bitsect: Program, ends: Ends, *more: str) -> dict[str, Any]:
    """The answer of a search between two images that came to its end."""
    ran = bitsect("bisect", "start", f"good:{ends.good}", f"bad:{ends.bad}", "--json", *more)
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    assert answer["settled"]
    return answer


def culprits(answer: dict[str, Any]) -> list[list[str]]:
    """The components of each finding."""
    return [sorted(each["component"] for each in f["culprits"]) for f in answer["findings"]]


def operations(answer: dict[str, Any]) -> set[str]:
    """Groups of operations that changed anywhere, such as ``kernels.gemm``."""
    changed = (change["event"] for f in answer["findings"] for change in f["changes"])
    return {event.split("/")[3].rpartition(".")[0] for event in changed}


def test_one_package_among_ten_harmless_differences(bitsect: Program, workshop: Workshop) -> None:
    # Given an image, and the same with OpenBLAS and ten differences that change no bit
    ends = cases.one_package(workshop)

    # When they are searched
    answer = answered(bitsect, ends)

    # Then the package with its alternatives is the culprit, at exactly one step
    assert culprits(answer) == [list(ends.culprits)]
    (finding,) = answer["findings"]
    (culprit,) = finding["culprits"]
    assert culprit["before"] == "absent"
    assert culprit["bound"]["exact"]
    assert finding["exact"]
    assert all(change["certified"] for change in finding["changes"])

    # And the products of matrices are among what changed, elementwise functions are not
    groups = operations(answer)
    assert any("gemm" in group or "blas" in group for group in groups), groups
    assert not any("transcendental" in group for group in groups), groups

    # And all ten others are named as innocent
    assert set(answer["innocent"]) >= set(ends.innocents)

    # And few runs were needed for it
    assert sum(len(line["runs"]) for line in answer["trials"]) <= MOST_RUNS

    # And a person is told the same
    assert "10 other differences changed no bit" in bitsect("bisect", "status").stdout
    assert f"{ends.culprits[0]} absent → " in bitsect("bisect", "report").stdout


def test_a_variable_alone(bitsect: Program, workshop: Workshop) -> None:
    # Given two images with the same files, one of which sets two variables
    ends = cases.one_variable(workshop)
    answer = answered(bitsect, ends)

    # Then the one that chooses kernels is the culprit, and the other one is innocent
    assert culprits(answer) == [list(ends.culprits)]
    assert answer["innocent"] == list(ends.innocents)


def test_two_components_that_are_needed_together(bitsect: Program, workshop: Workshop) -> None:
    # Given a library that heeds a setting, and the setting, neither of which does anything alone
    ends = cases.two_together(workshop)
    answer = answered(bitsect, ends)

    # Then both are named as one finding, each of them needed
    assert culprits(answer) == [sorted(ends.culprits)]
    (finding,) = answer["findings"]
    assert finding["exact"]
    assert finding["together"] == []
    assert set(answer["innocent"]) == set(ends.innocents)


@pytest.mark.parametrize("versioned", [False, True], ids=["symbol", "symbol version"])
def test_a_mixture_that_cannot_run_is_no_culprit(
    bitsect: Program, workshop: Workshop, versioned: bool
) -> None:
    # Given two libraries that run only in step and change nothing, beside the package that does
    ends = cases.pair_beside_the_culprit(workshop, versioned=versioned)
    answer = answered(bitsect, ends)

    # Then the pair is innocent
    assert culprits(answer) == [list(ends.culprits)]
    assert set(answer["innocent"]) >= set(ends.innocents)


@pytest.mark.parametrize("versioned", [False, True], ids=["symbol", "symbol version"])
def test_a_pair_that_cannot_be_parted_is_named_as_a_block(
    bitsect: Program, workshop: Workshop, versioned: bool
) -> None:
    # Given two libraries that run only in step, and change bits
    ends = cases.inseparable_pair(workshop, versioned=versioned)
    answer = answered(bitsect, ends)

    # Then they are one finding, which says that no mixture of them runs
    assert culprits(answer) == [sorted(ends.culprits)]
    (finding,) = answer["findings"]
    assert sorted(finding["together"]) == sorted(ends.culprits)
    assert not finding["exact"]
    reasons = {reason for each in finding["culprits"] for reason in each["bound"]["reasons"]}
    assert reasons == {"CRASH"}


def test_a_package_that_is_on_no_index(bitsect: Program, workshop: Workshop) -> None:
    # Given a vendor's distribution in two versions that only the images have
    ends = cases.vendor_distribution(workshop)
    answer = answered(bitsect, ends)

    # Then it was moved from image to image, and found
    assert culprits(answer) == [list(ends.culprits)]
    (culprit,) = answer["findings"][0]["culprits"]
    assert (culprit["before"], culprit["after"]) == cases.VENDOR_VERSIONS
    assert set(answer["innocent"]) == set(ends.innocents)


def test_equal_images(bitsect: Program, workshop: Workshop) -> None:
    image = workshop.torch()
    ran = bitsect("bisect", "start", f"good:{image}", f"bad:{image}")
    assert ran.returncode == 2
    assert "nothing to bisect: good and bad are the same image" in ran.stderr


def test_an_end_that_does_not_repeat_itself(bitsect: Program, workshop: Workshop) -> None:
    # Given a bad end whose dot products are other ones in every process
    ends = cases.restless(workshop)
    ran = bitsect("bisect", "start", f"good:{ends.good}", f"bad:{ends.bad}")

    # Then that is said, with the event, and nothing is searched
    assert ran.returncode == 2
    assert "NONDETERMINISTIC: the bad end" in ran.stderr
    assert "float32" in ran.stderr
    assert bitsect("bisect", "status").returncode == 2


def test_three_images_in_a_chain(bitsect: Program, workshop: Workshop) -> None:
    # Given three releases, with another culprit at each step
    chain = cases.chain(workshop)
    first, second, third = chain.images
    ends = Ends(first, third, culprits=())
    answer = answered(bitsect, ends, "--via", second)

    # Then each step's culprit is found, and events that changed at both are in both
    found = {names[0] for names in culprits(answer)}
    assert found == set(chain.steps)
    assert all(len(names) == 1 for names in culprits(answer))
    assert set(answer["innocent"]) == set(chain.innocents)


def test_what_no_component_accounts_for_is_to_blame_where_nothing_else_is(
    bitsect: Program, workshop: Workshop
) -> None:
    # Given two images with the same files, which run as two users
    answer = answered(bitsect, cases.another_user(workshop, harmless=False))

    # Then nothing is called equal for want of a difference in files
    assert culprits(answer) == [["image:rest"]]


def test_what_no_component_accounts_for_is_laid_at_no_ones_door(
    bitsect: Program, workshop: Workshop
) -> None:
    # Given the same with a file that differs and changes nothing
    ends = cases.another_user(workshop, harmless=True)
    ran = bitsect("bisect", "start", f"good:{ends.good}", f"bad:{ends.bad}")

    # Then the end that is put together from its parts is seen to be another one
    assert ran.returncode == 2
    assert "the bad end" in ran.stderr
    assert "put together from its components" in ran.stderr
    assert "file:/opt/notes.txt" not in ran.stderr


def test_releases_between_those_of_the_images_come_from_the_index(
    bitsect: Program, workshop: Workshop
) -> None:
    # Given two images with releases of NumPy between which there are others
    ends = cases.indexed_distribution(workshop)

    # When the arm of host-side numerics is asked, and the index may be asked too
    answer = answered(bitsect, ends, "--arms=data")

    # Then each step is between neighbouring releases, which no image has together
    steps = {
        (culprit["component"], culprit["before"], culprit["after"])
        for finding in answer["findings"]
        for culprit in finding["culprits"]
    }
    assert ("pip:numpy", "2.2.6", "2.3.0") in steps
    assert all(finding["exact"] for finding in answer["findings"])

    # And without the index only the whole step is known
    answer = answered(bitsect, ends, "--arms=data", "--no-index")
    (finding,) = answer["findings"]
    assert [(c["before"], c["after"]) for c in finding["culprits"]] == [("2.2.5", "2.3.1")]
