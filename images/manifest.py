"""A stack written down: four layers, each with a digest, and one digest over them.

``image``, ``software``, ``controls`` and ``hardware`` are identity. ``evidence`` is what was
seen beside them: times, host names, who installed what, how to get the stack again. It has a
digest too, since an edited manifest is refused wherever it was edited, but that one is no part
of the identity.

What cannot be started has a static manifest: its files tell the software, and nothing tells the
hardware. That is null then, and so are the loaded libraries and torch's own words.

The file is YAML for people. What counts is `Manifest.canonical`, which the file must give again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bitsect.images import canonical, strict_yaml
from bitsect.images.image_identity import ImageIdentity, Recipe
from bitsect.images.layers import Binary, Controls, Hardware, ImageLayer, Record, Scalar, Software
from bitsect.images.manifest_errors import CanonicalError, ManifestError
from bitsect.probes.inventory import LOGIN, WITHHELD, Places, variables, without_secrets

SCHEMA = 1

T = TypeVar("T")


class Digests(Record, frozen=True):
    """``sha256:…`` of each layer, of the evidence, and of what they make together.

    :param root: over the four layers: the stack's identity.
    :param static_root: the same without what only a running process shows (loaded libraries,
        torch's own words), so it is known before anything heavy has run.
    """

    image: str | None
    software: str
    controls: str
    hardware: str | None
    evidence: str
    root: str
    static_root: str


class Manifest(Record, frozen=True):
    """A stack, written down. Made by `from_inventory` and `load`, which guarantee the digests."""

    schema: int
    image: ImageLayer | None
    software: Software
    controls: Controls
    hardware: Hardware | None
    evidence: dict[str, Any]
    digests: Digests

    @property
    def root(self) -> str:
        """The stack's identity."""
        return self.digests.root

    @property
    def static_root(self) -> str:
        """The part of the identity that is known without running anything heavy."""
        return self.digests.static_root

    @property
    def canonical(self) -> bytes:
        """The canonical bytes of all of it, digests included."""
        return canonical.canonical_bytes(msgspec.to_builtins(self))

    def save(self, path: Path) -> None:
        """Write it for people, in one step: a reader sees the old file or the whole new one."""
        text = strict_yaml.write(msgspec.to_builtins(self))
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                os.fchmod(stream.fileno(), 0o644)
                stream.write(text)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def image_layer(identity: ImageIdentity, recipe: Recipe | None = None) -> ImageLayer:
    """The first layer of a stack that is an image, or a hybrid that begins with one.

    Values of variables that look like secrets are withheld, and logins wherever they stand.

    :param recipe: what a hybrid is made of. It is its identity: a commit carries the time.
    """
    return ImageLayer(
        config=identity.config_digest if recipe is None else None,
        recipe=None if recipe is None else recipe.digest,
        diff_ids=identity.diff_ids,
        platform=identity.platform,
        environment={
            name: without_secrets(name, value) for name, value in identity.environment.items()
        },
        entrypoint=_without_logins(identity.entrypoint),
        command=_without_logins(identity.command),
        working_folder=identity.working_folder,
        user=identity.user,
    )


def _without_logins(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(LOGIN.sub(WITHHELD, word) for word in words)


def from_inventory(
    inventory: Mapping[str, object],
    image: ImageLayer | None = None,
    evidence: Mapping[str, object] | None = None,
) -> Manifest:
    """The manifest that an inventory's JSON object makes.

    :param image: what the stack was started from, if from an image.
    :param evidence: what is known beside it, by name.

    Raises ManifestError for an unknown schema, a missing, unknown or mistyped field.
    """
    _check_schema(inventory, None)
    body: dict[str, Any] = dict(inventory)
    body["image"] = None if image is None else msgspec.to_builtins(image)
    _move_installers_to_evidence(body)
    if isinstance(body.get("evidence"), Mapping):
        body["evidence"] = {**body["evidence"], **(evidence or {})}
    draft = _convert(body, _Draft, None)
    return _sealed(draft, None)


def static_manifest(
    software: Software,
    identity: ImageIdentity,
    recipe: Recipe | None = None,
    evidence: Mapping[str, object] | None = None,
) -> Manifest:
    """The manifest of an image in which nothing was started.

    Its controls are what the image sets, by the rule that the inventory has. Its root is none
    that a manifest taken inside could have.

    :param software: what the image's files tell.
    """
    controls = Controls(variables(identity.environment, Places("/")), None)
    image = image_layer(identity, recipe)
    draft = _Draft(SCHEMA, image, software, controls, None, dict(evidence or {}))
    return _sealed(draft, None)


def with_libraries(
    manifest: Manifest, libraries: tuple[Binary, ...], torch: dict[str, Scalar] | None = None
) -> Manifest:
    """The manifest with libraries that a process was seen to use in addition.

    Raises ManifestError if a library is not the one that the manifest already has at its path:
    then the stack changed under the process, and neither describes what ran.
    """
    known = {library.path: library for library in manifest.software.libraries or ()}
    for library in libraries:
        if _identity(known.setdefault(library.path, library)) != _identity(library):
            place = f"software.libraries: {library.path}"
            raise ManifestError(None, place, "it was exchanged while the stack was in use")
    software = msgspec.structs.replace(
        manifest.software,
        libraries=tuple(known[path] for path in sorted(known)),
        torch=torch if torch is not None else manifest.software.torch,
        warm_up=True,
    )
    return _sealed(msgspec.structs.replace(_draft_of(manifest), software=software), None)


def load(path: Path) -> Manifest:
    """Read a manifest's file and check every digest in it. Raises ManifestError."""
    try:
        document = strict_yaml.read_file(path)
    except OSError as error:
        raise ManifestError(str(path), "", error.strerror or str(error)) from error
    except strict_yaml.StrictYamlError as error:
        raise ManifestError(str(path), error.place, error.reason) from error
    return _checked(document, str(path))


def from_canonical(data: bytes) -> Manifest:
    """The manifest whose `Manifest.canonical` these bytes are. Raises ManifestError."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ManifestError(None, "", f"not JSON: {error}") from error
    manifest = _checked(document, None)
    if manifest.canonical != data:
        raise ManifestError(None, "", "the bytes are not the canonical ones")
    return manifest


class _Draft(Record, frozen=True):
    """A manifest before its digests are known."""

    schema: int
    image: ImageLayer | None
    software: Software
    controls: Controls
    hardware: Hardware | None
    evidence: dict[str, Any]


def _check_schema(document: object, path: str | None) -> None:
    if not isinstance(document, Mapping):
        raise ManifestError(path, "", "not a mapping")
    schema = document.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        reason = "missing" if schema is None else f"{schema!r} is unknown; {SCHEMA} is read"
        raise ManifestError(path, "schema", reason)


def _move_installers_to_evidence(body: dict[str, Any]) -> None:
    """Who installed a distribution is no property of it: uv and pip install the same files."""
    software, evidence = body.get("software"), body.get("evidence")
    if not isinstance(software, Mapping) or not isinstance(evidence, Mapping):
        return
    distributions = software.get("distributions")
    if not isinstance(distributions, list):
        return
    installers: dict[str, Any] = {}
    kept = []
    for entry in distributions:
        if isinstance(entry, Mapping):
            if not entry.get("shadowed"):
                installers[str(entry.get("name"))] = entry.get("installer")
            entry = {key: value for key, value in entry.items() if key != "installer"}
        kept.append(entry)
    body["software"] = {**software, "distributions": kept}
    body["evidence"] = {**evidence, "installers": installers}


def _convert(document: object, kind: type[T], path: str | None) -> T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        # msgspec's sentence ends with the place: "… - at `$.software.python`".
        reason, _, place = str(error).partition(" - at `$")
        raise ManifestError(path, place.rstrip("`").lstrip("."), reason) from error


def _checked(document: object, path: str | None) -> Manifest:
    _check_schema(document, path)
    manifest = _convert(document, Manifest, path)
    expected = _sealed(_draft_of(manifest), path).digests
    # Layers first: they name the place better than what is made from them.
    for name in Digests.__struct_fields__:
        if getattr(manifest.digests, name) != getattr(expected, name):
            place = f"digests.{name}" if name in ("root", "static_root") else name
            raise ManifestError(path, place, "changed since it was pinned: its digest does not fit")
    return manifest


def _sealed(draft: _Draft, path: str | None) -> Manifest:
    try:
        digests = _digests_of(draft)
    except CanonicalError as error:
        raise ManifestError(path, error.place, error.reason) from error
    fields = {name: getattr(draft, name) for name in _Draft.__struct_fields__}
    return Manifest(**fields, digests=digests)


def _digests_of(draft: _Draft) -> Digests:
    software = msgspec.to_builtins(draft.software)
    controls = msgspec.to_builtins(draft.controls)
    static_software = {**software, "libraries": None, "torch": None, "warm_up": False}
    static_controls = {**controls, "torch": None}
    image = _digest_of_layer("image", draft.image)
    hardware = _digest_of_layer("hardware", draft.hardware)
    known = {"schema": draft.schema, "image": image, "hardware": hardware}
    layers = {
        "software": _digest("software", software),
        "controls": _digest("controls", controls),
    }
    static_layers = {
        "software": _digest("software", static_software),
        "controls": _digest("controls", static_controls),
    }
    return Digests(
        image=image,
        hardware=hardware,
        **layers,
        evidence=_digest("evidence", draft.evidence),
        root=_digest("root", {**known, **layers}),
        static_root=_digest("static-root", {**known, **static_layers}),
    )


def _digest_of_layer(node: str, layer: Record | None) -> str | None:
    return None if layer is None else _digest(node, msgspec.to_builtins(layer))


def _digest(node: str, value: object) -> str:
    try:
        return canonical.digest(f"bitsect/manifest/{node}", value)
    except CanonicalError as error:
        place = f"{node}.{error.place}" if error.place else node
        raise CanonicalError(place, error.reason) from error


def _draft_of(manifest: Manifest) -> _Draft:
    return _Draft(**{name: getattr(manifest, name) for name in _Draft.__struct_fields__})


def _identity(library: Binary) -> tuple[int | None, str | None, str | None]:
    return (library.size, library.build_id, library.sha256)
