"""What it means that the engine refuses something of which nothing can be missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from docker.errors import APIError

from bitsect.images.errors import InfrastructureError
from bitsect.images.runtime.docker.engine import engine_faults


@contextmanager
def every_fault(what: str) -> Iterator[None]:
    """As `engine_faults`, for what is there and free unless somebody else has interfered.

    :param what: was being done.
    """
    try:
        with engine_faults(what):
            yield
    except APIError as error:
        raise InfrastructureError("refused", f"{what}: {error.explanation}") from error
