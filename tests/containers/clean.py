"""``python -m tests.containers.clean``: removes the images that the tests keep on the engine."""

from __future__ import annotations

from contextlib import closing

from tests.containers.engine import connect
from tests.containers.workshop import Workshop


def main() -> None:
    """Remove them, and name each."""
    with closing(connect()) as client:
        for tag in Workshop(client).clean():
            print(f"removed {tag}")


if __name__ == "__main__":
    main()
