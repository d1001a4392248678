"""`bisect start`, `status`, `log` and `report`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bitsect.bisect import report as documents
from bitsect.bisect.errors import NoManifest, NoRun
from bitsect.bisect.findings import Answer, answer_of
from bitsect.bisect.laboratory import PROBE_TIMEOUT
from bitsect.bisect.moved import moved_since
from bitsect.bisect.question import PointOptions, ordered_ends
from bitsect.bisect.records import LedgerEntry, Observation, SessionRecord
from bitsect.bisect.session import SessionDriver
from bitsect.bisect.store import Store
from bitsect.cli import tables
from bitsect.cli.console import explain_what_is_kept
from bitsect.cli.image_spaces import Donors
from bitsect.cli.options import (
    ALL_ARMS,
    Arms,
    Gpus,
    IpcHost,
    Json,
    Memlock,
    Memory,
    Pre,
    Processes,
    PythonPath,
    Seed,
    StackLimit,
    Timeout,
    container_options,
    probe_options,
)
from bitsect.cli.output import json_text, print_json, print_text, require_place_for, write_file
from bitsect.cli.progress import reporter_for_console
from bitsect.cli.searches import Asked, Between, prepared
from bitsect.cli.workshop import Workshop
from bitsect.images.manifest import Manifest, from_canonical
from bitsect.images.reference import parse_reference

SessionNumber = Annotated[
    int | None, typer.Option("--session", "-s", help="A session's number; the latest if absent.")
]


def default_workers() -> int:
    """As many trials at a time as this host runs without their waiting for each other."""
    return max(1, min(4, len(os.sched_getaffinity(0))))


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command()(start)
    app.command()(status)
    app.command()(sessions)
    app.command()(log)
    app.command("report")(report)


def start(
    ends: Annotated[list[str], typer.Argument(metavar="good:REF bad:REF", help="The two stacks.")],
    workers: Annotated[
        int,
        typer.Option(
            "--workers", "-w", min=1, max=64, help="Trials at the same time.", show_default=True
        ),
    ] = default_workers(),
    python: PythonPath = None,
    arms: Arms = ALL_ARMS,
    seed: Seed = 0,
    pre: Pre = False,
    yanked: Annotated[bool, typer.Option("--yanked", help="Yanked releases are points.")] = False,
    builds: Annotated[
        bool, typer.Option("--builds", help="Releases without a wheel are built from source.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew and use nothing observed earlier.")
    ] = False,
    via: Annotated[
        list[str] | None,
        typer.Option("--via", metavar="REF", help="An image between the two; may be repeated."),
    ] = None,
    tags: Annotated[
        str | None,
        typer.Option(
            "--tags",
            metavar="PATTERN",
            help="Images between the two: tags of the good one's repository, by age.",
        ),
    ] = None,
    index: Annotated[
        bool,
        typer.Option(
            "--index/--no-index",
            help="Releases on your package index between those of the images are points too.",
        ),
    ] = True,
    apt_network: Annotated[
        str | None,
        typer.Option(
            "--apt-network",
            metavar="NETWORK",
            help="Versions in the bad image's package sources are points too; asked over this"
            " network of the engine, such as bridge.",
        ),
    ] = None,
    timeout: Timeout = PROBE_TIMEOUT,
    gpus: Gpus = "",
    ipc_host: IpcHost = False,
    memory: Memory = None,
    processes: Processes = None,
    memlock: Memlock = None,
    stack: StackLimit = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Json = False,
) -> int:
    """Search for every step between two stacks at which bits change.

    The same command goes on where it was stopped.

    Example: `bisect start good:team/train:2026.10 bad:team/train:2026.11 --tags '2026.*'`

    Example: `bisect start good:venv:before.txt bad:venv:torch==2.13.0,numpy==2.4.6`
    """
    asked = Asked(
        references=[parse_reference(end) for end in ends],
        between=Between(tuple(via or ()), tags),
        points=PointOptions(prereleases=pre, yanked=yanked, builds=builds),
        donors=Donors(index, apt_network),
        probe=probe_options(arms, seed),
        timeout=timeout,
    )
    ordered_ends(asked.references)
    workshop = Workshop(
        python,
        allow_builds=builds,
        prereleases=pre,
        containers=container_options(
            gpus, ipc_host, memory, processes, memlock, stack, share=workers
        ),
    )
    with workshop.store() as store, reporter_for_console(quiet) as reporter, workshop:
        search = prepared(asked, workshop, store, reporter)
        for moved in moved_since(store.sessions(), search.question.spec):
            reporter.notice(
                f"{moved.reference} is {moved.now[:19]} now; it was {moved.then[:19]} in session"
                f" {moved.session}, so this is another search"
            )
        driver = SessionDriver(
            search.question, search.mixer, search.laboratory, store, reporter, workers
        )
        try:
            session = driver.run(again=fresh)
        except KeyboardInterrupt:
            explain_what_is_kept()
            raise
        answer = answer_of(store, session)
    _show(answer, as_json)
    return 0


def status(session: SessionNumber = None, as_json: Json = False) -> int:
    """Show what a session knows so far: findings, open brackets, trials.

    Example: `bisect status`
    """
    _show(_answer(session), as_json)
    return 0


def sessions(as_json: Json = False) -> int:
    """List all sessions, the latest last.

    Example: `bisect sessions`
    """
    with Workshop.existing_store() as store:
        known = store.sessions()
    if as_json:
        print_json(known)
    else:
        tables.print_sessions(known)
    return 0


def log(
    session: SessionNumber = None,
    run: Annotated[
        int | None,
        typer.Option("--run", "-r", min=1, help="Show what this run printed last, or its build."),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", help="With --run: write the manifest of its stack here."),
    ] = None,
    as_json: Json = False,
) -> int:
    """List every observation of a session, in the order in which it came.

    Example: `bisect log --session 3`

    Example: `bisect log --run 7` shows the last lines of a build or probe that failed.

    Example: `bisect log --run 7 --manifest mixed.yaml`, then `bitsect rebuild mixed.yaml`, makes
    the stack of that run again.
    """
    if manifest is not None:
        if run is None:
            raise typer.BadParameter("it is a run's: name one with --run", param_hint="--manifest")
        require_place_for(manifest)
    with Workshop.existing_store() as store:
        record = store.session(session)
        ledger = store.ledger(record.number)
        if run is not None:
            entry = _entry(record, ledger, run)
            printed = _last_lines(store, entry.observation)
            if manifest is not None:
                _stack_of(store, record, entry.observation, run).save(manifest)
            if as_json:
                print_json({"session": record.number, "run": entry, "printed": printed})
            elif manifest is None:
                print_text(printed)
            else:
                print_text(f"the stack of run {run} is written to {manifest}")
            return 0
    if as_json:
        print_json({"session": record, "ledger": ledger})
    else:
        tables.print_ledger(record, ledger)
    return 0


def _entry(session: SessionRecord, ledger: Sequence[LedgerEntry], run: int) -> LedgerEntry:
    """:raises NoRun: the session has no such run."""
    entry = next((each for each in ledger if each.sequence == run), None)
    if entry is None:
        raise NoRun(session.number, run, len(ledger))
    return entry


def _last_lines(store: Store, seen: Observation) -> str:
    printed = b"" if seen.log is None else store.blobs.get(seen.log)
    return printed.decode(errors="replace") or seen.reason or "it printed nothing"


def _stack_of(store: Store, session: SessionRecord, seen: Observation, run: int) -> Manifest:
    """:raises NoManifest: the stack of the run was never made."""
    if seen.manifest is None:
        raise NoManifest(session.number, run)
    return from_canonical(store.blobs.get(seen.manifest))


def report(
    session: SessionNumber = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a session's answer as a Markdown document, or as JSON.

    Example: `bisect report -o findings.md`
    """
    if output is not None:
        require_place_for(output)
    answer = _answer(session)
    if as_json and output is None:
        print_json(answer)
    elif output is None:
        print_text(documents.markdown(answer))
    else:
        write_file(output, json_text(answer) if as_json else documents.markdown(answer))
    return 0


def _answer(session: int | None) -> Answer:
    with Workshop.existing_store() as store:
        return answer_of(store, store.session(session))


def _show(answer: Answer, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        tables.print_answer(answer)
