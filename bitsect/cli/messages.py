"""The one place where an error becomes a sentence: what is wrong, where, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, cast

from bitsect.bisect.errors import (
    EndFailed,
    InvalidEvidence,
    NoManifest,
    NondeterministicEnd,
    NoRun,
    NoSession,
    NothingToBisect,
    NotMadeOfParts,
    SessionBusy,
    StoreError,
    UnusableEnds,
)
from bitsect.bisect.wording import counted
from bitsect.images.contents.errors import ArchiveError, ClashError
from bitsect.images.errors import (
    BadReference,
    InfrastructureError,
    InterpreterError,
    UnbuildableError,
    UnknownVersion,
    UnresolvedError,
)
from bitsect.images.manifest_errors import (
    CanonicalError,
    InventoryError,
    ManifestError,
    RebuildError,
)
from bitsect.images.printable import printable
from bitsect.images.runtime.errors import ProgramError, SessionClosedError
from bitsect.probes.errors import (
    BitsectError,
    EventKeyError,
    FingerprintError,
    HostError,
    OutputError,
    ProbeError,
    SelfCheckError,
    TraceError,
    UnknownArmError,
)

#: Nothing can be concluded: bad input, invalid evidence, or a host that failed.
INVALID = 2
#: Longest message, in characters; what a tool said may be endless.
LONGEST = 1200
# Of what a stack printed last.
_LONGEST_TAIL = 300

E = TypeVar("E", bound=BitsectError)


class Message(NamedTuple):
    """One line for a person, and the exit status that goes with it."""

    text: str
    status: int = INVALID


_EXPLAINERS: dict[type[BitsectError], Callable[[BitsectError], str]] = {}


def explain(error: BitsectError) -> Message:
    """The message for an error. Every class of the tree has one, its own or its parent's."""
    for kind in type(error).__mro__:
        if kind in _EXPLAINERS:
            return Message(_one_line(_EXPLAINERS[kind](error)))
    raise AssertionError(f"{type(error).__name__} has no message") from error


def _explains(kind: type[E]) -> Callable[[Callable[[E], str]], Callable[[E], str]]:
    def register(explainer: Callable[[E], str]) -> Callable[[E], str]:
        _EXPLAINERS[kind] = cast(Callable[[BitsectError], str], explainer)
        return explainer

    return register


def _one_line(text: str) -> str:
    # A reason that is a sentence of its own brings its full stop along.
    text = re.sub(r"(?<!\.)\.\.(?=\s|$)", ".", printable(" ".join(text.split())))
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


# Stacks


@_explains(BadReference)
def _(error: BadReference) -> str:
    forms = f" Try: {_listed(error.candidates, 8)}." if error.candidates else ""
    return f"cannot use {error.text!r} as a stack: {error.reason}.{forms}"


@_explains(InterpreterError)
def _(error: InterpreterError) -> str:
    reason = error.reason.strip().splitlines()[-1] if error.reason.strip() else "it says nothing"
    return f"{error.path} is no usable Python: {reason}. Name another one with --python."


@_explains(UnknownVersion)
def _(error: UnknownVersion) -> str:
    if not error.offered:
        return (
            f"your package index offers no {error.package} for Python {error.python}."
            " Check the name, and `pip config list` for the index."
        )
    return (
        f"your package index offers no {error.package} {error.version} for Python"
        f" {error.python} ({error.offered} releases are offered; nearest:"
        f" {_listed(error.nearest)}). Choose one of those, or another Python with --python."
    )


@_explains(UnresolvedError)
def _(error: UnresolvedError) -> str:
    return (
        f"UNRESOLVED: {_listed(error.requirements)} cannot be installed together."
        f" {error.reason} Change one of these requirements."
    )


@_explains(UnbuildableError)
def _(error: UnbuildableError) -> str:
    return f"UNBUILDABLE: {error.what} could not be made. {error.tail}"


@_explains(InfrastructureError)
def _(error: InfrastructureError) -> str:
    match error.kind:
        case "index":
            return (
                f"no package index can be reached: {error.detail}. Check the network and"
                " `pip config list`, then run the same command again: nothing is lost."
            )
        case "registry":
            return (
                f"no registry gives the image: {error.detail}. Check its name, and the network of"
                " the container engine, or build or load the image; nothing is lost."
            )
        case "refused":
            return (
                f"INFRA: the container engine did not do what it was asked: {error.detail}. Mend"
                " that (its log may say more), then run the same command again: nothing is lost."
            )
        case "engine":
            return (
                f"INFRA: the container engine cannot be used: {error.detail}. Start it, or name"
                " another one in DOCKER_HOST, then run the same command again: nothing is lost."
            )
        case "disk":
            return (
                f"no space is left on the disk: {error.detail}. Free some, or set BITSECT_DATA,"
                " BITSECT_CACHE or TMPDIR to a larger one, then run the same command again."
            )
        case "permission":
            return f"not allowed: {error.detail}. Check what is there, its owner and its mode."
        case "host":
            return (
                f"INFRA: the host ended a trial: {error.detail}. Look at its memory and its"
                " limits, then run the same command again: what was observed is kept."
            )
    return f"a tool that bitsect needs failed: {error.detail}."


@_explains(ManifestError)
def _(error: ManifestError) -> str:
    at = f", at {error.place}" if error.place else ""
    if error.path is None:
        return (
            f"what the stack says of itself cannot be relied on{at}: {error.reason}."
            " Look at its Python, or name another stack."
        )
    return (
        f"the manifest {error.path} cannot be relied on{at}: {error.reason}."
        " Pin the stack again with `bitsect pin`."
    )


@_explains(InventoryError)
def _(error: InventoryError) -> str:
    verdict = "TIMEOUT" if error.timed_out else "CRASH"
    said = " ".join(error.tail.split())[-_LONGEST_TAIL:]
    return f"{verdict}: no inventory of {error.reference}: {error.reason}. {said}"


@_explains(RebuildError)
def _(error: RebuildError) -> str:
    needs = _listed(error.needs)
    match error.obstacle:
        case "host":
            return (
                f"{error.reference} is the Python that was running when it was pinned, and nothing"
                " says how to make that again. `bitsect verify` looks at the one that runs now."
            )
        case "recipe":
            return (
                f"{error.reference} is a hybrid, which is made again from its images ({needs})."
                " Pull or load them, then run the same command again."
            )
    return (
        f"the image of {error.reference} is not here and cannot be pulled ({needs}). Load it, or"
        " name a stack to compare with: `bitsect verify MANIFEST REF`."
    )


@_explains(ArchiveError)
def _(error: ArchiveError) -> str:
    return (
        f"the engine's export of an image cannot be read: {error.reason}. Run the same command"
        " again; if it stays so, pull or load the image again."
    )


@_explains(ClashError)
def _(error: ClashError) -> str:
    return (
        f"UNRESOLVED: {error.component} and {error.other} cannot be in one image at these points:"
        f" one has a file at {error.path}, the other a folder."
    )


@_explains(CanonicalError)
def _(error: CanonicalError) -> str:
    return f"a value has no digest, at {error.place or 'the top'}: {error.reason}."


@_explains(ProgramError)
def _(error: ProgramError) -> str:
    return f"cannot run {error.program}: {error.reason}."


@_explains(SessionClosedError)
def _(error: SessionClosedError) -> str:
    return f"{error.program} was stopped before it had ended."


# Probes and traces


@_explains(ProbeError)
def _(error: ProbeError) -> str:
    return f"the probe cannot run in this stack: {error.reason}."


@_explains(HostError)
def _(error: HostError) -> str:
    return f"INFRA: the probe could not go on: {error.reason}. Make room and run it again."


@_explains(FingerprintError)
def _(error: FingerprintError) -> str:
    return f"a tensor of {error.dtype} cannot be fingerprinted: {error.reason}."


@_explains(EventKeyError)
def _(error: EventKeyError) -> str:
    return f"{error.text!r} names no event: {error.reason}."


@_explains(SelfCheckError)
def _(error: SelfCheckError) -> str:
    return (
        f"INVALID: this stack computes a known fingerprint wrongly on {error.device}"
        f" ({error.case}: {error.actual} instead of {error.expected}), so nothing that it reports"
        " can be relied on."
    )


@_explains(UnknownArmError)
def _(error: UnknownArmError) -> str:
    return f"the probe has no arm {error.arm!r}. It has: {_listed(error.known)}."


@_explains(OutputError)
def _(error: OutputError) -> str:
    return f"cannot write to {error.path}: {error.reason}. Name another place."


@_explains(TraceError)
def _(error: TraceError) -> str:
    at = f", line {error.line}" if error.line else ""
    return (
        f"{error.path}{at}: not a trace to rely on: {error.reason}."
        " Run the probe again: `bitsect probe REF --output FOLDER`."
    )


@_explains(InvalidEvidence)
def _(error: InvalidEvidence) -> str:
    first, second = error.first, error.second
    match error.what:
        case "same-run":
            return "both traces come from one run of the probe: there is nothing to compare."
        case "controls":
            return (
                f"INVALID: the control {first} was not caught, so an equal result would mean"
                " nothing. Report this stack's versions as a defect of the probe."
            )
        case "fingerprint":
            return (
                f"INVALID: fingerprint and {second} of {first} contradict each other. Integer"
                " arithmetic or memory of this stack or host cannot be relied on."
            )
        case "empty":
            return "the traces hold no event that could be compared. Run the probe again."
    return (
        f"the traces answer different questions ({error.what}: {first} and {second})."
        " Run the probe on both stacks with the same arguments on the same kind of device."
    )


# Searches


@_explains(UnusableEnds)
def _(error: UnusableEnds) -> str:
    given = " and ".join(repr(reference) for reference in error.references)
    match error.reason:
        case "same":
            return f"good and bad are the same stack: {given} install the same versions."
        case "image":
            return (
                f"nothing to bisect: good and bad are the same image: {given} have one config"
                " digest."
            )
        case "twice":
            return f"{given} stands at two places of the chain. Name each image once, in order."
        case "builds":
            return (
                f"{error.references[0]} has the same version in both stacks, but in other builds,"
                " which cannot be mixed by version. Make them the same build first."
            )
        case "sides":
            return f"a search needs two references, one good:REF and one bad:REF, not {given}."
    return (
        f"a search needs two images, NAME:TAG, or two virtual environments, venv:, not {given}."
        " `bitsect probe` and `bitsect diff` also take host:."
    )


@_explains(EndFailed)
def _(error: EndFailed) -> str:
    remedy = "Name an end that runs."
    if "torch is not installed" in error.reason:
        remedy = "Name stacks that have torch, for the Python that they start."
        if error.reference.startswith("venv:"):
            remedy = "Add torch to the requirements of both ends."
    return (
        f"{error.verdict}: the {error.side} end, {error.reference}, did not run:"
        f" {error.reason or 'it said nothing'}. {remedy}"
    )


@_explains(NondeterministicEnd)
def _(error: NondeterministicEnd) -> str:
    return (
        f"NONDETERMINISTIC: the {error.side} end, {error.reference}, does not repeat itself in"
        f" {counted(len(error.events), 'event')}; the first is {error.events[0]}. A search would"
        " walk on noise: make that operation deterministic first."
    )


@_explains(NothingToBisect)
def _(error: NothingToBisect) -> str:
    return f"nothing to bisect: the two stacks agree on all {error.compared} events."


@_explains(StoreError)
def _(error: StoreError) -> str:
    match error.reason:
        case "newer":
            return (
                f"the store {error.path} was written by a newer bitsect (schema {error.found};"
                f" this one reads up to {error.known}). Upgrade bitsect, or set BITSECT_DATA to"
                " another folder."
            )
        case "foreign":
            return f"{error.path} is not a store of bitsect. Set BITSECT_DATA to another folder."
        case "damaged":
            return (
                f"{error.path} is damaged: {error.found}, kept as {error.known}. Move the store"
                " away, or restore it, and run the search again."
            )
    return f"the store {error.path} cannot be used: {error.reason}."


@_explains(SessionBusy)
def _(error: SessionBusy) -> str:
    process = f" by process {error.process}" if error.process else ""
    number = f" as session {error.session}" if error.session else ""
    return f"this search is being run already{process}{number}. Watch it with `bisect status`."


@_explains(NoSession)
def _(error: NoSession) -> str:
    if not error.known:
        return "there is no session yet. Begin one: bisect start good:REF bad:REF."
    known = _listed([str(number) for number in error.known])
    return f"there is no session {error.wanted}. There are: {known}."


@_explains(NoRun)
def _(error: NoRun) -> str:
    return (
        f"session {error.session} has no run {error.wanted}; it has {error.runs}."
        " `bisect log` lists them."
    )


@_explains(NoManifest)
def _(error: NoManifest) -> str:
    return (
        f"run {error.run} of session {error.session} has no manifest: its stack was never made."
        f" `bisect log --run {error.run}` says why."
    )


@_explains(NotMadeOfParts)
def _(error: NotMadeOfParts) -> str:
    return (
        f"the {error.side} end, {error.reference}, has other bits in"
        f" {counted(len(error.events), 'event')}"
        f" when it is put together from its components; the first is {error.events[0]}. Something"
        " of the image that is no component matters, such as its user, extended attributes, or a"
        " loader cache older than its libraries: `bitsect diff` lists what the images' configs"
        " differ in. Make that the same in both images first."
    )
