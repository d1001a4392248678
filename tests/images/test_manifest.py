"""Manifests: made from inventories, written for people, and refused when anything is off."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from bitsect.images import strict_yaml
from bitsect.images.image_identity import Recipe
from bitsect.images.layers import Binary
from bitsect.images.manifest import (
    Manifest,
    from_canonical,
    from_inventory,
    image_layer,
    load,
    static_manifest,
    with_libraries,
)
from bitsect.images.manifest_errors import ManifestError
from bitsect.probes import inventory as probe_inventory
from tests.images.fake_stacks import digest_of, identity


def distribution(name: str, version: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "version": version,
        "location": "<prefix>/lib/python3.11/site-packages",
        "installer": "uv",
        "editable": False,
        "origin": None,
        "record": f"sha256:{name}-{version}",
        "files": 3,
        "altered": [],
        "missing": [],
        "unreadable": [],
        "shadowed": False,
        **changes,
    }


def inventory() -> dict[str, Any]:
    """A small inventory with something in every field."""
    return {
        "schema": 1,
        "software": {
            "python": {
                "version": "3.11.7",
                "implementation": "cpython",
                "build": "main Jan  1 2024",
                "compiler": "GCC 12.2.0",
                "cache_tag": "cpython-311",
                "executable": {"path": "/opt/py/bin/python3.11", "size": 10, "build_id": "aa"},
                "libc": "glibc 2.36",
            },
            "distributions": [
                distribution("numpy", "1.10"),
                distribution(
                    "tool", "2.0", origin={"kind": "vcs", "url": "git://x", "commit": "c0"}
                ),
            ],
            "os_packages": [
                {"manager": "dpkg", "name": "libc6", "version": "2.36", "architecture": "amd64"}
            ],
            "alternatives": {"libblas.so.3": "/usr/lib/openblas/libblas.so.3"},
            "compilers": [{"path": "/usr/bin/gcc", "size": 1, "build_id": "cc", "name": "gcc"}],
            "libraries": [
                {"path": "/lib/libm.so.6", "size": 5, "build_id": "bb", "soname": "libm.so.6"}
            ],
            "torch": {"version": "2.13.0", "cudnn": None},
            "warm_up": True,
        },
        "controls": {"variables": {"OMP_NUM_THREADS": None, "LANG": "C"}, "torch": {"threads": 2}},
        "hardware": {
            "cpu": {
                "architecture": "x86_64",
                "vendor": "V",
                "model_name": "M",
                "family": "25",
                "model": "17",
                "stepping": "1",
                "flags": ["avx", "avx2"],
                "logical_cpus": 2,
                "usable_cpus": 2,
            },
            "gpus": [
                {"name": "G", "compute_capability": "9.0", "vbios": "v", "mig": False, "ecc": True}
            ],
            "driver": "550.1",
        },
        "evidence": {"hostname": "here", "problems": [], "durations_ms": {"warm_up": 3}},
    }


Place = tuple[str | int, ...]


def leaves(value: Any, place: Place = ()) -> list[Place]:
    """Place of every scalar below."""
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*place, key))]
    if isinstance(value, list):
        return [leaf for at, inner in enumerate(value) for leaf in leaves(inner, (*place, at))]
    return [place]


def changed(document: dict[str, Any], place: Place) -> dict[str, Any]:
    """The document with another scalar, of the same type, at a place."""
    altered = copy.deepcopy(document)
    holder: Any = altered
    for step in place[:-1]:
        holder = holder[step]
    old = holder[place[-1]]
    if isinstance(old, bool):
        holder[place[-1]] = not old
    elif isinstance(old, int):
        holder[place[-1]] = old + 1
    else:
        holder[place[-1]] = "another" if old is None else old + "x"
    return altered


LEAVES = leaves(inventory())
IDENTITY = [place for place in LEAVES if place[0] in ("software", "controls", "hardware")]


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return from_inventory(inventory())


@pytest.fixture
def saved(manifest: Manifest, tmp_path: Path) -> Path:
    path = tmp_path / "stack.yaml"
    manifest.save(path)
    return path


@pytest.fixture
def edited(saved: Path) -> Callable[[Callable[[dict[str, Any]], None]], Path]:
    """The saved file after a change of what it says."""

    def edit(change: Callable[[dict[str, Any]], None]) -> Path:
        document = yaml.safe_load(saved.read_text())
        change(document)
        saved.write_text(strict_yaml.write(document))
        return saved

    return edit


class TestIdentity:
    def test_the_same_inventory_has_the_same_digests(self, manifest: Manifest) -> None:
        shuffled = {key: inventory()[key] for key in reversed(inventory())}
        assert from_inventory(shuffled) == manifest

    @given(st.sampled_from([place for place in IDENTITY if place[-1] != "installer"]))
    def test_any_change_in_a_layer_changes_its_digest_and_the_root(self, place: Place) -> None:
        first = from_inventory(inventory())
        # A variable or torch value that was null has no type to keep, so text will do.
        try:
            second = from_inventory(changed(inventory(), place))
        except ManifestError:
            assume(False)
        layers = ("software", "controls", "hardware")
        different = [
            name for name in layers if getattr(first.digests, name) != getattr(second.digests, name)
        ]
        assert different == [place[0]]
        assert first.root != second.root

    @given(st.sampled_from([place for place in LEAVES if place[0] == "evidence"]))
    def test_evidence_is_no_part_of_the_identity(self, place: Place) -> None:
        first, second = from_inventory(inventory()), from_inventory(changed(inventory(), place))
        assert first.digests.evidence != second.digests.evidence
        assert (first.root, first.static_root) == (second.root, second.static_root)

    def test_neither_is_who_installed_it(self, manifest: Manifest) -> None:
        other = inventory()
        other["software"]["distributions"][0]["installer"] = "pip"
        second = from_inventory(other)
        assert second.root == manifest.root
        assert second.evidence["installers"] == {"numpy": "pip", "tool": "uv"}
        assert second.digests.evidence != manifest.digests.evidence

    def test_the_static_root_is_known_before_anything_heavy_runs(self, manifest: Manifest) -> None:
        cold = inventory()
        cold["software"].update(libraries=[], torch=None, warm_up=False)
        cold["controls"]["torch"] = None
        second = from_inventory(cold)
        assert second.static_root == manifest.static_root
        assert second.root != manifest.root

    @pytest.mark.parametrize(
        "place",
        [
            ("software", "distributions", 0, "version"),
            ("software", "distributions", 0, "record"),
            ("software", "alternatives", "libblas.so.3"),
            ("software", "compilers", 0, "build_id"),
            ("controls", "variables", "OMP_NUM_THREADS"),
            ("hardware", "driver"),
        ],
    )
    def test_the_static_root_sees_all_that_is_static(self, place: Place) -> None:
        first, second = from_inventory(inventory()), from_inventory(changed(inventory(), place))
        assert first.static_root != second.static_root

    def test_the_two_roots_are_never_the_same(self) -> None:
        # Even where they are made from the same layers.
        cold = inventory()
        cold["software"].update(libraries=None, torch=None, warm_up=False)
        cold["controls"]["torch"] = None
        both = from_inventory(cold)
        assert both.root != both.static_root


class TestFromInventory:
    def test_what_the_probe_really_says_is_understood(self) -> None:
        taken = probe_inventory.take()
        made = from_inventory(json.loads(json.dumps(taken)))
        assert len(made.software.distributions) == len(taken["software"]["distributions"])
        assert made.software.python is not None
        assert made.software.python.version == taken["software"]["python"]["version"]

    @pytest.mark.parametrize("place", IDENTITY)
    def test_a_wrong_type_anywhere_is_refused_with_its_place(self, place: Place) -> None:
        document = inventory()
        holder: Any = document
        for step in place[:-1]:
            holder = holder[step]
        if place[-1] == "installer":
            return
        holder[place[-1]] = 1.5
        with pytest.raises(ManifestError) as caught:
            from_inventory(document)
        # msgspec writes `[...]` for a key or an index.
        assert caught.value.place.startswith(str(place[0]))
        assert caught.value.reason

    def test_a_float_in_the_evidence_is_refused(self) -> None:
        document = inventory()
        document["evidence"]["durations_ms"]["warm_up"] = 0.5
        with pytest.raises(ManifestError) as caught:
            from_inventory(document)
        assert caught.value.place == "evidence.durations_ms.warm_up"

    @pytest.mark.parametrize(
        ("layer", "field"), [("software", "gadgets"), ("controls", "x"), ("hardware", "tpu")]
    )
    def test_an_unknown_field_is_refused(self, layer: str, field: str) -> None:
        document = inventory()
        document[layer][field] = 1
        with pytest.raises(ManifestError) as caught:
            from_inventory(document)
        assert caught.value.place == layer
        assert field in caught.value.reason

    @pytest.mark.parametrize("field", ["python", "distributions", "libraries"])
    def test_a_missing_field_is_refused(self, field: str) -> None:
        document = inventory()
        del document["software"][field]
        with pytest.raises(ManifestError) as caught:
            from_inventory(document)
        assert field in caught.value.reason

    @pytest.mark.parametrize("schema", [0, 2, True, "1", None, 1.0, []])
    def test_another_schema_is_refused(self, schema: object) -> None:
        with pytest.raises(ManifestError) as caught:
            from_inventory({**inventory(), "schema": schema})
        assert caught.value.place == "schema"

    def test_text_that_is_no_unicode_is_refused(self) -> None:
        document = inventory()
        document["controls"]["variables"]["LANG"] = "\udcff"
        with pytest.raises(ManifestError) as caught:
            from_inventory(document)
        assert caught.value.place == "controls.variables.LANG"


class TestFile:
    def test_it_comes_back_as_it_was(self, manifest: Manifest, saved: Path) -> None:
        assert load(saved) == manifest
        assert load(saved).canonical == manifest.canonical

    def test_it_is_plain_yaml_with_its_versions_intact(self, saved: Path) -> None:
        text = saved.read_text()
        document = yaml.safe_load(text)
        assert document["software"]["distributions"][0]["version"] == "1.10"
        assert "&" not in text
        assert list(document) == sorted(document)

    def test_other_layout_is_no_change(self, manifest: Manifest, saved: Path) -> None:
        document = yaml.safe_load(saved.read_text())
        saved.write_text("# kept by hand\n" + json.dumps(document, indent=3))
        assert load(saved) == manifest

    def test_saving_leaves_nothing_else_behind(self, manifest: Manifest, saved: Path) -> None:
        manifest.save(saved)
        assert [path.name for path in saved.parent.iterdir()] == ["stack.yaml"]

    def test_a_failed_save_leaves_the_old_file(
        self, manifest: Manifest, saved: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = saved.read_bytes()

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pathlib.Path.replace", full)
        with pytest.raises(OSError, match="No space left"):
            manifest.save(saved)
        assert saved.read_bytes() == before
        assert [path.name for path in saved.parent.iterdir()] == ["stack.yaml"]

    def test_canonical_bytes_come_back_too(self, manifest: Manifest) -> None:
        assert from_canonical(manifest.canonical) == manifest

    @pytest.mark.parametrize("spoil", [b" ", b"\n", b"x"])
    def test_other_bytes_of_the_same_value_are_refused(
        self, manifest: Manifest, spoil: bytes
    ) -> None:
        with pytest.raises(ManifestError):
            from_canonical(manifest.canonical + spoil)

    @given(st.data())
    def test_no_changed_byte_of_the_canonical_form_passes(self, data: st.DataObject) -> None:
        original = from_inventory(inventory()).canonical
        at = data.draw(st.integers(0, len(original) - 1))
        value = data.draw(st.integers(0, 255).filter(lambda byte: byte != original[at]))
        with pytest.raises(ManifestError):
            from_canonical(original[:at] + bytes([value]) + original[at + 1 :])

    @pytest.mark.parametrize("place", leaves(json.loads(from_inventory(inventory()).canonical)))
    def test_a_change_anywhere_in_the_file_is_refused_with_its_place(
        self, saved: Path, place: Place
    ) -> None:
        document = yaml.safe_load(saved.read_text())
        saved.write_text(strict_yaml.write(changed(document, place)))
        with pytest.raises(ManifestError) as caught:
            load(saved)
        assert caught.value.path == str(saved)
        # A digest that was changed is told as the layer that it no longer fits.
        layer = str(place[1] if place[0] == "digests" else place[0])
        assert layer in caught.value.place

    def test_a_value_of_a_free_mapping_that_was_removed_is_missed(
        self, edited: Callable[[Callable[[dict[str, Any]], None]], Path]
    ) -> None:
        path = edited(lambda document: document["controls"]["variables"].pop("LANG"))
        with pytest.raises(ManifestError) as caught:
            load(path)
        assert caught.value.place == "controls"

    def test_an_unknown_field_is_refused(
        self, edited: Callable[[Callable[[dict[str, Any]], None]], Path]
    ) -> None:
        with pytest.raises(ManifestError) as caught:
            load(edited(lambda document: document["hardware"].update(tpu="v5")))
        assert caught.value.place == "hardware"

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "empty"),
            ("schema: [", "not YAML"),
            ("schema: 2\n", "2 is unknown"),
            ("- 1\n", "not a mapping"),
            ("schema: 1\n---\nschema: 1\n", "more than one document"),
            ("schema: 1\nschema: 1\n", "line 2: stands here a second time"),
            ("a: &x [1]\nb: *x\n", "aliases and anchors"),
            ("a: !!python/object/apply:os.system ['true']\n", "tags are not read"),
            ("a: !!binary eA==\n", "tags are not read"),
            ("a: 2024-01-01\n", "quotes"),
            ("a: 1.10\n", "quotes"),
            ("a: yes\n", "quotes"),
            ("a: 0o17\nb: 017\n", "quotes"),
            ("a: 1:30\n", "quotes"),
            ("? [1]\n: 2\n", "a key is not text"),
            ("1: 2\n", "a key is not text"),
            ("<<: {a: 1}\n", "quotes"),
            ("[" * 100, "nested deeper"),
            ("[" * 100_000, ""),
            ("a: \x07\n", "not YAML"),
        ],
    )
    def test_what_is_not_plain_yaml_is_refused(
        self, tmp_path: Path, text: str, reason: str
    ) -> None:
        path = tmp_path / "stack.yaml"
        path.write_text(text)
        with pytest.raises(ManifestError) as caught:
            load(path)
        assert reason in caught.value.reason

    def test_a_bomb_of_aliases_is_refused_at_once(self, tmp_path: Path) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
        path = tmp_path / "stack.yaml"
        path.write_text("\n".join(lines))
        with pytest.raises(ManifestError, match="anchors"):
            load(path)

    def test_what_cannot_be_read_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(ManifestError) as caught:
            load(tmp_path / "absent.yaml")
        assert caught.value.reason == "No such file or directory"
        (tmp_path / "latin.yaml").write_bytes(b"a: \xff\n")
        with pytest.raises(ManifestError, match="not UTF-8"):
            load(tmp_path / "latin.yaml")


class TestImages:
    """The first layer: the image that a stack was started from."""

    RECIPE = Recipe((digest_of("a"), digest_of("f")), (("apt:libblas3", digest_of("1")),))

    @pytest.fixture
    def imaged(self) -> Manifest:
        return from_inventory(inventory(), image_layer(identity()), {"image": {"requested": "x"}})

    def test_its_identity_is_its_config(self) -> None:
        layer = image_layer(identity())
        assert (layer.config, layer.recipe) == (digest_of("a"), None)
        assert layer.diff_ids == identity().diff_ids
        assert (layer.working_folder, layer.user) == ("/workspace", "trainer")

    def test_that_of_a_hybrid_is_its_recipe(self) -> None:
        layer = image_layer(identity(), self.RECIPE)
        assert (layer.config, layer.recipe) == (None, self.RECIPE.digest)

    def test_where_it_came_from_is_no_part_of_it(self) -> None:
        elsewhere = identity(
            requested="mirror/train:1", repository="mirror/train", manifest_digest=None,
            index_digest=None, store="containerd", engine="Podman Engine 5", labels={},
        )  # fmt: skip
        assert image_layer(elsewhere) == image_layer(identity())

    def test_values_that_look_like_secrets_are_withheld(self) -> None:
        layer = image_layer(identity())
        assert layer.environment["HF_TOKEN"] == "<withheld>"
        assert layer.environment["PATH"] == "/usr/bin"

    def test_logins_in_values_are_withheld(self) -> None:
        login = {"PIP_INDEX_URL": "https://bob:hunter2@host/simple", "hf_token": "t0ken"}
        layer = image_layer(msgspec.structs.replace(identity(), environment=login))
        assert layer.environment == {
            "PIP_INDEX_URL": "https://<withheld>@host/simple",
            "hf_token": "<withheld>",
        }

    def test_logins_in_commands_are_withheld(self) -> None:
        command = ("serve", "--store=postgres://u:p@w9@host/db")
        layer = image_layer(msgspec.structs.replace(identity(), command=command))
        assert layer.command == ("serve", "--store=postgres://<withheld>@host/db")

    def test_it_has_a_digest_and_a_part_in_the_root(
        self, imaged: Manifest, manifest: Manifest
    ) -> None:
        assert imaged.digests.image is not None
        assert imaged.software == manifest.software
        assert imaged.root != manifest.root
        assert imaged.static_root != manifest.static_root
        assert imaged.evidence["image"] == {"requested": "x"}

    def test_it_comes_back_as_it_was(self, imaged: Manifest, tmp_path: Path) -> None:
        imaged.save(tmp_path / "stack.yaml")
        assert load(tmp_path / "stack.yaml") == imaged

    @pytest.mark.parametrize(
        "place",
        leaves(json.loads(from_inventory(inventory(), image_layer(identity())).canonical)["image"]),
    )
    def test_a_change_anywhere_in_it_is_refused_with_the_place(
        self, imaged: Manifest, tmp_path: Path, place: Place
    ) -> None:
        document = json.loads(imaged.canonical)
        (tmp_path / "stack.yaml").write_text(json.dumps(changed(document, ("image", *place))))
        with pytest.raises(ManifestError) as caught:
            load(tmp_path / "stack.yaml")
        assert caught.value.place == "image"

    def test_one_that_was_taken_out_is_missed(self, imaged: Manifest, tmp_path: Path) -> None:
        document = {**json.loads(imaged.canonical), "image": None}
        (tmp_path / "stack.yaml").write_text(json.dumps(document))
        with pytest.raises(ManifestError) as caught:
            load(tmp_path / "stack.yaml")
        assert caught.value.place == "image"


class TestStatic:
    """Of an image in which nothing was started."""

    @pytest.fixture
    def static(self) -> Manifest:
        taken = from_inventory(inventory()).software
        return static_manifest(
            msgspec.structs.replace(taken, python=None, libraries=None, torch=None, warm_up=False),
            identity(),
        )

    def test_it_does_not_say_what_only_a_start_could_tell(self, static: Manifest) -> None:
        assert (static.hardware, static.digests.hardware) == (None, None)
        assert static.controls.torch is None

    def test_its_controls_are_the_images_by_the_inventorys_rule(self, static: Manifest) -> None:
        found = static.controls.variables
        assert found["OMP_NUM_THREADS"] == "2"
        assert found["MKL_CBWR"] is None
        assert "PATH" not in found

    def test_it_comes_back_as_it_was(self, static: Manifest, tmp_path: Path) -> None:
        static.save(tmp_path / "stack.yaml")
        assert load(tmp_path / "stack.yaml") == static

    def test_it_is_no_other_manifest_of_the_same_image(self, static: Manifest) -> None:
        body = inventory()
        body["software"].update(python=None, libraries=None, torch=None, warm_up=False)
        body["controls"] = {"variables": static.controls.variables, "torch": None}
        inside = from_inventory(body, image_layer(identity()))
        assert inside.digests.software == static.digests.software
        assert inside.root != static.root

    def test_hardware_that_was_put_in_is_refused(self, static: Manifest, tmp_path: Path) -> None:
        document = {**json.loads(static.canonical), "hardware": inventory()["hardware"]}
        (tmp_path / "stack.yaml").write_text(json.dumps(document))
        with pytest.raises(ManifestError) as caught:
            load(tmp_path / "stack.yaml")
        assert caught.value.place == "hardware"


def test_manifests_from_before_there_were_images_keep_their_digests(manifest: Manifest) -> None:
    assert manifest.root == (
        "sha256:3e76b9ca9a504dfbce898cfa4a45be529cddd7919e95fca25e2a8e0f49135df4"
    )
    assert manifest.static_root == (
        "sha256:16fa8384a725558d4492f7bbc982bc8080dc6a3ee8b7495315fe0b647a6df719"
    )
    assert "git_trees" not in json.loads(manifest.canonical)["software"]


class TestWithLibraries:
    def test_new_ones_are_added_in_order(self, manifest: Manifest) -> None:
        more = with_libraries(manifest, (Binary("/lib/liba.so", 1, "a1"),))
        assert more.software.libraries is not None
        assert [each.path for each in more.software.libraries] == ["/lib/liba.so", "/lib/libm.so.6"]
        assert more.root != manifest.root
        assert more.static_root == manifest.static_root

    def test_the_same_again_change_nothing(self, manifest: Manifest) -> None:
        assert with_libraries(manifest, manifest.software.libraries or ()) == manifest

    @pytest.mark.parametrize(
        "other",
        [
            Binary("/lib/libm.so.6", 5, "other", "libm.so.6"),
            Binary("/lib/libm.so.6", 6, "bb", "libm.so.6"),
        ],
    )
    def test_one_that_was_exchanged_is_an_error(self, manifest: Manifest, other: Binary) -> None:
        with pytest.raises(ManifestError) as caught:
            with_libraries(manifest, (other,))
        assert "/lib/libm.so.6" in caught.value.place


texts = st.text(st.characters(codec="utf-8"), max_size=6)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(plain)
def test_whatever_is_written_as_yaml_is_read_back_the_same(value: object) -> None:
    again = strict_yaml.read(strict_yaml.write(value))
    assert json.dumps(again, sort_keys=True) == json.dumps(value, sort_keys=True)
