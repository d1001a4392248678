"""What differs between two manifests, component by component.

Records alone: wording them is for those who show them. A difference is noise when it cannot
change a bit, such as the host's name or a manual page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeVar

import msgspec

from bitsect.images import points
from bitsect.images.layers import Cpu, Gpu, Hardware, Python, Software
from bitsect.images.library_owners import LibraryOwners
from bitsect.images.manifest import Manifest

Layer = Literal["software", "controls", "hardware", "evidence"]

T = TypeVar("T")


class Difference(msgspec.Struct, frozen=True):
    """One component that is not the same in both.

    :param component: ``kind:name``. Kinds are python, pip, apt (or another system's manager),
        lib (a library that no listed package owns), tool (a compiler), torch, env, flag, hw
        and evidence.
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
    found = [
        *_software(a, b),
        *_mapping("controls", "env", a.controls.variables, b.controls.variables),
        *_flags("controls", "flag", a.controls.torch, b.controls.torch),
        *_hardware(a, b),
    ]
    found += _evidence(a, b, {difference.component for difference in found})
    layers = ("software", "controls", "hardware", "evidence")
    return sorted(found, key=lambda each: (each.noise, layers.index(each.layer), each.component))


def _software(a: Manifest, b: Manifest) -> Iterator[Difference]:
    first, second = a.software, b.software
    packages = [
        *_paired(_python(first), _python(second), points.python_point),
        *_paired(
            points.distributions(first.distributions, shadowed=False),
            points.distributions(second.distributions, shadowed=False),
            points.distribution_point,
        ),
        *_paired(
            points.os_packages(first.os_packages),
            points.os_packages(second.os_packages),
            points.os_package_point,
        ),
    ]
    yield from packages
    yield from _mapping("software", "lib", {"libc": _libc(first)}, {"libc": _libc(second)})
    yield from _shadowed(first, second)
    yield from _alternatives(first.alternatives, second.alternatives)
    yield from _paired(
        points.compilers(first.compilers),
        points.compilers(second.compilers),
        points.binary_point,
    )
    changed = {difference.component for difference in packages}
    yield from _libraries(a, b, changed)
    if "pip:torch" not in changed:
        yield from _flags("software", "torch", first.torch, second.torch)


def _python(software: Software) -> dict[str, Python]:
    python = software.python
    return {} if python is None else {f"python:{python.implementation}": python}


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


def _libraries(a: Manifest, b: Manifest, changed: set[str]) -> Iterator[Difference]:
    """Loaded libraries, unless the change of their owner explains them.

    Those of one owner make one row. An owner's library that is loaded on one side alone is
    noise, since the owner is the same; and if only one side was warmed up, it is nothing at all.
    """
    first, second = _by_owner(a.software), _by_owner(b.software)
    same_state = a.software.warm_up == b.software.warm_up
    rows: dict[tuple[str, bool], tuple[list[str], list[str]]] = {}
    for owner, name in sorted(first.keys() | second.keys()):
        before, after = first.get((owner, name)), second.get((owner, name))
        one_sided = before is None or after is None
        if owner in changed or before == after or (one_sided and not same_state):
            continue
        if not owner:
            yield Difference(f"lib:{name}", before, after, False, "software")
            continue
        words = rows.setdefault((owner, one_sided), ([], []))
        words[0].append(f"{name} {before or 'not loaded'}")
        words[1].append(f"{name} {after or 'not loaded'}")
    for (owner, one_sided), (old, new) in rows.items():
        yield Difference(owner, ", ".join(old), ", ".join(new), one_sided, "software")


def _by_owner(software: Software) -> dict[tuple[str, str], str]:
    """Content of the loaded libraries by owner (empty for none) and name."""
    owners = LibraryOwners(software)
    found: dict[tuple[str, str], list[str]] = {}
    for library in software.libraries or ():
        key = (owners.owner(library) or "", owners.name(library))
        found.setdefault(key, []).append(points.binary_name(library))
    return {key: " ".join(sorted(names)) for key, names in found.items()}


def _hardware(a: Manifest, b: Manifest) -> Iterator[Difference]:
    first, second = a.hardware, b.hardware
    for name in Cpu.__struct_fields__:
        before, after = getattr(first.cpu, name), getattr(second.cpu, name)
        if name == "flags":
            before, after = _only(before, after), _only(after, before)
        if before != after:
            words = (points.text_of(before), points.text_of(after))
            yield Difference(f"hw:cpu.{name}", *words, False, "hardware")
    yield from _mapping("hardware", "hw", _gpus(first), _gpus(second))


def _gpus(hardware: Hardware) -> dict[str, object]:
    found: dict[str, object] = {"gpu.driver": hardware.driver}
    for index, gpu in enumerate(hardware.gpus):
        for name in Gpu.__struct_fields__:
            found[f"gpu{index}.{name}"] = getattr(gpu, name)
    return found


def _only(flags: Iterable[str] | None, others: Iterable[str] | None) -> str | None:
    """Of a set of processor flags, those that the other processor lacks; None for none."""
    return " ".join(sorted(set(flags or ()) - set(others or ()))) or None


def _evidence(a: Manifest, b: Manifest, known: set[str]) -> Iterator[Difference]:
    first, second = dict(a.evidence), dict(b.evidence)
    installers = (first.pop("installers", {}), second.pop("installers", {}))
    for name in sorted(installers[0].keys() & installers[1].keys()):
        if installers[0][name] != installers[1][name] and f"pip:{name}" not in known:
            before, after = (f"installed by {each[name]}" for each in installers)
            yield Difference(f"pip:{name}", before, after, True, "evidence")
    for difference in _mapping("evidence", "evidence", first, second):
        yield msgspec.structs.replace(difference, noise=True)


def _alternatives(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Difference]:
    for difference in _mapping("software", "apt", a, b):
        name = difference.component.removeprefix("apt:")
        manual = "/man/" in (difference.after or difference.before or "")
        yield msgspec.structs.replace(
            difference, component=f"apt:alternatives/{name}", noise=manual
        )


def _flags(
    layer: Layer, kind: str, a: Mapping[str, object] | None, b: Mapping[str, object] | None
) -> Iterator[Difference]:
    """What torch says, where it was asked on both sides."""
    if a is not None and b is not None:
        yield from _mapping(layer, kind, a, b)


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
        before, after = (naming(each[name]) if name in each else None for each in (a, b))
        if before != after:
            yield Difference(name, *points.point_names(before, after), False, "software")
