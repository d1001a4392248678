"""A manifest's stack is found by what cannot have moved, made again, and looked at."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bitsect.images.contents.model import Contents
from bitsect.images.errors import BadReference, InfrastructureError
from bitsect.images.image_identity import Recipe
from bitsect.images.interpreter import Interpreter
from bitsect.images.lock import LockedPackage, make_lock
from bitsect.images.manifest import Manifest, from_inventory, image_layer
from bitsect.images.manifest_errors import RebuildError
from bitsect.images.payload import Payload
from bitsect.images.pinning import Pinner
from bitsect.images.rebuilding import (
    Found,
    found_again,
    rebuilt,
    verified,
    with_its_name_checked,
)
from bitsect.images.runtime.errors import ProgramError
from bitsect.images.runtime.protocol import Runtime, Stack
from bitsect.images.stack_source import StackSource, evidence_of, source_of
from tests.images.fake_stacks import (
    FakeRuntime,
    digest_of,
    identity,
    image_stack,
    unreachable,
)
from tests.images.test_manifest import inventory

NAME = "team/train:26.03"
LOCAL = f"team/train@{digest_of('a')[:-1]}"
BY_MANIFEST = f"team/train@{digest_of('b')}"
BY_ID = digest_of("a")
IMAGE = image_stack(identity())
OTHER = image_stack(identity("9"))


def source(stack: Stack) -> StackSource:
    return source_of(from_inventory(inventory(), None, evidence_of(stack)))


def environment(interpreter: Interpreter) -> Stack:
    wheel = LockedPackage("demo", "1.0", "wheel", "https://h/demo-1.0-py3-none-any.whl", ("md5:1",))
    return Stack("venv:demo", "venv", interpreter, {}, make_lock(interpreter, [wheel]))


class TestFindingAnImage:
    @pytest.mark.parametrize("where", [LOCAL, BY_MANIFEST, BY_ID, NAME])
    def test_by_any_of_its_names(self, where: str) -> None:
        found = found_again(source(IMAGE), FakeRuntime({where: IMAGE}))
        assert found.stack == IMAGE
        assert found.moved is None

    def test_what_is_here_is_not_asked_for_elsewhere(self) -> None:
        runtime = FakeRuntime({LOCAL: IMAGE})
        found_again(source(IMAGE), runtime)
        assert runtime.asked == [LOCAL]

    def test_one_of_another_config_is_not_it(self) -> None:
        # Given a repository in which a digest now begins alike
        runtime = FakeRuntime({LOCAL: OTHER, BY_MANIFEST: IMAGE})
        assert found_again(source(IMAGE), runtime).stack == IMAGE

    def test_one_that_never_was_in_a_registry_is_found_by_its_id(self) -> None:
        stack = image_stack(identity(manifest_digest=None))
        runtime = FakeRuntime({BY_ID: stack})
        assert found_again(source(stack), runtime).stack == stack
        assert BY_MANIFEST not in runtime.asked

    def test_an_unreachable_registry_is_no_reason_to_give_up(self) -> None:
        runtime = FakeRuntime({BY_MANIFEST: unreachable(), BY_ID: IMAGE})
        assert found_again(source(IMAGE), runtime).stack == IMAGE

    def test_any_other_fault_is(self) -> None:
        runtime = FakeRuntime({LOCAL: InfrastructureError("engine", "gone"), BY_ID: IMAGE})
        with pytest.raises(InfrastructureError):
            found_again(source(IMAGE), runtime)

    def test_where_it_is_gone_its_name_says_what_took_its_place(self) -> None:
        found = found_again(source(IMAGE), FakeRuntime({NAME: OTHER}))
        assert found.stack.image is not None
        assert found.stack.image.config_digest == digest_of("9")

    def test_where_nothing_is_left_it_is_said_what_is_needed(self) -> None:
        with pytest.raises(RebuildError) as caught:
            found_again(source(IMAGE), FakeRuntime({}))
        assert (caught.value.obstacle, caught.value.reference) == ("image", NAME)
        assert caught.value.needs == (digest_of("a"), digest_of("b"))


class TestItsName:
    def test_a_name_that_leads_elsewhere_is_told(self) -> None:
        runtime = FakeRuntime({LOCAL: IMAGE, NAME: OTHER})
        found = with_its_name_checked(source(IMAGE), found_again(source(IMAGE), runtime))
        assert found.stack == IMAGE
        assert found.moved is not None
        assert (found.moved.before, found.moved.after) == (digest_of("a"), digest_of("9"))

    @pytest.mark.parametrize("name", [{NAME: IMAGE}, {}, {NAME: unreachable()}])
    def test_one_that_does_not_or_leads_nowhere_is_not(self, name: dict[str, Stack]) -> None:
        runtime = FakeRuntime({LOCAL: IMAGE, **name})
        found = with_its_name_checked(source(IMAGE), found_again(source(IMAGE), runtime))
        assert found.moved is None

    def test_a_digest_cannot_lead_elsewhere(self) -> None:
        pinned = source(image_stack(identity(requested=BY_MANIFEST)))
        runtime = FakeRuntime({LOCAL: IMAGE})
        with_its_name_checked(pinned, found_again(pinned, runtime))
        assert runtime.asked == [LOCAL]


class TestHybrids:
    RECIPE = Recipe((digest_of("a"), digest_of("f")), (("apt:libblas3", digest_of("1")),))
    HYBRID = image_stack(identity(), recipe=RECIPE)

    def test_one_without_its_makers_needs_its_images(self) -> None:
        with pytest.raises(RebuildError) as caught:
            found_again(source(self.HYBRID), FakeRuntime({}))
        assert (caught.value.obstacle, caught.value.needs) == ("recipe", self.RECIPE.chain)

    def test_it_is_made_from_its_recipe(self) -> None:
        makers: Runtime = FakeRuntime({})

        class Maker:
            def rebuild(self, recipe: Recipe) -> tuple[Runtime, Stack]:
                return makers, image_stack(identity("9"), recipe=recipe)

        found = found_again(source(self.HYBRID), FakeRuntime({}), Maker())
        assert found.runtime is makers
        assert (found.stack.recipe, found.stack.reference) == (self.RECIPE, NAME)


class TestFindingAnEnvironment:
    def test_by_its_lock_and_not_by_what_its_name_means_now(self, interpreter: Interpreter) -> None:
        stack = environment(interpreter)
        seen: list[str] = []

        class Reading(FakeRuntime):
            def resolve(self, reference: object) -> Stack:
                file = Path(reference.file)  # type: ignore[attr-defined]
                seen.append(file.read_text())
                return Stack("venv:/tmp/pylock.toml", "venv", interpreter, {}, stack.lock)

        found = found_again(source(stack), Reading({}))
        assert seen == [source(stack).lock]
        assert found.stack == stack

    def test_a_lock_for_another_python_is_named_as_the_user_named_it(
        self, interpreter: Interpreter
    ) -> None:
        class Refusing(FakeRuntime):
            def resolve(self, reference: object) -> Stack:
                raise BadReference("/tmp/pylock.toml", "no wheel fits")

        with pytest.raises(BadReference) as caught:
            found_again(source(environment(interpreter)), Refusing({}))
        assert caught.value.text == "venv:demo"


class Taking(Pinner):
    """Gives manifests one after the other, whatever is there."""

    taken: list[Manifest]

    def manifest(self, runtime: Runtime, stack: Stack, *, deep: bool = False) -> Manifest:
        assert deep
        return self.taken.pop(0)


def taking(*manifests: Manifest) -> Taking:
    pinner = Taking(Payload(Path(), "sha256:p"), lambda stack: Contents({}, {}))
    object.__setattr__(pinner, "taken", list(manifests))
    return pinner


GOOD = from_inventory(inventory())


def spoilt() -> Manifest:
    body = inventory()
    body["software"]["distributions"][0]["altered"] = ["numpy/core.py"]
    return from_inventory(body)


class TestMakingAgain:
    def test_an_environment_as_it_was_is_kept(self, interpreter: Interpreter) -> None:
        runtime = FakeRuntime({}, "venv")
        made = rebuilt(GOOD, Found(runtime, environment(interpreter)), taking(GOOD))
        assert (made.python, made.image, made.drift.outcome) == ("/usr/bin/python3", None, "same")
        assert [(each.discarded, each.released) for each in runtime.handles] == [(0, 1)]

    def test_one_that_was_changed_is_built_anew(self, interpreter: Interpreter) -> None:
        runtime = FakeRuntime({}, "venv")
        made = rebuilt(GOOD, Found(runtime, environment(interpreter)), taking(spoilt(), GOOD))
        assert made.drift.outcome == "same"
        assert sum(each.discarded for each in runtime.handles) == 1

    def test_one_that_stays_changed_is_told(self, interpreter: Interpreter) -> None:
        found = Found(FakeRuntime({}, "venv"), environment(interpreter))
        made = rebuilt(GOOD, found, taking(spoilt(), spoilt()))
        assert made.drift.outcome == "drift"

    def test_an_image_is_named_as_the_engine_knows_it_and_never_removed(self) -> None:
        runtime = FakeRuntime({})
        made = rebuilt(GOOD, Found(runtime, IMAGE), taking(spoilt()))
        assert made.image == digest_of("a")
        assert made.drift.outcome == "drift"
        assert runtime.handles == []

    def test_the_python_that_ran_cannot_be_made_again(self, interpreter: Interpreter) -> None:
        host = Found(FakeRuntime({}, "host"), Stack("host:", "host", interpreter, {}))
        with pytest.raises(RebuildError) as caught:
            rebuilt(GOOD, host, taking())
        assert caught.value.obstacle == "host"

    def test_verifying_makes_nothing_anew(self, interpreter: Interpreter) -> None:
        runtime = FakeRuntime({}, "venv")
        drift = verified(GOOD, Found(runtime, environment(interpreter)), taking(spoilt()))
        assert [each.component for each in drift.differences] == ["pip:numpy"]
        assert runtime.handles == []


class TestPinning:
    def pinner(self, told: list[str]) -> Pinner:
        contents = Contents({}, {}, (("/odd", "a name that is no text"),))
        return Pinner(Payload(Path(), "sha256:p"), lambda stack: contents, told.append)

    @pytest.mark.parametrize(
        "refusal",
        [BadReference(NAME, "it has no Python on its PATH"), ProgramError("python3", "no loader")],
    )
    def test_an_image_in_which_nothing_starts_is_read(
        self, refusal: Exception, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[str] = []
        runtime = FakeRuntime({}, refusal=refusal if isinstance(refusal, BadReference) else None)

        def unstartable(*_: object, **__: object) -> Manifest:
            raise refusal

        monkeypatch.setattr("bitsect.images.pinning.take_inventory", unstartable)
        made = self.pinner(told).manifest(runtime, IMAGE)
        assert (made.hardware, made.software.libraries, made.controls.torch) == (None, None, None)
        assert made.image == image_layer(identity())
        assert made.controls.variables["OMP_NUM_THREADS"] == "2"
        assert made.evidence["problems"] == [{"what": "/odd", "reason": "a name that is no text"}]
        assert source_of(made).image is not None
        assert "nothing starts in it" in told[-1]
        assert all(each.released == 1 for each in runtime.handles)

    def test_any_other_stack_in_which_nothing_starts_is_refused(
        self, interpreter: Interpreter
    ) -> None:
        runtime = FakeRuntime({}, "venv", refusal=BadReference("venv:demo", "it names nothing"))
        with pytest.raises(BadReference):
            self.pinner([]).manifest(runtime, environment(interpreter))

    def test_the_inventory_is_taken_inside_where_something_starts(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[object] = []

        def take(session: object, payload: object, **options: object) -> Manifest:
            asked.append(options)
            return GOOD

        monkeypatch.setattr("bitsect.images.pinning.take_inventory", take)
        runtime = FakeRuntime({})
        assert self.pinner([]).manifest(runtime, IMAGE, deep=True) == GOOD
        assert asked == [{"warm_up": True, "deep": True}]
        assert [each.released for each in runtime.handles] == [1]


def test_a_rebuilt_stack_is_a_plain_record() -> None:
    made = rebuilt(GOOD, Found(FakeRuntime({}), IMAGE), taking(GOOD))
    assert set(msgspec.to_builtins(made)) == {"python", "image", "drift"}
