"""Values in tables: what tells them apart stays visible, however long they are."""

from __future__ import annotations

import pytest

from bitsect.cli.tables import CONTEXT, LONGEST_VALUE, telling_parts

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
def test_values_with_equal_words_are_cut_where_they_differ(other: str) -> None:
    before, after = telling_parts(FLAGS, other)
    assert before != after
    assert before.startswith("-DFLAG_0=1")
    assert before.endswith("characters more, see --json)")


def test_long_parts_are_cut() -> None:
    before, _ = telling_parts("a" * 200, "b" * 200)
    assert before == "a" * LONGEST_VALUE + " … (40 characters more, see --json)"


def test_one_long_word_is_cut_around_what_differs() -> None:
    path = "/opt/" + "x" * 300
    assert (
        telling_parts(f"{path}/a", f"{path}/b")[0]
        == "… " + "x" * (CONTEXT - 1) + "/a (286 characters more, see --json)"
    )


def test_of_lists_of_folders_the_folders_that_differ_are_shown() -> None:
    folders = ":".join(f"/opt/tool-{number}/bin" for number in range(30))
    assert telling_parts(f"{folders}:/usr/bin", f"/new/bin:{folders}:/usr/bin") == (
        "(nothing more)", "/new/bin",
    )  # fmt: skip


def test_a_word_that_comes_twice_is_shown() -> None:
    assert telling_parts(f"{FLAGS} -O2", f"{FLAGS} -O2 -O2") == ("(nothing more)", "-O2")


def test_any_two_values_that_differ_look_different() -> None:
    for common in ("x", "x ", "x:", "ab "):
        one, other = common * 200 + "1", common * 200 + "2"
        assert len(set(telling_parts(one, other))) == 2
