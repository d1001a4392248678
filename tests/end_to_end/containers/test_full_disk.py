"""No room: on the engine's disk, on the store's. Nothing is lost, nothing is left half-made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.containers.enclosure import SmallDisk, enclosure
from tests.end_to_end.containers.disturbed import ENDS, Search, assert_clean, findings

pytestmark = [pytest.mark.end_to_end, pytest.mark.engine]

MIB = 1 << 20
#: Enough for containers, too little for the files of a hybrid.
TOO_LITTLE = 8 * MIB


def test_an_engine_without_room_for_a_hybrid(begun: Search, undisturbed: dict[str, Any]) -> None:
    # Given a search whose engine has no room for the next hybrid
    with begun.engine.disk.filled(leaving=TOO_LITTLE):
        # Then it says so in one line, and all that was observed is there
        line = begun.refused()
        assert "no space is left on the disk" in line
        assert begun.observed == ENDS
        # And nothing half-made takes the room that there is
        assert_clean(begun)

    # When there is room, the same command goes on to the same answer
    assert findings(begun.answer(kept=ENDS)) == findings(undisturbed)
    assert_clean(begun)


def test_a_store_without_room(begun: Search, undisturbed: dict[str, Any], tmp_path: Path) -> None:
    # Given a store on a small disk, which is full
    with enclosure() as inside:
        disk = SmallDisk(inside, tmp_path, 64 * MIB)
        inside.run("cp", "-a", begun.data, disk.root / "data")
        moved = begun.on(disk.root / "data", around=inside.mounting)
        with disk.filled(leaving=64 << 10):
            line = moved.refused()
            assert "disk" in line

        # And one that cannot be written to
        with disk.read_only():
            line = moved.refused()
            assert "read-only" in line.lower() or "readonly" in line.lower(), line

        # When it can, the same command goes on to the same answer
        assert findings(moved.answer(kept=ENDS)) == findings(undisturbed)
