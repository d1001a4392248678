"""The fingerprint's definition in plain Python, and everything that must follow it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bitsect.probes.errors import SelfCheckError
from bitsect.probes.exact import integers
from bitsect.probes.fingerprint import fingerprint, self_check, sums
from bitsect.probes.fingerprint_lanes import LEVELS, CopiedLanes, finish, fold, mix
from bitsect.probes.fingerprint_words import BufferSource, TensorSource

FACTORS = (
    (0x747169F5, 0xAB09E005, 0x8E91DAAB, 0xDB72317B, 0x3CA3D0D5, 0x36590115),
    (0x966ECF75, 0xA369CD3B, 0x0A154FAB, 0xBD39F94B, 0x9E85ED7B, 0x349B967B),
    (0x0A251F7B, 0xA6CD836B, 0x73448535, 0x160A1585, 0x82D1526B, 0xE58CDD7B),
)
STANDARD_LEVELS = (1048576, 65536, 4096)
M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def cut(data: bytes, size: int) -> list[int]:
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def joined(words: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def reference_fold(words: Sequence[int], lanes: int, factors: Sequence[int]) -> Sequence[int]:
    state = bytearray(4 * lanes + 8)
    for index, start in enumerate(range(0, len(words), lanes)):
        if index % 2 == 0 and index > 0:
            turn = (index // 2 - 1) % 2
            form, at, factor = f"<{lanes + 1}I", (1, 3)[turn], factors[4 + turn]
            products = [old * factor & M32 for old in struct.unpack_from(form, state, at)]
            struct.pack_into(form, state, at, *products)
        row = words[start : start + lanes]
        form, at, factor = f"<{len(row)}I", (0, 2)[index % 2], factors[index % 4]
        sums = zip(struct.unpack_from(form, state, at), row, strict=True)
        struct.pack_into(form, state, at, *[(old + new * factor) & M32 for old, new in sums])
    return struct.unpack(f"<{lanes + 2}I", state)


def scatter(word: int) -> int:
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & M64
    word = (word ^ word >> 27) * 0x94D049BB133111EB & M64
    return word ^ word >> 31


def reference_digest(data: bytes, levels: Sequence[int] = STANDARD_LEVELS) -> str:
    words: Sequence[int] = cut(data + bytes(-len(data) % 8), 4)
    for lanes, factors in zip(levels, FACTORS, strict=False):
        if len(words) > 4 * lanes:
            words = reference_fold(words, lanes, factors)
    first = second = 0
    for place, word in enumerate(cut(joined(words), 8), start=1):
        scattered = scatter((word + place * 0x9E3779B97F4A7C15) & M64)
        first += scattered
        again = scattered * 0xD6E8FEB86659FD93 & M64
        second += again ^ again >> 32
    first = scatter((first + (len(data) + 1) * 0x9E3779B97F4A7C15) & M64)
    return f"{first:016x}{scatter((second + first) & M64):016x}"


def bytes_tensor(data: bytes) -> torch.Tensor:
    return torch.tensor(list(data), dtype=torch.uint8)


def some_bytes(count: int, stream: int = 0) -> bytes:
    return bytes(integers(0, stream, (count,), 8).tolist())


def digest(data: bytes, levels: Sequence[int]) -> str:
    first, second = sums(TensorSource(bytes_tensor(data)), levels).tolist()
    return finish(first, second, len(data))


def copied_digest(data: bytes, levels: Sequence[int]) -> str:
    first, second = sums(TensorSource(bytes_tensor(data)), levels, CopiedLanes).tolist()
    return finish(first, second, len(data))


KNOWN_ANSWERS = {
    # number of bytes 0, 1, 2, … modulo 251: digest
    0: "e220a8397b1dcdaf48218226ff3cd4bf",
    1: "b382a305f4414f5ecd2b7cc8b5a782f0",
    7: "c57dce29cfa0436a273e4482e794d23a",
    8: "fb7a519cfea2eee6388044bd5f4d985f",
    9: "75c51bffe523ff3c69b4787ffff91785",
    1000: "b835ca177878bc1055df09260ea72a6b",
    65536: "bafe8c83abf35271791ca77d3d06a005",
    65537: "1e9e50af0763f158d2d2c9eb430b9413",
    1048576: "9d941debcb643da67c44fee50ce74c9d",
    1050001: "20965282b89d747202f9438b9c4e3df7",
}


def counting_bytes(count: int) -> bytes:
    return bytes(index % 251 for index in range(count))


@pytest.mark.parametrize(("count", "expected"), KNOWN_ANSWERS.items())
def test_known_answers_stand(count: int, expected: str) -> None:
    data = counting_bytes(count)

    assert reference_digest(data) == expected
    assert fingerprint(bytes_tensor(data)) == f"uint8[{count}]:{expected}"


def test_a_tensor_that_needs_all_levels_follows_the_definition() -> None:
    data = integers(0, "large", ((2 << 20) + 300,), 63)

    expected = reference_digest(joined(data.view(torch.uint32).tolist()))

    assert LEVELS == STANDARD_LEVELS
    assert data.numel() * 2 > 4 * STANDARD_LEVELS[0]
    assert fingerprint(data) == f"int64[{data.numel()}]:{expected}"


LANE_COUNTS = st.sampled_from([(), (2,), (4, 2), (8, 4, 2), (6, 2), (16, 8, 4)])


@settings(deadline=None, max_examples=150)
@given(data=st.binary(max_size=600), levels=LANE_COUNTS)
def test_both_kinds_of_lanes_follow_the_definition(data: bytes, levels: tuple[int, ...]) -> None:
    expected = reference_digest(data, levels)

    assert digest(data, levels) == expected
    assert copied_digest(data, levels) == expected


@pytest.mark.parametrize("levels", [(2,), (4, 2), (8, 4, 2)])
def test_every_size_around_the_borders_of_rows_follows_the_definition(
    levels: tuple[int, ...],
) -> None:
    for count in range(8 * levels[0] * 4):
        data = some_bytes(count)
        expected = reference_digest(data, levels)
        assert digest(data, levels) == expected, count
        assert copied_digest(data, levels) == expected, count


@settings(deadline=None, max_examples=60)
@given(data=st.binary(min_size=1, max_size=400), levels=LANE_COUNTS)
def test_memory_of_this_process_gives_the_same_whether_it_may_be_written_or_not(
    data: bytes, levels: tuple[int, ...]
) -> None:
    expected = reference_digest(data, levels)

    for raw in (memoryview(data), memoryview(bytearray(data))):
        first, second = sums(BufferSource(raw), levels).tolist()
        assert finish(first, second, len(data)) == expected


def test_the_self_check_passes_here() -> None:
    self_check()


@pytest.mark.parametrize("broken", range(3))
def test_the_self_check_notices_an_operation_that_computes_wrongly(
    broken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a stack in which an addition, a shift or a row comes out wrong somewhere
    module = "bitsect.probes.fingerprint."
    faults = (
        lambda: monkeypatch.setattr(module + "mix", lambda words: mix(words | 1)),
        lambda: monkeypatch.setattr(module + "mix", lambda words: mix(words).abs()),
        lambda: monkeypatch.setattr(module + "fold", lambda *given: fold(*given).abs()),
    )
    faults[broken]()

    # when it is checked, then the case and both answers are named
    with pytest.raises(SelfCheckError) as caught:
        self_check()
    assert caught.value.device == "cpu"
    assert caught.value.case in ("mixed", "folded", "gathered")
    assert caught.value.expected != caught.value.actual
