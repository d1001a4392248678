"""`bitsect pin`, `diff`, `verify` and `rebuild`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from bitsect.cli import tables
from bitsect.cli.console import console
from bitsect.cli.hybrids import HybridRebuilder
from bitsect.cli.options import Gpus, Json, PythonPath
from bitsect.cli.output import print_json, print_text, require_place_for
from bitsect.cli.workshop import Workshop
from bitsect.images import manifest as manifests
from bitsect.images.contents.file_differences import file_differences
from bitsect.images.differences import Difference, diff_manifests
from bitsect.images.drift import drift_of
from bitsect.images.manifest import Manifest
from bitsect.images.pinning import Pinner
from bitsect.images.rebuilding import (
    Found,
    found_again,
    rebuilt,
    verified,
    with_its_name_checked,
)
from bitsect.images.reference import parse_reference
from bitsect.images.runtime.docker.limits import ContainerOptions
from bitsect.images.stack_source import StackSource, source_of

#: Exit status when two stacks differ in more than noise.
DIFFERENT = 1
#: Exit status when it cannot be told whether a stack is as it was pinned.
UNKNOWN = 2

_STATUS = {"same": 0, "drift": DIFFERENT, "unknown": UNKNOWN}

ManifestFile = Annotated[Path, typer.Argument(metavar="MANIFEST", help="What `bitsect pin` wrote.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command()(pin)
    app.command()(diff)
    app.command()(verify)
    app.command()(rebuild)


def pin(
    reference: Annotated[str, typer.Argument(metavar="REF", help="The stack to pin.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The manifest's file.")
    ] = None,
    python: PythonPath = None,
    gpus: Gpus = "",
    as_json: Json = False,
) -> int:
    """Write down everything that a stack's bits depend on, with digests.

    Every installed file is compared with the hash that its package recorded. An image in which
    nothing starts is read from its files.

    Example: `bitsect pin venv:torch==2.13.0,numpy==2.4.6 -o stack.yaml`
    """
    if output is not None:
        require_place_for(output)
    with _workshop(python, gpus) as workshop:
        pinned = _taken(workshop, reference, deep=True)
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
    gpus: Gpus = "",
    as_json: Json = False,
) -> int:
    """List the components in which two stacks differ; of two images, their files too.

    Ends with 0 if there is none but noise, and 1 otherwise.

    Example: `bitsect diff train:2026.10 train:2026.11`

    Example: `bitsect diff manifest:before.yaml manifest:after.yaml`
    """
    with _workshop(python, gpus) as workshop:
        differences = diff_manifests(_taken(workshop, first), _taken(workshop, second))
        differences += _files_of_images(workshop, (first, second), differences)
    if as_json:
        print_json(differences)
    else:
        tables.print_differences(differences)
    return DIFFERENT if any(not difference.noise for difference in differences) else 0


def verify(
    manifest: ManifestFile,
    reference: Annotated[
        str | None,
        typer.Argument(metavar="REF", help="The stack to look at; the pinned one if absent."),
    ] = None,
    python: PythonPath = None,
    gpus: Gpus = "",
    as_json: Json = False,
) -> int:
    """Look at a pinned stack again and name everything that is not as it was pinned.

    Ends with 0 if all is as it was, 1 if something has drifted, and 2 if it cannot be told.

    Example: `bitsect verify stack.yaml`
    """
    pinned = manifests.load(manifest)
    if reference is not None:
        with _workshop(python, gpus) as workshop:
            now = _taken(workshop, reference, deep=True)
        drift = drift_of(pinned, now, parse_reference(reference).text)
    else:
        source = source_of(pinned, manifest)
        with _workshop(_python_for(source, python), gpus) as workshop:
            found = with_its_name_checked(source, _found(source, workshop))
            drift = verified(pinned, found, _pinner(workshop))
    if as_json:
        print_json(drift)
    else:
        tables.print_drift(drift)
    return _STATUS[drift.outcome]


def rebuild(
    manifest: ManifestFile,
    python: PythonPath = None,
    gpus: Gpus = "",
    builds: Annotated[
        bool, typer.Option("--builds", help="Releases without a wheel are built from source.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Make a pinned stack again and verify it.

    An environment is built from the recorded lock; an image is found by its digest, or pulled.
    Ends as `bitsect verify` does.

    Example: `bitsect rebuild stack.yaml`
    """
    pinned = manifests.load(manifest)
    source = source_of(pinned, manifest)
    with _workshop(_python_for(source, python), gpus, builds=builds) as workshop:
        made = rebuilt(pinned, _found(source, workshop), _pinner(workshop))
    if as_json:
        print_json(made)
    else:
        print_text(made.python or made.image or "")
        tables.print_drift(made.drift)
    return _STATUS[made.drift.outcome]


def _workshop(python: Path | None, gpus: str, *, builds: bool = False) -> Workshop:
    return Workshop(python, allow_builds=builds, containers=ContainerOptions(gpus=gpus))


def _python_for(source: StackSource, wanted: Path | None) -> Path | None:
    """What an environment is to stand on: what it was pinned on, if that is here."""
    recorded = source.python if source.lock is not None else None
    if wanted is None and recorded is not None and Path(recorded.path).exists():
        return Path(recorded.path)
    return wanted


def _found(source: StackSource, workshop: Workshop) -> Found:
    _tell(f"getting {source.reference} again")
    return found_again(source, workshop, HybridRebuilder(workshop, source.reference))


def _taken(workshop: Workshop, text: str, *, deep: bool = False) -> Manifest:
    """The manifest of whatever a reference names."""
    reference = parse_reference(text)
    if reference.kind == "manifest":
        assert reference.file is not None, "a reference to a manifest names its file"
        return manifests.load(reference.file)
    runtime = workshop.runtime(reference)
    return _pinner(workshop).manifest(runtime, runtime.resolve(reference), deep=deep)


def _files_of_images(
    workshop: Workshop, texts: tuple[str, str], listed: Iterable[Difference]
) -> list[Difference]:
    """What only the files of two images tell; nothing for other stacks."""
    references = [parse_reference(text) for text in texts]
    if any(reference.kind != "image" for reference in references):
        return []
    _tell("comparing their files")
    between = workshop.differences([workshop.runtime(each).resolve(each) for each in references])
    return list(file_differences(between, {each.component for each in listed}))


def _pinner(workshop: Workshop) -> Pinner:
    return Pinner(workshop.payload, workshop.contents, _tell)


def _tell(words: str) -> None:
    console.print(words, markup=False, soft_wrap=True)
