"""The stacks that searches are tried on: each case is two images or more, made when asked for.

Every case names what changed the bits in it, and what did not, by the names that a search uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tests.containers import hostile as hostility
from tests.containers import libraries, lies
from tests.containers.debian import DIST_PACKAGES, install
from tests.containers.distributions import distribution, fetched
from tests.containers.libraries import CONFIGURATION, CORE, LOCAL, SUMS
from tests.containers.workshop import Workshop

OPENBLAS = "libopenblas0-pthread"
#: Kernels that every x86-64 processor can run and none made since 2013 would choose.
OLD_KERNELS = "OPENBLAS_CORETYPE=Prescott"
#: torch without vector instructions: other reductions and other transcendental functions.
NO_VECTORS = "ATEN_CPU_CAPABILITY=default"
#: A variable of the OpenMP library that only says how threads wait.
PATIENCE = "OMP_WAIT_POLICY=passive"
#: On no index, and versioned as vendors do.
VENDOR = "vendor-kernels"
VENDOR_VERSIONS = ("1.0+nv26.03", "1.0+nv26.04")

_REFRESH_LOADER = "RUN ldconfig"


@dataclass(frozen=True)
class Ends:
    """Two images, and what a search between them must say.

    :param culprits: components that changed bits, each ``kind:name``.
    :param innocents: other components in which the two differ.
    """

    good: str
    bad: str
    culprits: tuple[str, ...]
    innocents: tuple[str, ...] = ()


def openblas(workshop: Workshop) -> str:
    """The image with torch, on OpenBLAS."""
    return workshop.derived("bitsect-test/torch:openblas", workshop.torch(), [install(OPENBLAS)])


def one_package(workshop: Workshop) -> Ends:
    """OpenBLAS and ten harmless differences."""
    good = workshop.derived(
        "bitsect-test/package:good",
        workshop.torch(),
        [_install_own("bitsect-test-data", "bitsect-test-extra")],
        {
            **_own_package("bitsect-test-data", "1.0"),
            **_own_package("bitsect-test-extra", "1.0"),
            **distribution("harmless-a", "1.0"),
            "etc/bitsect-test.conf": b"colour = green\n",
            "opt/bitsect-test/notes.txt": b"first edition\n",
        },
    )
    return Ends(
        good,
        workshop.derived("bitsect-test/package:bad", only_harmless(workshop), [install(OPENBLAS)]),
        culprits=(f"apt:{OPENBLAS}",),
        innocents=(
            "apt:bc",
            "apt:ed",
            "apt:tree",
            "apt:bitsect-test-data",
            "apt:bitsect-test-extra",
            "pip:harmless-a",
            "pip:harmless-b",
            "env:GREETING",
            "file:/etc/bitsect-test.conf",
            "file:/opt/bitsect-test/notes.txt",
        ),
    )


def only_harmless(workshop: Workshop) -> str:
    """The bad end of `one_package` but for OpenBLAS."""
    return workshop.derived(
        "bitsect-test/package:harmless",
        workshop.torch(),
        [_install_own("bitsect-test-data"), install("bc", "ed", "tree"), "ENV GREETING=hello"],
        {
            **_own_package("bitsect-test-data", "1.1"),
            **distribution("harmless-a", "1.1"),
            **distribution("harmless-b", "1.0"),
            "etc/bitsect-test.conf": b"colour = blue\n",
            "opt/bitsect-test/notes.txt": b"second edition\n",
        },
    )


def one_variable(workshop: Workshop) -> Ends:
    """OpenBLAS at both ends; a variable that chooses its kernels, and one that does not."""
    good = openblas(workshop)
    bad = workshop.derived(
        "bitsect-test/variable:bad", good, [f"ENV {OLD_KERNELS}", f"ENV {PATIENCE}"]
    )
    return Ends(good, bad, (_variable(OLD_KERNELS),), (_variable(PATIENCE),))


def two_together(workshop: Workshop) -> Ends:
    """A library that reads a new setting, and the new setting: neither does anything alone."""
    good = _together(workshop, "good", library=1, setting="forward", harmless="1.0")
    bad = _together(workshop, "bad", library=2, setting="backward", harmless="1.1")
    return Ends(good, bad, (f"lib:{SUMS}", f"file:/{CONFIGURATION}"), ("pip:harmless-a",))


def one_of_two(workshop: Workshop) -> tuple[str, str]:
    """Between the ends of `two_together`: the library alone is new; the setting alone is."""
    return (
        _together(workshop, "library", library=2, setting="forward", harmless="1.0"),
        _together(workshop, "setting", library=1, setting="backward", harmless="1.0"),
    )


def _together(workshop: Workshop, name: str, *, library: int, setting: str, harmless: str) -> str:
    files = {
        f"{LOCAL}/{SUMS}": (
            libraries.sums("0") if library == 1 else libraries.sums("configured()", "configured.c")
        ),
        CONFIGURATION: f"order = {setting}\n".encode(),
        **distribution("harmless-a", harmless),
    }
    return _covered(workshop, f"bitsect-test/together:{name}", files)


def pair_beside_the_culprit(workshop: Workshop, *, versioned: bool) -> Ends:
    """Two libraries that run only together and change nothing; OpenBLAS changes bits.

    :param versioned: see `libraries.sums_with_core`.
    """
    files = libraries.sums_with_core(2, backward=False, versioned=versioned)
    bad = _covered(workshop, _pair_tag("beside", versioned), files, parent=openblas(workshop))
    pair = (f"lib:{SUMS}", f"lib:{CORE}")
    return Ends(_old_pair(workshop, versioned), bad, (f"apt:{OPENBLAS}",), pair)


def inseparable_pair(workshop: Workshop, *, versioned: bool) -> Ends:
    """Two libraries that run only together and change bits: no search can tell which of them.

    :param versioned: see `libraries.sums_with_core`.
    """
    files = libraries.sums_with_core(2, backward=True, versioned=versioned)
    bad = _covered(workshop, _pair_tag("inseparable", versioned), files)
    return Ends(_old_pair(workshop, versioned), bad, (f"lib:{SUMS}", f"lib:{CORE}"))


def _old_pair(workshop: Workshop, versioned: bool) -> str:
    files = libraries.sums_with_core(1, backward=False, versioned=versioned)
    return _covered(workshop, _pair_tag("old", versioned), files)


def _pair_tag(state: str, versioned: bool) -> str:
    return f"bitsect-test/pair:{state}-{'versioned' if versioned else 'named'}"


def mixed_pair(workshop: Workshop, *, versioned: bool) -> str:
    """An image that cannot run: `SUMS` of one generation, `CORE` of the other."""
    old = libraries.sums_with_core(1, backward=False, versioned=versioned)
    new = libraries.sums_with_core(2, backward=False, versioned=versioned)
    files = {**old, f"{LOCAL}/{SUMS}": new[f"{LOCAL}/{SUMS}"]}
    return _covered(workshop, _pair_tag("mixed", versioned), files)


def vendor_distribution(workshop: Workshop) -> Ends:
    """A distribution with a compiled library, in versions that no index has."""
    old, new = VENDOR_VERSIONS
    good = _with_vendor(workshop, "good", old, backward="0", harmless="1.0")
    bad = _with_vendor(workshop, "bad", new, backward="1", harmless="1.1")
    return Ends(good, bad, (f"pip:{VENDOR}",), ("pip:harmless-a",))


def _with_vendor(
    workshop: Workshop, end: str, version: str, *, backward: str, harmless: str
) -> str:
    own = {
        "__init__.py": f"version = {version!r}\n".encode(),
        f"lib/{SUMS}": libraries.sums(backward),
    }
    folder = f"/{DIST_PACKAGES}/{VENDOR.replace('-', '_')}/lib"
    files = {
        **distribution(VENDOR, version, own),
        f"etc/ld.so.conf.d/{VENDOR}.conf": f"{folder}\n".encode(),
        **distribution("harmless-a", harmless),
    }
    return _covered(workshop, f"bitsect-test/vendor:{end}", files)


def restless(workshop: Workshop) -> Ends:
    """A bad end whose float32 dot products are other ones every time."""
    good = _covered(
        workshop, "bitsect-test/restless:good", {f"{LOCAL}/{SUMS}": libraries.sums("0")}
    )
    bad = _covered(
        workshop,
        "bitsect-test/restless:bad",
        {f"{LOCAL}/{SUMS}": libraries.sums("drawn()", "drawn.c")},
    )
    return Ends(good, bad, (f"lib:{SUMS}",))


def another_user(workshop: Workshop, *, harmless: bool) -> Ends:
    """Two images that differ in their user, for one of whom torch has a single thread.

    :param harmless: they differ in a file too, which changes nothing.
    """
    site = "root/.local/lib/python3.13/site-packages"
    setting = b"import os\nos.environ['OMP_NUM_THREADS'] = '1'\n"
    kind = "user-file" if harmless else "user"
    good, bad = (
        workshop.derived(
            f"bitsect-test/{kind}:{end}",
            workshop.torch(),
            [f"USER {user}"],
            {
                f"{site}/usercustomize.py": setting,
                "opt/notes.txt": edition if harmless else b"",
            },
        )
        for end, user, edition in (("good", "root", b"first\n"), ("bad", "nobody", b"second\n"))
    )
    return Ends(good, bad, ())


def indexed_distribution(workshop: Workshop) -> Ends:
    """Two releases of NumPy, between which the machine's package index offers others."""
    good, bad = (
        workshop.derived(
            f"bitsect-test/indexed:{version}", workshop.torch(), files=fetched("numpy", version)
        )
        for version in ("2.2.5", "2.3.1")
    )
    return Ends(good, bad, ("pip:numpy",))


@dataclass(frozen=True)
class Chain:
    """Images in the order of their releases.

    :param steps: for each step from one to the next, the component that changed bits.
    :param innocents: other components that differ somewhere along the way.
    """

    images: tuple[str, ...]
    steps: tuple[str, ...]
    innocents: tuple[str, ...]


def chain(workshop: Workshop) -> Chain:
    """Three releases: the second brings OpenBLAS, the third a variable for torch."""
    releases = [
        ("first", workshop.torch(), "1.0", []),
        ("second", openblas(workshop), "1.1", ["ENV GREETING=hello"]),
        ("third", openblas(workshop), "1.2", ["ENV GREETING=bye", f"ENV {NO_VECTORS}"]),
    ]
    return Chain(
        tuple(
            workshop.derived(
                f"bitsect-test/chain:{name}", parent, steps, distribution("harmless-a", version)
            )
            for name, parent, version, steps in releases
        ),
        steps=(f"apt:{OPENBLAS}", _variable(NO_VECTORS)),
        innocents=("pip:harmless-a", "env:GREETING"),
    )


def hostile(workshop: Workshop, behaviour: hostility.Behaviour, *, with_torch: bool = False) -> str:
    """An image whose Python does something hostile when it starts.

    :param with_torch: made from the image with torch, so that it looks like a stack.
    """
    kind, parent = (
        ("hostile-torch", workshop.torch()) if with_torch else ("hostile", workshop.small())
    )
    return workshop.derived(
        f"bitsect-test/{kind}:{behaviour}",
        parent,
        files={hostility.PLACE: hostility.source(behaviour)},
    )


def lying(workshop: Workshop, about: Literal["itself", "its-run"], lie: str) -> str:
    """An image that answers all questions, and one of them with a lie.

    :param lie: one of `lies.INVENTORIES` or of `lies.TRACES`.
    """
    source = lies.about_itself(lie) if about == "itself" else lies.about_its_run(lie)
    return workshop.derived(
        f"bitsect-test/lying-about-{about}:{lie.replace(' ', '-')}",
        workshop.small(),
        files={hostility.PLACE: source},
    )


def _covered(
    workshop: Workshop, tag: str, files: Mapping[str, bytes], parent: str | None = None
) -> str:
    """An image in which float32 dot products are those of the given `SUMS`."""
    cover = {f"{LOCAL}/libblas.so.3": libraries.cover()}
    return workshop.derived(tag, parent or workshop.torch(), [_REFRESH_LOADER], {**cover, **files})


def _own_package(name: str, version: str) -> dict[str, bytes]:
    """What a tiny Debian package is built from, inside the image."""
    control = (
        f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
        "Maintainer: nobody <nobody@localhost>\nDescription: a package for tests\n"
    )
    return {
        f"build/{name}/DEBIAN/control": control.encode(),
        f"build/{name}/usr/share/{name}/data.txt": f"{name} {version}\n".encode(),
    }


def _install_own(*names: str) -> str:
    """A Dockerfile's step that builds, installs and clears away such packages."""
    build = " && ".join(
        f"dpkg-deb --root-owner-group --build /build/{name} && dpkg --install /build/{name}.deb"
        for name in names
    )
    return f"RUN {build} && rm -r /build"


def _variable(assignment: str) -> str:
    return f"env:{assignment.partition('=')[0]}"
