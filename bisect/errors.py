"""Errors of the search: what its ends, its evidence or its memory make impossible."""

from __future__ import annotations

from bitsect.probes.errors import BitsectError


class InvalidEvidence(BitsectError):
    """Two traces, or a trace, that no conclusion may be drawn from.

    :param what: ``probe``, ``arguments``, ``device``, ``same-run``, ``controls``,
        ``fingerprint`` or ``empty``.
    :param first: what the first trace says, or the events concerned.
    :param second: what the second trace says.
    """

    def __init__(self, what: str, first: str = "", second: str = "") -> None:
        super().__init__(what, first, second)
        self.what = what
        self.first = first
        self.second = second


class UnusableEnds(BitsectError):
    """The two references cannot be the ends of one search.

    :param reason: ``same`` (one stack), ``image`` (one image), ``twice`` (an image comes twice
        in a chain), ``builds`` (the same versions in other builds), ``sides`` (not one good and
        one bad) or ``kind`` (a reference to what cannot be mixed, or two kinds of stacks).
    :param references: what was given, the good end first where there is one.
    """

    def __init__(self, reason: str, *references: str) -> None:
        super().__init__(reason, *references)
        self.reason = reason
        self.references = references


class EndFailed(BitsectError):
    """The probe did not run to its end at one of the two ends.

    :param side: ``good`` or ``bad``.
    :param reference: that end, as given.
    :param verdict: how it failed.
    :param reason: the last lines, or the tool's reason.
    """

    def __init__(self, side: str, reference: str, verdict: str, reason: str) -> None:
        super().__init__(side, reference, verdict, reason)
        self.side = side
        self.reference = reference
        self.verdict = verdict
        self.reason = reason


class NondeterministicEnd(BitsectError):
    """An end does not repeat itself, so a difference from it means nothing.

    :param side: ``good`` or ``bad``.
    :param reference: that end, as given.
    :param events: the events that differ between its own repetitions, in trace order.
    """

    def __init__(self, side: str, reference: str, events: tuple[str, ...]) -> None:
        super().__init__(side, reference, events)
        self.side = side
        self.reference = reference
        self.events = events


class NothingToBisect(BitsectError):
    """The two ends agree on every event.

    :param compared: how many events were compared.
    """

    def __init__(self, compared: int) -> None:
        super().__init__(compared)
        self.compared = compared


class StoreError(BitsectError):
    """The store of observations cannot be used.

    :param path: the file or folder concerned.
    :param reason: ``newer`` (written by a newer version), ``foreign`` (not a store),
        ``damaged`` (content that does not fit its digest) or what the system said.
    :param found: the schema number, or digest, that was found.
    :param known: the newest schema number that this version reads.
    """

    def __init__(self, path: str, reason: str, found: str = "", known: str = "") -> None:
        super().__init__(path, reason, found, known)
        self.path = path
        self.reason = reason
        self.found = found
        self.known = known


class SessionBusy(BitsectError):
    """Another process is running this very session.

    :param session: its number.
    :param process: the other process's id, where known.
    """

    def __init__(self, session: int, process: int | None) -> None:
        super().__init__(session, process)
        self.session = session
        self.process = process


class NoSession(BitsectError):
    """There is no such session.

    :param wanted: the number asked for, or None for the latest of an empty store.
    :param known: the numbers that exist.
    """

    def __init__(self, wanted: int | None, known: tuple[int, ...]) -> None:
        super().__init__(wanted, known)
        self.wanted = wanted
        self.known = known


class NoRun(BitsectError):
    """A session has no such run.

    :param session: its number.
    :param wanted: number of the run that was asked for.
    :param runs: how many it has.
    """

    def __init__(self, session: int, wanted: int, runs: int) -> None:
        super().__init__(session, wanted, runs)
        self.session = session
        self.wanted = wanted
        self.runs = runs


class NoManifest(BitsectError):
    """A run has no manifest, because its stack was never made.

    :param session: its number.
    :param run: the run's.
    """

    def __init__(self, session: int, run: int) -> None:
        super().__init__(session, run)
        self.session = session
        self.run = run


class NotMadeOfParts(BitsectError):
    """An end has other bits when it is put together from its components.

    Something about it that no component accounts for changes bits, so no search among
    components could be believed.

    :param side: ``good`` or ``bad``.
    :param reference: that end, as given.
    :param events: the events that differ, in trace order.
    """

    def __init__(self, side: str, reference: str, events: tuple[str, ...]) -> None:
        super().__init__(side, reference, events)
        self.side = side
        self.reference = reference
        self.events = events
