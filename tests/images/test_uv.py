from __future__ import annotations

from pathlib import Path

import pytest

from bitsect.images.errors import (
    BadReference,
    InfrastructureError,
    UnbuildableError,
    UnresolvedError,
)
from bitsect.images.pip_settings import PipSettings
from bitsect.images.uv import Uv, explanation, failure

NO_SOLUTION = """\
error: No solution found when resolving dependencies
  cause: Because lib==2 depends on base>=2 and you require base==1, we can conclude that
         your requirements are unsatisfiable.

hint: `base` was requested with a pre-release marker
"""
UNREACHABLE = """\
error: Request failed after 3 retries in 12.6s
  cause: Failed to fetch: http://user:secret@127.0.0.1:9/simple/six/
  cause: client error (Connect)
  cause: Connection refused (os error 111)
"""


def test_no_solution_carries_the_resolvers_reason_as_one_paragraph() -> None:
    error = failure(1, NO_SOLUTION, ("base==1", "lib==2"))

    assert isinstance(error, UnresolvedError)
    assert error.requirements == ("base==1", "lib==2")
    assert error.reason.startswith("Because lib==2 depends")
    assert error.reason.endswith("unsatisfiable.")
    assert "\n" not in error.reason
    assert "hint" not in error.reason


def test_an_index_that_does_not_answer_is_the_hosts_fault_and_keeps_no_secret() -> None:
    error = failure(2, UNREACHABLE, ("six",))

    assert isinstance(error, InfrastructureError)
    assert error.kind == "index"
    assert "Connection refused" in error.detail
    assert "secret" not in error.detail


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("error: Failed to install: x.whl\n  cause: No space left on device (os error 28)", "disk"),
        ("error: Failed to build x\n  cause: Disk quota exceeded (os error 122)", "disk"),
        ("error: No solution found\n  cause: Permission denied (os error 13)", "permission"),
        ("error: Failed to create\n  cause: Read-only file system (os error 30)", "permission"),
        ("error: Failed to fetch: `https://x`\n  cause: HTTP status server error (503)", "index"),
        (
            "error: No solution found\n  cause: x was not found\n\nhint: An index URL (https://x) "
            "could not be queried due to a lack of valid authentication credentials "
            "(401 Unauthorized).",
            "index",
        ),
        ("error: something else", "tool"),
    ],
)
def test_the_hosts_faults_are_never_taken_for_a_stacks(stderr: str, kind: str) -> None:
    error = failure(2, stderr, ("x",))

    assert isinstance(error, InfrastructureError)
    assert error.kind == kind


def test_a_failed_build_is_the_stacks_own() -> None:
    error = failure(1, "error: Failed to build `x==1`\n  cause: exit status 1", ("x==1",))

    assert isinstance(error, UnbuildableError)
    assert error.what == "x==1"
    assert "exit status 1" in error.tail


def test_an_unreadable_requirement_is_a_bad_reference() -> None:
    error = failure(2, "error: Couldn't parse requirement in `r.txt` at position 0\n  cause: no "
                       "such comparison operator", ("r.txt",))  # fmt: skip

    assert isinstance(error, BadReference)
    assert (error.text, error.reason) == ("r.txt", "no such comparison operator")


def test_a_failure_without_causes_is_explained_by_its_headline() -> None:
    assert explanation("error: Distribution not found at: file:///x.whl\n") == (
        "Distribution not found at: file:///x.whl"
    )


def test_the_folders_own_uv_settings_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a project and variables that would send uv elsewhere
    (tmp_path / "uv.toml").write_text('index-url = "https://elsewhere.invalid/simple"\n')
    (tmp_path / "requirements.in").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UV_INDEX_URL", "https://elsewhere.invalid/simple")
    monkeypatch.setenv("UV_CONSTRAINT", "/nowhere")

    # When uv resolves, then it neither reads nor misses them
    assert Uv(PipSettings()).compile(["--quiet", "requirements.in"], ()) == ""


def test_a_real_conflict_is_unresolved(tmp_path: Path) -> None:
    source = tmp_path / "requirements.in"
    source.write_text("lib==1\nlib==2\n")

    with pytest.raises(UnresolvedError, match="lib==1"):
        Uv(PipSettings(no_index=True)).compile([str(source)], ("lib==1", "lib==2"))


def test_a_real_unreachable_index_is_the_hosts_fault(tmp_path: Path) -> None:
    source = tmp_path / "requirements.in"
    source.write_text("lib==1\n")
    settings = PipSettings(index_url="http://127.0.0.1:9/simple", retries=0)

    with pytest.raises(InfrastructureError, match="refused") as caught:
        Uv(settings).compile([str(source)], ("lib==1",))

    assert caught.value.kind == "index"
