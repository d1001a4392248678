"""What differs between two manifests, component by component.

Records alone: wording them is for those who show them. A difference is noise when it cannot
change a bit, such as the host's name or a manual page. Whatever differs is listed, as noise if
need be: two manifests without a difference differ in nothing but what could not be looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from bitsect.images import points
from bitsect.images.layers import Binary, Cpu, Gpu, Hardware, ImageLayer, Python, Software
from bitsect.images.library_owners import LibraryOwners
from bitsect.images.manifest import Manifest

Layer = Literal["image", "software", "controls", "hardware", "evidence"]
LAYERS: tuple[Layer, ...] = ("image", "software", "controls", "hardware", "evidence")

# Fields of an image that are shown as they are; the others have a form of their own.
_IMAGE_FIELDS = ("recipe", "platform", "entrypoint", "command", "working_folder", "user")

T = TypeVar("T")


class Difference(msgspec.Struct, frozen=True):
    """One component that is not the same in both.

    :param component: ``kind:name``. Kinds are image, python, pip, apt (or another system's
        manager), git, lib (a library that no listed package owns), tool (a compiler), torch,
        env, flag, hw, inventory (what was looked at) and evidence.
    :param before: its point in the first manifest, in one line; None where it is absent.
    :param after: its point in the second; likewise.
    """

    component: str
    before: str | None
    after: str | None
    noise: bool
    layer: Layer


def diff_manifests(a: Manifest, b: Manifest) -> list[Difference]:
    """Every component that differs, in the order of layers and then of names; noise last."""
    warm = (a.software.warm_up, b.software.warm_up)
    controls = [
        *_mapping("controls", "env", a.controls.variables, b.controls.variables),
        *_flags("controls", "flag", a.controls.torch, b.controls.torch, warm),
    ]
    found = [
        *_image(a.image, b.image, {difference.component for difference in controls}),
        *_software(a.software, b.software),
        *controls,
        *_hardware(a.hardware, b.hardware),
    ]
    found += _evidence(a, b, {difference.component for difference in found})
    return sorted(found, key=lambda each: (each.noise, LAYERS.index(each.layer), each.component))


def _image(a: ImageLayer | None, b: ImageLayer | None, known: set[str]) -> Iterator[Difference]:
    """What the images say beside their files.

    Config digests are noise: all in a config that can matter is listed beside them.

    :param known: components whose difference is told already.
    """
    first, second = _image_fields(a), _image_fields(b)
    for difference in _mapping("image", "image", first, second):
        noise = difference.component == "image:config"
        yield msgspec.structs.replace(difference, noise=noise)
    ids = (a.diff_ids if a else (), b.diff_ids if b else ())
    if ids[0] != ids[1]:
        words = (_own_layers(*ids), _own_layers(*reversed(ids)))
        yield Difference("image:layers", *words, False, "image")
    environments = (a.environment if a else {}, b.environment if b else {})
    for difference in _mapping("image", "env", *environments):
        if difference.component not in known:
            yield difference


def _image_fields(image: ImageLayer | None) -> dict[str, object]:
    if image is None:
        return {}
    # An empty one says what an absent one says.
    fields = {name: getattr(image, name) or None for name in _IMAGE_FIELDS}
    return {"config": image.config, **fields}


def _own_layers(ids: tuple[str, ...], others: tuple[str, ...]) -> str | None:
    """The layers of an image above those that it shares with another one."""
    pairs = zip(ids, others, strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    if not ids:
        return None
    if shared == len(ids):
        return f"none beyond the {shared} shared ones"
    return f"{len(ids) - shared} of {len(ids)}, from {ids[shared][:19]}"


def _software(a: Software, b: Software) -> Iterator[Difference]:
    packages = [
        *_paired(_python(a), _python(b), points.python_point),
        *_paired(
            points.distributions(a.distributions, shadowed=False),
            points.distributions(b.distributions, shadowed=False),
            points.distribution_point,
        ),
        *_paired(
            points.os_packages(a.os_packages),
            points.os_packages(b.os_packages),
            points.os_package_point,
        ),
    ]
    yield from packages
    yield from _paired(
        points.git_trees(a.git_trees), points.git_trees(b.git_trees), points.git_tree_point
    )
    yield from _mapping("software", "lib", {"libc": _libc(a)}, {"libc": _libc(b)})
    yield from _shadowed(a, b)
    yield from _alternatives(a.alternatives, b.alternatives)
    yield from _paired(
        points.compilers(a.compilers), points.compilers(b.compilers), points.binary_point
    )
    changed = {difference.component for difference in packages}
    yield from _libraries(a, b, changed)
    warm = (a.warm_up, b.warm_up)
    if "pip:torch" not in changed:
        yield from _flags("software", "torch", a.torch, b.torch, warm)
    for difference in _mapping("software", "inventory", {"warm_up": warm[0]}, {"warm_up": warm[1]}):
        yield msgspec.structs.replace(difference, noise=True)


def _python(software: Software) -> dict[str, Python]:
    """The interpreter without its C library, which is a component of its own."""
    if software.python is None:
        return {}
    python = msgspec.structs.replace(software.python, libc=None)
    return {f"python:{python.implementation}": python}


def _libc(software: Software) -> str | None:
    return None if software.python is None else software.python.libc


def _shadowed(a: Software, b: Software) -> Iterator[Difference]:
    """Distributions that nothing imports, because another of their name comes first."""
    found = _paired(
        points.distributions(a.distributions, shadowed=True),
        points.distributions(b.distributions, shadowed=True),
        points.distribution_point,
    )
    for each in found:
        name = f"{each.component} (shadowed)"
        yield msgspec.structs.replace(each, component=name, noise=True)


def _libraries(a: Software, b: Software, changed: set[str]) -> Iterator[Difference]:
    """Loaded libraries, unless the change of their owner explains them.

    Those of one owner make one row. An owner's library that is loaded on one side alone is
    noise, since the owner is the same, unless another owner's took its place; and if only one
    side was warmed up, it is nothing at all. The same library at another place is noise too.
    """
    first, second = _by_owner(a, b), _by_owner(b, a)
    same_state = a.warm_up == b.warm_up
    gone, come = (
        {name for owner, name in keys if owner not in changed}
        for keys in (first.keys() - second.keys(), second.keys() - first.keys())
    )
    rows: dict[tuple[str, bool], tuple[list[str], list[str]]] = {}
    for owner, name in sorted(first.keys() | second.keys()):
        before, after = first.get((owner, name)), second.get((owner, name))
        one_sided = before is None or after is None
        if owner in changed or before == after or (one_sided and not same_state):
            continue
        unused = bool(owner) and one_sided and name not in gone & come
        noise = unused or _without_path(before) == _without_path(after)
        old, new = points.point_names(before, after)
        if not owner:
            yield Difference(f"lib:{name}", old, new, noise, "software")
            continue
        words = rows.setdefault((owner, noise), ([], []))
        words[0].append(f"{name} {old or 'not loaded'}")
        words[1].append(f"{name} {new or 'not loaded'}")
    for (owner, noise), (earlier, later) in rows.items():
        yield Difference(owner, ", ".join(earlier), ", ".join(later), noise, "software")


def _by_owner(software: Software, other: Software) -> dict[tuple[str, str], points.Point]:
    """Content of the loaded libraries by owner (empty for none) and name.

    An owner that one inventory did not look for is the one that the other has found.
    """
    owners = LibraryOwners(software)
    stated = {owners.name(each): each.owner for each in other.libraries or () if each.owner}
    found: dict[tuple[str, str], list[Binary]] = {}
    for library in software.libraries or ():
        name = owners.name(library)
        owner = library.owner or stated.get(name) or owners.owner(library) or ""
        found.setdefault((owner, name), []).append(library)
    return {
        key: points.libraries_point(sorted(each, key=points.binary_name))
        for key, each in found.items()
    }


def _without_path(point: points.Point | None) -> points.Point | None:
    if point is None:
        return None
    details = tuple(pair for pair in point.details if pair[0] != "path")
    return points.Point(point.short, details)


def _hardware(a: Hardware | None, b: Hardware | None) -> Iterator[Difference]:
    if a is None or b is None:
        looked = ({"hardware": a is not None}, {"hardware": b is not None})
        for difference in _mapping("hardware", "inventory", *looked):
            yield msgspec.structs.replace(difference, noise=True)
        return
    for name in Cpu.__struct_fields__:
        before, after = getattr(a.cpu, name), getattr(b.cpu, name)
        if before == after:
            continue
        words = (points.text_of(before), points.text_of(after))
        if name == "flags" and before is not None and after is not None:
            words = (_only(before, after), _only(after, before))
        yield Difference(f"hw:cpu.{name}", *words, False, "hardware")
    yield from _mapping("hardware", "hw", _gpus(a), _gpus(b))


def _gpus(hardware: Hardware) -> dict[str, object]:
    found: dict[str, object] = {"gpu.driver": hardware.driver, "gpu.count": len(hardware.gpus)}
    for index, gpu in enumerate(hardware.gpus):
        for name in Gpu.__struct_fields__:
            found[f"gpu{index}.{name}"] = getattr(gpu, name)
    return found


def _only(flags: Iterable[str], others: Iterable[str]) -> str | None:
    """Of a set of processor flags, those that the other processor lacks; None for none."""
    return " ".join(sorted(set(flags) - set(others))) or None


def _evidence(a: Manifest, b: Manifest, known: set[str]) -> Iterator[Difference]:
    first, second = dict(a.evidence), dict(b.evidence)
    installers = (first.pop("installers", {}), second.pop("installers", {}))
    for name in sorted(installers[0].keys() & installers[1].keys()):
        if installers[0][name] != installers[1][name] and f"pip:{name}" not in known:
            before, after = (f"installed by {each[name]}" for each in installers)
            yield Difference(f"pip:{name}", before, after, True, "evidence")
    for difference in _mapping("evidence", "evidence", _flat(first), _flat(second)):
        yield msgspec.structs.replace(difference, noise=True)


def _flat(evidence: Mapping[str, Any]) -> dict[str, object]:
    """Each value under its own name; whole files are left out."""
    found: dict[str, object] = {}
    for name, value in evidence.items():
        inner = value.items() if isinstance(value, dict) else ()
        found |= {f"{name}.{key}": each for key, each in inner if key != "lock"}
        if not isinstance(value, dict):
            found[name] = value
    return found


def _alternatives(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Difference]:
    for difference in _mapping("software", "apt", a, b):
        name = difference.component.removeprefix("apt:")
        manual = "/man/" in (difference.after or difference.before or "")
        yield msgspec.structs.replace(
            difference, component=f"apt:alternatives/{name}", noise=manual
        )


def _flags(
    layer: Layer,
    kind: str,
    a: Mapping[str, object] | None,
    b: Mapping[str, object] | None,
    warm: tuple[bool, bool],
) -> Iterator[Difference]:
    """What torch says, where it was asked on both sides."""
    if a is not None and b is not None:
        yield from _mapping(layer, kind, a, b)
    elif warm[0] == warm[1]:
        asked = ({"torch": a is not None}, {"torch": b is not None})
        yield from _mapping(layer, "inventory", *asked)


def _mapping(
    layer: Layer, kind: str, a: Mapping[str, object], b: Mapping[str, object]
) -> Iterator[Difference]:
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            words = (points.text_of(a.get(name)), points.text_of(b.get(name)))
            yield Difference(f"{kind}:{name}", *words, False, layer)


def _paired(
    a: Mapping[str, T], b: Mapping[str, T], naming: points.Naming[T]
) -> Iterator[Difference]:
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            before, after = (naming(each[name]) if name in each else None for each in (a, b))
            yield Difference(name, *points.point_names(before, after), False, "software")
