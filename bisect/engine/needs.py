"""How the search for a class says that it can go no further on what was observed."""

from __future__ import annotations

from bitsect.bisect.engine.model import Bracket, MilestoneBracket, Vector


class NeedsPoint(Exception):
    """The search needs some point inside a bracket."""

    def __init__(self, bracket: Bracket | MilestoneBracket) -> None:
        super().__init__()
        self.bracket = bracket


class NeedsVector(Exception):
    """The search needs one particular vector.

    :param suspects: components among which the culprits are.
    """

    def __init__(self, vector: Vector, suspects: tuple[str, ...]) -> None:
        super().__init__()
        self.vector = vector
        self.suspects = suspects
