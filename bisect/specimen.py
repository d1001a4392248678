"""What is handed to a laboratory."""

from __future__ import annotations

import msgspec

from bitsect.images.runtime.protocol import Stack


class Specimen(msgspec.Struct, frozen=True):
    """What to run: a stack, which repetition of it, and the words for it.

    :param checked: distributions of which every byte is compared with what was installed.
    """

    stack: Stack
    repetition: int
    label: str
    checked: tuple[str, ...] = ()
