"""How a user names a stack: ``[good:|bad:]REF``.

Reading a reference starts nothing. It is refused here if it is malformed or names a file that
is not there; whether versions and images exist, the resolver and the runtimes find out.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Literal

import msgspec
from packaging.pylock import is_valid_pylock_path
from packaging.requirements import InvalidRequirement, Requirement

from bitsect.images.errors import BadReference

Side = Literal["good", "bad"]
Kind = Literal["venv", "host", "manifest", "image"]

FORMS = (
    "venv:FILE (requirements.txt or pylock.toml)",
    "venv:torch==2.13.0,numpy==1.26.4",
    "host:",
    "manifest:FILE",
    "NAME[:TAG]",
    "NAME@DIGEST",
)
SCHEMES = ("venv", "host", "manifest")
FILE_SUFFIXES = (".txt", ".in", ".toml")

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
IMAGE = re.compile(
    rf"{_HOST}{_COMPONENT}(?:/{_COMPONENT})*(?::{_TAG})?(?:@(?:sha256:[0-9a-f]{{1,64}}|{_TAG}))?"
)


class Reference(msgspec.Struct, frozen=True):
    """A reference that has been read.

    ``text`` is what the user wrote, without the side. ``requirements`` (PEP 508, normalised)
    or ``file`` are set for ``venv``, ``file`` alone for ``manifest``, neither for the others.
    """

    side: Side | None
    kind: Kind
    text: str
    requirements: tuple[str, ...] = ()
    file: Path | None = None


def parse_reference(text: str) -> Reference:
    """Reads one reference; raises BadReference for anything that is none."""
    if not text.strip():
        raise BadReference(text, "it is empty", FORMS)
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise BadReference(text, "it contains a control character", FORMS)
    side, rest = _split_side(text.strip())
    if not rest:
        raise BadReference(text, "nothing follows the side", FORMS)
    scheme, colon, value = rest.partition(":")
    if colon and scheme == "venv":
        return _venv(side, rest, value.strip())
    if colon and scheme == "host":
        if value:
            raise BadReference(rest, "nothing may follow host:", ("host:",))
        return Reference(side, "host", rest)
    if colon and scheme == "manifest":
        return Reference(side, "manifest", rest, file=_existing_file(rest, value.strip()))
    return _image(side, rest)


def split_requirements(text: str) -> tuple[str, ...]:
    """Splits ``numpy>=1.20,<2,torch==2.13.0`` into its requirements, normalised.

    Commas also separate the specifiers and the extras of one requirement. Raises BadReference
    for a part that is no requirement.
    """
    parts: list[str] = []
    for part in _split_outside_brackets(text):
        if parts and re.match(r"\s*(?:[<>=!~])", part):
            parts[-1] += "," + part
        else:
            parts.append(part)
    return tuple(_requirement(text, part) for part in parts)


def _split_side(text: str) -> tuple[Side | None, str]:
    head, colon, rest = text.partition(":")
    if not colon or head not in ("good", "bad"):
        return None, text
    if rest.startswith(("good:", "bad:")):
        raise BadReference(text, "it has two sides", FORMS)
    return ("good" if head == "good" else "bad"), rest.strip()


def _venv(side: Side | None, text: str, value: str) -> Reference:
    if not value:
        raise BadReference(text, "neither a file nor a requirement follows venv:", FORMS[:2])
    if not _looks_like_file(value):
        return Reference(side, "venv", text, requirements=split_requirements(value))
    file = _existing_file(text, value)
    if file.suffix == ".toml" and not is_valid_pylock_path(file):
        raise BadReference(text, "a lock file is named pylock.toml or pylock.NAME.toml", FORMS[:1])
    return Reference(side, "venv", text, file=file)


def _looks_like_file(value: str) -> bool:
    if " @ " in value:
        return False
    return value.endswith(FILE_SUFFIXES) or value.startswith(("/", "./", "../", "~"))


def _existing_file(text: str, value: str) -> Path:
    if not value:
        raise BadReference(text, "no file is named", FORMS)
    path = Path(value)
    try:
        path = path.expanduser()
        if path.is_file():
            return path
        reason = "it is a folder, not a file" if path.is_dir() else "there is no such file"
        near = _neighbours(path)
    except (OSError, RuntimeError, ValueError) as error:
        raise BadReference(text, str(error), ()) from error
    raise BadReference(text, reason, near)


def _neighbours(path: Path) -> tuple[str, ...]:
    """Files whose names come near, of the folder in which one was looked for."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError:
        return ()
    return tuple(str(path.parent / near) for near in difflib.get_close_matches(path.name, names))


def _image(side: Side | None, text: str) -> Reference:
    scheme = text.partition(":")[0]
    if IMAGE.fullmatch(text) and not _misspelt_scheme(text):
        return Reference(side, "image", text)
    if "==" in text and _is_requirement(text):
        raise BadReference(text, "a requirement needs the scheme venv:", (f"venv:{text}",))
    if text.endswith(FILE_SUFFIXES):
        raise BadReference(text, "a file needs a scheme", (f"venv:{text}", f"manifest:{text}"))
    if ":" in text and re.fullmatch(r"[A-Za-z][\w+.-]*", scheme):
        raise BadReference(text, f"{scheme}: is no known scheme", FORMS)
    raise BadReference(text, "it is not the name of an image", FORMS)


def _misspelt_scheme(text: str) -> bool:
    head, colon, _ = text.partition(":")
    return bool(colon) and bool(difflib.get_close_matches(head.lower(), SCHEMES, cutoff=0.75))


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth, quote, start = [], 0, "", 0
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def _requirement(text: str, part: str) -> str:
    if not part.strip():
        raise BadReference(text, "a requirement is missing beside a comma", FORMS[1:2])
    try:
        return str(Requirement(part.strip()))
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise BadReference(part.strip(), reason, FORMS[1:2]) from error


def _is_requirement(text: str) -> bool:
    try:
        split_requirements(text)
    except BadReference:
        return False
    return True
