"""How to get a stack again: what is written down, and what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bitsect.images.image_identity import Recipe
from bitsect.images.interpreter import Interpreter
from bitsect.images.lock import Lock, LockedPackage, make_lock, read_pylock
from bitsect.images.manifest import from_inventory, load
from bitsect.images.manifest_errors import ManifestError
from bitsect.images.runtime.protocol import Stack
from bitsect.images.stack_source import evidence_of, source_of
from tests.images.fake_stacks import digest_of, identity, image_stack
from tests.images.test_manifest import inventory

WHEEL = LockedPackage(
    "demo", "1.0", "wheel", "https://me:secret@host/demo-1.0-py3-none-any.whl", ("sha256:ab",)
)  # fmt: skip
SSH = LockedPackage("mine", None, "vcs", "ssh://git:secret@host/mine.git", commit="c0" * 20)
ARCHIVE = LockedPackage("other", "2.0", "archive", "https://token@host/o.tgz", ("sha256:cd",))


def environment(interpreter: Interpreter, *packages: LockedPackage) -> Stack:
    text = "venv:demo @ https://me:secret@host/demo-1.0-py3-none-any.whl"
    return Stack(text, "venv", interpreter, {}, make_lock(interpreter, packages))


def test_an_environment_comes_with_its_python_and_its_lock(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    # Given the manifest of an environment, written and read again
    stack = environment(interpreter, WHEEL)
    pinned = from_inventory(inventory(), None, evidence_of(stack))
    pinned.save(tmp_path / "stack.yaml")
    source = source_of(load(tmp_path / "stack.yaml"))

    # Then the lock in it is the same lock, and the interpreter is named
    (tmp_path / "pylock.toml").write_text(source.lock or "")
    assert stack.lock is not None
    assert read_pylock(tmp_path / "pylock.toml", interpreter).digest == stack.lock.digest
    assert source.python is not None
    assert (source.python.path, source.python.version) == (interpreter.path, interpreter.version)
    assert (source.runtime, source.image, source.recipe) == ("venv", None, None)


def test_no_login_is_written_down(interpreter: Interpreter) -> None:
    text = json.dumps(evidence_of(environment(interpreter, WHEEL, SSH, ARCHIVE)))
    assert "secret" not in text
    assert "token" not in text
    # A name that only says whose key is used stays.
    assert "ssh://git@host/mine.git" in text
    assert "https://host/o.tgz" in text


def test_a_folder_of_sources_keeps_its_path(interpreter: Interpreter) -> None:
    folder = LockedPackage("local", None, "directory", "/home/me@work/src", ("sha256:ef",))
    assert "/home/me@work/src" in json.dumps(evidence_of(environment(interpreter, folder)))


def test_an_image_comes_with_every_digest_and_who_has_it() -> None:
    found = evidence_of(image_stack(identity()))
    assert found["source"]["image"] == {
        "repository": "team/train", "config": digest_of("a"), "manifest": digest_of("b"),
        "index": digest_of("c"),
    }  # fmt: skip
    assert found["image"] == {
        "requested": "team/train:26.03", "repository": "team/train", "engine_id": digest_of("a"),
        "manifest_digest": digest_of("b"), "index_digest": digest_of("c"),
        "store": "graphdriver", "engine": "Docker Engine 29.0",
    }  # fmt: skip


def test_a_hybrid_comes_with_its_recipe(tmp_path: Path) -> None:
    recipe = Recipe((digest_of("a"), digest_of("f")), (("apt:libblas3", digest_of("1")),))
    stack = image_stack(identity(), recipe=recipe)
    pinned = from_inventory(inventory(), None, evidence_of(stack))
    pinned.save(tmp_path / "stack.yaml")
    assert load(tmp_path / "stack.yaml") == pinned
    assert source_of(pinned).recipe == recipe


def test_a_manifest_that_does_not_say_so_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        source_of(from_inventory(inventory()), tmp_path / "old.yaml")
    assert (caught.value.path, caught.value.place) == (str(tmp_path / "old.yaml"),
                                                       "evidence.source")  # fmt: skip


@pytest.mark.parametrize("broken", [{"runtime": "venv"}, {"runtime": 1}, [], "venv:x", {"x": 1}])
def test_one_that_says_it_in_another_form_is_refused(broken: object) -> None:
    pinned = from_inventory(inventory(), None, {"source": broken})
    with pytest.raises(ManifestError) as caught:
        source_of(pinned)
    assert caught.value.place == "evidence.source"


def test_the_host_has_no_lock(interpreter: Interpreter) -> None:
    stack = Stack("host:", "host", interpreter, {})
    source = source_of(from_inventory(inventory(), None, evidence_of(stack)))
    assert (source.lock, source.image, source.reference) == (None, None, "host:")


def test_an_empty_lock_is_still_one(interpreter: Interpreter) -> None:
    stack = Stack("venv:x", "venv", interpreter, {}, Lock(interpreter.identity, ()))
    assert evidence_of(stack)["source"]["lock"] is not None
