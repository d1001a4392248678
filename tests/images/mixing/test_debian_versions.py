"""Debian's own order of versions."""

from __future__ import annotations

import itertools

import pytest

from bitsect.images.offers.debian_versions import between, version_key

ASCENDING = (
    "0~", "0", "0a", "0+", "0.1", "0.1-1", "1.0~rc1-1", "1.0~rc1-1+b1", "1.0-1~bpo12+1", "1.0-1",
    "1.0-1+b1", "1.0-1+deb12u1", "1.0-1.1", "1.0-2", "1.0-10", "1.0a-1", "1.0+dfsg-1", "1.0.1-1",
    "1.2-3", "1.10-1", "2", "1:0.5-1", "2:0.1",
)  # fmt: skip


@pytest.mark.parametrize(("lower", "higher"), [*itertools.pairwise(ASCENDING)])
def test_versions_are_in_order(lower: str, higher: str) -> None:
    assert version_key(lower) < version_key(higher)


def test_equal_versions_may_be_written_differently() -> None:
    assert version_key("0:1.0-0") == version_key("1.0")
    assert version_key("1.01") == version_key("1.1")


def test_a_hyphen_in_the_upstream_version_is_part_of_it() -> None:
    assert version_key("1-2-3") < version_key("1-10-1")


def test_between_leaves_out_both_ends_and_keeps_the_direction() -> None:
    offered = {"1.0-1", "1.0-2", "1.0-10", "1.1-1", "0.9-1"}
    assert between(offered, "1.0-1", "1.1-1") == ["1.0-2", "1.0-10"]
    assert between(offered, "1.1-1", "1.0-1") == ["1.0-10", "1.0-2"]
    assert between(offered, "1.0-1", "1.0-2") == []
