"""Running one trial: a stack is built, looked at, probed, and what it gave is written down."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import msgspec

from bitsect.bisect.errors import StoreError
from bitsect.bisect.records import Observation
from bitsect.bisect.specimen import Specimen
from bitsect.bisect.store import Store
from bitsect.bisect.verdicts import Verdict
from bitsect.images.canonical import digest
from bitsect.images.errors import InfrastructureError, UnbuildableError
from bitsect.images.manifest import Manifest, from_canonical
from bitsect.images.manifest_errors import InventoryError, ManifestError
from bitsect.images.payload import Payload
from bitsect.images.rules import EnvironmentRules, Rules
from bitsect.images.runner import (
    HOST_FAULT,
    INVENTORY_SECONDS,
    ProbeOptions,
    ProbeRun,
    full_manifest,
    loaded_libraries_unchanged,
    run_probe,
    take_inventory,
)
from bitsect.images.runtime.errors import ProgramError
from bitsect.images.runtime.protocol import Handle, Runtime, Session, Stack
from bitsect.images.runtime.scratch import ScratchFolder
from bitsect.probes.errors import TraceError
from bitsect.probes.trace import read_trace

#: Seconds that one probe run may take.
PROBE_TIMEOUT = 600.0
#: A run that the host did not survive this often is not started again.
FATAL_STARTS = 2
#: Only the kernel ends a container's program so, for the host's sake.
ENDED_BY_THE_KERNEL = "ended by SIGKILL"
NO_CONDITIONS: Mapping[str, object] = MappingProxyType({})
#: How often a stack is built that then is not what was asked for.
ATTEMPTS = 2


class Laboratory:
    """Runs specimens and keeps what they give in the store.

    :param runtime: builds and opens the stacks.
    :param payload: the staged probe.
    :param options: what the probe is asked to do.
    :param scratch_root: where traces lie until they are in the store.
    :param rules: of the stacks' kind; by default those of virtual environments.
    :param conditions: of a run beside its stack, such as limits. What was observed under others
        is no answer: a stack may need more than it was given.
    :param timeout: seconds that one run of the probe may take.
    :param phase: told what a trial is doing, from whichever thread runs it.
    """

    def __init__(
        self,
        runtime: Runtime,
        payload: Payload,
        store: Store,
        options: ProbeOptions,
        scratch_root: Path,
        *,
        rules: Rules | None = None,
        conditions: Mapping[str, object] = NO_CONDITIONS,
        timeout: float = PROBE_TIMEOUT,
        phase: Callable[[str, str], None] = lambda label, phase: None,
    ) -> None:
        self._runtime = runtime
        self._payload = payload
        self._store = store
        self._options = options
        self.salt = ""
        self._scratch_root = scratch_root
        self._rules = rules or EnvironmentRules()
        self._timeout = timeout
        self._conditions = {"timeout": str(timeout), **conditions}
        self._phase = phase
        self._open: set[Session] = set()
        self._guard = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """End every running trial; what they were doing is not counted as an answer."""
        with self._guard:
            self._stopped = True
            running = list(self._open)
        for session in running:
            session.close()

    def run(self, specimen: Specimen) -> tuple[Observation, str]:
        """Run a specimen; its observation, and ``run`` or ``cache`` for where it came from.

        :raises InfrastructureError: the host failed; nothing is said about the stack.
        """
        watch = _Watch()
        for attempt in range(ATTEMPTS):
            try:
                with watch.part("environment"):
                    self._phase(specimen.label, "building the stack")
                    handle = self._runtime.ensure(specimen.stack)
            except UnbuildableError as error:
                reason = f"{error.what}: {last_line(error.tail)}"
                return self.failed(specimen, Verdict.UNBUILDABLE, reason, error.tail), "run"
            with self._opened(handle) as session:
                try:
                    with watch.part("inventory"):
                        self._phase(specimen.label, "taking the inventory")
                        manifest = self._inventory(session, specimen.checked)
                except (InventoryError, ManifestError, ProgramError) as error:
                    if specimen.stack.image is None:
                        raise
                    return self._speechless(specimen, error), "run"
                strange = self._rules.contradiction(specimen.stack, manifest)
                if not strange:
                    return self._examine(specimen, session, manifest, watch)
            # Someone may have changed what was built; only what was built anew is to blame.
            if attempt + 1 < ATTEMPTS:
                handle.discard()
        return self.failed(specimen, Verdict.UNBUILDABLE, strange), "run"

    def _inventory(self, session: Session, checked: tuple[str, ...] = ()) -> Manifest:
        timeout = min(self._timeout, INVENTORY_SECONDS)
        return take_inventory(session, self._payload, deep=checked, timeout=timeout)

    def _speechless(
        self, specimen: Specimen, error: InventoryError | ManifestError | ProgramError
    ) -> Observation:
        """Write down that an image did not even say what it consists of.

        A container has all that it needs to itself, so that is its own doing.
        """
        if isinstance(error, InventoryError) and error.reason == ENDED_BY_THE_KERNEL:
            raise InfrastructureError("host", f"{specimen.label}: {error.reason}") from error
        timed_out = isinstance(error, InventoryError) and error.timed_out
        return self.failed(
            specimen,
            Verdict.TIMEOUT if timed_out else Verdict.CRASH,
            f"no inventory of it: {error.reason}",
            error.tail if isinstance(error, InventoryError) else "",
        )

    def failed(
        self, specimen: Specimen, verdict: Verdict, reason: str, log: str = ""
    ) -> Observation:
        """Write down that there was nothing to run.

        :param log: the last lines of whatever failed.
        """
        run = self._store.begin_run(None, specimen.label)
        log_bytes = log.encode() if log else None
        return self._store.finish_run(run, failure=verdict, reason=reason, log=log_bytes)

    def key(self, manifest: Manifest, repetition: int) -> str:
        """What makes two runs one: stack, probe, arguments, repetition."""
        options = msgspec.to_builtins(self._options)
        # The trace's header names the manifest; the manifest is in the key already.
        del options["manifest"]
        return digest(
            "trial",
            {
                "stack": manifest.static_root,
                "probe": self._payload.digest,
                "options": options,
                "repetition": repetition,
                "salt": self.salt,
                "conditions": self._conditions,
            },
        )

    def circumstances(self, stack: Stack) -> str:
        """Digest of all that trials share with this stack, whatever distributions they have."""
        with self._opened(self._runtime.ensure(stack)) as session:
            manifest = self._inventory(session)
        shared = {**self._rules.shared(manifest), "conditions": self._conditions}
        return digest("circumstances", shared)

    def _examine(
        self, specimen: Specimen, session: Session, manifest: Manifest, watch: _Watch
    ) -> tuple[Observation, str]:
        key = self.key(manifest, specimen.repetition)
        known = self._known(key, manifest, specimen.label)
        if known is not None:
            return known, "cache"
        return self._probe(specimen, session, manifest, key, watch), "run"

    def _known(self, key: str, manifest: Manifest, label: str) -> Observation | None:
        """An earlier observation of this run, if it is whole and what it loaded is as it was."""
        observation = self._store.observed(key)
        if observation is None:
            if self._store.fatal_starts(key) < FATAL_STARTS:
                return None
            run = self._store.begin_run(None, label)
            reason = f"started {FATAL_STARTS} times, and each time the host went down"
            return self._store.finish_run(run, failure=Verdict.INFRA, reason=reason)
        if observation.failure is not None or observation.manifest is None:
            return observation
        try:
            then = from_canonical(self._store.blobs.get(observation.manifest))
            self._store.blobs.get(observation.trace or "")
        except StoreError:
            # A damaged memory is no memory; the run is made again.
            return None
        prefix = manifest.evidence.get("prefix")
        unchanged = loaded_libraries_unchanged(then, Path(prefix) if prefix else None)
        return observation if unchanged else None

    def _probe(
        self, specimen: Specimen, session: Session, manifest: Manifest, key: str, watch: _Watch
    ) -> Observation:
        run = self._store.begin_run(key, specimen.label)
        self._phase(specimen.label, "running the probe")
        # What the probe will load is not known yet, so the trace names the static part.
        options = dataclasses.replace(self._options, manifest=manifest.static_root)
        scratch = ScratchFolder(self._scratch_root)
        try:
            with watch.part("probe"):
                ran = run_probe(session, self._payload, options, scratch.path, self._timeout)
            return self._written(run, ran, manifest, specimen.stack, watch)
        except BaseException as error:
            self._store.abandon_run(run, type(error).__name__)
            raise
        finally:
            scratch.remove()

    def _written(
        self,
        run: int,
        ran: ProbeRun,
        manifest: Manifest,
        stack: Stack,
        watch: _Watch,
    ) -> Observation:
        if ran.verdict == Verdict.INFRA:
            short_of_space = ran.signal is None and ran.returncode != HOST_FAULT
            raise InfrastructureError("disk" if short_of_space else "host", ran.reason)
        failure, reason, full = self._judged(ran, manifest, stack)
        beside = f"with {', '.join(stack.added)} besides" if stack.added else ""
        kept = ran.trace if failure is None else None
        return self._store.finish_run(
            run,
            failure=failure,
            reason=reason or beside,
            trace=None if kept is None else kept.read_bytes(),
            manifest=full.canonical,
            log=ran.log.encode(),
            touched=self._rules.touched(stack, ran.touched) if ran.touched else (),
            milliseconds=watch.milliseconds,
        )

    def _judged(
        self, ran: ProbeRun, manifest: Manifest, stack: Stack
    ) -> tuple[Verdict | None, str, Manifest]:
        """How a run failed, if it did, why, and what was there in all."""
        if ran.verdict is not None:
            return Verdict(ran.verdict), ran.reason, manifest
        if ran.invalid is not None or ran.trace is None or ran.touched is None:
            return Verdict.CRASH, ran.invalid or "it left no trace", manifest
        fault = trace_fault(ran.trace, manifest, self._payload)
        if fault:
            return Verdict.CRASH, fault, manifest
        try:
            full = full_manifest(manifest, ran.touched)
        except ManifestError as error:
            return Verdict.CRASH, f"{error.place}: {error.reason}", manifest
        unmoved = self._rules.unmoved(stack, manifest, ran.touched)
        return (Verdict.UNBUILDABLE if unmoved else None), unmoved, full

    @contextmanager
    def _opened(self, handle: Handle) -> Iterator[Session]:
        """A session that `stop` can end."""
        try:
            session = self._runtime.open(handle)
            with self._guard:
                self._open.add(session)
                stopped = self._stopped
            try:
                if stopped:
                    session.close()
                yield session
            finally:
                session.close()
                with self._guard:
                    self._open.discard(session)
        finally:
            handle.release()


class _Watch:
    """Times the parts of a trial."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, int] = {}

    def part(self, name: str) -> _Part:
        return _Part(self, name)


class _Part:
    def __init__(self, watch: _Watch, name: str) -> None:
        self._watch = watch
        self._name = name
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = time.monotonic()

    def __exit__(self, *raised: object) -> None:
        spent = round((time.monotonic() - self._start) * 1000)
        self._watch.milliseconds[self._name] = spent


def last_line(text: str) -> str:
    """The last line with something in it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def trace_fault(path: Path, manifest: Manifest, payload: Payload) -> str:
    """Why a trace is none of this run; empty if it is one. Whoever ran may have written anything.

    Looked for before it is kept, so that the store never holds what it could only call damaged.
    """
    try:
        header = read_trace(path).header
    except (TraceError, RecursionError) as error:
        return f"its trace cannot be relied on: {getattr(error, 'reason', 'nested too deep')}"
    if header.manifest != manifest.static_root:
        return "its trace is of another stack"
    if header.probe != payload.digest:
        return "its trace is of another probe"
    return ""
