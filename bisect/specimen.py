"""What is handed to a laboratory, and what a laboratory does with it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bitsect.bisect.records import Observation
from bitsect.bisect.verdicts import Verdict
from bitsect.images.runtime.protocol import Stack


class Specimen(msgspec.Struct, frozen=True):
    """What to run: a stack, which repetition of it, and the words for it.

    :param checked: distributions of which every byte is compared with what was installed.
    """

    stack: Stack
    repetition: int
    label: str
    checked: tuple[str, ...] = ()


class TrialRunner(Protocol):
    """Whatever runs specimens and writes down what they give.

    ``salt`` sets the runs of one session apart from all others; empty for none.
    """

    salt: str

    def run(self, specimen: Specimen) -> tuple[Observation, str]:
        """Run a specimen; its observation, and where that came from."""
        ...

    def failed(self, specimen: Specimen, verdict: Verdict, reason: str) -> Observation:
        """Write down that there was nothing to run."""
        ...

    def stop(self) -> None:
        """End every running trial."""
        ...
