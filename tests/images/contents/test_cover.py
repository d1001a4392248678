"""The cheapest requests that fetch what is wanted."""

from __future__ import annotations

from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from bitsect.images.contents.cover import cover
from bitsect.images.contents.model import Contents, Entry
from bitsect.images.contents.paths import is_below


def contents(sizes: dict[str, int]) -> Contents:
    return Contents({p: Entry("file", 0o644, 0, 0, size, 0) for p, size in sizes.items()}, {})


def test_nothing_needs_no_request() -> None:
    assert cover([], contents({"/a": 1})) == []


def test_many_small_files_of_a_folder_are_one_request() -> None:
    image = contents({f"/opt/x/{index}": 10 for index in range(9)} | {"/opt/y": 10**9})
    assert cover([f"/opt/x/{index}" for index in range(9)], image, 1000) == ["/opt/x"]


def test_a_small_file_beside_a_large_one_is_asked_for_by_itself() -> None:
    image = contents({"/opt/x/small": 10, "/opt/x/large": 10**6})
    assert cover(["/opt/x/small"], image, 1000) == ["/opt/x/small"]


def test_a_deeper_folder_may_be_cheaper_than_the_one_around_it() -> None:
    image = contents({"/a/b/1": 1, "/a/b/2": 1, "/a/huge": 10**6, "/a/c/1": 1})
    assert cover(["/a/b/1", "/a/b/2", "/a/c/1"], image, 100) == ["/a/b", "/a/c/1"]


def test_the_root_is_never_asked_for() -> None:
    image = contents({"/a/1": 1, "/b/1": 1, "/c": 1})
    assert cover(["/a/1", "/b/1", "/c"], image, 10**9) == ["/a/1", "/b/1", "/c"]


def test_a_neighbour_whose_name_begins_alike_is_not_counted() -> None:
    image = contents({"/a/1": 1, "/a/2": 1, "/a-b/1": 10**9, "/a0": 10**9})
    assert cover(["/a/1", "/a/2"], image, 100) == ["/a"]


PATHS = st.lists(
    st.lists(st.sampled_from("abc"), min_size=2, max_size=3).map(lambda each: "/" + "/".join(each)),
    min_size=1,
    max_size=6,
    unique=True,
).filter(lambda paths: not any(is_below(a, b) for a in paths for b in paths))


@given(PATHS, st.data())
def test_all_is_fetched_and_no_other_choice_is_cheaper(
    paths: list[str], data: st.DataObject
) -> None:
    sizes = {path: data.draw(st.integers(0, 30)) for path in paths}
    wanted = data.draw(st.lists(st.sampled_from(paths), min_size=1, unique=True))
    image = contents(sizes)
    found = cover(wanted, image, overhead_bytes=7)

    def fetched(requests: tuple[str, ...]) -> set[str]:
        return {p for p in paths for each in requests if p == each or is_below(p, each)}

    def cost(requests: tuple[str, ...]) -> int:
        return sum(
            7 + sum(size for path, size in sizes.items() if path == each or is_below(path, each))
            for each in requests
        )

    assert fetched(tuple(found)) >= set(wanted)
    places = sorted({p[:end] for p in paths for end in range(2, len(p) + 1, 2)})
    choices = chain.from_iterable(combinations(places, count) for count in range(1, 4))
    for choice in choices:
        if fetched(choice) >= set(wanted):
            assert cost(tuple(found)) <= cost(choice)
