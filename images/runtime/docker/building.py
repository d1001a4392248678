"""Makes hybrids: images that have, for each component, the state that a recipe names.

One is made from whatever is nearest to it, in a container that can do nothing else, and becomes
an image in a single step: a build that is cut short leaves no image.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

import msgspec

from bitsect.images.contents.dpkg import STATUS, status_with
from bitsect.images.contents.errors import ClashError
from bitsect.images.contents.model import Contents
from bitsect.images.contents.planning import Plan, plan
from bitsect.images.errors import UnbuildableError
from bitsect.images.file_lock import FileLock
from bitsect.images.image_identity import Recipe
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.offers.offer import Offers
from bitsect.images.runtime.docker.arranging import Arrangement, Loan
from bitsect.images.runtime.docker.committing import (
    BaseImage,
    all_labels,
    carried,
    commit,
    config_like,
    described,
    own_labels,
)
from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.marks import Marks
from bitsect.images.runtime.docker.pruning import MadeImage, MadeImages
from bitsect.images.runtime.docker.workbench import workbench

KIND = "hybrid"
#: Which images lend to a hybrid, and the state that it has of each component, as JSON.
CHAIN = "bitsect.chain"
STATES = "bitsect.states"
#: Storage of the usual kind stacks no more than 127 layers.
MOST_LAYERS = 100

_NO_OFFERS: Mapping[str, Offers] = MappingProxyType({})


class HybridBuilder:
    """Makes the hybrids of one space, each once, whoever asks for it.

    :param python_of: finds the Python of an image; None if it has none.
    :param offers: by kind of component, for states that no image has.
    """

    def __init__(
        self,
        engine: Engine,
        marks: Marks,
        made: MadeImages,
        space: ImageSpace,
        python_of: Callable[[BaseImage], str | None],
        offers: Mapping[str, Offers] = _NO_OFFERS,
    ) -> None:
        self._engine = engine
        self._marks = marks
        self._made = made
        self._space = space
        self._python_of = python_of
        self._offers = offers

    def ensure(self, recipe: Recipe, *, rebuilt: bool = False) -> tuple[MadeImage, FileLock]:
        """The image of a recipe, made unless it is there, and a lock that keeps it.

        :param rebuilt: make it from the chain's first image, although another may be the same.

        Raises UnbuildableError where the images do not allow it, InfrastructureError.
        """
        make = self._remake if rebuilt else self._make
        return self._made.ensure(KIND, recipe.digest, lambda: make(recipe))

    def plan(self, base: Recipe, wanted: Recipe) -> Plan:
        """What is to be done to get from one recipe to another.

        Raises ClashError where the states cannot be in one file system, and what fetching an
        offered state raises.
        """
        space = self._space
        offered = {**self._offered(base), **self._offered(wanted)}
        todo = plan(space.chain, space.axes, space.indexes(base), space.indexes(wanted), offered)
        return self._with_offered_packages(todo, wanted, offered)

    def _make(self, recipe: Recipe) -> None:
        built = set(filter(None, map(recipe_of, self._made.all(KIND))))
        with self._nearest(recipe, built) as (base_recipe, base):
            try:
                self._build(recipe, base_recipe, base)
            except UnbuildableError:
                if self._space.chain_index(base_recipe) is not None:
                    raise
            else:
                return
        # A hybrid may be unfit to work in, which must not be laid at this one's door.
        with self._nearest(recipe, set()) as (base_recipe, base):
            self._build(recipe, base_recipe, base)

    def _remake(self, recipe: Recipe) -> None:
        first = self._space.chain_recipes[0]
        base = described(self._engine, self._space.images[0].engine_id, first.digest)
        self._build(recipe, first, base)

    def _build(self, recipe: Recipe, base_recipe: Recipe, base: BaseImage) -> None:
        engine, marks, good = self._engine, self._marks, self._space.images[0]
        try:
            todo = self.plan(base_recipe, recipe)
        except ClashError as error:
            raise UnbuildableError(error.path, clash(error)) from error
        python = self._python_of(base)
        if python is None:
            raise UnbuildableError("python", "what the hybrid is made from has none on its PATH")
        with ExitStack() as stack:
            loans = [*self._loans(todo), *self._offered_loans(todo, recipe, stack)]
            arrangement = Arrangement(todo, loans, self._space.contents)
            arrangement.refuse_volumes(base.volumes)
            labels = {
                **own_labels(marks, KIND, good, base),
                CHAIN: json.dumps(recipe.chain),
                STATES: json.dumps(dict(recipe.states)),
            }
            labels = all_labels(labels, recipe.digest, base)
            given = carried(engine, base, todo.environment, labels)
            bench = stack.enter_context(workbench(engine, marks, base.id, python, given=given))
            arrangement.carry_out(engine, marks, bench)
            arrangement.check(engine, bench)
            config = config_like(good, base, todo.environment)
            commit(engine, marks, bench.container, config, labels)

    @contextmanager
    def _nearest(self, recipe: Recipe, built: set[Recipe]) -> Iterator[tuple[Recipe, BaseImage]]:
        """What to make it from, which stays until the block is left.

        :param built: hybrids that may be there; those that are not, or are of no use, are removed.
        """
        while True:
            unsetting = not self._engine.is_podman
            nearest = self._space.nearest(recipe, built, unsetting=unsetting)
            index = self._space.chain_index(nearest)
            if index is not None:
                image = self._space.images[index].engine_id
                yield nearest, described(self._engine, image, nearest.digest)
                return
            held = self._made.hold(KIND, nearest.digest)
            if held is not None:
                with held[1]:
                    base = described(self._engine, held[0].id, nearest.digest)
                    if base.layers < MOST_LAYERS:
                        yield nearest, base
                        return
            # It went meanwhile, or is full.
            built.remove(nearest)

    def _loans(self, todo: Plan) -> Iterator[Loan]:
        for index, paths in todo.copies:
            contents = self._space.contents[index]
            yield _loan(self._space.images[index].engine_id, contents, paths)

    def _offered_loans(self, todo: Plan, recipe: Recipe, stack: ExitStack) -> Iterator[Loan]:
        """Opened loans, which the stack closes."""
        states = self._space.states_of(recipe)
        by_offer = {state.offer: component for component, state in states.items()}
        for offer, paths in todo.offered:
            component = by_offer[offer]
            axis, state = self._space.axis(component), states[component]
            offers = self._offers[_kind(component)]
            lender = stack.enter_context(offers.lent(axis, state))
            yield _loan(lender, offers.contents(axis, state), paths)

    def _with_offered_packages(
        self, todo: Plan, wanted: Recipe, offered: Mapping[str, Contents]
    ) -> Plan:
        """The plan, with what is offered entered in the package database that it writes."""
        if STATUS not in todo.files:
            return todo
        text = todo.files[STATUS]
        for component, state in self._space.states_of(wanted).items():
            if state.offer is not None:
                donor = offered[state.offer].texts.get(STATUS, b"")
                states = self._space.axis(component).states
                packages = {package for each in states for package in each.packages}
                text = status_with(text, donor, sorted(packages))
        return msgspec.structs.replace(todo, files={**todo.files, STATUS: text})

    def _offered(self, recipe: Recipe) -> dict[str, Contents]:
        """The files of offered states, by offer."""
        return {
            state.offer: self._offers[_kind(component)].contents(self._space.axis(component), state)
            for component, state in self._space.states_of(recipe).items()
            if state.offer is not None
        }


def recipe_of(image: MadeImage) -> Recipe | None:
    """What a made image says it is made of; None if it says nothing that fits."""
    try:
        chain = msgspec.json.decode(image.labels.get(CHAIN, ""), type=tuple[str, ...])
        states = msgspec.json.decode(image.labels.get(STATES, ""), type=dict[str, str])
    except msgspec.MsgspecError:
        return None
    recipe = Recipe(chain, tuple(sorted(states.items())))
    return recipe if recipe.digest == image.key else None


def clash(error: ClashError) -> str:
    """Why two components cannot be in one file system."""
    return f"{error.component} has a file there, {error.other} a folder"


def _kind(component: str) -> str:
    return component.partition(":")[0]


def _loan(lender: str | Path, contents: Contents, paths: tuple[str, ...]) -> Loan:
    files = {path: contents.entries[path] for path in paths}
    return Loan(lender, files, contents)
