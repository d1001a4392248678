"""`bitsect clean`."""

from __future__ import annotations

from typing import Annotated

import typer

from bitsect.cli.options import Json
from bitsect.cli.output import print_json, print_text
from bitsect.cli.workshop import Workshop
from bitsect.images.runtime.docker.sweep import Cleared, clear


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command()(clean)


def clean(
    everyones: Annotated[
        bool,
        typer.Option("--everyones", help="Also what belongs to other cache folders and users."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Remove everything that bitsect made on the container engine.

    Containers, volumes and hybrids go; images that it did not make are never touched, nothing
    that a running search needs goes, and what was observed stays in the store.

    Example: `bitsect clean`
    """
    with Workshop() as workshop:
        cleared = clear(workshop.images.engine, workshop.images.marks, everyones=everyones)
    if as_json:
        print_json(cleared)
    else:
        print_text(_said(cleared))
    return 0


def _said(cleared: Cleared) -> str:
    counted = (
        (cleared.images, "image", "images"),
        (cleared.containers, "container", "containers"),
        (cleared.volumes, "volume", "volumes"),
    )
    parts = [f"{count} {one if count == 1 else many}" for count, one, many in counted]
    left = f"; {cleared.left} are in use and stay" if cleared.left else ""
    return f"removed {', '.join(parts)}{left}"
