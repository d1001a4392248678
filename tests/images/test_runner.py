"""What becomes of an inventory and of a probe's run, well or badly ended."""

from __future__ import annotations

import dataclasses
import json
import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bitsect.images.errors import InfrastructureError
from bitsect.images.layers import Binary
from bitsect.images.manifest import Manifest, from_inventory, image_layer, with_libraries
from bitsect.images.manifest_errors import InventoryError, ManifestError
from bitsect.images.payload import Payload, staged_probe
from bitsect.images.reference import parse_reference
from bitsect.images.runner import (
    ProbeOptions,
    ProbeRun,
    changed_libraries,
    full_manifest,
    loaded_libraries_unchanged,
    run_probe,
    take_inventory,
)
from bitsect.images.runtime.errors import ProgramError, SessionClosedError
from bitsect.images.runtime.host import HostRuntime
from bitsect.images.runtime.local import LocalSession
from bitsect.images.runtime.protocol import Completed, RunSpec
from bitsect.images.stack_source import source_of
from tests.images.fake_stacks import identity, image_stack
from tests.images.test_manifest import inventory

LONG = 120.0
GOOD = """
import argparse, json, os, pathlib
parser = argparse.ArgumentParser()
for name in ("out", "arms", "seed", "certify", "device", "manifest"):
    parser.add_argument("--" + name)
options = parser.parse_args()
out = pathlib.Path(options.out)
out.mkdir(parents=True, exist_ok=True)
(out / "rank00000.jsonl").write_text(json.dumps(vars(options)))
(out / "touched.json").write_text(json.dumps({
    "schema": 1, "modules": ["os"], "distributions": ["numpy"], "problems": [],
    "libraries": [{"path": "/lib/x.so", "size": 1, "build_id": "aa", "soname": "x.so"}],
}))
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[LocalSession]:
    host = HostRuntime(tmp_path / "scratch")
    stack = host.resolve(parse_reference("host:"))
    with host.open(host.ensure(stack)) as opened:
        yield opened


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., Payload]:
    """A payload whose probe or inventory is the given program."""

    def make(probe: str = "", inventory: str = "") -> Payload:
        part = tmp_path / "fake" / "bitsect" / "probes"
        part.mkdir(parents=True)
        (part.parent / "__init__.py").write_text("")
        (part / "__main__.py").write_text(textwrap.dedent(probe))
        (part / "inventory.py").write_text(textwrap.dedent(inventory))
        return Payload(tmp_path / "fake", "sha256:fake")

    return make


Probed = Callable[..., ProbeRun]


@pytest.fixture
def probed(session: LocalSession, fake: Callable[..., Payload], tmp_path: Path) -> Probed:
    def run(source: str, timeout: float = LONG, **options: Any) -> ProbeRun:
        chosen = ProbeOptions(**options)
        return run_probe(session, fake(probe=source), chosen, tmp_path / "out", timeout)

    return run


class TestProbe:
    def test_a_good_run_has_a_trace_and_what_it_touched(
        self, probed: Probed, tmp_path: Path
    ) -> None:
        done = probed(
            GOOD, arms=("data",), seed=3, certify="all", device="cpu", manifest="sha256:m"
        )
        assert (done.verdict, done.invalid, done.reason) == (None, None, "")
        assert done.trace == tmp_path / "out" / "rank00000.jsonl"
        asked = json.loads(done.trace.read_text())
        assert Path(asked.pop("out")).parent.parent == tmp_path / "scratch"
        assert asked == {
            "arms": "data", "seed": "3", "certify": "all", "device": "cpu",
            "manifest": "sha256:m",
        }  # fmt: skip
        assert done.touched is not None
        assert done.touched.libraries == (Binary("/lib/x.so", 1, "aa", "x.so"),)
        assert done.touched.distributions == ("numpy",)
        # An earlier probe did not tell files and variables.
        assert (done.touched.files, done.touched.variables) == ((), ())
        assert done.returncode == 0
        assert done.duration > 0

    @pytest.mark.parametrize(
        ("source", "verdict", "reason", "returncode", "signal"),
        [
            ("raise ValueError('bad numbers')", "CRASH", "ValueError: bad numbers", 1, None),
            ("raise SystemExit(4)", "CRASH", "exit 4", 4, None),
            ("import os; os.abort()", "CRASH", "ended by SIGABRT", -6, "SIGABRT"),
            (
                "import os; os.kill(os.getpid(), 11)", "CRASH", "ended by SIGSEGV", -11, "SIGSEGV",
            ),
            ("import os; os.kill(os.getpid(), 4)", "CRASH", "ended by SIGILL", -4, "SIGILL"),
            ("import os; os.kill(os.getpid(), 9)", "INFRA", "from outside", -9, "SIGKILL"),
            ("import os; os.kill(os.getpid(), 15)", "INFRA", "from outside", -15, "SIGTERM"),
            (
                "import sys; sys.exit(print('bitsect.probes: no memory', file=sys.stderr) or 3)",
                "INFRA", "no memory", 3, None,
            ),
            ("raise OSError(28, 'x')", "INFRA", "[Errno 28] x", 1, None),
            (
                "import sys; sys.stderr.write('out cannot be written: No space left on device\\n');"
                "sys.exit(2)",
                "INFRA", "No space left on device", 2, None,
            ),
            ("raise OSError(122, 'Disk quota exceeded')", "INFRA", "quota", 1, None),
        ],
    )  # fmt: skip
    def test_a_bad_end_has_a_verdict(
        self,
        probed: Probed,
        source: str,
        verdict: str,
        reason: str,
        returncode: int,
        signal: str | None,
    ) -> None:
        # Given a probe that had already written everything when it ended badly
        done = probed(GOOD + "\n" + source)
        # Then nothing of it is evidence
        assert done.verdict == verdict
        assert reason in done.reason
        assert (done.returncode, done.signal) == (returncode, signal)
        assert (done.trace, done.touched, done.invalid) == (None, None, None)

    @pytest.mark.parametrize(
        ("source", "verdict"),
        [
            ("raise OSError(28, 'No space left on device')", "CRASH"),
            ("import os; os.kill(os.getpid(), 15)", "CRASH"),
            ("raise SystemExit(3)", "CRASH"),
            ("import os; os.kill(os.getpid(), 9)", "INFRA"),
        ],
        ids=["its disk", "a signal", "its memory", "the kernel"],
    )
    def test_in_a_container_all_but_the_kernels_doing_is_its_own(
        self, session: LocalSession, probed: Probed, source: str, verdict: str
    ) -> None:
        session.stack = dataclasses.replace(session.stack, image=identity())
        assert probed(GOOD + "\n" + source).verdict == verdict

    def test_too_slow_is_a_timeout(self, probed: Probed) -> None:
        done = probed("import time; print('at work', flush=True); time.sleep(1000)", timeout=1.0)
        assert done.verdict == "TIMEOUT"
        assert done.log == "at work"

    def test_endless_output_is_a_crash(self, probed: Probed) -> None:
        done = probed("while True: print('x' * 100_000)")
        assert done.verdict == "CRASH"
        assert "without end" in done.reason

    def test_the_log_is_the_end_of_what_it_said(self, probed: Probed) -> None:
        done = probed("import sys\nfor i in range(99): print(i, file=sys.stderr)\nsys.exit(1)")
        assert done.log.splitlines() == [str(number) for number in range(79, 99)]
        assert done.reason == "exit 1: 98"

    def test_its_own_refusal_is_invalid_evidence(self, probed: Probed) -> None:
        done = probed("import sys; print('torch is too old', file=sys.stderr); sys.exit(2)")
        assert (done.verdict, done.invalid) == (None, "torch is too old")
        assert done.trace is None

    def test_a_silent_refusal_too(self, probed: Probed) -> None:
        assert probed("raise SystemExit(2)").invalid == "the probe gives no reason"

    @pytest.mark.parametrize("name", ["rank00000.jsonl", "touched.json"])
    def test_a_missing_file_is_invalid_evidence(self, probed: Probed, name: str) -> None:
        done = probed(GOOD + f"\n(out / '{name}').unlink()")
        assert done.verdict is None
        assert name in (done.invalid or "")
        assert (done.trace, done.touched) == (None, None)

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', '{"schema": "1"}', "\\xff"])
    def test_a_malformed_one_is_invalid_evidence(self, probed: Probed, text: str) -> None:
        source = f"(out / 'touched.json').write_bytes('{text}'.encode('latin-1'))"
        done = probed(GOOD + "\n" + source)
        assert done.verdict is None
        assert (done.invalid or "").startswith("touched.json: ")

    def test_an_earlier_trace_is_not_taken_for_a_new_one(
        self, session: LocalSession, fake: Callable[..., Payload], tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        payload = fake(probe=GOOD)
        assert run_probe(session, payload, ProbeOptions(), out, LONG).trace
        (payload.folder / "bitsect" / "probes" / "__main__.py").write_text("")
        again = run_probe(session, payload, ProbeOptions(), out, LONG)
        assert again.trace is None
        assert again.invalid

    def test_it_runs_from_the_payload_wherever_it_is_started(
        self, probed: Probed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The tests run in the repository, whose own `bitsect` must not answer.
        assert (Path(os.getcwd()) / "bitsect").exists()
        monkeypatch.setenv("PYTHONPATH", os.getcwd())
        assert probed(GOOD).trace

    def test_a_python_that_does_not_start_is_the_hosts_fault(
        self, session: LocalSession, fake: Callable[..., Payload], tmp_path: Path
    ) -> None:
        session.python = Path("/nonexistent/python")
        with pytest.raises(InfrastructureError, match="No such file") as caught:
            run_probe(session, fake(), ProbeOptions(), tmp_path / "out", LONG)
        assert caught.value.kind == "tool"

    def test_a_closed_session_is_no_answer(
        self, session: LocalSession, fake: Callable[..., Payload], tmp_path: Path
    ) -> None:
        session.close()
        with pytest.raises(SessionClosedError):
            run_probe(session, fake(), ProbeOptions(), tmp_path / "out", LONG)


class TestInventory:
    def test_it_becomes_a_manifest_of_the_stack(
        self, session: LocalSession, tmp_path: Path
    ) -> None:
        manifest = take_inventory(session, staged_probe(tmp_path))
        names = {each.name: each.version for each in manifest.software.distributions}
        assert names["pytest"] == pytest.__version__
        assert manifest.controls.variables["PYTHONHASHSEED"] == "0"
        assert not manifest.software.warm_up

    def test_it_says_how_to_get_the_stack_again(
        self, session: LocalSession, tmp_path: Path
    ) -> None:
        source = source_of(take_inventory(session, staged_probe(tmp_path)))
        assert (source.runtime, source.reference, source.lock) == ("host", "host:", None)

    def test_one_of_an_image_has_its_layer_and_looks_at_the_whole_of_it(
        self, session: LocalSession, fake: Callable[..., Payload]
    ) -> None:
        session.stack = image_stack(identity())
        body = json.dumps(inventory())
        program = f"import sys; assert sys.argv[1:] == ['--image']; print({body!r})"
        manifest = take_inventory(session, fake(inventory=program))
        assert manifest.image == image_layer(identity())
        assert manifest.evidence["image"]["engine"] == "Docker Engine 29.0"

    def test_taken_twice_it_is_the_same(self, session: LocalSession, tmp_path: Path) -> None:
        payload = staged_probe(tmp_path)
        first, second = take_inventory(session, payload), take_inventory(session, payload)
        assert first.root == second.root

    @pytest.mark.parametrize("options", [{}, {"warm_up": True}, {"deep": True}])
    def test_its_options_are_handed_on(
        self, session: LocalSession, fake: Callable[..., Payload], options: dict[str, bool]
    ) -> None:
        payload = fake(inventory="import sys; sys.exit(' '.join(sys.argv[1:]) or 'none')")
        with pytest.raises(InventoryError) as caught:
            take_inventory(session, payload, **options)
        expected = "".join(f"--{name.replace('_', '-')}" for name in options)
        assert caught.value.tail == (expected or "none")

    @pytest.mark.parametrize(
        ("source", "reason"),
        [
            ("raise SystemExit('broken')", "exit 1: broken"),
            ("import os; os.abort()", "ended by SIGABRT"),
            ("print('{')", "truncated"),
            ("print('[]')", "Expected `object`"),
        ],
    )
    def test_one_that_fails_says_how(
        self, session: LocalSession, fake: Callable[..., Payload], source: str, reason: str
    ) -> None:
        with pytest.raises(InventoryError) as caught:
            take_inventory(session, fake(inventory=source))
        assert reason in caught.value.reason
        assert caught.value.reference == "host:"

    def test_one_of_another_schema_is_not_understood(
        self, session: LocalSession, fake: Callable[..., Payload]
    ) -> None:
        with pytest.raises(ManifestError) as caught:
            take_inventory(session, fake(inventory="print('{\"schema\": 99}')"))
        assert caught.value.place == "schema"


class TestLibraries:
    @pytest.fixture
    def manifest(self, session: LocalSession, tmp_path: Path) -> Manifest:
        return take_inventory(session, staged_probe(tmp_path))

    def test_those_just_seen_are_unchanged(self, manifest: Manifest) -> None:
        assert manifest.software.libraries
        assert loaded_libraries_unchanged(manifest)

    def test_unknown_ones_are_never_unchanged(self, manifest: Manifest) -> None:
        body = json.loads(msgspec.json.encode(manifest))
        del body["image"], body["digests"]
        body["software"]["libraries"] = None
        assert not loaded_libraries_unchanged(from_inventory(body))

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda path: path.unlink(),
            lambda path: path.write_bytes(path.read_bytes() + b"x"),
            lambda path: path.write_bytes(b"not a library"),
            lambda path: path.chmod(0o000) if os.geteuid() else path.unlink(),
        ],
    )
    def test_one_that_was_exchanged_is_named(
        self, manifest: Manifest, tmp_path: Path, spoil: Callable[[Path], object]
    ) -> None:
        # Given a manifest that has a library within its environment
        assert manifest.software.libraries
        real = Path(manifest.software.libraries[-1].path)
        copy = tmp_path / "env" / "lib" / "copy.so"
        copy.parent.mkdir(parents=True)
        copy.write_bytes(real.read_bytes())
        placed = msgspec.structs.replace(
            manifest.software.libraries[-1], path="<prefix>/lib/copy.so"
        )
        more = with_libraries(manifest, (placed,))
        assert changed_libraries(more, tmp_path / "env") == ()
        # When it changes, then it is named
        spoil(copy)
        assert changed_libraries(more, tmp_path / "env") == ("<prefix>/lib/copy.so",)

    def test_those_of_the_probe_are_added(self, manifest: Manifest, probed: Probed) -> None:
        touched = probed(GOOD).touched
        assert touched is not None
        full = full_manifest(manifest, touched)
        assert touched.libraries[0] in (full.software.libraries or ())
        assert full.static_root == manifest.static_root


def test_a_lost_program_is_no_verdict_on_the_stack(
    session: LocalSession,
    fake: Callable[..., Payload],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(spec: RunSpec) -> Completed:
        raise ProgramError(spec.arguments[0], "it was lost")

    monkeypatch.setattr(session, "exec", lost)
    with pytest.raises(InfrastructureError, match="it was lost"):
        run_probe(session, fake(), ProbeOptions(), tmp_path / "out", LONG)


def test_what_a_probe_says_is_heard_as_it_comes(
    session: LocalSession, fake: Callable[..., Payload], tmp_path: Path
) -> None:
    # Given a probe that is asked to tell of its progress
    telling = fake(probe="import sys; print(sys.argv[-1]); print('done', file=sys.stderr)")
    heard: list[bytes] = []
    run_probe(session, telling, ProbeOptions(), tmp_path / "out", LONG, heard.append)
    assert sorted(b"".join(heard).split()) == [b"--progress", b"done"]
