"""Values in tables: what tells them apart stays visible, however long they are."""

from __future__ import annotations

import pytest

from bitsect.cli.tables import LONGEST_VALUE, telling_parts

FLAGS = " ".join(f"-DFLAG_{number}=1" for number in range(60))


def test_short_values_are_shown_whole() -> None:
    assert telling_parts("1.0", "2.0") == ("1.0", "2.0")


def test_what_is_not_there_is_absent() -> None:
    assert telling_parts(None, "2.0") == ("absent", "2.0")


def test_of_long_values_the_words_that_differ_are_shown() -> None:
    before, after = telling_parts(f"{FLAGS} USE_MKL=ON", f"{FLAGS} USE_MKL=OFF USE_X=1")
    assert (before, after) == ("USE_MKL=ON", "USE_MKL=OFF USE_X=1")


def test_a_value_that_only_lacks_words_says_so() -> None:
    assert telling_parts(FLAGS, f"{FLAGS} USE_X=1") == ("(nothing more)", "USE_X=1")


@pytest.mark.parametrize("other", [FLAGS.replace(" ", "  "), " ".join(reversed(FLAGS.split()))])
def test_values_with_equal_words_are_cut(other: str) -> None:
    before, after = telling_parts(FLAGS, other)
    assert before.startswith(FLAGS[:LONGEST_VALUE])
    assert after.startswith(other[:LONGEST_VALUE])
    assert before.endswith("characters more, see --json)")


def test_long_parts_are_cut() -> None:
    before, _ = telling_parts("a" * 200, "b" * 200)
    assert before == "a" * LONGEST_VALUE + " … (40 characters more, see --json)"
