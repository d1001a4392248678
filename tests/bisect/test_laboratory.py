"""Running one trial: what is written down, what is found again, and what is nobody's fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from bitsect.bisect import laboratory as module
from bitsect.bisect import store as store_module
from bitsect.bisect.laboratory import FATAL_STARTS, Laboratory, trace_fault
from bitsect.bisect.specimen import Specimen
from bitsect.bisect.store import Store
from bitsect.bisect.verdicts import Verdict
from bitsect.images.errors import InfrastructureError, UnbuildableError
from bitsect.images.manifest import Manifest, from_canonical, from_inventory
from bitsect.images.manifest_errors import InventoryError, ManifestError
from bitsect.images.payload import Payload
from bitsect.images.runner import ProbeOptions, ProbeRun, Touched
from bitsect.images.runtime.errors import ProgramError
from bitsect.images.runtime.protocol import Runtime
from tests.bisect.fakes import stack
from tests.bisect.traces import event, trace, write
from tests.images.fake_stacks import identity, image_stack
from tests.images.test_manifest import inventory

PAYLOAD = Payload(Path("/payload"), "sha256:probe")


def manifest_with(**versions: str) -> Manifest:
    """A manifest whose only distributions are these."""
    report = inventory()
    sample = report["software"]["distributions"][0]
    report["software"]["distributions"] = [
        {**sample, "name": name, "version": version, "altered": [], "missing": []}
        for name, version in versions.items()
    ]
    return from_inventory(report)


@dataclass(eq=False)
class FakeSession:
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeHandle:
    released: bool = False
    discarded: bool = False
    name: str = "fake"

    def discard(self) -> None:
        self.discarded = True

    def release(self) -> None:
        self.released = True


@dataclass
class Bench:
    """A laboratory whose runtime, inventory and probe are a test's to decide."""

    store: Store
    folder: Path
    fault: str = ""
    manifest: Manifest = field(default_factory=lambda: manifest_with(numpy="2.0.0"))
    unchanged: bool = True
    build: Callable[[], FakeHandle] = FakeHandle
    probe: Callable[[Path], ProbeRun] | None = None
    sessions: list[FakeSession] = field(default_factory=list)
    handles: list[FakeHandle] = field(default_factory=list)
    ran: int = 0

    name = "fake"

    def ensure(self, stack: Any) -> FakeHandle:
        self.handles.append(self.build())
        return self.handles[-1]

    def open(self, handle: Any) -> FakeSession:
        self.sessions.append(FakeSession())
        return self.sessions[-1]

    def run_probe(self, session: Any, payload: Any, options: Any, out: Path, _: float) -> ProbeRun:
        self.ran += 1
        return ended(out) if self.probe is None else self.probe(out)

    def laboratory(self, options: ProbeOptions | None = None, **more: Any) -> Laboratory:
        return Laboratory(
            cast(Runtime, self),
            PAYLOAD,
            self.store,
            options or ProbeOptions(),
            self.folder / "scratch",
            **more,
        )

    def changed(self, **attributes: Any) -> Bench:
        for name, value in attributes.items():
            setattr(self, name, value)
        return self

    def run(
        self, repetition: int = 0, options: ProbeOptions | None = None, salt: str = ""
    ) -> tuple[Any, str]:
        specimen = Specimen(stack({"pip:numpy": "2.0.0"}), repetition, "numpy 2.0.0")
        laboratory = self.laboratory(options)
        laboratory.salt = salt
        return laboratory.run(specimen)


def ended(out: Path, **changes: Any) -> ProbeRun:
    """A run of the probe that went well, but for the changes."""
    trace = out / "trace.jsonl"
    trace.write_text("a trace")
    well: dict[str, Any] = {
        "verdict": None,
        "invalid": None,
        "reason": "",
        "trace": trace,
        "touched": Touched(1, (), ("numpy",), ("numpy",)),
        "returncode": 0,
        "signal": None,
        "duration": 1.0,
        "log": "last lines",
    }
    if changes.get("verdict") or changes.get("invalid"):
        well |= {"trace": None, "touched": None}
    return ProbeRun(**{**well, **changes})


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(Store(tmp_path / "data"), tmp_path)
    monkeypatch.setattr(module, "take_inventory", lambda *_, **__: made.manifest)
    monkeypatch.setattr(module, "run_probe", made.run_probe)
    monkeypatch.setattr(module, "trace_fault", lambda *_: made.fault)
    monkeypatch.setattr(
        module, "loaded_libraries_unchanged", lambda manifest, prefix: made.unchanged
    )
    yield made
    made.store.close()
    assert all(session.closed for session in made.sessions)
    assert all(handle.released for handle in made.handles)


def test_a_run_is_written_down_with_all_that_it_gave(bench: Bench) -> None:
    seen, source = bench.run()

    assert (source, seen.failure) == ("run", None)
    assert bench.store.blobs.get(seen.trace) == b"a trace"
    assert bench.store.blobs.get(seen.log) == b"last lines"
    assert from_canonical(bench.store.blobs.get(seen.manifest)).software.warm_up
    assert seen.touched == ("pip:numpy",)
    assert set(seen.milliseconds) == {"environment", "inventory", "probe"}


def test_the_same_run_is_answered_from_the_store(bench: Bench) -> None:
    first, _ = bench.run()
    assert bench.run() == (first, "cache")
    assert bench.ran == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda bench: bench.run(repetition=1),
        lambda bench: bench.run(options=ProbeOptions(seed=1)),
        lambda bench: bench.run(options=ProbeOptions(arms=("data",))),
        lambda bench: bench.run(salt="another session"),
        lambda bench: bench.changed(unchanged=False).run(),
        lambda bench: bench.changed(manifest=other_hardware()).run(),
    ],
    ids=["repetition", "seed", "arms", "salt", "a library was exchanged", "another CPU"],
)
def test_another_run_is_never_answered_from_the_store(bench: Bench, change: Any) -> None:
    bench.run()
    _, source = change(bench)
    assert source == "run"
    assert bench.ran == 2


def other_hardware() -> Manifest:
    report = inventory()
    report["hardware"]["cpu"]["flags"] = ["another"]
    sample = report["software"]["distributions"][0]
    report["software"]["distributions"] = [
        {**sample, "name": "numpy", "version": "2.0.0", "altered": [], "missing": []}
    ]
    return from_inventory(report)


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (manifest_with(numpy="2.0.1"), "asked for 2.0.0, found 2.0.1"),
        (manifest_with(), "asked for 2.0.0, found nothing"),
        (manifest_with(numpy="2.0.0", mkl="7"), "pip:mkl: not asked for, yet there"),
    ],
)
def test_what_is_not_as_asked_is_never_probed(bench: Bench, there: Manifest, said: str) -> None:
    bench.manifest = there
    seen, _ = bench.run()
    assert seen.failure is Verdict.UNBUILDABLE
    assert said in seen.reason
    assert bench.ran == 0


def test_an_environment_that_was_changed_is_built_anew(bench: Bench) -> None:
    # Given an environment that someone has changed since it was built
    right, wrong = bench.manifest, manifest_with(numpy="2.0.1")
    bench.manifest = wrong

    def rebuilt() -> FakeHandle:
        if bench.handles:
            bench.manifest = right
        return FakeHandle()

    bench.build = rebuilt
    seen, _ = bench.run()

    # Then it is thrown away, and the new one answers
    assert seen.failure is None
    assert [handle.discarded for handle in bench.handles] == [True, False]


def test_an_altered_file_is_never_probed(bench: Bench) -> None:
    report = inventory()
    sample = report["software"]["distributions"][0]
    altered = {**sample, "name": "numpy", "version": "2.0.0", "altered": ["numpy/core.so"]}
    report["software"]["distributions"] = [altered]
    bench.manifest = from_inventory(report)
    seen, _ = bench.run()
    assert seen.failure is Verdict.UNBUILDABLE
    assert "numpy/core.so is not as installed" in seen.reason


def test_a_build_that_fails_is_a_verdict(bench: Bench) -> None:
    def broken() -> FakeHandle:
        raise UnbuildableError("numpy 2.0.0", "gcc: not found")

    bench.build = broken
    seen, _ = bench.run()
    assert (seen.failure, seen.reason) == (Verdict.UNBUILDABLE, "numpy 2.0.0: gcc: not found")


@pytest.mark.parametrize("verdict", ["CRASH", "TIMEOUT"])
def test_a_probe_that_fails_is_a_verdict(bench: Bench, verdict: str) -> None:
    bench.probe = lambda out: ended(out, verdict=verdict, reason="SIGSEGV", returncode=-11)
    seen, _ = bench.run()
    assert (seen.failure, seen.reason, seen.trace) == (Verdict(verdict), "SIGSEGV", None)


def test_a_probe_that_cannot_run_is_a_crash_with_its_reason(bench: Bench) -> None:
    bench.probe = lambda out: ended(out, invalid="torch is not installed here", returncode=2)
    seen, _ = bench.run()
    assert (seen.failure, seen.reason) == (Verdict.CRASH, "torch is not installed here")


@pytest.mark.parametrize(("signal", "kind"), [(None, "disk"), ("SIGKILL", "host")])
def test_the_hosts_fault_is_no_verdict(bench: Bench, signal: str | None, kind: str) -> None:
    bench.probe = lambda out: ended(out, verdict="INFRA", reason="it happened", signal=signal)
    with pytest.raises(InfrastructureError) as caught:
        bench.run()
    assert caught.value.kind == kind
    bench.probe = None
    assert bench.run()[1] == "run"


def test_a_stack_that_takes_the_host_down_again_and_again_is_not_tried_for_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a trial that the host did not survive
    key = bench.laboratory().key(bench.manifest, 0)
    monkeypatch.setattr(store_module, "boot_id", lambda: "an earlier start")
    for _ in range(FATAL_STARTS):
        bench.store.begin_run(key, "x")
    monkeypatch.undo()

    seen = bench.laboratory()._known(key, bench.manifest, "numpy 2.0.0")

    assert seen is not None
    assert seen.failure is Verdict.INFRA
    assert bench.ran == 0


def test_a_damaged_memory_is_no_memory(bench: Bench) -> None:
    seen, _ = bench.run()
    bench.store.blobs.path(seen.trace).write_bytes(b"other bytes")
    assert bench.run()[1] == "run"
    assert bench.store.blobs.get(seen.trace) == b"a trace"


def test_no_scratch_folder_is_left(bench: Bench) -> None:
    bench.run()
    assert [p for p in (bench.folder / "scratch").iterdir() if p.is_dir()] == []


def test_a_stopped_laboratory_closes_what_is_open_and_opens_nothing_more(bench: Bench) -> None:
    laboratory = bench.laboratory()

    def stops(out: Path) -> ProbeRun:
        laboratory.stop()
        assert bench.sessions[0].closed
        return ended(out)

    bench.probe = stops
    specimen = Specimen(stack({"pip:numpy": "2.0.0"}), 0, "x")
    laboratory.run(specimen)

    laboratory.run(Specimen(stack({"pip:numpy": "2.0.0"}), 1, "x"))
    assert bench.sessions[1].closed


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (InventoryError("app:1", "ended by SIGSEGV", "Fatal Python error"), Verdict.CRASH),
        (InventoryError("app:1", "not done after 9 s", "", timed_out=True), Verdict.TIMEOUT),
        (ManifestError(None, "software", "expected `object`"), Verdict.CRASH),
        (ProgramError("/usr/bin/python3", "no such file"), Verdict.CRASH),
    ],
    ids=["crash", "timeout", "nonsense", "no Python"],
)
def test_an_image_that_does_not_say_what_it_is_has_failed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception, verdict: Verdict
) -> None:
    # Given an image, and then an environment, whose inventory cannot be taken
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(module, "take_inventory", refuse)

    # Then a container, which has all it needs to itself, is to blame for itself
    seen, source = bench.laboratory().run(Specimen(image_stack(identity()), 0, "mixed"))
    assert (seen.failure, source) == (verdict, "run")
    assert "no inventory of it" in seen.reason

    # And an environment may be the host's fault
    with pytest.raises(type(error)):
        bench.run()


def test_a_trace_that_is_none_of_this_run_is_never_kept(bench: Bench) -> None:
    # Given a stack that writes something else in the place of its trace
    bench.fault = "its trace is of another stack"
    seen, _ = bench.run()
    assert (seen.failure, seen.trace) == (Verdict.CRASH, None)
    assert seen.reason == bench.fault


def test_the_kernel_alone_ends_an_image_for_the_hosts_sake(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise InventoryError("app:1", "ended by SIGKILL", "")

    monkeypatch.setattr(module, "take_inventory", refuse)
    with pytest.raises(InfrastructureError):
        bench.laboratory().run(Specimen(image_stack(identity()), 0, "mixed"))


@pytest.mark.parametrize("changed", ["manifest", "probe", "text"])
def test_a_trace_is_believed_only_if_it_is_of_this_stack_and_probe(
    tmp_path: Path, changed: str
) -> None:
    # Given a trace as the probe writes it, and what it should say
    manifest = manifest_with(numpy="2.0.0")
    written = trace(event("sum", "one"))
    header = dataclasses.replace(written.header, manifest=manifest.static_root)
    path = write(dataclasses.replace(written, header=header), tmp_path / "t.jsonl")
    payload = Payload(tmp_path, header.probe)
    assert trace_fault(path, manifest, payload) == ""

    # When something about it is another
    if changed == "manifest":
        assert "another stack" in trace_fault(path, manifest_with(numpy="2.0.1"), payload)
    elif changed == "probe":
        assert "another probe" in trace_fault(path, manifest, Payload(tmp_path, "sha256:x"))
    else:
        path.write_text(path.read_text() + "more\n")
        assert "cannot be relied on" in trace_fault(path, manifest, payload)
