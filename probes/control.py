"""Which controls of two traces were not caught. Reads traces only: needs no torch."""

from __future__ import annotations

from bitsect.probes.trace_records import EventKey, Trace

PHASE = "control"
CAUGHT = "caught"
MISSED = "missed"

# Computed differently by every process, on purpose: two traces must differ in these.
NONDETERMINISTIC = ("arrival_order",)

# Damage done in the process and shown to the fingerprint: every one must be noticed.
DETECTORS = (
    "permuting_writer",
    "swapped_pair",
    "last_bit",
    "negated_zero",
    "nan_payload",
    "cancelling_pair",
    "moved_zero",
    "other_dtype",
    "other_shape",
    "transposed",
    "missing_element",
    "host.swapped_pair",
    "host.last_bit",
    "certificate.last_bit",
)

# Where nothing was done to the bits, nothing may be reported: an alarm that always rings is none.
AGREEMENTS = ("copy_agrees", "strided_agrees", "host_agrees", "certificate_agrees")


def key_of(kind: str, name: str) -> EventKey:
    """The key of a control's event; ``kind`` is ``nondeterministic`` or ``detector``."""
    return EventKey(0, 0, PHASE, f"control.{kind}", name, 0)


def controls_caught(first: Trace, second: Trace) -> list[str]:
    """Name the controls that these two traces of different processes do not show as caught.

    An empty list is well. A trace compared with itself, or with a copy of itself, does not show
    that differences are seen: its nondeterministic controls are listed.
    """
    missed = [name for name in NONDETERMINISTIC if not _differ(first, second, name)]
    for name in DETECTORS + AGREEMENTS:
        key = key_of("detector", name)
        events = [trace.by_key.get(key) for trace in (first, second)]
        if any(event is None or event.note != CAUGHT for event in events):
            missed.append(name)
    return missed


def _differ(first: Trace, second: Trace, name: str) -> bool:
    key = key_of("nondeterministic", name)
    one, other = first.by_key.get(key), second.by_key.get(key)
    if one is None or other is None or first.header.run == second.header.run:
        return False
    # Equal inputs, so that what differs is what was done with them.
    return bool(one.outputs) and one.inputs == other.inputs and one.outputs != other.outputs
