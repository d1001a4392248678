"""The probe as it is started: real processes, their traces, their errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import bitsect
from bitsect.probes import run
from bitsect.probes.arms import kernels
from bitsect.probes.control import controls_caught
from bitsect.probes.errors import OutputError, ProbeError, UnknownArmError
from bitsect.probes.identity import probe_digest
from bitsect.probes.trace import read_trace
from bitsect.probes.trace_records import Trace

ROOT = Path(bitsect.__file__).parent.parent


def start(
    out: Path, *arguments: str, stubs: Path | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the probe in a process of its own; modules in ``stubs`` stand before the installed."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(str(p) for p in (stubs, ROOT) if p is not None)
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "bitsect.probes", "--out", str(out), *arguments],
        capture_output=True, text=True, env=environment, cwd=cwd or out.parent, check=False,
    )  # fmt: skip


def traced(out: Path, *arguments: str, stubs: Path | None = None) -> Trace:
    done = start(out, *arguments, stubs=stubs)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return read_trace(out / "rank00000.jsonl")


def differing(a: Trace, b: Trace) -> set[str]:
    assert a.by_key.keys() == b.by_key.keys()
    return {key.text for key, event in a.by_key.items() if event.digest != b.by_key[key].digest}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("probe")


@pytest.fixture(scope="module")
def first(folder: Path) -> Trace:
    return traced(folder / "first", "--manifest", "sha256:abc")


def test_two_processes_agree_on_everything_but_the_control(first: Trace, folder: Path) -> None:
    second = traced(folder / "second")
    assert differing(first, second) == {"0/0/control/control.nondeterministic/arrival_order#0"}
    assert first.header.run != second.header.run
    assert controls_caught(first, second) == []


def test_the_header_says_under_which_conditions(first: Trace) -> None:
    header = first.header
    assert header.probe == probe_digest()
    assert header.manifest == "sha256:abc"
    assert header.arguments["arms"] == ["data", "kernels"]
    assert header.arguments["seed"] == 0
    assert header.arguments["cublas_workspace_config"]
    assert header.threads == torch.get_num_threads()
    assert header.versions["torch"] == torch.__version__
    assert header.providers["data"] == "numpy"
    assert header.device_class.split(":")[0] in ("cpu", "cuda")
    assert first.complete


def test_every_output_in_host_memory_is_certified(first: Trace) -> None:
    for event in first.events:
        if event.outputs and event.key.phase == "host":
            assert len(event.certificates) == len(event.outputs)


def test_another_seed_changes_events_and_certify_none_leaves_certificates_out(
    first: Trace, folder: Path
) -> None:
    other = traced(folder / "seed", "--seed", "7", "--certify", "none")
    assert len(differing(first, other)) > 0.8 * len(first.events)
    assert not any(event.certificates for event in other.events)


def test_what_was_touched_names_numpy_and_torch_and_their_libraries(
    first: Trace, folder: Path
) -> None:
    touched = json.loads((folder / "first" / "touched.json").read_text())
    assert {"torch", "numpy"} <= set(touched["modules"])
    assert {"torch", "numpy"} <= set(touched["distributions"])
    assert touched["problems"] == []
    paths = [library["path"] for library in touched["libraries"]]
    assert any("libtorch_cpu" in path for path in paths)
    assert any("_multiarray_umath" in path for path in paths)
    for library in touched["libraries"]:
        assert library["build_id"] or library["sha256"]
        assert library["size"] > 0
    # Every file is told, as it lies on the disk: modules, libraries, and what was opened.
    files = set(touched["files"])
    assert all(os.path.isfile(path) for path in files)
    assert torch.__file__ in files
    assert any("libtorch_cpu" in path for path in files)
    assert not any(path.startswith(f"{ROOT}/{part}/") for part in ("bitsect", "probes")
                   for path in files)  # fmt: skip
    assert not any("touched.json" in path or ".dist-info/" in path for path in files)
    # Variables that torch asks for when it is imported; none that was only copied.
    assert "TORCH_LOGS" in touched["variables"]
    assert "PYTHONPATH" not in touched["variables"]
    # Nothing that a training run would not have paid for: it would blur what was touched.
    assert not {"sympy", "hypothesis"} & set(touched["modules"])


def test_a_stack_without_numpy_has_kernels_and_controls(first: Trace, folder: Path) -> None:
    stubs = folder / "no_numpy"
    stubs.mkdir()
    (stubs / "numpy.py").write_text("raise ModuleNotFoundError('not here', name='numpy')\n")
    done = start(folder / "bare", "--progress", stubs=stubs)
    assert done.returncode == 0
    assert "data: absent" in done.stderr
    trace = read_trace(folder / "bare" / "rank00000.jsonl")
    assert trace.header.providers == {**first.header.providers, "data": "absent"}
    assert "numpy" not in trace.header.versions
    assert {key.phase for key in trace.by_key} == {"forward", "backward", "control"}
    on_device = {key for key in first.by_key if key.phase in ("forward", "backward")}
    assert all(first.by_key[key].digest == trace.by_key[key].digest for key in on_device)


def test_one_arm_alone_still_has_its_controls(folder: Path) -> None:
    trace = traced(folder / "alone", "--arms", "data")
    assert {key.phase for key in trace.by_key} == {"host", "control"}
    assert trace.header.providers == {"data": "numpy"}


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.endswith("\n")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("raise ModuleNotFoundError('not here', name='torch')", "torch is not installed"),
        ("raise ImportError('libcudart.so.12: no such file')", "torch cannot be loaded: libcudart"),
        ("__version__ = '2.3.1+cpu'", "torch 2.3.1+cpu is too old"),
    ],
)
def test_a_stack_whose_torch_will_not_do(tmp_path: Path, source: str, expected: str) -> None:
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    (stubs / "torch.py").write_text(source + "\n")
    assert expected in one_line(start(tmp_path / "out", stubs=stubs))
    assert not (tmp_path / "out").exists()


def test_an_unknown_arm_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    line = one_line(start(tmp_path / "out", "--arms", "data,kernel"))
    assert "'kernel'" in line
    assert "data, kernels" in line
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "file/out cannot be written" in one_line(start(tmp_path / "file" / "out", cwd=tmp_path))


def test_an_argument_that_is_not_understood_takes_one_line(tmp_path: Path) -> None:
    assert "--seed" in one_line(start(tmp_path / "out", "--seed", "x"))


def test_errors_carry_their_data(tmp_path: Path) -> None:
    with pytest.raises(UnknownArmError) as unknown:
        run.run_probe(run.Options(out=tmp_path / "out", arms=("tensor",)))
    assert (unknown.value.arm, unknown.value.known) == ("tensor", ("data", "kernels"))

    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError) as output:
        run.make_folder(tmp_path / "file")
    assert output.value.path == str(tmp_path / "file")
    assert output.value.reason == "File exists"


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ProbeError, match="no CUDA device"):
        run.chosen_device("cuda")
    assert run.chosen_device("auto") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert run.chosen_device("auto") == "cuda"
    assert run.chosen_device("cpu") == "cpu"


def test_a_failure_on_the_way_leaves_no_trace_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the machine went away")

    monkeypatch.setattr(kernels, "run", fail)
    with pytest.raises(RuntimeError, match="went away"):
        run.run_probe(run.Options(out=tmp_path, device="cpu"))
    assert not (tmp_path / run.TRACE_NAME).exists()
    assert not (tmp_path / run.TOUCHED_NAME).exists()
