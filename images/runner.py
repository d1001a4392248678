"""Takes inventories and runs the probe, inside whatever stack a session has open."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from bitsect.images.errors import InfrastructureError, host_faults
from bitsect.images.layers import Binary, Record
from bitsect.images.manifest import Manifest, from_inventory, image_layer, with_libraries
from bitsect.images.manifest_errors import InventoryError
from bitsect.images.payload import Payload
from bitsect.images.runtime.errors import ProgramError
from bitsect.images.runtime.protocol import Completed, RunSpec, Session
from bitsect.images.stack_source import evidence_of
from bitsect.probes.arms.names import ARMS
from bitsect.probes.inventory import Notes, Places, describe_binary

Verdict = Literal["CRASH", "TIMEOUT", "INFRA", "UNBUILDABLE"]

INVENTORY_SECONDS = 300.0
DEEP_INVENTORY_SECONDS = 3600.0
PROBE_SECONDS = 1800.0
LOG_LINES = 20

TRACE = "rank00000.jsonl"
TOUCHED = "touched.json"
INVALID_EVIDENCE = 2
HOST_FAULT = 3
# What the probe's own lines begin with.
_PROBE = "bitsect.probes: "

# Someone else's decision: the kernel's when memory runs out, a scheduler's, an operator's.
_FROM_OUTSIDE = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGXCPU"})
_FROM_THE_KERNEL = frozenset({"SIGKILL"})
_NO_SPACE = re.compile(
    rf"No space left on device|Disk quota exceeded|\[Errno ({errno.ENOSPC}|{errno.EDQUOT})\]"
)


# What decoding an untrusted answer may raise; it may be nested without end.
_NONSENSE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Touched(Record, frozen=True):
    """What the probe's process used.

    :param libraries: ELF files that were mapped.
    :param modules: top-level names of what was imported.
    :param distributions: normalised names of those that own one of these.
    :param files: absolute paths of all files that were mapped, imported or opened for reading.
    :param variables: names of environment variables that Python code read; what compiled code
        reads is not seen.
    """

    schema: int
    libraries: tuple[Binary, ...]
    modules: tuple[str, ...]
    distributions: tuple[str, ...]
    problems: tuple[dict[str, str], ...] = ()
    files: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProbeOptions:
    """What the probe is asked to do.

    :param certify: ``auto``, ``all`` or ``none``.
    :param device: ``auto``, ``cpu`` or ``cuda``.
    :param manifest: root of the stack's manifest, for the trace's header.
    """

    arms: tuple[str, ...] = ARMS
    seed: int = 0
    certify: str = "auto"
    device: str = "auto"
    manifest: str | None = None

    def arguments(self, out: str) -> list[str]:
        """As the probe's command line has them."""
        found = [f"--out={out}", f"--arms={','.join(self.arms)}", f"--seed={self.seed}"]
        found += [f"--certify={self.certify}", f"--device={self.device}"]
        return found if self.manifest is None else [*found, f"--manifest={self.manifest}"]


@dataclass(frozen=True)
class ProbeRun:
    """How one run of the probe went.

    :param verdict: why there is no trace, or None. ``CRASH``: by a signal, an exit code that
        the probe does not have, or endless output. ``INFRA``: the host's fault.
    :param invalid: the probe's own word that its evidence would be worth nothing, one line;
        None otherwise.
    :param reason: one line for the verdict; empty without one.
    :param trace: the trace's file, if neither verdict nor `invalid` is set.
    :param touched: what the run used; set with `trace`.
    :param duration: seconds.
    :param log: last lines of what it printed.
    """

    verdict: Verdict | None
    invalid: str | None
    reason: str
    trace: Path | None
    touched: Touched | None
    returncode: int | None
    signal: str | None
    duration: float
    log: str


def take_inventory(
    session: Session,
    payload: Payload,
    *,
    warm_up: bool = False,
    deep: bool | tuple[str, ...] = False,
    timeout: float | None = None,
) -> Manifest:
    """The manifest of the stack that the session has open.

    :param warm_up: first use the numeric libraries a little, so that they are loaded.
    :param deep: compare installed files with their checksums: all of them, which reads
        gigabytes, or those of the named distributions.
    :param timeout: seconds; by default as many as the largest stack needs.

    Raises InventoryError if it cannot be taken, ManifestError if its answer is not understood.
    """
    script = f"{session.inside(payload.folder)}/bitsect/probes/inventory.py"
    stack = session.stack
    options = ["--warm-up"] * warm_up + ["--image"] * (stack.image is not None)
    if isinstance(deep, tuple):
        options += [f"--deep={','.join(deep)}"] if deep else []
    elif deep:
        options.append("--deep")
    arguments = (str(session.python), script, *options)
    longest = DEEP_INVENTORY_SECONDS if deep else INVENTORY_SECONDS
    done = session.exec(RunSpec(arguments, longest if timeout is None else timeout))
    if done.returncode != 0 or done.timed_out or done.overflowed:
        tail = done.tail(LOG_LINES)
        raise InventoryError(stack.reference, _how_it_ended(done), tail, done.timed_out)
    try:
        report = msgspec.json.decode(done.stdout.read_bytes(), type=dict[str, object])
    except _NONSENSE as error:
        raise InventoryError(stack.reference, str(error), done.tail(LOG_LINES)) from error
    image = image_layer(stack.image, stack.recipe) if stack.image else None
    return from_inventory(report, image, evidence_of(stack))


def run_probe(
    session: Session,
    payload: Payload,
    options: ProbeOptions,
    out: Path,
    timeout: float = PROBE_SECONDS,
    heard: Callable[[bytes], object] | None = None,
) -> ProbeRun:
    """Run the probe once; whatever comes of it is an answer, never an exception of the stack's.

    Raises InfrastructureError if it cannot be run at all.

    :param out: folder of this machine for the trace; made if absent. Earlier results in it are
        removed first, so that they cannot be taken for new ones.
    :param timeout: seconds.
    :param heard: told what the probe says of its progress, as it comes.
    """
    with host_faults(out):
        out.mkdir(parents=True, exist_ok=True)
        for name in (TRACE, TOUCHED):
            (out / name).unlink(missing_ok=True)
    try:
        inner = session.fresh_folder()
        arguments = (str(session.python), "-m", "bitsect.probes", *options.arguments(inner))
        environment = {"PYTHONPATH": session.inside(payload.folder)}
        if heard is not None:
            arguments += ("--progress",)
        done = session.exec(RunSpec(arguments, timeout, environment, heard=heard))
        if done.returncode == 0 and not (done.timed_out or done.overflowed):
            for name in (TRACE, TOUCHED):
                session.fetch(f"{inner}/{name}", out / name)
    except ProgramError as error:
        raise InfrastructureError("tool", f"{error.program}: {error.reason}") from error
    return _judged(done, out, contained=session.stack.image is not None)


def full_manifest(manifest: Manifest, touched: Touched) -> Manifest:
    """The manifest with the libraries that the probe was seen to use in addition.

    Raises ManifestError if one of them is another file than when the manifest was made.
    """
    return with_libraries(manifest, touched.libraries)


def changed_libraries(manifest: Manifest, prefix: Path | None = None) -> tuple[str, ...]:
    """Paths of the manifest's libraries that are not, or no longer, as it says.

    Reads this machine's files, so it is for stacks of this machine.

    :param prefix: the environment's folder; by default where it was when the manifest was made.
    """
    notes = Notes()
    root = str(prefix or manifest.evidence.get("prefix", ""))
    return tuple(
        library.path
        for library in manifest.software.libraries or ()
        if _now(library.path.replace("<prefix>", root, 1), notes)
        != (library.size, library.build_id, library.sha256)
    )


def loaded_libraries_unchanged(manifest: Manifest, prefix: Path | None = None) -> bool:
    """Whether a verdict found with these libraries still speaks for what is installed.

    The files of an image cannot change without its becoming another image.
    """
    if manifest.image is not None:
        return manifest.software.libraries is not None
    return manifest.software.libraries is not None and not changed_libraries(manifest, prefix)


def _now(path: str, notes: Notes) -> tuple[int | None, str | None, str | None] | None:
    found = describe_binary(path, Places(""), notes)
    return None if found is None else (found["size"], found["build_id"], found.get("sha256"))


def _judged(done: Completed, out: Path, *, contained: bool) -> ProbeRun:
    log = done.tail(LOG_LINES)
    verdict, reason = _verdict(done, log, contained=contained)
    touched, invalid = (None, None) if verdict else _evidence(done, log, out)
    return ProbeRun(
        verdict=verdict,
        invalid=invalid,
        reason=reason,
        trace=out / TRACE if touched else None,
        touched=touched,
        returncode=done.returncode,
        signal=done.signal,
        duration=done.duration,
        log=log,
    )


def _verdict(done: Completed, log: str, *, contained: bool) -> tuple[Verdict | None, str]:
    """(verdict, reason); None where the program came to an end that the probe has.

    :param contained: the program had a disk and processes of its own, so that a full disk or a
        signal is its own doing; the kernel alone can still end it for the host's sake.
    """
    if done.timed_out:
        return "TIMEOUT", _how_it_ended(done)
    if done.overflowed or done.out_of_memory:
        return "CRASH", _how_it_ended(done)
    if done.returncode == 0:
        return None, ""
    if _NO_SPACE.search(log):
        return "CRASH" if contained else "INFRA", _last_line(log)
    if done.returncode == HOST_FAULT:
        return "CRASH" if contained else "INFRA", _last_line(log).removeprefix(_PROBE)
    if done.signal in (_FROM_THE_KERNEL if contained else _FROM_OUTSIDE):
        return "INFRA", f"ended from outside by {done.signal}, as when memory runs out"
    if done.returncode == INVALID_EVIDENCE:
        return None, ""
    return "CRASH", _how_it_ended(done)


def _evidence(done: Completed, log: str, out: Path) -> tuple[Touched | None, str | None]:
    """What the probe used, or in what way its evidence is invalid."""
    if done.returncode == INVALID_EVIDENCE:
        said = _last_line(log).removeprefix(_PROBE)
        return None, said or "the probe gives no reason"
    for name in (TRACE, TOUCHED):
        if not (out / name).is_file():
            return None, f"the probe ended well but left no {name}"
    try:
        return msgspec.json.decode((out / TOUCHED).read_bytes(), type=Touched), None
    except _NONSENSE as error:
        return None, f"{TOUCHED}: {error}"


def _how_it_ended(done: Completed) -> str:
    if done.timed_out:
        return f"not done after {done.duration:.0f} s"
    if done.overflowed:
        return "it printed without end"
    if done.out_of_memory:
        return "it used more memory than it may"
    if done.signal:
        return f"ended by {done.signal}"
    last = _last_line(done.tail(1))
    return f"exit {done.returncode}: {last}" if last else f"exit {done.returncode}"


def _last_line(text: str) -> str:
    return text.splitlines()[-1].strip() if text.strip() else ""
