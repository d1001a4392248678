"""What the store remembers: sessions, runs and what each run gave."""

from __future__ import annotations

import msgspec

from bitsect.bisect.engine.model import Axis, Vector
from bitsect.bisect.verdicts import Verdict


class EndRecord(msgspec.Struct, frozen=True):
    """One end of a session.

    :param reference: as the user gave it.
    :param components: ``kind:name`` to point, complete.
    :param lock: digest of what gets installed, or of the image's config.
    """

    reference: str
    components: dict[str, str]
    lock: str


class Milestone(msgspec.Struct, frozen=True):
    """A whole stack between the ends.

    :param reference: as the user gave it.
    :param points: its point on every axis.
    :param lock: as for an end.
    """

    reference: str
    points: dict[str, str]
    lock: str


class SessionSpec(msgspec.Struct, frozen=True):
    """The question of a session. Equal questions have equal identities.

    :param probe: digest of the probe's sources.
    :param arguments: the probe's arguments.
    :param interpreter: path and version of the Python that both ends run with.
    :param circumstances: digest of what the stacks share: hardware, controls, the system.
    :param options: choices that decide which points there are.
    :param left_out: per component, releases that are no points and why.
    :param milestones: whole stacks between the ends, in order.
    :param blocks: components that are not expected to run when they are mixed.
    :param noise: differences between the ends that are not searched, and why each cannot
        change a bit.
    :param salt: of a session that uses nothing observed earlier; no part of the question.
    """

    good: EndRecord
    bad: EndRecord
    axes: tuple[Axis, ...]
    probe: str
    arguments: tuple[str, ...]
    interpreter: str
    circumstances: str
    options: dict[str, bool]
    left_out: dict[str, dict[str, int]] = {}
    milestones: tuple[Milestone, ...] = ()
    blocks: tuple[tuple[str, ...], ...] = ()
    noise: tuple[tuple[str, str], ...] = ()
    salt: str = ""


class Observation(msgspec.Struct, frozen=True):
    """What one repetition of one trial gave. Never changed once written.

    :param failure: None if the probe ran to its end.
    :param reason: the tool's or the probe's last lines, for a failure.
    :param trace: blob of the trace, for a success.
    :param manifest: blob of the manifest that was really there, where one could be taken.
    :param reason: for a success, what the resolver had to add.
    :param milliseconds: time by part: ``environment``, ``inventory``, ``probe``.
    """

    number: int
    failure: Verdict | None
    reason: str
    trace: str | None
    manifest: str | None
    log: str | None
    touched: tuple[str, ...]
    milliseconds: dict[str, int]
    ended: str


class LedgerEntry(msgspec.Struct, frozen=True):
    """One line of a session's ledger: which trial an observation answered, and from where.

    :param source: ``run``, ``cache`` (observed earlier) or ``resolver`` (there is nothing to run).
    """

    sequence: int
    vector: Vector
    repetition: int
    source: str
    observation: Observation


class Event(msgspec.Struct, frozen=True):
    """Something that happened to a session."""

    at: str
    kind: str
    detail: str


class SessionRecord(msgspec.Struct, frozen=True):
    """A session as the store knows it."""

    number: int
    identity: str
    created: str
    spec: SessionSpec
    events: tuple[Event, ...]

    @property
    def finished(self) -> bool:
        """Whether the last thing that happened to it was its end."""
        return bool(self.events) and self.events[-1].kind == "finished"
