"""What a container may use where the options leave it open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.limits import ContainerOptions, settled
from tests.images.docker.fake_engine import serving

MACHINE = 8 << 30


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine on a machine with that much memory."""
    with serving(tmp_path) as fake:
        fake.introduce(MemTotal=MACHINE)
        with closing(Engine.connect(fake.environment)) as connected:
            yield connected


def test_one_container_may_use_most_of_the_machine(engine: Engine) -> None:
    assert settled(ContainerOptions(), engine).memory == MACHINE * 3 // 4


def test_containers_that_run_at_a_time_share_that(engine: Engine) -> None:
    limits = settled(ContainerOptions(share=4), engine)
    assert limits.memory * 4 == MACHINE * 3 // 4
    assert limits.work_size * 4 == limits.memory


def test_what_was_asked_for_is_not_divided(engine: Engine) -> None:
    assert settled(ContainerOptions(memory=1 << 30, share=4), engine).memory == 1 << 30
