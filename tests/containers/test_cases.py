"""That the cases are what they say, seen in plain containers and without anything of bitsect's."""

from __future__ import annotations

import json

import docker
import pytest

from tests.containers import cases
from tests.containers.workshop import Workshop

pytestmark = pytest.mark.engine

#: Products of numbers that are exact everywhere.
NUMPY = """
import hashlib, json, numpy

numbers = numpy.arange(8192, dtype="uint64") * 2654435761 % 1009
one, two = ((numbers.astype("float32") - 504) / 7).reshape(2, 4096)
results = {"matmul": one.reshape(64, 64) @ two.reshape(64, 64), "dot": numpy.dot(one, two)}
"""
#: The same by torch, and an operation that no BLAS has a part in.
TORCH = """
import torch

first, second = torch.from_numpy(one), torch.from_numpy(two)
results["torch matmul"] = (first.reshape(64, 64) @ second.reshape(64, 64)).numpy()
results["torch dot"] = torch.dot(first, second).numpy()
results["torch exp"] = torch.exp(first / 64).numpy()
"""
TELL = """
digests = {name: hashlib.sha256(got.tobytes()).hexdigest() for name, got in results.items()}
print(json.dumps(digests))
"""
#: How many results the same product has.
REPEATED = "print(len({numpy.dot(one, two).tobytes() for _ in range(64)}))"

Bits = dict[str, str]


class Containers:
    """Runs a program in a container of an image."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client

    def said(self, image: str, program: str) -> bytes:
        output: bytes = self._client.containers.run(
            image, ["python3", "-c", program], network_mode="none", remove=True
        )
        return output

    def bits(self, image: str, *, torch: bool = False) -> Bits:
        """Digests of the results; torch takes its time to start."""
        found: Bits = json.loads(self.said(image, NUMPY + (TORCH if torch else "") + TELL))
        return found


@pytest.fixture(scope="session")
def containers(engine: docker.DockerClient) -> Containers:
    return Containers(engine)


def changed(before: Bits, after: Bits) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def test_openblas_changes_bits_and_ten_harmless_differences_do_not(
    workshop: Workshop, containers: Containers
) -> None:
    ends = cases.one_package(workshop)
    good, harmless, bad = (
        containers.bits(image, torch=True)
        for image in (ends.good, cases.only_harmless(workshop), ends.bad)
    )
    assert len(set(ends.innocents)) == 10
    assert changed(good, harmless) == set()
    assert changed(good, bad) >= {"matmul", "torch matmul"}


def test_one_variable_changes_bits_and_the_other_does_not(
    workshop: Workshop, containers: Containers
) -> None:
    ends = cases.one_variable(workshop)
    patient = workshop.derived(
        "bitsect-test/variable:patient", ends.good, [f"ENV {cases.PATIENCE}"]
    )
    good = containers.bits(ends.good)
    assert changed(good, containers.bits(patient)) == set()
    assert changed(good, containers.bits(ends.bad)) >= {"matmul"}


def test_a_library_and_its_setting_change_bits_only_together(
    workshop: Workshop, containers: Containers
) -> None:
    ends = cases.two_together(workshop)
    good, bad = (containers.bits(image, torch=True) for image in (ends.good, ends.bad))
    assert changed(good, bad) == {"dot", "torch dot"}
    for one in cases.one_of_two(workshop):
        assert changed(good, containers.bits(one, torch=True)) == set()


@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "named"])
def test_a_pair_runs_only_whole(
    workshop: Workshop, containers: Containers, versioned: bool
) -> None:
    # Given two libraries of two generations
    beside = cases.pair_beside_the_culprit(workshop, versioned=versioned)
    inseparable = cases.inseparable_pair(workshop, versioned=versioned)
    good = containers.bits(beside.good)

    # Then NumPy cannot be loaded where they are mixed
    with pytest.raises(docker.errors.ContainerError, match=r"ImportError: .*libsum"):
        containers.bits(cases.mixed_pair(workshop, versioned=versioned))

    # And otherwise it is OpenBLAS in one case, the pair in the other, that changes bits
    assert changed(good, containers.bits(beside.bad)) == {"matmul"}
    assert changed(good, containers.bits(inseparable.bad)) == {"dot"}


def test_a_vendors_distribution_changes_bits(workshop: Workshop, containers: Containers) -> None:
    ends = cases.vendor_distribution(workshop)
    assert changed(containers.bits(ends.good), containers.bits(ends.bad)) == {"dot"}


def test_a_restless_end_gives_other_bits_in_time(
    workshop: Workshop, containers: Containers
) -> None:
    ends = cases.restless(workshop)
    good, bad = (int(containers.said(image, NUMPY + REPEATED)) for image in (ends.good, ends.bad))
    # Each of 64 products draws one of two orders; that all draw the same one is 1 in 2^63.
    assert (good, bad) == (1, 2)


def test_each_release_of_the_chain_changes_bits_of_its_own(
    workshop: Workshop, containers: Containers
) -> None:
    first, second, third = (
        containers.bits(image, torch=True) for image in cases.chain(workshop).images
    )
    assert changed(first, second) >= {"matmul", "torch matmul"}
    assert changed(second, third) == {"torch exp"}
