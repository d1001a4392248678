"""What must be known of a requirements file beyond what uv makes of it.

uv reads the file itself, nested files and options included. It does not hold the files that it
chooses against the hashes written there, and a failure does not say which exact versions were
asked for: both are read here, and nothing else is interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from bitsect.images.errors import BadReference, host_faults

HASH = re.compile(r"--hash[=\s]([a-z0-9]+:[0-9a-fA-F]+)")
NESTED = re.compile(r"(?:-r|--requirement)[=\s]*(\S+)")
COMMENT = re.compile(r"(?:^|\s)#.*$")
OPTION = re.compile(r"\s--?[a-z].*$")


def requirements_in(file: Path) -> Iterator[tuple[Requirement, frozenset[str]]]:
    """Every plain requirement of a file and of those it includes, with its allowed hashes.

    Lines that are not plain requirements (options, paths, what uv alone understands) are
    passed over. Raises BadReference for a file that is missing or no text.
    """
    yield from _requirements_in(file, set())


def _requirements_in(file: Path, seen: set[Path]) -> Iterator[tuple[Requirement, frozenset[str]]]:
    resolved = file.resolve()
    if resolved in seen:
        return
    seen.add(resolved)
    for line in _logical_lines(file):
        nested = NESTED.match(line)
        if nested and "://" not in nested[1]:
            yield from _requirements_in(file.parent / nested[1], seen)
        hashes = frozenset(text.lower() for text in HASH.findall(line))
        try:
            yield Requirement(OPTION.sub("", line).strip()), hashes
        except InvalidRequirement:
            continue


def _logical_lines(file: Path) -> Iterator[str]:
    try:
        with host_faults(file):
            text = file.read_text("utf-8-sig")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise BadReference(str(file), "there is no such file") from error
    except UnicodeDecodeError as error:
        raise BadReference(str(file), "it is not text") from error
    for line in text.replace("\\\n", " ").splitlines():
        stripped = COMMENT.sub("", line).strip()
        if stripped:
            yield stripped
