"""What a search tells whoever watches it."""

from __future__ import annotations

from bitsect.bisect.engine.engine import Engine
from bitsect.bisect.engine.model import Trial
from bitsect.bisect.records import LedgerEntry, SessionRecord


class Reporter:
    """Hooks without effect; override what is of interest.

    All are called from the thread that runs the search, except ``trial_phase``, which any
    worker thread may call.
    """

    def stage(self, what: str) -> None:
        """Called when something begins that takes a while, in words."""

    def notice(self, what: str) -> None:
        """Called with something that is worth knowing and stays true, in words."""

    def session_opened(self, session: SessionRecord, kept: int) -> None:
        """Called once the ends are known to differ; ``kept`` observations were there already."""

    def trial_started(self, trial: Trial, label: str) -> None:
        """Called before a trial is handed to a worker. The label says what is different."""

    def trial_phase(self, label: str, phase: str) -> None:
        """Called when a trial comes to its next part."""

    def trial_ended(self, trial: Trial, label: str, entry: LedgerEntry, engine: Engine) -> None:
        """Called when an observation is in the store and the engine has taken it in."""
