"""One byte string per value, and the digests made from it.

A digest decides whether two stacks are the same, so equal values must give equal bytes on
every machine and in every year: RFC 8785 fixes them. Floats are refused, although the RFC can
write them, because nothing that identifies a stack is one: versions are strings and counts are
integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import rfc8785

from bitsect.images.manifest_errors import CanonicalError

# Beyond this, JSON readers that keep numbers as doubles would see another integer.
LARGEST_INTEGER = 2**53 - 1
# Deeper than any real document, and far from the interpreter's own recursion limit.
DEEPEST = 64


def canonical_bytes(value: object) -> bytes:
    """The canonical JSON of a value made of dict, list, tuple, str, int, bool and None.

    Raises CanonicalError, with the place, for anything else.
    """
    _refuse_unhashable(value, "", 0)
    return rfc8785.dumps(value)  # type: ignore[arg-type]  # just checked, deeply


def digest(domain: str, value: object) -> str:
    """``sha256:<64 hex digits>`` of the value within a domain.

    The domain keeps values of different meaning apart: the same list under two domains has two
    digests. It ends at a NUL byte, so it must be text without one, and not empty.
    """
    return digest_of_bytes(domain, canonical_bytes(value))


def digest_of_bytes(domain: str, canonical: bytes) -> str:
    """As `digest`, for bytes that `canonical_bytes` gave earlier."""
    if not domain or "\0" in domain:
        raise ValueError(f"not a digest domain: {domain!r}")
    return "sha256:" + hashlib.sha256(domain.encode() + b"\0" + canonical).hexdigest()


def _refuse_unhashable(value: object, place: str, depth: int) -> None:
    if value is None or isinstance(value, bool):
        return
    if depth > DEEPEST:
        raise CanonicalError(place, f"nested deeper than {DEEPEST} levels")
    if isinstance(value, str):
        _refuse_surrogates(value, place)
    elif isinstance(value, int):
        if abs(value) > LARGEST_INTEGER:
            raise CanonicalError(place, f"the integer {value} is beyond 2^53 - 1")
    elif isinstance(value, list | tuple):
        for position, element in enumerate(value):
            _refuse_unhashable(element, f"{place}[{position}]", depth + 1)
    elif isinstance(value, Mapping):
        _refuse_unhashable_mapping(value, place, depth)
    else:
        raise CanonicalError(place, f"a {type(value).__name__} has no canonical form")


def _refuse_unhashable_mapping(value: Mapping[object, object], place: str, depth: int) -> None:
    # The encoder knows dict alone.
    if not isinstance(value, dict):
        raise CanonicalError(place, f"a {type(value).__name__} has no canonical form")
    for key, element in value.items():
        if not isinstance(key, str):
            raise CanonicalError(place, f"the key {key!r} is not a string")
        inner = f"{place}.{key}" if place else key
        _refuse_surrogates(key, inner)
        _refuse_unhashable(element, inner, depth + 1)


def _refuse_surrogates(text: str, place: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CanonicalError(place, "the text is not valid Unicode") from None
