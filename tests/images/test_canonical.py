"""Canonical bytes and the digests made from them."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bitsect.images.canonical import LARGEST_INTEGER, canonical_bytes, digest
from bitsect.images.manifest_errors import CanonicalError

text = st.text(st.characters(codec="utf-8"), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER) | text
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
domains = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=8)


def reordered(value: object) -> object:
    """The same value with every object's members in the opposite order."""
    if isinstance(value, dict):
        return {key: reordered(element) for key, element in reversed(value.items())}
    if isinstance(value, list):
        return [reordered(element) for element in value]
    return value


@given(values)
def test_the_order_of_members_never_matters(value: object) -> None:
    assert canonical_bytes(value) == canonical_bytes(reordered(value))


@given(values)
def test_the_bytes_say_the_whole_value(value: object) -> None:
    assert json.loads(canonical_bytes(value)) == value


@given(values, values)
def test_another_value_has_another_digest(first: object, second: object) -> None:
    # Python takes True for 1, which JSON does not.
    assume(json.dumps(first, sort_keys=True) != json.dumps(second, sort_keys=True))
    assert digest("d", first) != digest("d", second)


@given(values, domains, domains)
def test_another_domain_has_another_digest(value: object, first: str, second: str) -> None:
    assume(first != second)
    assert digest(first, value) != digest(second, value)


def test_a_digest_can_be_computed_by_hand() -> None:
    expected = hashlib.sha256(b'stack/software\0{"a":[1,null,true],"b":"\xc3\xa9"}').hexdigest()
    assert digest("stack/software", {"b": "é", "a": (1, None, True)}) == f"sha256:{expected}"


def test_members_are_sorted_by_utf16_code_units() -> None:
    # By code point, U+FB33 would come before U+1F600.
    assert canonical_bytes({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (1.0, ""),
        (float("nan"), ""),
        ({"a": [0, {"b": 2.5}]}, "a[1].b"),
        ({"a": {1: "x"}}, "a"),
        ({"a": {True: "x"}}, "a"),
        ([2**53], "[0]"),
        ([-(2**53)], "[0]"),
        ({"a": b"bytes"}, "a"),
        ({"a": {"set"}}, "a"),
        ({"a": "\ud800"}, "a"),
        ({"\udc80": 1}, "\udc80"),
        (MappingProxyType({"a": 1}), ""),
    ],
)
def test_what_has_no_canonical_form_is_refused_with_its_place(value: object, place: str) -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical_bytes(value)
    assert caught.value.place == place
    assert caught.value.reason


def test_a_subclass_of_dict_is_a_dict() -> None:
    value: Mapping[str, int] = OrderedDict(b=1, a=2)
    assert canonical_bytes(value) == b'{"a":2,"b":1}'


def test_a_value_nested_without_end_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(CanonicalError):
        canonical_bytes(value)


@pytest.mark.parametrize("domain", ["", "a\0b"])
def test_a_domain_that_could_be_confused_is_a_defect(domain: str) -> None:
    with pytest.raises(ValueError, match="domain"):
        digest(domain, None)


@pytest.mark.parametrize("number", [LARGEST_INTEGER, -LARGEST_INTEGER, 0])
def test_the_largest_integers_pass(number: int) -> None:
    assert canonical_bytes(number) == str(number).encode()
