"""Every error has one line that says what is wrong and what to do."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import bitsect
from bitsect.bisect.errors import InvalidEvidence, StoreError, UnusableEnds
from bitsect.cli.messages import INVALID, explain
from bitsect.images.errors import InfrastructureError, UnknownVersion
from bitsect.probes.errors import BitsectError


def error_classes() -> list[type[BitsectError]]:
    """Every error class of the product, found by importing all of it."""
    for part in ("probes", "images", "bisect", "cli"):
        package = importlib.import_module(f"bitsect.{part}")
        for module in pkgutil.walk_packages(package.__path__, f"bitsect.{part}."):
            if module.name.endswith("errors"):
                importlib.import_module(module.name)
    return sorted(subclasses(BitsectError), key=lambda kind: kind.__name__)


def subclasses(kind: type[BitsectError]) -> Iterator[type[BitsectError]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("bitsect."):
            yield child
        yield from subclasses(child)


def example(kind: type[BitsectError]) -> BitsectError:
    """An error of this class with something of the right type in every field."""
    by_type: dict[str, object] = {
        "str": "something",
        "int": 3,
        "bool": True,
        "int | None": 3,
        "str | None": "something",
        "tuple[str, ...]": ("one", "two"),
        "tuple[int, ...]": (1, 2),
        "InfrastructureKind": "disk",
        "RebuildObstacle": "image",
    }
    if kind is UnusableEnds:
        return UnusableEnds("sides", "venv:a", "venv:b")
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    return kind(*(by_type[str(parameter.annotation)] for parameter in parameters))


def test_the_package_is_the_one_of_this_repository() -> None:
    assert bitsect.__version__ == "0.1.0"


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: str(kind.__name__))
def test_every_error_has_one_line(kind: type[BitsectError]) -> None:
    message = explain(example(kind))
    assert message.status == INVALID
    assert "\n" not in message.text
    assert len(message.text) > 20
    assert kind.__name__ not in message.text


KINDS = [
    *(
        UnusableEnds(reason, "venv:a", "venv:b")
        for reason in ("same", "image", "twice", "builds", "sides", "kind")
    ),
    *(
        InfrastructureError(kind, "there")
        for kind in ("index", "registry", "engine", "refused", "disk", "permission", "tool", "host")
    ),
    *(
        InvalidEvidence(what, "this", "that")
        for what in ("same-run", "controls", "fingerprint", "empty", "probe", "arguments")
    ),
    *(StoreError("/data", reason, "2", "1") for reason in ("newer", "foreign", "damaged", "io")),
]


@pytest.mark.parametrize("error", KINDS, ids=str)
def test_every_kind_of_an_error_has_a_line_of_its_own(error: BitsectError) -> None:
    text = explain(error).text
    assert text.endswith(".")
    others = [explain(other).text for other in KINDS if other is not error]
    assert text not in others


def test_a_reason_of_many_lines_becomes_one() -> None:
    text = explain(InfrastructureError("tool", "first\n  second\n\tthird")).text
    assert text.endswith("first second third.")


def test_a_version_that_does_not_exist_comes_with_its_neighbours() -> None:
    text = explain(UnknownVersion("numpy", "1.99", ("1.26.4", "2.0.0"), 71, "3.11.7")).text
    assert "numpy 1.99" in text
    assert "1.26.4, 2.0.0" in text
    assert "3.11.7" in text
