"""The kernels arm: what it records, that it sees a change, and that its blocks are right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from bitsect.probes import exact
from bitsect.probes.arms import kernel_blocks, kernel_products, kernels
from bitsect.probes.arms.kernel_cases import Case, Draw
from bitsect.probes.arms.recording import Recorder
from bitsect.probes.errors import HostError
from bitsect.probes.fingerprint import fingerprint
from bitsect.probes.trace_records import Event

# What training of a hybrid mixture-of-experts model is made of.
REQUIRED = {
    "mm.nn", "mm.nt", "mm.tn", "addmm", "bmm", "grouped_mm", "_int_mm", "_scaled_mm.tensor",
    "_scaled_mm.row", "linear", "causal_conv1d", "ssd_chunk_scan", "rms_norm", "rms_norm.gated",
    "layer_norm", "softmax", "log_softmax", "logsumexp", "gqa.math", "gqa.flash_attention",
    "router.probabilities", "router.choice", "router.auxiliary_loss", "permute", "unpermute",
    "experts", "squared_relu", "silu", "gelu", "softplus", "cross_entropy", "embedding",
    "scatter_add", "index_add", "index_put.accumulate", "gather", "cumsum", "sort", "topk", "sum",
    "mean.axis0", "var", "linalg.vector_norm", "exp", "log", "sin", "to.bfloat16", "to.float16",
    "to.float8_e4m3fn", "clip_grad_norm.foreach", "adamw.single", "adamw.foreach", "adamw.fused",
    "multinomial", "dropout", "randn",
}  # fmt: skip


class Kept:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event) -> None:
        self.events.append(event)


def events_of(seed: int = 0, certify: bool = False) -> list[Event]:
    kept = Kept()
    kernels.run(Recorder(kept, certify), seed, "cpu")
    return kept.events


def record_one(run: Any, *inputs: torch.Tensor, gradient: bool = False) -> list[Event]:
    kept = Kept()
    recorder = Recorder(kept, False)
    case = Case("group", "float32", "operation", inputs, run, gradient)
    kernels.CaseRunner(recorder, Draw(0, "cpu")).run(case)
    recorder.flush()
    return kept.events


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return events_of(certify=True)


def test_every_required_operation_is_recorded(events: list[Event]) -> None:
    assert {event.key.operation for event in events} >= REQUIRED
    keys = [event.key for event in events]
    assert len(set(keys)) == len(keys)
    assert {key.phase for key in keys} == {"forward", "backward"}


def test_on_this_stack_everything_can_be_computed(events: list[Event]) -> None:
    for event in events:
        assert event.note is None, event
        assert event.inputs
        assert event.outputs
        assert len(event.certificates) == len(event.outputs)


def test_a_backward_event_stands_beside_its_forward_event(events: list[Event]) -> None:
    forward = {event.key for event in events if event.key.phase == "forward"}
    backward = [event.key for event in events if event.key.phase == "backward"]
    assert len(backward) > 200
    assert all(key._replace(phase="forward") in forward for key in backward)
    by_key = {event.key: event for event in events}
    for key in backward:
        before = by_key[key._replace(phase="forward")]
        # The same inputs, and then the gradients that came from above.
        assert by_key[key].inputs[: len(before.inputs)] == before.inputs
        assert len(by_key[key].inputs) > len(before.inputs)


def test_a_second_run_gives_the_same_and_another_seed_does_not(events: list[Event]) -> None:
    again = {event.key: event.digest for event in events_of()}
    assert {event.key: event.digest for event in events} == again
    other = {event.key: event.digest for event in events_of(seed=1)}
    assert other.keys() == again.keys()
    same = [key for key in again if again[key] == other[key]]
    assert len(same) < len(again) / 20


def test_no_case_changes_its_inputs() -> None:
    draw = Draw(0, "cpu")
    with kernels.training_settings("cpu"):
        for case in kernels.cases(draw):
            before = [fingerprint(tensor) for tensor in case.inputs]
            case.run(*case.inputs)
            assert [fingerprint(tensor) for tensor in case.inputs] == before, case.operation


def test_settings_generators_and_threads_are_as_before() -> None:
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    threads = torch.get_num_threads()
    events_of()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_arm_runs_with_deterministic_algorithms_and_puts_a_users_choice_back() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with kernels.training_settings("cpu"):
            assert torch.are_deterministic_algorithms_enabled()
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_one_function_that_is_off_by_one_bit_is_seen(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = functional.gelu

    def shifted(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
        return genuine(x, approximate=approximate) * (1 + 2.0**-7)

    monkeypatch.setattr(functional, "gelu", shifted)
    after = {event.key: event.digest for event in events_of()}
    changed = {event.key.operation for event in events if after[event.key] != event.digest}
    assert changed == {"gelu", "gelu.tanh"}


def test_an_operation_that_this_torch_lacks_is_a_value(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(torch, "mv")
    after = {event.key: event for event in events_of()}
    assert after.keys() == {event.key for event in events}
    notes = {(key.operation, key.phase): event.note for key, event in after.items() if event.note}
    assert notes == {
        ("mv", "forward"): "raised AttributeError",
        ("mv", "backward"): "no forward result",
    }


def test_an_error_on_the_way_back_is_a_value_of_the_way_back() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        doubled = x * 2
        doubled.register_hook(_refuse)  # type: ignore[no-untyped-call]
        return doubled

    forward, backward = record_one(run, torch.ones(3), gradient=True)
    assert forward.note is None
    assert backward.note == "raised ArithmeticError"


def _refuse(_: torch.Tensor) -> torch.Tensor:
    raise ArithmeticError


def test_too_little_memory_is_no_answer_of_the_stack() -> None:
    def exhausted(_: torch.Tensor) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError

    def greedy(_: torch.Tensor) -> torch.Tensor:
        return torch.empty(1 << 58, dtype=torch.int8)

    for run in (exhausted, greedy):
        with pytest.raises(HostError):
            record_one(run, torch.ones(1))


def test_whole_numbers_go_through_a_differentiated_case_without_a_gradient() -> None:
    table, index = torch.ones(3, 2), torch.tensor([0, 2])
    forward, backward = record_one(
        lambda t, i: functional.embedding(i, t), table, index, gradient=True
    )
    assert len(forward.inputs) == 2
    assert len(backward.outputs) == 1


def test_given_gradients_arrive_as_they_were_given() -> None:
    x = exact.floats(0, "x", (5, 7)).requires_grad_()
    given = exact.floats(0, "g", (5, 7))
    end = kernels.GivenGradients.apply([given], torch.tanh(x))  # type: ignore[no-untyped-call]
    (ours,) = torch.autograd.grad(end, [x])
    (expected,) = torch.autograd.grad(torch.tanh(x), [x], [given])
    assert torch.equal(ours, expected)


def test_the_chunk_scan_is_the_recurrence_that_it_stands_for() -> None:
    batch, length, heads, size, groups, state = 2, 96, 4, 3, 2, 5
    x, b, c = (
        exact.floats(1, name, shape, torch.float32)
        for name, shape in (
            ("x", (batch, length, heads, size)),
            ("b", (batch, length, groups, state)),
            ("c", (batch, length, groups, state)),
        )
    )
    dt, a_log = exact.floats(1, "dt", (batch, length, heads)), exact.floats(1, "a", (heads,))
    d = exact.floats(1, "d", (heads,))

    memory = torch.zeros(batch, heads, size, state, dtype=torch.float64)
    step = functional.softplus(dt.double())
    steps = []
    for t in range(length):
        decay = torch.exp(step[:, t] * -torch.exp(a_log.double()))[:, :, None, None]
        key, query = (u[:, t].double().repeat_interleave(heads // groups, dim=1) for u in (b, c))
        value = x[:, t].double() * step[:, t, :, None]
        memory = memory * decay + value[..., None] * key[:, :, None]
        steps.append((memory * query[:, :, None]).sum(-1) + x[:, t].double() * d.double()[:, None])
    expected = torch.stack(steps, dim=1)

    scanned = kernel_blocks.chunk_scan(x, dt, a_log, b, c, d)
    torch.testing.assert_close(scanned.double(), expected, rtol=1e-4, atol=1e-4)


def test_plain_and_backend_attention_agree_up_to_rounding() -> None:
    query = exact.floats(2, "q", (1, 4, 16, 64))
    key, value = exact.floats(2, "k", (1, 2, 16, 64)), exact.floats(2, "v", (1, 2, 16, 64))
    plain = kernel_products._plain_attention(query, key, value)
    for backend in kernel_products.BACKENDS["cpu"]:
        found = kernel_products._attention_by(backend)(query, key, value)
        torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-5)


def test_tokens_come_back_from_the_experts_that_they_were_sent_to() -> None:
    tokens = exact.floats(3, "t", (kernel_blocks.TOKENS, 8))
    count = kernel_blocks.TOKENS * kernel_blocks.CHOSEN
    routes = exact.below(3, "r", (count,), kernel_blocks.EXPERTS)
    shares = exact.floats(3, "s", (count,)).abs()
    up = exact.floats(3, "u", (kernel_blocks.EXPERTS, 8, 4))
    down = exact.floats(3, "d", (kernel_blocks.EXPERTS, 4, 8))

    expected = torch.zeros_like(tokens)
    for place, expert in enumerate(routes.tolist()):
        token = place // kernel_blocks.CHOSEN
        hidden = functional.relu(tokens[token] @ up[expert]).square()
        expected[token] += (hidden @ down[expert]) * shares[place]

    found = kernel_blocks._experts(tokens, routes, shares, up, down)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["single", "foreach", "fused"])
def test_the_optimiser_functions_are_what_the_optimiser_classes_do(kind: str) -> None:
    parameters = (exact.floats(4, "p", (5, 3)), exact.floats(4, "q", (7,)))
    gradients = (exact.floats(4, "g", (5, 3)), exact.floats(4, "h", (7,)))
    owned = [parameter.clone().requires_grad_() for parameter in parameters]
    for parameter, gradient in zip(owned, gradients, strict=True):
        parameter.grad = gradient.clone()
    optimiser = torch.optim.AdamW(
        owned, 2.0**-10, (0.9, 0.95), eps=2.0**-27, weight_decay=0.1,
        foreach=kind == "foreach", fused=kind == "fused",
    )  # fmt: skip
    optimiser.step()
    optimiser.step()

    found = kernel_blocks._adamw(kind)(*parameters, *gradients)
    for ours, theirs in zip(found[:2], owned, strict=True):
        assert torch.equal(ours, theirs.detach())
