"""`bitsect pin`, `diff`, `verify` and `rebuild`, with stacks that are there only for the tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from bitsect.cli import stack_commands
from bitsect.cli.app import bitsect_app
from bitsect.images import pinning
from bitsect.images.contents.axes import Differences
from bitsect.images.contents.model import ComponentAxis, Contents, State
from bitsect.images.manifest import Manifest, from_inventory, image_layer, load
from bitsect.images.manifest_errors import ManifestError, RebuildError
from bitsect.images.payload import Payload
from bitsect.images.reference import Reference
from bitsect.images.runtime.errors import ProgramError
from bitsect.images.runtime.protocol import Session, Stack
from bitsect.images.stack_source import evidence_of
from tests.images.fake_stacks import FakeRuntime, digest_of, identity, image_stack
from tests.images.test_manifest import inventory

NAME = "team/train:26.03"
LOCAL = f"team/train@{digest_of('a')[:-1]}"
IMAGE = image_stack(identity())
OTHER = image_stack(identity("9", diff_ids=(digest_of("d"), digest_of("9"))))


class FakeWorkshop:
    """Has one runtime for everything; `known` is what it finds."""

    known: ClassVar[dict[str, Stack | Exception]] = {}
    refusal: ClassVar[Exception | None] = None
    made: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, python: Path | None = None, **options: Any) -> None:
        type(self).made.append({"python": python, **options})
        self.payload = Payload(Path(), "sha256:p")
        self._runtime = FakeRuntime(self.known, refusal=self.refusal)

    def __enter__(self) -> FakeWorkshop:
        return self

    def __exit__(self, *raised: object) -> None:
        """Holds nothing."""

    def runtime(self, reference: Reference) -> FakeRuntime:
        return self._runtime

    def contents(self, stack: Stack) -> Contents:
        return Contents({}, {})

    def differences(self, chain: Sequence[Stack]) -> Differences:
        state = State("11aa", "sha256:1", 0)
        other = State("22bb", "sha256:2", 1)
        return Differences((ComponentAxis("file:/etc/x", (state, other), (0, 1)),), (), (), ())


Change = Callable[[dict[str, Any]], object]


@pytest.fixture(autouse=True)
def workshop(monkeypatch: pytest.MonkeyPatch) -> type[FakeWorkshop]:
    """Everything is found where it was, unless a test says otherwise."""
    monkeypatch.setattr(stack_commands, "Workshop", FakeWorkshop)
    monkeypatch.setattr(FakeWorkshop, "known", {NAME: IMAGE, LOCAL: IMAGE})
    monkeypatch.setattr(FakeWorkshop, "refusal", None)
    monkeypatch.setattr(FakeWorkshop, "made", [])
    return FakeWorkshop


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], None]:
    """Says what an inventory finds inside a stack from now on."""

    def change(edit: Change) -> None:
        body = inventory()
        edit(body)

        def take(session: Session, payload: Payload, **options: object) -> Manifest:
            stack = session.stack
            layer = image_layer(stack.image) if stack.image else None
            return from_inventory(body, layer, evidence_of(stack))

        monkeypatch.setattr(pinning, "take_inventory", take)

    change(lambda body: None)
    return change


@pytest.fixture
def pinned(inside: Callable[[Change], None], tmp_path: Path) -> Path:
    """A manifest of the image, pinned by the command."""
    path = tmp_path / "stack.yaml"
    assert run("pin", NAME, "-o", str(path)) == 0
    return path


def run(*arguments: str) -> object:
    """The command's exit status; its errors come as they are raised."""
    return bitsect_app(list(arguments), standalone_mode=False)


Captured = pytest.CaptureFixture[str]


class TestPin:
    def test_it_prints_the_root_of_what_it_wrote(
        self, inside: Callable[[Change], None], tmp_path: Path, capsys: Captured
    ) -> None:
        assert run("pin", NAME, "-o", str(tmp_path / "stack.yaml")) == 0
        assert capsys.readouterr().out.strip() == load(tmp_path / "stack.yaml").root

    def test_json_is_the_manifest(self, inside: Callable[[Change], None], capsys: Captured) -> None:
        assert run("pin", NAME, "--json") == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["image"]["config"] == digest_of("a")
        assert printed["evidence"]["source"]["reference"] == NAME

    def test_gpus_are_asked_for(
        self, inside: Callable[[Change], None], workshop: type[FakeWorkshop]
    ) -> None:
        run("pin", NAME, "--gpus", "all")
        assert workshop.made[0]["containers"].gpus == "all"


class TestVerify:
    def test_a_stack_as_it_was(self, pinned: Path, capsys: Captured) -> None:
        capsys.readouterr()
        assert run("verify", str(pinned)) == 0
        assert capsys.readouterr().out == f"{NAME} is as pinned.\n"

    def test_every_drift_with_its_layer_and_what_is_noise(
        self, pinned: Path, inside: Callable[[Change], None], capsys: Captured
    ) -> None:
        # Given changes in three layers, one of them harmless
        def drifted(body: dict[str, Any]) -> None:
            body["software"]["distributions"][0].update(version="1.11", record="sha256:n")
            body["software"]["libraries"][0]["path"] = "/usr/lib/libm.so.6"
            body["controls"]["variables"]["LANG"] = "D"
            body["hardware"]["driver"] = "551"

        inside(drifted)
        capsys.readouterr()
        assert run("verify", str(pinned)) == 1
        lines = capsys.readouterr().out.splitlines()

        # Then each has a row of its own
        rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
        assert ["pip:numpy", "software", "1.10", "1.11", ""] in rows
        assert ["env:LANG", "controls", "C", "D", ""] in rows
        assert ["hw:gpu.driver", "hardware", "550.1", "551", ""] in rows
        assert [row for row in rows if row[-1] == "noise"]
        assert lines[-1] == f"3 components are not as pinned in {NAME}; noise: 1."

    def test_json_has_all_of_it(
        self, pinned: Path, inside: Callable[[Change], None], capsys: Captured
    ) -> None:
        inside(lambda body: body["evidence"].update(hostname="there"))
        capsys.readouterr()
        assert run("verify", str(pinned), "--json") == 0
        drift = json.loads(capsys.readouterr().out)
        assert drift["pinned"] == drift["now"] == load(pinned).root
        assert drift["differences"] == [
            {"component": "evidence:hostname", "before": "here", "after": "there",
             "noise": True, "layer": "evidence"}
        ]  # fmt: skip

    def test_a_tag_that_leads_elsewhere_by_now(
        self, pinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        monkeypatch.setattr(FakeWorkshop, "known", {NAME: OTHER, LOCAL: IMAGE})
        capsys.readouterr()
        assert run("verify", str(pinned), "--json") == 1
        (moved,) = json.loads(capsys.readouterr().out)["differences"]
        assert moved == {
            "component": f"image:{NAME}", "before": digest_of("a"), "after": digest_of("9"),
            "noise": False, "layer": "image",
        }  # fmt: skip

    def test_another_stack_instead(
        self, pinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        monkeypatch.setattr(FakeWorkshop, "known", {"team/train:26.04": OTHER})
        capsys.readouterr()
        assert run("verify", str(pinned), "team/train:26.04") == 1
        assert "image:layers" in capsys.readouterr().out

    def test_one_that_starts_no_more_cannot_be_told(
        self, pinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        # Given an image of which only the files can be read, and these are as they were
        def refuse(*_: object, **__: object) -> Manifest:
            raise ProgramError("python3", "exec format error")

        unseen = msgspec.structs.replace(load(pinned), hardware=None)
        monkeypatch.setattr(pinning, "take_inventory", refuse)
        monkeypatch.setattr(pinning, "static_manifest", lambda *_: unseen)
        capsys.readouterr()
        assert run("verify", str(pinned)) == 2
        captured = capsys.readouterr()
        assert f"not seen of {NAME}: hardware; the rest is as pinned" in captured.out
        assert "exec format error" in captured.err

    def test_an_image_that_is_gone(self, pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(FakeWorkshop, "known", {})
        with pytest.raises(RebuildError):
            run("verify", str(pinned))

    def test_a_manifest_that_does_not_say_where_its_stack_is(
        self, tmp_path: Path, inside: Callable[[Change], None]
    ) -> None:
        from_inventory(inventory()).save(tmp_path / "old.yaml")
        with pytest.raises(ManifestError) as caught:
            run("verify", str(tmp_path / "old.yaml"))
        assert caught.value.path == str(tmp_path / "old.yaml")
        # But it can be compared with a stack that is named.
        assert run("verify", str(tmp_path / "old.yaml"), NAME) == 1

    def test_a_manifest_that_was_edited(self, pinned: Path) -> None:
        pinned.write_text(pinned.read_text().replace("1.10", "1.11"))
        with pytest.raises(ManifestError):
            run("verify", str(pinned))


class TestRebuild:
    def test_an_image_is_named_as_the_engine_knows_it_and_verified(
        self, pinned: Path, capsys: Captured
    ) -> None:
        capsys.readouterr()
        assert run("rebuild", str(pinned)) == 0
        assert capsys.readouterr().out.splitlines() == [
            digest_of("a"), f"{NAME} is as pinned.",
        ]  # fmt: skip

    def test_json(self, pinned: Path, capsys: Captured) -> None:
        capsys.readouterr()
        assert run("rebuild", str(pinned), "--json") == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["image"] == digest_of("a")
        assert printed["drift"]["differences"] == []

    def test_what_drifted_all_the_same_is_told(
        self, pinned: Path, inside: Callable[[Change], None]
    ) -> None:
        inside(lambda body: body["hardware"].update(driver="551"))
        assert run("rebuild", str(pinned)) == 1

    def test_sources_are_built_only_when_it_is_said(
        self, pinned: Path, workshop: type[FakeWorkshop]
    ) -> None:
        run("rebuild", str(pinned))
        run("rebuild", str(pinned), "--builds")
        assert [made["allow_builds"] for made in workshop.made[-2:]] == [False, True]


class TestDiff:
    def test_two_images(
        self, inside: Callable[[Change], None], monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        monkeypatch.setattr(FakeWorkshop, "known", {NAME: IMAGE, "team/train:26.04": OTHER})
        assert run("diff", NAME, "team/train:26.04", "--json") == 1
        found = {each["component"]: each for each in json.loads(capsys.readouterr().out)}
        assert found["image:layers"]["noise"] is False
        assert found["image:config"]["noise"] is True
        # And what only their files tell
        assert (found["file:/etc/x"]["before"], found["file:/etc/x"]["after"]) == ("11aa", "22bb")

    def test_a_manifest_and_the_stack_it_was_taken_of(self, pinned: Path) -> None:
        assert run("diff", f"manifest:{pinned}", NAME) == 0


@pytest.mark.parametrize("command", ["pin", "diff", "verify", "rebuild"])
def test_help_has_an_example(command: str, capsys: Captured) -> None:
    run(command, "--help")
    assert f"Example: bitsect {command} " in " ".join(capsys.readouterr().out.split())


def test_an_environment_stands_on_the_python_it_was_pinned_on(
    tmp_path: Path, workshop: type[FakeWorkshop]
) -> None:
    # Given manifests of environments on a Python that is here, and on one that is not
    python = tmp_path / "python3.12"
    python.write_text("")
    for path, expected in ((python, python), (tmp_path / "gone", None)):
        source = {
            "runtime": "venv", "reference": "venv:demo", "image": None, "recipe": None,
            "python": {"path": str(path), "version": "3.12.1"}, "lock": "no lock at all",
        }  # fmt: skip
        from_inventory(inventory(), None, {"source": source}).save(tmp_path / "venv.yaml")
        with pytest.raises(Exception, match="venv:demo"):
            run("verify", str(tmp_path / "venv.yaml"))
        assert workshop.made[-1]["python"] == expected
