"""Which components differ, what they are called, and what of it is only noise."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bitsect.images.differences import Difference, diff_manifests
from bitsect.images.layers import Binary
from bitsect.images.library_owners import LibraryOwners
from bitsect.images.manifest import from_inventory

SITE = "<prefix>/lib/python3.11/site-packages"


def distribution(name: str, version: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "version": version,
        "location": SITE,
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


def library(path: str, build_id: str, **changes: Any) -> dict[str, Any]:
    return {"path": path, "size": 1, "build_id": build_id, **changes}


def package(name: str, version: str, architecture: str = "amd64") -> dict[str, Any]:
    return {"manager": "dpkg", "name": name, "version": version, "architecture": architecture}


OPENBLAS = library(f"{SITE}/numpy.libs/libopenblas-0123abcd.so", "b1", soname="libopenblas.so.0")
BASE: dict[str, Any] = {
    "schema": 1,
    "software": {
        "python": {
            "version": "3.11.7",
            "implementation": "cpython",
            "build": "main A",
            "compiler": "GCC 12",
            "cache_tag": "cpython-311",
            "executable": library("/opt/py/bin/python3.11", "py"),
            "libc": "glibc 2.36",
        },
        "distributions": [distribution("numpy", "1.23.5"), distribution("torch", "2.13.0")],
        "os_packages": [package("libc6", "2.36"), package("libc6", "2.36", "i386")],
        "alternatives": {"libblas.so.3": "/a", "editor.1.gz": "/usr/share/man/man1/nano.1.gz"},
        "compilers": [library("/usr/bin/gcc", "g1", name="gcc")],
        "libraries": [
            OPENBLAS,
            library("/usr/lib/libm.so.6", "m1", soname="libm.so.6"),
            library("/opt/py/lib/libpython3.11.so", "p1"),
        ],
        "torch": {"git_version": "abc", "cudnn": None},
        "warm_up": True,
    },
    "controls": {
        "variables": {"OMP_NUM_THREADS": None, "LANG": "C"},
        "torch": {"allow_tf32": False},
    },
    "hardware": {
        "cpu": {
            "architecture": "x86_64", "vendor": "V", "model_name": "M", "family": "25",
            "model": "17", "stepping": "1", "flags": ["avx", "avx2"], "logical_cpus": 2,
            "usable_cpus": 2,
        },
        "gpus": [
            {"name": "G", "compute_capability": "9.0", "vbios": "v", "mig": None, "ecc": None}
        ],
        "driver": "550.1",
    },
    "evidence": {"hostname": "here"},
}  # fmt: skip


def differences(change: Callable[[dict[str, Any]], object]) -> list[Difference]:
    other = copy.deepcopy(BASE)
    change(other)
    return diff_manifests(from_inventory(BASE), from_inventory(other))


def row(
    component: str, before: str | None, after: str | None, layer: str, noise: bool = False
) -> Difference:
    return Difference(component, before, after, noise, layer)  # type: ignore[arg-type]


def test_equal_manifests_have_none() -> None:
    assert differences(lambda _: None) == []


#: One of two inventories was taken without a warm-up.
COLD = row("inventory:warm_up", "true", "false", "software", noise=True)


def swap_numpy(body: dict[str, Any]) -> None:
    body["software"]["distributions"][0] = distribution("numpy", "1.24.0")
    body["software"]["libraries"][0] = library(
        f"{SITE}/numpy.libs/libopenblas-89abcdef.so", "b2", soname="libopenblas.so.0"
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda body: body["software"]["distributions"].pop(1),
            [row("pip:torch", "2.13.0", None, "software")],
        ),
        (
            lambda body: body["software"]["distributions"].append(distribution("new", "1")),
            [row("pip:new", None, "1", "software")],
        ),
        (
            lambda body: body["software"]["distributions"][0].update(record="sha256:other"),
            [row(
                "pip:numpy",
                "1.23.5 (record sha256:numpy-1.23.5)",
                "1.23.5 (record sha256:other)",
                "software",
            )],
        ),
        (
            lambda body: body["software"]["distributions"][0].update(altered=["a.py", "b.py"]),
            [row("pip:numpy", "1.23.5 (altered none)", "1.23.5 (altered a.py b.py)", "software")],
        ),
        (
            lambda body: body["software"]["python"].update(version="3.11.9", build="main B"),
            [row("python:cpython", "3.11.7", "3.11.9", "software")],
        ),
        (
            lambda body: body["software"]["python"].update(implementation="pypy"),
            [row("python:cpython", "3.11.7", None, "software"),
             row("python:pypy", None, "3.11.7", "software")],
        ),
        (
            lambda body: body["software"]["python"].update(build="main B"),
            [row("python:cpython", "3.11.7 (build main A)", "3.11.7 (build main B)", "software")],
        ),
        (
            lambda body: body["software"]["python"].update(libc="musl 1.2"),
            [row("lib:libc", "glibc 2.36", "musl 1.2", "software")],
        ),
        (
            lambda body: body["software"]["os_packages"][1].update(version="2.37"),
            [row("apt:libc6:i386", "2.36", "2.37", "software")],
        ),
        (
            lambda body: body["software"]["os_packages"].append(
                {**package("glibc", "2.40"), "manager": "rpm"}
            ),
            [row("rpm:glibc", None, "2.40", "software")],
        ),
        (
            lambda body: body["software"]["alternatives"].update({"libblas.so.3": "/b"}),
            [row("apt:alternatives/libblas.so.3", "/a", "/b", "software")],
        ),
        (
            lambda body: body["software"]["alternatives"].pop("editor.1.gz"),
            [row("apt:alternatives/editor.1.gz", "/usr/share/man/man1/nano.1.gz", None,
                 "software", noise=True)],
        ),
        (
            lambda body: body["software"]["compilers"][0].update(build_id="g2"),
            [row("tool:gcc", "g1", "g2", "software")],
        ),
        (
            lambda body: body["software"]["libraries"][1].update(build_id="m2"),
            [row("lib:libm.so.6", "m1", "m2", "software")],
        ),
        (
            lambda body: body["software"]["libraries"].pop(1),
            [row("lib:libm.so.6", "m1", None, "software")],
        ),
        (
            lambda body: body["software"]["torch"].update(git_version="def"),
            [row("torch:git_version", "abc", "def", "software")],
        ),
        (
            lambda body: body["controls"]["variables"].update(OMP_NUM_THREADS="1"),
            [row("env:OMP_NUM_THREADS", None, "1", "controls")],
        ),
        (
            lambda body: body["controls"]["torch"].update(allow_tf32=True),
            [row("flag:allow_tf32", "false", "true", "controls")],
        ),
        (
            lambda body: body["hardware"]["cpu"].update(flags=["avx", "sse"], stepping="2"),
            [row("hw:cpu.flags", "avx2", "sse", "hardware"),
             row("hw:cpu.stepping", "1", "2", "hardware")],
        ),
        (
            lambda body: body["hardware"]["gpus"][0].update(vbios="w"),
            [row("hw:gpu0.vbios", "v", "w", "hardware")],
        ),
        (
            lambda body: body["software"].update(git_trees=[
                {"path": "/opt/megatron", "commit": "c0" * 20, "dirty": False, "changes": None,
                 "submodules": []}
            ]),
            [row("git:/opt/megatron", None, "c0" * 6, "software")],
        ),
        (
            lambda body: body["software"]["compilers"][0].update(soname="gcc.so"),
            [row("tool:gcc", "g1 (soname none)", "g1 (soname gcc.so)", "software")],
        ),
        (
            lambda body: body["hardware"]["gpus"].pop(),
            [row("hw:gpu.count", "1", "0", "hardware"),
             row("hw:gpu0.compute_capability", "9.0", None, "hardware"),
             row("hw:gpu0.name", "G", None, "hardware"),
             row("hw:gpu0.vbios", "v", None, "hardware")],
        ),
        (
            lambda body: body["hardware"]["cpu"].update(flags=None),
            [row("hw:cpu.flags", "avx avx2", None, "hardware")],
        ),
        (
            lambda body: body["evidence"].update(source={"reference": "x", "lock": "long"}),
            [row("evidence:source.reference", None, "x", "evidence", noise=True)],
        ),
        (
            lambda body: body["hardware"].update(driver=None),
            [row("hw:gpu.driver", "550.1", None, "hardware")],
        ),
        (
            lambda body: body["evidence"].update(hostname="there"),
            [row("evidence:hostname", "here", "there", "evidence", noise=True)],
        ),
        (
            lambda body: body["software"]["distributions"][0].update(installer="pip"),
            [row("pip:numpy", "installed by uv", "installed by pip", "evidence", noise=True)],
        ),
        (
            lambda body: body["software"]["distributions"].append(
                distribution("numpy", "1.0", shadowed=True, location="/usr/lib/python3")
            ),
            [row("pip:numpy (shadowed)", None, "1.0", "software", noise=True)],
        ),
    ],
)  # fmt: skip
def test_each_change_is_one_component(
    change: Callable[[dict[str, Any]], object], expected: list[Difference]
) -> None:
    assert differences(change) == expected


class TestLibraries:
    """Those of a distribution belong to it."""

    def test_they_are_explained_by_their_owners_change(self) -> None:
        assert differences(swap_numpy) == [row("pip:numpy", "1.23.5", "1.24.0", "software")]

    def test_one_that_changed_under_an_unchanged_owner_is_the_owners_difference(self) -> None:
        found = differences(lambda body: body["software"]["libraries"][0].update(build_id="b9"))
        assert found == [row("pip:numpy", "libopenblas.so.0 b1", "libopenblas.so.0 b9", "software")]

    def test_one_that_only_was_not_loaded_is_noise(self) -> None:
        found = differences(lambda body: body["software"]["libraries"].pop(0))
        assert found == [
            row("pip:numpy", "libopenblas.so.0 b1", "libopenblas.so.0 not loaded", "software", True)
        ]

    def test_a_cold_side_says_nothing_of_what_it_did_not_load(self) -> None:
        def cool(body: dict[str, Any]) -> None:
            body["software"].update(warm_up=False, torch=None)
            body["software"]["libraries"] = [
                library("/usr/lib/libm.so.6", "m2", soname="libm.so.6")
            ]
            body["controls"]["torch"] = None

        assert differences(cool) == [row("lib:libm.so.6", "m1", "m2", "software"), COLD]

    def test_an_unknown_list_is_an_empty_one(self) -> None:
        found = differences(lambda body: body["software"].update(libraries=None, warm_up=False))
        assert found == [COLD]

    def test_the_same_one_at_another_place_is_noise(self) -> None:
        found = differences(
            lambda body: body["software"]["libraries"][1].update(path="/lib/libm.so.6")
        )
        assert found == [
            row("lib:libm.so.6", "m1 (path /usr/lib/libm.so.6)", "m1 (path /lib/libm.so.6)",
                "software", True)
        ]  # fmt: skip

    def test_one_that_was_changed_under_its_build_id_is_not(self) -> None:
        found = differences(lambda body: body["software"]["libraries"][1].update(size=2))
        assert found == [row("lib:libm.so.6", "m1 (size 1)", "m1 (size 2)", "software")]

    def test_a_stated_owner_explains_it(self) -> None:
        def swap(body: dict[str, Any]) -> None:
            body["software"]["libraries"][1].update(build_id="m2", owner="apt:libc6")
            body["software"]["os_packages"][0]["version"] = "2.37"

        assert differences(swap) == [row("apt:libc6", "2.36", "2.37", "software")]

    def test_one_that_another_owners_took_the_place_of_is_no_noise(self) -> None:
        # Given a loader that now finds the library of another package, both being installed
        bodies = copy.deepcopy(BASE), copy.deepcopy(BASE)
        for body, build_id, owner in zip(
            bodies, ("m1", "m2"), ("apt:blis", "apt:mkl"), strict=True
        ):
            body["software"]["libraries"][1].update(build_id=build_id, owner=owner)
        found = diff_manifests(*map(from_inventory, bodies))
        assert found == [
            row("apt:blis", "libm.so.6 m1", "libm.so.6 not loaded", "software"),
            row("apt:mkl", "libm.so.6 not loaded", "libm.so.6 m2", "software"),
        ]

    def test_torch_that_can_no_longer_be_asked_is_no_noise(self) -> None:
        found = differences(lambda body: body["software"].update(torch=None))
        assert found == [row("inventory:torch", "true", "false", "software")]


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        (f"{SITE}/numpy.libs/libopenblas.so", "pip:numpy"),
        (f"{SITE}/numpy/_core/_x.so", "pip:numpy"),
        (f"{SITE}/nvidia/cublas/lib/libcublas.so.12", "pip:nvidia-cublas-cu12"),
        (f"{SITE}/Some_Thing/x.so", "pip:some-thing"),
        ("/usr/lib/python3/dist-packages/numpy/x.so", "pip:numpy"),
        (f"{SITE}/unknown/x.so", None),
        (f"{SITE}/_single.so", None),
        ("/opt/py/lib/python3.11/lib-dynload/math.so", "python:cpython"),
        ("/opt/py/lib/libpython3.11.so.1.0", "python:cpython"),
        ("/opt/py/bin/python3.11", "python:cpython"),
        ("/opt/py/lib/libcuda.so", None),
        ("/usr/lib/libm.so.6", None),
    ],
)
def test_the_owner_of_a_library_goes_by_where_it_lies(path: str, owner: str | None) -> None:
    body = copy.deepcopy(BASE)
    for name in ("nvidia-cublas-cu12", "some-thing"):
        body["software"]["distributions"].append(distribution(name, "1"))
    owners = LibraryOwners(from_inventory(body).software)
    assert owners.owner(Binary(path, 1, "x")) == owner


def test_a_stated_owner_counts_before_any_place() -> None:
    owners = LibraryOwners(from_inventory(BASE).software)
    stated = Binary(f"{SITE}/numpy/x.so", 1, "x", owner="apt:python3-numpy")
    assert owners.owner(stated) == "apt:python3-numpy"


def test_noise_comes_last_and_layers_in_order() -> None:
    def change(body: dict[str, Any]) -> None:
        swap_numpy(body)
        body["evidence"]["hostname"] = "x"
        body["hardware"]["driver"] = "551"
        body["controls"]["variables"]["LANG"] = "D"
        del body["software"]["alternatives"]["editor.1.gz"]

    found = [(each.layer, each.noise) for each in differences(change)]
    assert found == [
        ("software", False), ("controls", False), ("hardware", False), ("software", True),
        ("evidence", True),
    ]  # fmt: skip


def test_turned_around_each_difference_is_turned_around() -> None:
    other = copy.deepcopy(BASE)
    swap_numpy(other)
    other["hardware"]["cpu"]["flags"] = ["avx"]
    first, second = from_inventory(BASE), from_inventory(other)
    forth, back = diff_manifests(first, second), diff_manifests(second, first)
    assert [(each.component, each.after, each.before) for each in forth] == [
        (each.component, each.before, each.after) for each in back
    ]


def test_they_are_plain_records() -> None:
    found = differences(swap_numpy)
    assert json.loads(msgspec.json.encode(found)) == [
        {"component": "pip:numpy", "before": "1.23.5", "after": "1.24.0", "noise": False,
         "layer": "software"}
    ]  # fmt: skip
