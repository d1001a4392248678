"""Vectors and events in words."""

from __future__ import annotations

from bitsect.bisect.engine.model import Axis
from bitsect.bisect.wording import label_of, operations_of, operations_text, short

AXES = (Axis("pip:numpy", ("1", "2", "3")), Axis("pip:mkl", ("absent", "7")))


def event(scope: str, operation: str, case: int = 0, phase: str = "host") -> str:
    return f"0/0/{phase}/{scope}/{operation}#{case}"


def test_a_vector_is_told_by_what_differs_from_the_good_end() -> None:
    assert label_of(AXES, (0, 0)) == "the good end"
    assert label_of(AXES, (2, 1)) == "the bad end"
    assert label_of(AXES, (1, 0)) == "numpy 2"
    assert label_of(AXES, (1, 1)) == "numpy 2, mkl 7"


def test_cases_and_variants_of_an_operation_are_one_name() -> None:
    (found,) = operations_of(
        [event("data.reduction.float32", name, i) for i, name in enumerate(("sum", "sum.axis0"))]
    )
    assert (found.kind, found.names, found.events) == ("data reduction float32", ("sum",), 2)


def test_types_with_the_same_operations_share_a_kind() -> None:
    found = operations_of(
        [
            event("data.blas.float32", "dot"),
            event("data.blas.float64", "dot"),
            event("data.blas.float64", "dot", 1),
            event("data.linalg.float64", "inv"),
            event("data.linalg.float32", "det"),
        ]
    )
    assert [(each.kind, each.names, each.events) for each in found] == [
        ("data blas float32 float64", ("dot",), 3),
        ("data linalg float64", ("inv",), 1),
        ("data linalg float32", ("det",), 1),
    ]


def test_backward_is_said() -> None:
    (found,) = operations_of([event("kernels.gemm.bfloat16", "mm.nn", phase="backward")])
    assert found.names == ("mm backward",)


def test_what_is_left_out_is_counted() -> None:
    found = operations_of([event(f"data.group{i}.float32", "op") for i in range(5)])
    assert operations_text(found, groups=2) == (
        "data group0 float32: op; data group1 float32: op; and 3 events of 3 more kinds"
    )
    assert short(["a", "b", "c"], 2) == "a, b and 1 more"
    assert short(["a", "b"], 2) == "a, b"
