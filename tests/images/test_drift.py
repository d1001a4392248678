"""Whether a stack is as it was pinned: nothing that changed may be missed."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bitsect.images.drift import drift_of, moved_name
from bitsect.images.manifest import (
    Manifest,
    from_canonical,
    from_inventory,
    image_layer,
    static_manifest,
)
from bitsect.images.manifest_errors import ManifestError
from tests.images.fake_stacks import digest_of, identity
from tests.images.test_manifest import Place, changed, distribution, inventory, leaves

LAYERS = ("image", "software", "controls", "hardware")


def full_inventory() -> dict[str, Any]:
    """An inventory with all that one can have."""
    body = inventory()
    software = body["software"]
    software["git_trees"] = [
        {
            "path": "/opt/megatron", "commit": "c0" * 20, "dirty": True,
            "changes": digest_of("1"), "submodules": [{"path": "deps", "commit": "d0" * 20}],
        }
    ]  # fmt: skip
    software["libraries"] += [
        {"path": "/usr/lib/libblas.so.3", "size": 7, "build_id": None, "soname": "libblas.so.3",
         "sha256": digest_of("2"), "owner": "apt:libblas3"},
    ]  # fmt: skip
    software["distributions"].append(distribution("numpy", "1.0", shadowed=True, location="/x"))
    return body


def pinned() -> Manifest:
    return from_inventory(full_inventory(), image_layer(identity()))


DOCUMENT = json.loads(pinned().canonical)
# That an inventory did not look for a library's owner says nothing of the library.
UNLOOKED = ("software", "libraries", 0, "owner")
IDENTITY = [place for place in leaves(DOCUMENT) if place[0] in LAYERS and place != UNLOOKED]


def resealed(document: dict[str, Any]) -> Manifest:
    """The manifest with what the document says, and digests that fit."""
    layer = document["image"]
    image = None if layer is None else msgspec.convert(layer, type(image_layer(identity())))
    names = ("schema", "software", "controls", "hardware", "evidence")
    return from_inventory({name: document[name] for name in names}, image)


def test_a_stack_that_stayed_as_it_was_has_no_drift() -> None:
    drift = drift_of(pinned(), pinned(), "team/train:26.03")
    assert (drift.outcome, drift.differences, drift.unseen) == ("same", (), ())
    assert drift.pinned == drift.now == pinned().root


@given(st.sampled_from(IDENTITY))
def test_any_change_of_any_field_of_any_layer_is_named(place: Place) -> None:
    before = pinned()
    try:
        after = resealed(changed(DOCUMENT, place))
    except ManifestError:
        # A value that was null has no type to keep.
        assume(False)
    drift = drift_of(before, after, "x")
    assert place[0] in {difference.layer for difference in drift.differences}
    assert before.root != after.root
    assert getattr(before.digests, str(place[0])) != getattr(after.digests, str(place[0]))


@pytest.mark.parametrize(
    "holder",
    [
        ("image", "diff_ids"), ("image", "entrypoint"), ("image", "command"),
        ("software", "distributions"), ("software", "os_packages"), ("software", "compilers"),
        ("software", "libraries"), ("software", "git_trees"), ("hardware", "gpus"),
        ("hardware", "cpu", "flags"),
    ],
    ids=".".join,
)  # fmt: skip
def test_whatever_is_missing_or_new_is_named(holder: tuple[str, ...]) -> None:
    document = copy.deepcopy(DOCUMENT)
    inner = document
    for step in holder[:-1]:
        inner = inner[step]
    inner[holder[-1]] = inner[holder[-1]][1:]
    fewer = resealed(document)
    for first, second in ((pinned(), fewer), (fewer, pinned())):
        named = {difference.layer for difference in drift_of(first, second, "x").differences}
        assert holder[0] in named


@pytest.mark.parametrize(
    ("name", "value", "component"),
    [
        ("config", digest_of("9"), "image:config"),
        ("diff_ids", (digest_of("d"), digest_of("9")), "image:layers"),
        ("platform", "linux/arm64", "image:platform"),
        ("entrypoint", (), "image:entrypoint"),
        ("command", ("sh",), "image:command"),
        ("working_folder", "/", "image:working_folder"),
        ("user", "", "image:user"),
        ("environment", {"PATH": "/bin", "OMP_NUM_THREADS": "2", "HF_TOKEN": "<withheld>"},
         "env:PATH"),
    ],
)  # fmt: skip
def test_each_field_of_an_image_has_a_name(name: str, value: object, component: str) -> None:
    layer = msgspec.structs.replace(image_layer(identity()), **{name: value})
    drift = drift_of(pinned(), from_inventory(full_inventory(), layer), "x")
    assert [difference.component for difference in drift.differences] == [component]
    # All that a config says and that matters is told beside it.
    assert drift.outcome == ("same" if name == "config" else "drift")


def test_layers_are_told_from_the_first_that_differs() -> None:
    ids = (digest_of("d"), digest_of("9"), digest_of("8"))
    layer = msgspec.structs.replace(image_layer(identity()), diff_ids=ids)
    (difference,) = drift_of(pinned(), from_inventory(full_inventory(), layer), "x").differences
    assert difference.before == "1 of 2, from sha256:eeeeeeeeeeee"
    assert difference.after == "2 of 3, from sha256:999999999999"


def test_a_variable_that_is_a_control_too_is_told_once() -> None:
    body = full_inventory()
    body["controls"]["variables"]["OMP_NUM_THREADS"] = "4"
    environment = {**identity().environment, "OMP_NUM_THREADS": "4"}
    after = from_inventory(body, image_layer(identity(environment=environment)))
    drift = drift_of(pinned(), after, "x")
    assert [difference.component for difference in drift.differences] == ["env:OMP_NUM_THREADS"]


def test_an_owner_that_was_not_looked_for_is_the_one_that_was_found() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["software"]["libraries"][0]["owner"] = "apt:libc6"
    document["evidence"] = dict(pinned().evidence)
    drift = drift_of(pinned(), resealed(document), "x")
    assert [each for each in drift.differences if each.layer != "evidence"] == []


def test_time_and_placement_never_drift_and_other_evidence_is_noise() -> None:
    body = full_inventory()
    body["evidence"] = {
        "hostname": "there", "time": "now", "durations_ms": {"warm_up": 9},
        "placement": {"CUDA_CACHE_PATH": "/tmp/x"}, "problems": [],
    }  # fmt: skip
    drift = drift_of(pinned(), from_inventory(body, image_layer(identity())), "x")
    assert [difference.component for difference in drift.differences] == ["evidence:hostname"]
    assert drift.outcome == "same"


class TestWhatCouldNotBeSeen:
    """A stack that was pinned running and now does not start."""

    def test_equal_in_all_that_could_be_seen_is_not_equal(self) -> None:
        before = pinned()
        software = msgspec.structs.replace(
            before.software, libraries=None, torch=None, warm_up=False
        )
        now = static_manifest(software, identity())
        same_controls = msgspec.structs.replace(now, controls=before.controls)
        drift = drift_of(before, same_controls, "x")
        assert drift.unseen == ("hardware", "loaded libraries")
        assert drift.outcome == "unknown"

    def test_a_drift_is_a_drift_whatever_else_was_not_seen(self) -> None:
        before = pinned()
        software = msgspec.structs.replace(before.software, os_packages=(), libraries=None)
        assert drift_of(before, static_manifest(software, identity()), "x").outcome == "drift"

    def test_two_static_manifests_compare_in_full(self) -> None:
        software = pinned().software
        first, second = (static_manifest(software, identity()) for _ in range(2))
        assert drift_of(first, second, "x").outcome == "same"
        assert drift_of(first, second, "x").unseen == ()


def test_a_name_that_leads_elsewhere_is_a_drift_of_its_own() -> None:
    moved = moved_name("team/train:26.03", digest_of("a"), digest_of("9"))
    drift = drift_of(pinned(), pinned(), "team/train:26.03", moved)
    assert drift.outcome == "drift"
    assert drift.differences[0].component == "image:team/train:26.03"
    assert moved_name("team/train:26.03", digest_of("a"), digest_of("a")) is None


def test_canonical_bytes_keep_every_layer() -> None:
    assert from_canonical(pinned().canonical) == pinned()
