"""The arms that a probe can be asked for. Needs nothing, so that anyone may look."""

from __future__ import annotations

ARMS = ("data", "kernels")
