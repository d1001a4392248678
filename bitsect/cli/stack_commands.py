"""`bitsect pin` and `bitsect diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitsect.cli import tables
from bitsect.cli.console import console
from bitsect.cli.options import Json, PythonPath
from bitsect.cli.output import print_json, print_text, require_place_for
from bitsect.cli.workshop import Workshop
from bitsect.images import manifest as manifests
from bitsect.images.differences import diff_manifests
from bitsect.images.manifest import Manifest
from bitsect.images.reference import parse_reference
from bitsect.images.runner import take_inventory

#: Exit status when two stacks differ in more than noise.
DIFFERENT = 1


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command()(pin)
    app.command()(diff)


def pin(
    reference: Annotated[str, typer.Argument(metavar="REF", help="The stack to pin.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The manifest's file.")
    ] = None,
    python: PythonPath = None,
    as_json: Json = False,
) -> int:
    """Write down everything that a stack's bits depend on, with digests.

    Every installed file is compared with the hash that its package recorded.

    Example: `bitsect pin venv:torch==2.13.0,numpy==2.4.6 -o stack.yaml`
    """
    if output is not None:
        require_place_for(output)
    pinned = _pinned(Workshop(python), reference, deep=True)
    if output is not None:
        pinned.save(output)
    if as_json:
        print_json(pinned)
    else:
        print_text(pinned.root)
    return 0


def diff(
    first: Annotated[str, typer.Argument(metavar="REF", help="A stack, or manifest:FILE.")],
    second: Annotated[str, typer.Argument(metavar="REF", help="Another one.")],
    python: PythonPath = None,
    as_json: Json = False,
) -> int:
    """List the components in which two stacks differ.

    Ends with 0 if there is none but noise, and 1 otherwise.

    Example: `bitsect diff manifest:before.yaml manifest:after.yaml`
    """
    workshop = Workshop(python)
    differences = diff_manifests(_pinned(workshop, first), _pinned(workshop, second))
    if as_json:
        print_json(differences)
    else:
        tables.print_differences(differences)
    return DIFFERENT if any(not difference.noise for difference in differences) else 0


def _pinned(workshop: Workshop, text: str, *, deep: bool = False) -> Manifest:
    reference = parse_reference(text)
    if reference.kind == "manifest":
        assert reference.file is not None, "a reference to a manifest names its file"
        return manifests.load(reference.file)
    runtime = workshop.runtime(reference)
    console.print(f"taking the inventory of {reference.text}", markup=False)
    handle = runtime.ensure(runtime.resolve(reference))
    try:
        with runtime.open(handle) as session:
            return take_inventory(session, workshop.payload, warm_up=True, deep=deep)
    finally:
        handle.release()
