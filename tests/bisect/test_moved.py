"""Names that mean something else than they did."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bitsect.bisect.moved import MovedReference, moved_since
from bitsect.bisect.records import SessionSpec
from bitsect.bisect.store import Store
from tests.bisect.fakes import question


def spec(good: str, bad: str, reference: str = "app:1") -> SessionSpec:
    asked = question().spec
    return msgspec.structs.replace(
        asked,
        good=msgspec.structs.replace(asked.good, reference=reference, lock=good),
        bad=msgspec.structs.replace(asked.bad, reference="app:2", lock=bad),
    )


def test_a_tag_that_was_pushed_again_is_named(tmp_path: Path) -> None:
    # Given two sessions between the same names
    store = Store(tmp_path)
    store.create_session("sha256:1", spec("sha256:a", "sha256:b"))
    store.create_session("sha256:2", spec("sha256:a", "sha256:c"))

    # When one of the names leads elsewhere now
    moved = moved_since(store.sessions(), spec("sha256:a", "sha256:d"))

    # Then it is compared with the latest of them
    assert moved == (MovedReference("app:2", 2, "sha256:c", "sha256:d"),)
    store.close()


def test_what_leads_where_it_led_has_not_moved(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create_session("sha256:1", spec("sha256:a", "sha256:b"))
    assert moved_since(store.sessions(), spec("sha256:a", "sha256:b")) == ()
    store.close()


def test_other_names_are_another_matter(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create_session("sha256:1", spec("sha256:a", "sha256:b"))
    assert moved_since(store.sessions(), spec("sha256:x", "sha256:b", "lib:1")) == ()
    store.close()
