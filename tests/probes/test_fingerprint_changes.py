"""Every change of a tensor's bits changes its fingerprint, in particular those that sums miss."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bitsect.probes.exact import floats, integers
from bitsect.probes.fingerprint import fingerprint, sums
from bitsect.probes.fingerprint_lanes import FACTORS, InPlaceLanes, fold
from bitsect.probes.fingerprint_words import TensorSource

SMALL_LEVELS = (16, 8, 4)
Print = Callable[[torch.Tensor], object]


def small_print(tensor: torch.Tensor) -> tuple[int, ...]:
    """The fingerprint's arithmetic with so few lanes that small tensors pass every level."""
    return tuple(sums(TensorSource(tensor), SMALL_LEVELS).tolist())


BOTH = pytest.mark.parametrize("print_of", [fingerprint, small_print])


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


@BOTH
@settings(deadline=None, max_examples=100)
@given(data=st.data(), count=st.integers(2, 300), bits=st.sampled_from([1, 8, 60]))
def test_a_permutation_changes_it_unless_it_changes_no_bit(
    print_of: Print, data: st.DataObject, count: int, bits: int
) -> None:
    tensor = integers(0, data.draw(st.integers(0, 9)), (count,), bits)
    order = torch.tensor(data.draw(st.permutations(range(count))))

    permuted = tensor[order]

    assert (print_of(tensor) == print_of(permuted)) == same_bytes(tensor, permuted)


@BOTH
@settings(deadline=None, max_examples=200)
@given(data=st.data(), count=st.integers(1, 700), flip=st.integers(1, 255))
def test_any_single_changed_byte_changes_it(
    print_of: Print, data: st.DataObject, count: int, flip: int
) -> None:
    tensor = integers(1, 0, (count,), 8).to(torch.uint8)
    before = print_of(tensor)

    tensor[data.draw(st.integers(0, count - 1))] ^= flip

    assert print_of(tensor) != before


@pytest.mark.parametrize("words", [1 << 14, (1 << 14) + 2, 1 << 18, (1 << 18) + 6, (1 << 22) + 2])
def test_single_changed_bytes_around_lane_and_row_borders_change_it(words: int) -> None:
    # given sizes at and just above the borders between the levels
    tensor = integers(2, 0, (words // 2,), 63).view(torch.uint8)
    borders = [0, 1 << 14, 1 << 15, 1 << 16, 1 << 18, 1 << 19, 1 << 22, 1 << 23, 4 * words]
    offsets = (-5, -4, -1, 0, 3, 7)
    places = {border + offset for border in borders for offset in offsets}
    places &= set(range(4 * words))

    # when one byte after another is changed, one at a time
    seen = {fingerprint(tensor)}
    for place in sorted(places):
        tensor[place] ^= 0x80
        seen.add(fingerprint(tensor))
        tensor[place] ^= 0x80

    # then no two of all these tensors have the same fingerprint
    assert len(seen) == 1 + len(places)


@BOTH
@settings(deadline=None, max_examples=150)
@given(
    places=st.sets(st.integers(0, 499), min_size=1),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2]),
)
def test_flipping_the_signs_of_several_elements_changes_it(
    print_of: Print, places: set[int], dtype: torch.dtype
) -> None:
    tensor = floats(3, 0, (500,), torch.float32).to(dtype)
    signs = torch.zeros(500, dtype=torch.bool)
    signs[list(places)] = True
    flipped = torch.where(signs, -tensor.to(torch.float64), tensor.to(torch.float64)).to(dtype)

    assert print_of(flipped) != print_of(tensor)


def cancelling_sign_flips(width: int, factors: Sequence[int]) -> int:
    """Fold all tensors that differ in at most two signs; return how many get lost in others."""
    # A few rows of two lanes, so that every distance of rows and lanes occurs.
    lanes, rows = 2, 12
    raw = integers(4, width, (4 * lanes * rows,), 8).to(torch.uint8)
    state = InPlaceLanes(lanes)
    signs = range(width - 1, raw.numel(), width)
    flips = [(), *((place,) for place in signs), *itertools.combinations(signs, 2)]
    seen = set()
    for places in flips:
        changed = raw.clone()
        changed[list(places)] ^= 0x80
        words = fold(changed.view(torch.int32).unsafe_split(lanes), state, factors)
        seen.add(tuple(words.tolist()))
    return len(flips) - len(seen)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("level", range(3))
def test_no_two_sign_flips_cancel_wherever_they_are(width: int, level: int) -> None:
    assert cancelling_sign_flips(width, FACTORS[level]) == 0


def test_control_two_sign_flips_cancel_where_factors_are_too_simple() -> None:
    assert cancelling_sign_flips(1, (3, 5, 7, 9, 11, 13)) > 0


@pytest.mark.parametrize("mebibytes", [5, 24])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_negating_a_whole_large_tensor_changes_it(mebibytes: int, dtype: torch.dtype) -> None:
    tensor = floats(5, 0, ((mebibytes << 20) // dtype.itemsize,), torch.float32).to(dtype)

    assert fingerprint(-tensor) != fingerprint(tensor)


@BOTH
@settings(deadline=None, max_examples=100)
@given(data=st.data(), dtype=st.sampled_from([torch.bool, torch.int64, torch.float32]))
def test_two_tokens_that_exchange_experts_change_it(
    print_of: Print, data: st.DataObject, dtype: torch.dtype
) -> None:
    # given a routing map in which token a goes to expert c, and token b to expert d
    tokens, experts = 64, 32
    a, b = data.draw(st.tuples(st.integers(0, 63), st.integers(0, 63)).filter(distinct))
    c, d = data.draw(st.tuples(st.integers(0, 31), st.integers(0, 31)).filter(distinct))
    routing = (integers(6, 0, (tokens, experts), 3) == 0).to(dtype)
    routing[a, c], routing[b, d] = 1, 1
    routing[a, d], routing[b, c] = 0, 0
    before = routing.clone()

    # when they exchange them, which leaves the sums of all rows and columns as they were
    routing[a, c], routing[b, d] = 0, 0
    routing[a, d], routing[b, c] = 1, 1

    # then the sums say nothing, and the fingerprint does
    assert torch.equal(routing.sum(0), before.sum(0))
    assert torch.equal(routing.sum(1), before.sum(1))
    assert print_of(routing) != print_of(before)


def distinct(pair: tuple[int, int]) -> bool:
    return pair[0] != pair[1]


@BOTH
@settings(deadline=None, max_examples=100)
@given(data=st.data(), lanes=st.sampled_from([4, 8, 16, 64]))
def test_exchanging_two_rows_of_lanes_changes_it(
    print_of: Print, data: st.DataObject, lanes: int
) -> None:
    tensor = integers(7, lanes, (12, lanes), 31).to(torch.int32)
    i, j = data.draw(st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(distinct))
    assume(not torch.equal(tensor[i], tensor[j]))
    exchanged = tensor.clone()
    exchanged[[i, j]] = exchanged[[j, i]]

    assert print_of(exchanged) != print_of(tensor)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_negative_zero_is_not_a_zero(dtype: torch.dtype) -> None:
    zeros = torch.zeros(7, dtype=dtype)
    signed = zeros.clone()
    signed[3] = -0.0

    assert torch.equal(zeros, signed)
    assert fingerprint(zeros) != fingerprint(signed)


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        (torch.int64, (0x7FF0000000000001, 0x7FF8000000000001, 0x7FF8000000000000)),
        (torch.int32, (0x7F800001, 0x7FC00001, 0x7FC00000)),
        (torch.int16, (0x7F81, 0x7FC1, 0x7FC0)),
    ],
)
def test_nan_payloads_and_signalling_nans_count(dtype: torch.dtype, bits: tuple[int, ...]) -> None:
    floating = {torch.int64: torch.float64, torch.int32: torch.float32, torch.int16: torch.bfloat16}
    tensors = [torch.tensor([number], dtype=dtype).view(floating[dtype]) for number in bits]

    assert all(math.isnan(tensor.item()) for tensor in tensors)
    assert len({fingerprint(tensor) for tensor in tensors}) == len(bits)


CONTROLS: dict[str, tuple[torch.Tensor, torch.Tensor]] = {
    "reversed": (torch.arange(9.0), torch.arange(9.0).flip(0)),
    "pairs": (torch.full((2,), 3.0), torch.full((2,), 5.0)),
    "quiet and signalling NaN": (
        torch.tensor([0x7F800001], dtype=torch.int32).view(torch.float32),
        torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32),
    ),
    "other dtype": (torch.arange(9.0), torch.arange(9.0, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", sorted(CONTROLS))
def test_control_torch_hash_tensor_misses_what_the_fingerprint_sees(name: str) -> None:
    before, after = CONTROLS[name]

    assert torch.hash_tensor(before).item() == torch.hash_tensor(after).item()
    assert fingerprint(before) != fingerprint(after)


def test_control_sums_of_words_miss_what_the_fingerprint_sees() -> None:
    # given sums over rows and over columns of 64-bit words
    def of_words(tensor: torch.Tensor) -> list[list[int]]:
        words = tensor.view(torch.int64)
        return [words.sum(0).tolist(), words.sum(1).tolist()]

    # when a whole tensor is negated, then its top bits cancel in them
    tensor = floats(8, 0, (64, 64), torch.float64)
    assert of_words(-tensor) == of_words(tensor)
    assert fingerprint(-tensor) != fingerprint(tensor)
