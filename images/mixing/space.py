"""Everything that can be mixed from a chain of images, and where to begin with it.

A hybrid is one state for each component in which the images differ. Which image it is made from
does not matter to what it is, only to how long it takes to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from bitsect.images.contents.axes import Differences
from bitsect.images.contents.chain_owners import Chain
from bitsect.images.contents.model import ABSENT, ComponentAxis, Contents, Entry, State
from bitsect.images.errors import UnresolvedError
from bitsect.images.image_identity import ImageIdentity, Recipe


class ImageSpace:
    """The hybrids of a chain.

    :param images: good end first.
    :param contents: of each image.
    :param differences: what `axes_between` found in them, with whatever an index offers besides.
    """

    def __init__(
        self,
        images: Sequence[ImageIdentity],
        contents: Sequence[Contents],
        differences: Differences,
    ) -> None:
        self.images = tuple(images)
        self.contents = tuple(contents)
        self.axes = differences.axes
        self.blocks = differences.blocks
        self.noise = differences.noise
        self._digests = tuple(image.config_digest for image in images)
        self._by_name = {axis.component: axis for axis in self.axes}
        # A state that comes back later on its axis is the same one.
        self._states: dict[tuple[str, str], State] = {}
        for axis in self.axes:
            for state in axis.states:
                self._states.setdefault((axis.component, state.digest), state)

    @cached_property
    def chain_recipes(self) -> tuple[Recipe, ...]:
        """What the images themselves are, as if they had been mixed."""
        return tuple(
            self._recipe({axis.component: axis.states[axis.at[image]] for axis in self.axes})
            for image in range(len(self.images))
        )

    @cached_property
    def chain(self) -> Chain:
        """The images as plans are made for them."""
        variables = (image.environment for image in self.images)
        return tuple(zip(self.contents, variables, strict=True))

    def axis(self, component: str) -> ComponentAxis:
        """Raises UnresolvedError for a component in which the images do not differ."""
        if component not in self._by_name:
            reason = f"the images do not differ in {component}"
            raise UnresolvedError((component,), reason)
        return self._by_name[component]

    def recipe(self, points: Mapping[str, str | None], image: int = 0) -> Recipe:
        """The hybrid with some components at named points, and all others as in an image.

        Raises UnresolvedError for a component or a point that no image has.

        :param points: by component; None where it is to be absent.
        :param image: of the chain; the good one by default.
        """
        states = {axis.component: axis.states[axis.at[image]] for axis in self.axes}
        for component, point in points.items():
            states[component] = _state_named(self.axis(component), point or ABSENT)
        return self._recipe(states)

    def knows(self, recipe: Recipe) -> bool:
        """Whether a recipe is of these images, and of these states of theirs."""
        return (
            recipe.chain == self._digests
            and {component for component, _ in recipe.states} == self._by_name.keys()
            and all(pair in self._states for pair in recipe.states)
        )

    def states_of(self, recipe: Recipe) -> dict[str, State]:
        """The state of each component; ValueError for a recipe of other images."""
        if not self.knows(recipe):
            raise ValueError(f"not a recipe of these images: {recipe.digest}")
        return {component: self._states[component, state] for component, state in recipe.states}

    def indexes(self, recipe: Recipe) -> dict[str, int]:
        """The position of each component's state on its axis."""
        states = self.states_of(recipe)
        return {axis.component: axis.states.index(states[axis.component]) for axis in self.axes}

    def chain_index(self, recipe: Recipe) -> int | None:
        """Which image of the chain a recipe makes; None if it makes none of them."""
        recipes = self.chain_recipes
        return recipes.index(recipe) if recipe in recipes else None

    def components(self, recipe: Recipe) -> dict[str, str]:
        """The point of each component that is there."""
        return {
            component: state.name
            for component, state in self.states_of(recipe).items()
            if state.name != ABSENT
        }

    def entries(self, state: State) -> dict[str, Entry]:
        """The files that a state consists of; none for what is offered, absent or a value."""
        if state.donor is None:
            return {}
        entries = self.contents[state.donor].entries
        return {path: entries[path] for path in state.paths}

    def nearest(
        self, recipe: Recipe, built: Iterable[Recipe] = (), *, unsetting: bool = True
    ) -> Recipe:
        """The recipe to start from: an image of the chain, or one of those that were built.

        The fewest bytes are copied from there, and of several that are equal in this, the fewest
        components moved. Built ones of other images are passed over.

        :param unsetting: a variable that is too many can be taken away; otherwise whatever has
            one is passed over, if there is anything else.
        """
        bases = [*self.chain_recipes, *(each for each in built if self.knows(each))]
        if not unsetting:
            bases = [base for base in bases if not self._too_many(base, recipe)] or bases
        return min(bases, key=lambda base: self._distance(base, recipe))

    def _too_many(self, base: Recipe, wanted: Recipe) -> set[str]:
        """Variables that are set in one and not in the other."""
        had, kept = self.components(base), self.components(wanted)
        return {name for name in had if name.startswith("env:") and name not in kept}

    def _distance(self, base: Recipe, wanted: Recipe) -> tuple[int, int]:
        moved = set(wanted.states) - set(base.states)
        return sum(self._sizes[pair] for pair in moved), len(moved)

    @cached_property
    def _sizes(self) -> dict[tuple[str, str], int]:
        """Bytes of every state."""
        return {
            key: sum(entry.size for entry in self.entries(state).values())
            for key, state in self._states.items()
        }

    def _recipe(self, states: Mapping[str, State]) -> Recipe:
        pairs = ((component, state.digest) for component, state in states.items())
        return Recipe(self._digests, tuple(sorted(pairs)))


def _state_named(axis: ComponentAxis, point: str) -> State:
    for state in axis.states:
        if state.name == point:
            return state
    names = ", ".join(state.name for state in axis.states)
    raise UnresolvedError((f"{axis.component}={point}",), f"it is one of: {names}")
