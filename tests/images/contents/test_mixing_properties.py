"""Whatever the images hold: every path has one owner, and plans lead where they should."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from bitsect.images.contents.axes import axes_between
from bitsect.images.contents.chain_owners import Chain
from bitsect.images.contents.components import components_of
from bitsect.images.contents.cover import cover
from bitsect.images.contents.errors import ClashError
from bitsect.images.contents.model import ComponentAxis
from bitsect.images.contents.noise import is_noise
from bitsect.images.contents.paths import is_below
from bitsect.images.contents.planning import expected, plan
from tests.images.contents.filesystem import FileSystem
from tests.images.contents.trees import SITE, ImageTree, Link, elf_file

# Few names, so that images agree, take files over from each other, and get in each other's way.
PATHS = ("/opt/x", "/opt/x/one", "/opt/y/two", "/usr/lib/libz.so.1", "/usr/share/doc/d")
CONTENT: st.SearchStrategy[bytes | str] = st.sampled_from(
    ["1", "2", Link("y/two"), elf_file("libz.so.1"), elf_file("libq.so.2")]
)
FILES = st.dictionaries(st.sampled_from(PATHS), CONTENT, max_size=3)
VERSION = st.sampled_from(["1", "2"])


@st.composite
def images(draw: st.DrawFn) -> ImageTree:
    image = ImageTree()
    for name in draw(st.sets(st.sampled_from(["a", "b", "c"]))):
        image.package(name, draw(VERSION), draw(FILES))
    for name in draw(st.sets(st.sampled_from(["foo", "bar"]))):
        image.distribution(name, draw(VERSION), {f"{name}/m.py": draw(VERSION), "ns/i.py": ""})
        if draw(st.booleans()):
            image.file(f"{SITE}/{name}/__pycache__/m.cpython-312.pyc", draw(VERSION))
    if draw(st.booleans()):
        choices = draw(st.permutations(["/usr/lib/libz.so.1", "/opt/y/two"]))
        image.alternative("z", "/usr/lib/z", choices)
    for path, content in draw(FILES).items():
        image.put(path, content)
    for path in draw(st.sets(st.sampled_from(PATHS), max_size=1)):
        image.remove(path)
    return image.drop_clashes()


# Each example makes whole images.
some_examples = settings(max_examples=50)

CHAINS = st.lists(images(), min_size=2, max_size=3)


def choose(data: st.DataObject, axes: tuple[ComponentAxis, ...]) -> dict[str, int]:
    return {
        axis.component: data.draw(st.integers(0, len(axis.states) - 1), label=axis.component)
        for axis in axes
    }


def chain_of(trees: list[ImageTree]) -> Chain:
    return [(tree.contents(), {}) for tree in trees]


@some_examples
@given(images())
def test_every_path_that_may_matter_has_one_owner(tree: ImageTree) -> None:
    contents = tree.contents()
    owned = [path for each in components_of(contents, {}).values() for path in each.paths]
    assert len(owned) == len(set(owned))
    matter = {path for path, entry in contents.entries.items() if entry.kind in ("file", "link")}
    assert {path for path in matter if not is_noise(path)} <= set(owned)


@some_examples
@given(CHAINS)
def test_no_path_moves_with_two_axes(trees: list[ImageTree]) -> None:
    axes = axes_between(chain_of(trees)).axes
    paths = [{path for state in axis.states for path in state.paths} for axis in axes]
    assert sum(map(len, paths)) == len(set().union(*paths))
    assert all(axis.at[0] == 0 and axis.at[-1] == len(axis.states) - 1 for axis in axes)


@some_examples
@given(CHAINS)
def test_all_states_of_an_image_make_that_image(trees: list[ImageTree]) -> None:
    chain = chain_of(trees)
    axes = axes_between(chain).axes
    for start in range(len(chain)):
        for end in range(len(chain)):
            system = FileSystem(chain[start][0])
            base = {axis.component: axis.at[start] for axis in axes}
            wanted = {axis.component: axis.at[end] for axis in axes}
            system.apply(plan(chain, axes, base, wanted), chain)
            assert system.counting() == FileSystem(chain[end][0]).counting()


@some_examples
@given(CHAINS, st.data())
def test_a_plan_gives_exactly_what_is_wanted_from_anywhere(
    trees: list[ImageTree], data: st.DataObject
) -> None:
    chain = chain_of(trees)
    axes = axes_between(chain).axes
    base, wanted = choose(data, axes), choose(data, axes)
    system = FileSystem(chain[0][0])
    try:
        system.apply(plan(chain, axes, {}, base), chain)
        system.apply(plan(chain, axes, base, wanted), chain)
    except ClashError:
        return
    files = expected(chain, axes, wanted)
    assert {path: system.content(path) for path in files} == files
    # What no axis moves is as in the first image.
    first = FileSystem(chain[0][0]).counting()
    assert {p: c for p, c in system.counting().items() if p not in files} == {
        p: c for p, c in first.items() if p not in files
    }


@some_examples
@given(CHAINS, st.data())
def test_what_is_copied_can_be_fetched(trees: list[ImageTree], data: st.DataObject) -> None:
    chain = chain_of(trees)
    axes = axes_between(chain).axes
    with suppress(ClashError):
        for donor, paths in plan(chain, axes, {}, choose(data, axes)).copies:
            requests = cover(paths, chain[donor][0], data.draw(st.integers(0, 100)))
            for path in paths:
                assert any(path == each or is_below(path, each) for each in requests)
