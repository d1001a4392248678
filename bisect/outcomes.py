"""From what the store remembers to what the engine is told."""

from __future__ import annotations

from bitsect.bisect.compare import digests, require_comparable, require_consistent
from bitsect.bisect.engine.model import Outcome
from bitsect.bisect.errors import InvalidEvidence, StoreError
from bitsect.bisect.records import Observation
from bitsect.bisect.store import Store
from bitsect.bisect.verdicts import Verdict
from bitsect.images.manifest import from_canonical
from bitsect.probes.errors import TraceError
from bitsect.probes.trace import Trace, read_trace


class OutcomeReader:
    """Reads observations in the order of a session's ledger.

    The first trace, which is that of an end, says what the others are compared with. A trace
    that answers another question, or in which a control was not caught, is no evidence: its
    trial has failed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reference: Trace | None = None
        self._runs: dict[str, int] = {}

    def outcome(self, observation: Observation, *, at_an_end: bool = False) -> Outcome:
        """What an observation tells the engine.

        :param at_an_end: invalid evidence is no trial's failure but the end of the search.
        :raises StoreError: the trace is not what was kept.
        :raises InvalidEvidence: at an end, or if bytes contradict fingerprints anywhere.
        """
        if observation.failure is not None:
            return Outcome(failure=observation.failure, reason=observation.reason)
        trace = self._own_trace(observation)
        if self._reference is None:
            self._reference = trace
        elif trace is not self._reference:
            require_consistent(self._reference, trace)
            try:
                require_comparable(self._reference, trace)
            except InvalidEvidence as error:
                if at_an_end:
                    raise
                reason = f"its evidence is invalid ({error.what}: {error.first} {error.second})"
                return Outcome(failure=Verdict.CRASH, reason=reason)
        return Outcome(digests(trace))

    def _own_trace(self, observation: Observation) -> Trace:
        """The observation's trace, if it is its own.

        :raises StoreError: there is none, or it tells of another stack or of another's run.
        """
        if observation.trace is None:
            raise StoreError(str(self._store.path), "damaged", "no trace", str(observation.number))
        trace = stored_trace(self._store, observation.trace)
        owner = self._runs.setdefault(trace.header.run, observation.number)
        manifest = observation.manifest
        if manifest is not None:
            said = from_canonical(self._store.blobs.get(manifest)).static_root
            if trace.header.manifest != said:
                owner = -1
        if owner != observation.number:
            path = self._store.blobs.path(observation.trace)
            raise StoreError(str(path), "damaged", "another run's trace", observation.trace)
        return trace


def stored_trace(store: Store, blob: str) -> Trace:
    """The trace of a blob.

    :raises StoreError: it is not what was kept.
    """
    store.blobs.get(blob)
    path = store.blobs.path(blob)
    try:
        return read_trace(path)
    except TraceError as error:
        raise StoreError(str(path), "damaged", error.reason, blob) from error
