"""What a search is asked."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bitsect.bisect.records import SessionSpec
from bitsect.images.canonical import digest
from bitsect.images.runtime.protocol import Stack

#: The point of a component that is not there.
NOTHING = "absent"
#: The only component of ends that differ in no other: whatever of them is none.
REST = "image:rest"


@dataclass(frozen=True)
class Question:
    """Two stacks, and the axes between them, ready to be searched."""

    good: Stack
    bad: Stack
    spec: SessionSpec

    @property
    def identity(self) -> str:
        """Equal for two questions whose answers are interchangeable.

        The order in which components are suspected is not part of it: it changes what the
        answer costs, never the answer.
        """
        spec = msgspec.to_builtins(self.spec)
        for told_only in ("salt", "noise"):
            del spec[told_only]
        spec["axes"] = sorted(spec["axes"], key=lambda axis: str(axis["component"]))
        spec["blocks"] = sorted(sorted(block) for block in spec["blocks"])
        for stack in (spec["good"], spec["bad"], *spec["milestones"]):
            del stack["reference"]
        return digest("session", spec)
