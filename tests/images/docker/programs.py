"""Running a few lines of Python in a session, and waiting for what happens beside it."""

from __future__ import annotations

import time
from collections.abc import Callable

from bitsect.images.runtime.docker.engine import Engine
from bitsect.images.runtime.docker.runtime import DockerRuntime
from bitsect.images.runtime.protocol import Completed, RunSpec, Session

#: Seconds that no program here needs.
LONG = 120.0


def run(session: Session, source: str, timeout: float = LONG, **variables: str | None) -> Completed:
    """Run the lines with the stack's Python."""
    return session.exec(RunSpec((str(session.python), "-c", source), timeout, variables))


def printed(session: Session, source: str, **variables: str | None) -> str:
    """What they print; they must not fail."""
    done = run(session, source, LONG, **variables)
    assert done.returncode == 0, done.tail()
    return done.stdout.read_text()


def eventually(is_so: Callable[[], bool]) -> bool:
    """Whether it becomes so within a minute."""
    end = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def containers(engine: Engine, runtime: DockerRuntime) -> list[str]:
    """Ids of a runtime's containers, whatever their state."""
    label = f"bitsect.root={runtime.marks.root}"
    return [each["Id"] for each in engine.api.containers(all=True, filters={"label": label})]
