"""Every kind of tensor and memory has a fingerprint, or is refused with the reason."""

from __future__ import annotations

import hashlib
import itertools
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bitsect.probes.errors import FingerprintError
from bitsect.probes.exact import floats, integers
from bitsect.probes.fingerprint import (
    Fingerprinter,
    certificate,
    certificate_buffer,
    fingerprint,
    fingerprint_buffer,
    sums,
)
from bitsect.probes.fingerprint_lanes import CopiedLanes
from bitsect.probes.fingerprint_words import GATHER_BYTES, TensorSource

QUANTISED = {"qint8", "qint32", "quint8", "quint2x4", "quint4x2"}
DTYPES = sorted(
    {
        str(value).removeprefix("torch."): value
        for value in vars(torch).values()
        if isinstance(value, torch.dtype)
    }.items()
)
PLAIN_DTYPES = [dtype for name, dtype in DTYPES if name not in QUANTISED]
RARE = (
    "bfloat16", "bool", "complex32", "complex64", "complex128", "float4_e2m1fn_x2",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "uint16", "uint32", "uint64",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet_complex_half() -> Iterator[None]:
    """Torch calls complex32 experimental whenever one is made."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "ComplexHalf support is experimental")
        yield


def of_dtype(dtype: torch.dtype, count: int, stream: int = 0) -> torch.Tensor:
    raw = integers(9, stream, (count * dtype.itemsize,), 8).to(torch.uint8)
    return (raw & 1).view(dtype) if dtype == torch.bool else raw.view(dtype)


def test_the_rare_dtypes_are_all_tried() -> None:
    assert set(RARE) <= {name for name, _ in DTYPES}


@pytest.mark.parametrize("dtype", PLAIN_DTYPES, ids=str)
def test_every_dtype_has_one_that_follows_its_bytes(dtype: torch.dtype) -> None:
    # given tensors of the dtype, in order, with gaps, empty, and without dimensions
    tensor = of_dtype(dtype, 48)
    name = str(dtype).removeprefix("torch.")
    raw = bytes(tensor.view(torch.uint8).tolist())

    assert fingerprint(tensor) == fingerprint_buffer(raw, name, (48,))
    assert fingerprint(tensor.reshape(6, 8)[:, ::2]).startswith(f"{name}[6,4]:")
    assert fingerprint(tensor[:0]).startswith(f"{name}[0]:")
    assert fingerprint(tensor[5]).startswith(f"{name}[]:")
    assert fingerprint(of_dtype(dtype, 4096, 1)) != fingerprint(of_dtype(dtype, 4096, 2))


@pytest.mark.parametrize("dtype", PLAIN_DTYPES, ids=str)
def test_strides_do_not_matter(dtype: torch.dtype) -> None:
    numbers = of_dtype(dtype, 6 * 7 * 4)
    size = dtype.itemsize
    # Copied as bytes, because some types cannot be copied by torch.
    in_order = numbers.view(torch.uint8).view(6, 7, 4, size)
    moved = in_order.permute(2, 0, 1, 3).contiguous().view(-1).view(dtype).view(4, 6, 7)

    assert fingerprint(numbers.view(6, 7, 4).permute(2, 0, 1)) == fingerprint(moved)
    assert certificate(numbers.view(6, 7, 4).permute(2, 0, 1)) == certificate(moved)


@settings(deadline=None, max_examples=100)
@given(data=st.data(), shape=st.lists(st.integers(0, 5), max_size=4))
def test_any_view_equals_its_contiguous_copy(data: st.DataObject, shape: list[int]) -> None:
    tensor = floats(10, 0, [2 * length for length in shape])
    for dimension, length in enumerate(shape):
        start = data.draw(st.integers(0, length))
        step = data.draw(st.integers(1, 2))
        tensor = tensor.narrow(dimension, start, length)[
            (slice(None),) * dimension + (slice(None, None, step),)
        ]
    tensor = tensor.permute(data.draw(st.permutations(range(len(shape)))))

    assert fingerprint(tensor) == fingerprint(tensor.clone(memory_format=torch.contiguous_format))


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[:, 1:],
        lambda t: t[::3, ::2],
        lambda t: t.flip(1),
        lambda t: t[:1].expand(700, -1),
        lambda t: t[0, :1].expand(3, GATHER_BYTES // 2),
        lambda t: t.view(torch.uint8)[3:, 1:-2],
        lambda t: t.reshape(-1).view(torch.uint8)[1:],
        lambda t: t.reshape(-1).view(torch.uint8)[4:-1],
        lambda t: t.reshape(-1).view(torch.int16)[1:],
        lambda t: t.view(1, 1201, 1, 1001).transpose(1, 3),
    ],
)
def test_large_views_equal_their_contiguous_copies(
    view: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    # given views of more bytes than are gathered at a time
    tensor = view(floats(11, 0, (1201, 1001)))
    copy = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)

    assert fingerprint(tensor) == fingerprint(copy)
    assert certificate(tensor) == certificate(copy)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.complex32], ids=str)
def test_pending_conjugates_and_negatives_count_as_done(dtype: torch.dtype) -> None:
    real = floats(12, 0, (300, 2), torch.float16)
    half = {torch.complex64: torch.float32, torch.complex128: torch.float64}
    tensor = torch.view_as_complex(real.to(half.get(dtype, torch.float16)))
    signs = torch.tensor([1, -1], dtype=real.dtype)
    conjugate = torch.view_as_complex((real * signs).to(half.get(dtype, torch.float16)))

    assert tensor.conj().is_conj()
    assert fingerprint(tensor.conj()) == fingerprint(conjugate)
    assert fingerprint(tensor.conj()) != fingerprint(tensor)
    if dtype != torch.complex32:
        assert tensor.conj().imag.is_neg()
        assert fingerprint(tensor.conj().imag) == fingerprint(conjugate.imag.contiguous())
        assert certificate(tensor.conj().imag) == certificate(conjugate.imag.contiguous())


def test_dtype_and_shape_are_part_of_it() -> None:
    zeros = torch.zeros(2, 6, dtype=torch.uint8)
    others = [
        zeros, zeros.view(6, 2), zeros.view(12), zeros.view(12, 1), zeros.view(1, 12),
        zeros.view(torch.int8), zeros.view(12).view(torch.float32), torch.zeros(13).byte(),
        torch.zeros(0), torch.zeros(0, 3), torch.zeros(()), torch.zeros(1),
    ]  # fmt: skip

    assert len({fingerprint(tensor) for tensor in others}) == len(others)
    assert len({certificate(tensor) for tensor in others}) == len(others)


def test_history_parameters_and_modes_of_torch_do_not_matter() -> None:
    plain = floats(13, 0, (9, 1000))
    expected = fingerprint(plain)

    leaf = plain.clone().requires_grad_()
    assert fingerprint(leaf) == expected
    assert fingerprint(leaf * 1) == expected
    assert fingerprint(torch.nn.Parameter(plain)) == expected
    with torch.inference_mode():
        assert fingerprint(plain.clone()) == expected
    assert fingerprint(plain) == expected
    assert fingerprint(plain.as_subclass(Annotated)) == expected
    torch.set_default_device("meta")
    try:
        assert fingerprint(plain) == expected
    finally:
        torch.set_default_device(None)


class Annotated(torch.Tensor):
    """A subclass that holds its own bytes."""


def test_lanes_first_made_in_inference_mode_serve_outside_of_it() -> None:
    # given a thread of its own, which has no lanes yet
    tensor, texts = floats(14, 0, (40_000,)), []

    def work() -> None:
        with torch.inference_mode():
            texts.append(fingerprint(tensor))
        texts.append(fingerprint(tensor))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert texts == [fingerprint(tensor)] * 2


def test_threads_do_not_disturb_each_other() -> None:
    tensors = [floats(15, index, (300_000,)) for index in range(4)]
    expected = [fingerprint(tensor) for tensor in tensors]
    got: dict[int, list[str]] = {}

    def work(index: int) -> None:
        got[index] = [fingerprint(tensors[index]) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert got == {index: [expected[index]] * 20 for index in range(4)}


def test_the_number_of_threads_does_not_matter() -> None:
    tensor = floats(16, 0, (5 << 20,))
    before = torch.get_num_threads()
    try:
        texts = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            texts.append(fingerprint(tensor))
    finally:
        torch.set_num_threads(before)

    assert texts[0] == texts[1]


def test_lanes_that_are_copied_give_the_same_at_full_size() -> None:
    tensor = floats(17, 0, ((4 << 20) + 12345,))

    assert torch.equal(sums(TensorSource(tensor)), sums(TensorSource(tensor), lanes_on=CopiedLanes))


def test_a_batch_gives_what_single_calls_give_and_what_was_true_when_added() -> None:
    # given tensors of which one changes after it was added
    tensors = [floats(18, index, (1 + 97 * index,)) for index in range(20)]
    expected = [fingerprint(tensor) for tensor in tensors]
    batch = Fingerprinter()
    handles = [batch.add(tensor) for tensor in tensors]
    tensors[3].zero_()

    with pytest.raises(ValueError, match="resolve"):
        _ = handles[0].text
    assert list(batch.resolve()) == expected
    assert [handle.text for handle in handles] == expected
    assert batch.resolve() == ()


def refused() -> Iterator[tuple[torch.Tensor, str]]:
    dense = torch.eye(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield dense.to_sparse(), "layout"
        yield dense.to_sparse_csr(), "layout"
        yield torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8), "quantised"
        yield torch.nested.nested_tensor([dense, dense[:2]]), "layout"
    yield dense.to("meta"), "meta"
    yield Wrapper(dense), "Wrapper"


class Wrapper(torch.Tensor):
    """A subclass that answers for the operators itself and holds no bytes."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        wrapper: Wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape)
        return wrapper

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's stub forgets the function
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> torch.Tensor:
        raise AssertionError("a fingerprint must not run operators on a wrapper")


@pytest.mark.parametrize("index", range(6))
@pytest.mark.parametrize("function", [fingerprint, certificate])
def test_what_has_no_plain_bytes_is_refused_with_the_reason(
    index: int, function: Callable[[torch.Tensor], str]
) -> None:
    tensor, word = next(itertools.islice(refused(), index, None))

    with pytest.raises(FingerprintError) as caught:
        function(tensor)

    assert word in caught.value.reason
    assert caught.value.dtype.startswith("torch.")


ARRAYS = {
    "float64": np.linspace(0, 1, 1001),
    "float32": np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 3, 4),
    "float16": np.arange(5, dtype=np.float16),
    "complex128": np.arange(7) * (1 + 2j),
    "int16": np.arange(30_000, dtype=np.int16),
    "uint64": np.arange(5, dtype=np.uint64),
    "bool": np.arange(9) % 2 == 0,
    "int64": np.array(7),
    "uint8": np.zeros((3, 0), dtype=np.uint8),
}


@pytest.mark.parametrize("name", sorted(ARRAYS))
@pytest.mark.parametrize("writable", [True, False])
def test_arrays_have_the_fingerprints_of_equal_tensors(name: str, writable: bool) -> None:
    array = ARRAYS[name].copy()
    tensor = torch.tensor(array.tolist(), dtype=getattr(torch, name)).reshape(array.shape)
    array.setflags(write=writable)

    assert fingerprint_buffer(array, name, array.shape) == fingerprint(tensor)
    assert certificate_buffer(array, name, array.shape) == certificate(tensor)


def test_element_formats_that_python_cannot_spell_are_read_as_bytes() -> None:
    array = np.array([(1, 2.0), (3, 4.0)], dtype=[("a", ">i2"), ("b", "<f8")])

    text = fingerprint_buffer(array, "record", (2,))

    assert text.startswith("record[2]:")
    assert text.split(":")[1] == fingerprint_buffer(array.tobytes(), "uint8", (20,)).split(":")[1]


@pytest.mark.parametrize(
    ("buffer", "dtype", "shape", "word"),
    [
        (np.zeros((4, 4))[:, ::2], "float64", (4, 2), "contiguous"),
        (np.asfortranarray(np.zeros((4, 2))), "float64", (4, 2), "contiguous"),
        (np.zeros(4), "float64", (5,), "bytes"),
        (np.zeros(4), "odd", (5,), "bytes"),
        (b"1", "odd", (0,), "bytes"),
        (b"1", "a b", (1,), "name"),
        (b"1", "a[b", (1,), "name"),
        ("text", "uint8", (4,), "memory"),
        (np.zeros(2, dtype="M8[s]"), "int64", (2,), "memory"),
    ],
)
@pytest.mark.parametrize("function", [fingerprint_buffer, certificate_buffer])
def test_memory_that_does_not_fit_is_refused(
    buffer: Any, dtype: str, shape: tuple[int, ...], word: str, function: Callable[..., str]
) -> None:
    with pytest.raises(FingerprintError) as caught:
        function(buffer, dtype, shape)

    assert caught.value.dtype == dtype
    assert word in caught.value.reason


def test_a_certificate_is_the_sha256_of_header_and_bytes() -> None:
    expected = hashlib.sha256(b"bitsect certificate 1\nint16[2]\n\x01\x00\xff\xff").hexdigest()

    assert certificate(torch.tensor([1, -1], dtype=torch.int16)) == expected
