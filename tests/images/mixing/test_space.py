"""What can be mixed from a chain of images, and from where it is nearest."""

from __future__ import annotations

import pytest

from bitsect.images.errors import UnresolvedError
from bitsect.images.image_identity import Recipe
from bitsect.images.mixing.space import ImageSpace
from tests.images.mixing import samples

SMALL, LARGE, NEW = "file:/opt/small", "file:/opt/large", "file:/opt/new"
LOUD = "env:LOUD"


@pytest.fixture
def space() -> ImageSpace:
    """Three images: the small file changes first, then the large one; the last has a new one."""
    return samples.space(
        {"/opt/small": b"1", "/opt/large": b"1" * 1000},
        {"/opt/small": b"2", "/opt/large": b"1" * 1000},
        {"/opt/small": b"2", "/opt/large": b"2" * 1000, "/opt/new": b"x"},
        variables=({}, {}, {"LOUD": "11"}),
    )


def last(space: ImageSpace, *components: str) -> Recipe:
    """The good image with some components as in the last one."""
    return space.recipe({name: space.axis(name).states[-1].name for name in components})


def test_every_image_is_a_recipe_of_its_own_space(space: ImageSpace) -> None:
    assert [space.chain_index(recipe) for recipe in space.chain_recipes] == [0, 1, 2]
    assert space.recipe({}) == space.chain_recipes[0]
    assert space.recipe({}, image=2) == space.chain_recipes[2]
    assert last(space, SMALL) == space.chain_recipes[1]


def test_a_hybrid_is_none_of_the_images(space: ImageSpace) -> None:
    assert space.chain_index(last(space, NEW)) is None


def test_a_recipe_does_not_depend_on_the_order_of_its_points(space: ImageSpace) -> None:
    assert last(space, SMALL, NEW, LOUD) == last(space, LOUD, NEW, SMALL)
    assert last(space, SMALL, NEW).digest != last(space, SMALL).digest


def test_none_makes_a_component_absent(space: ImageSpace) -> None:
    assert space.recipe({NEW: None}, image=2) == last(space, SMALL, LARGE, LOUD)


def test_components_are_those_that_are_there(space: ImageSpace) -> None:
    assert space.components(last(space, LOUD)) == {
        SMALL: space.axis(SMALL).states[0].name,
        LARGE: space.axis(LARGE).states[0].name,
        LOUD: "11",
    }


def test_an_unknown_point_is_refused_with_those_that_there_are(space: ImageSpace) -> None:
    with pytest.raises(UnresolvedError) as caught:
        space.recipe({LOUD: "12"})
    assert caught.value.requirements == ("env:LOUD=12",)
    assert caught.value.reason == "it is one of: absent, 11"


def test_an_unknown_component_is_refused(space: ImageSpace) -> None:
    with pytest.raises(UnresolvedError, match="the images do not differ in file:/opt/other"):
        space.recipe({"file:/opt/other": "1"})


def test_the_nearest_is_where_the_fewest_bytes_are_copied_from(space: ImageSpace) -> None:
    # From the good image a byte is copied, from the last one a thousand
    assert space.nearest(last(space, NEW, LOUD)) == space.chain_recipes[0]
    assert space.nearest(last(space, LARGE)) == space.chain_recipes[2]


def test_of_equally_many_bytes_the_fewest_moves_decide(space: ImageSpace) -> None:
    # Whatever is deleted or set costs no bytes
    assert space.nearest(last(space, SMALL, LOUD)) == space.chain_recipes[1]


def test_a_hybrid_may_be_nearer_than_any_image(space: ImageSpace) -> None:
    built = last(space, LARGE)
    assert space.nearest(last(space, LARGE, NEW), [built]) == built
    assert space.nearest(built, [built]) == built


def test_where_variables_cannot_be_taken_away_none_is_too_many(space: ImageSpace) -> None:
    quiet = last(space, LARGE)
    assert space.nearest(quiet, unsetting=False) == space.chain_recipes[0]
    assert space.nearest(last(space, LARGE, LOUD), unsetting=False) == space.chain_recipes[2]


def test_hybrids_of_other_images_are_passed_over(space: ImageSpace) -> None:
    wanted = last(space, LARGE, NEW)
    stranger = Recipe(("sha256:" + "f" * 64,), wanted.states)
    unknown = Recipe(wanted.chain, wanted.states[:-1])
    assert not space.knows(stranger)
    assert not space.knows(unknown)
    assert space.nearest(wanted, [stranger, unknown]) == space.chain_recipes[2]
    with pytest.raises(ValueError, match="not a recipe of these images"):
        space.states_of(stranger)


def test_a_state_that_comes_back_is_the_same_state() -> None:
    space = samples.space({"/opt/a": b"1"}, {"/opt/a": b"2"}, {"/opt/a": b"1"})
    assert space.chain_recipes[0] == space.chain_recipes[2]
    assert space.chain_index(space.recipe({}, image=2)) == 0
