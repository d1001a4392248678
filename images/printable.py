"""Text that a stack gave, made fit to be shown."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with everything escaped that a terminal would act on; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(map(_safe, text))


def in_one_line(text: str) -> str:
    """As `printable`, with ends of lines escaped too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _safe(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return character.encode("unicode_escape").decode("ascii")
