from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitsect.images.errors import BadReference
from bitsect.images.reference import Reference, parse_reference, split_requirements

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("torch==2.13.0", ("torch==2.13.0",)),
        ("torch==2.13.0,numpy==1.26.4", ("torch==2.13.0", "numpy==1.26.4")),
        ("numpy>=1.20,<2", ("numpy<2,>=1.20",)),
        ("numpy>=1.20,<2,torch", ("numpy<2,>=1.20", "torch")),
        ("numpy >= 1.20 , != 1.21 , torch", ("numpy!=1.21,>=1.20", "torch")),
        ("foo[a,b]==1,bar[c]", ("foo[a,b]==1", "bar[c]")),
        ("foo(>=1,<2),bar", ("foo<2,>=1", "bar")),
        (
            'foo==1; python_version in "3.11,3.12", bar',
            ('foo==1; python_version in "3.11,3.12"', "bar"),
        ),
        ("torch==2.13.0+cpu", ("torch==2.13.0+cpu",)),
        ("foo @ https://host.example/foo-1.zip", ("foo @ https://host.example/foo-1.zip",)),
    ],
)
def test_requirements_are_split_where_one_ends(text: str, requirements: tuple[str, ...]) -> None:
    reference = parse_reference(f"good:venv:{text}")

    assert (reference.side, reference.kind) == ("good", "venv")
    assert reference.requirements == requirements
    assert reference.file is None


@pytest.mark.parametrize("name", ["requirements.txt", "pylock.toml", "pylock.gpu.toml"])
def test_a_file_is_taken_wherever_it_lies(name: str, tmp_path: Path) -> None:
    file = tmp_path / "some where" / name
    file.parent.mkdir()
    file.write_text("")

    assert parse_reference(f"bad:venv:{file}") == Reference("bad", "venv", f"venv:{file}", (), file)


def test_a_file_in_the_working_folder_needs_no_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("requirements.txt").write_text("torch\n")

    assert parse_reference("venv:requirements.txt").file == Path("requirements.txt")


def test_a_manifest_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "stack.yaml"
    file.write_text("")

    assert parse_reference(f"manifest:{file}").file == file


def test_host_names_the_python_that_runs() -> None:
    assert parse_reference("host:") == Reference(None, "host", "host:")


@pytest.mark.parametrize(
    "text",
    [
        "ubuntu",
        "python:3.11-slim",
        "registry.example:5000/team/torch_nightly/image:26.03-py3",
        f"team/image@{DIGEST}",
        f"team/image:tag@{DIGEST}",
        "team/image@26.03",
        "team/image@sha256:abc123",
        "localhost/a__b/c--d",
    ],
)
def test_an_image_is_read_and_not_started(text: str) -> None:
    assert parse_reference(f"bad:{text}") == Reference("bad", "image", text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("good:", "side"),
        ("good:bad:host:", "two sides"),
        ("venv:", "venv:"),
        ("venv:torch==2.13.0,", "comma"),
        ("venv:torch=2.13.0", "pected"),
        ("venv:torch==2.13.0,nu mpy", "pected"),
        ("venv:-r file", "pected"),
        ("host:there", "host:"),
        ("manifest:", "no file"),
        ("conda:torch==2", "scheme"),
        ("vevn:torch", "scheme"),
        ("http://host.example/x", "scheme"),
        ("torch==2.13.0", "venv:"),
        ("Upper/Case", "image"),
        ("image:ta:g", "scheme"),
        ("a\nb", "control"),
        ("venv:torch\0", "control"),
    ],
)
def test_what_is_no_reference_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(BadReference) as caught:
        parse_reference(text)

    assert reason in caught.value.reason.lower()
    assert caught.value.candidates


def test_a_missing_file_is_named_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("")

    with pytest.raises(BadReference, match="no such file") as caught:
        parse_reference(f"venv:{tmp_path}/requirement.txt")

    assert caught.value.candidates == (str(tmp_path / "requirements.txt"),)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadReference, match="folder"):
        parse_reference(f"venv:{tmp_path}")


def test_a_lock_file_must_have_a_lock_files_name(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("")

    with pytest.raises(BadReference, match=r"pylock\.toml"):
        parse_reference(f"venv:{file}")


def test_a_path_that_no_system_can_hold_is_refused() -> None:
    with pytest.raises(BadReference):
        parse_reference("venv:/" + "x" * 5000)


NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=6)
SPECIFIERS = st.lists(st.sampled_from([">=1.20", "<2", "!=1.21", "==1.26.4", "~=1.4"]), max_size=3)
EXTRAS = st.lists(NAMES, max_size=2)


@given(st.lists(st.tuples(NAMES, EXTRAS, SPECIFIERS), min_size=1, max_size=4))
def test_splitting_finds_as_many_requirements_as_were_joined(
    parts: list[tuple[str, list[str], list[str]]],
) -> None:
    written = [
        name + (f"[{','.join(extras)}]" if extras else "") + ",".join(specifiers)
        for name, extras, specifiers in parts
    ]

    split = split_requirements(",".join(written))

    assert split == tuple(split_requirements(each)[0] for each in written)


PIECES = st.sampled_from(
    [*":@,/=<>[]();\"'.~ #\\\0\n", "good", "bad", "venv", "host", "manifest", "torch", "==1", "é"]
)
FRAGMENTS = st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=20)


@given(FRAGMENTS, st.sampled_from(["", "good:", "venv:", "bad:venv:", "manifest:", "host:"]))
def test_any_text_is_read_or_refused(text: str, start: str) -> None:
    try:
        reference = parse_reference(start + text)
    except BadReference:
        return
    assert parse_reference(reference.text).text == reference.text
    assert (reference.file is None) or not reference.requirements
