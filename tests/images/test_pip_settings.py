from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitsect.images.errors import InfrastructureError
from bitsect.images.interpreter import Interpreter
from bitsect.images.pip_settings import (
    PipSettings,
    read_pip_settings,
    redacted,
    settings_from_listing,
)
from bitsect.images.resolver import Resolver

if TYPE_CHECKING:
    from tests.images.conftest import LocalIndex, WheelMaker


@pytest.fixture
def pip_environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which pip sees none of this machine's configuration files."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    return kept | {
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CONFIG_DIRS": str(tmp_path / "etc"),
        "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
    }


def write(environment: dict[str, str], text: str) -> None:
    Path(environment["PIP_CONFIG_FILE"]).write_text(text)


def test_every_setting_is_read_from_pip(pip_environment: dict[str, str], tmp_path: Path) -> None:
    write(
        pip_environment,
        f"""\
[global]
index-url = https://one.example/simple
extra-index-url =
    https://two.example/simple
    https://three.example/simple
find-links = /a file:///b
constraint = /c.txt {tmp_path}/d.txt
trusted-host = one.example two.example:8080
cert = /ca.pem
client-cert = /me.pem
proxy = http://proxy.example:3128
timeout = 7
retries = 2
pre = yes
prefer-binary = true
[install]
no-binary = foo,bar
only-binary = baz
[freeze]
timeout = 99
""",
    )

    settings = read_pip_settings(pip_environment)

    assert settings == PipSettings(
        index_url="https://one.example/simple",
        extra_index_urls=("https://two.example/simple", "https://three.example/simple"),
        find_links=("/a", "file:///b"),
        constraints=("/c.txt", f"{tmp_path}/d.txt"),
        trusted_hosts=("one.example", "two.example:8080"),
        ca_bundle="/ca.pem",
        client_cert="/me.pem",
        proxy="http://proxy.example:3128",
        timeout=7,
        retries=2,
        prereleases=True,
        prefer_binary=True,
        no_binary=("bar", "foo"),
        only_binary=("baz",),
    )


def test_the_environment_wins_over_install_and_install_over_global(
    pip_environment: dict[str, str],
) -> None:
    write(
        pip_environment,
        """\
[global]
index-url = https://global.example
find-links = /global
timeout = 1
[install]
find-links = /install
timeout = 2
""",
    )
    pip_environment |= {"PIP_DEFAULT_TIMEOUT": "3", "PIP_NO_INDEX": "1"}

    settings = read_pip_settings(pip_environment)

    assert settings.index_url == "https://global.example"
    assert settings.find_links == ("/install",)
    assert (settings.timeout, settings.no_index) == (3, True)


def test_an_empty_value_overrides_nothing(pip_environment: dict[str, str]) -> None:
    write(pip_environment, "[global]\nfind-links = /a\n")

    settings = read_pip_settings(pip_environment | {"PIP_FIND_LINKS": ""})

    assert settings.find_links == ("/a",)


def test_a_configuration_that_pip_cannot_read_is_the_hosts_fault(
    pip_environment: dict[str, str],
) -> None:
    write(pip_environment, "index-url = without a section\n")

    with pytest.raises(InfrastructureError, match="section") as caught:
        read_pip_settings(pip_environment)

    assert caught.value.kind == "tool"


def test_a_number_that_is_none_is_the_hosts_fault() -> None:
    with pytest.raises(InfrastructureError, match="timeout"):
        settings_from_listing(["global.timeout='soon'"])


@pytest.mark.parametrize("line", ["rubbish", "global.timeout=7", "timeout='7'", "a.b='"])
def test_a_listing_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(InfrastructureError):
        settings_from_listing([line])


def test_naming_a_project_on_one_side_takes_it_from_the_other() -> None:
    settings = settings_from_listing(
        ["global.no-binary=':all:'", "install.only-binary='foo'", ":env:.no-binary=':none:,bar'"]
    )

    assert (settings.no_binary, settings.only_binary) == (("bar",), ("foo",))


@given(st.text(), st.sampled_from(["index-url", "proxy"]))
def test_any_value_comes_through_unharmed(value: str, key: str) -> None:
    settings = settings_from_listing([f"global.{key}={value!r}"])

    assert getattr(settings, key.replace("-", "_")) == (value or None)


def test_nothing_that_may_hold_a_secret_is_on_a_command_line() -> None:
    secret = "https://user:secret@host.example/simple"
    settings = PipSettings(
        index_url=secret, extra_index_urls=(secret,), find_links=(secret,), proxy=secret
    )

    assert "secret" not in " ".join(settings.uv_arguments("compile"))
    assert "secret" not in " ".join(settings.uv_arguments("sync"))
    assert "secret" in settings.uv_environment()["UV_DEFAULT_INDEX"]
    assert redacted(secret) == "https://***@host.example/simple"


def test_folders_that_are_not_there_are_passed_over_as_pip_does(tmp_path: Path) -> None:
    settings = PipSettings(find_links=(str(tmp_path), "/nowhere", "https://host.example/x"))

    assert settings.existing_find_links() == (str(tmp_path), "https://host.example/x")


def pip_would_install(environment: dict[str, str], python: Path, *names: str) -> dict[str, str]:
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--dry-run"]
    command += ["--quiet", "--ignore-installed", "--report", "-", "--no-cache-dir", *names]
    finished = subprocess.run(command, env=environment, capture_output=True, check=True)
    report = json.loads(finished.stdout)["install"]
    return {each["metadata"]["name"]: each["metadata"]["version"] for each in report}


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    return tmp_path / "bare" / "bin" / "python"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"PIP_NO_INDEX": "1"},
        {"PIP_PRE": "1"},
        {"PIP_CONSTRAINT": "constraints.txt"},
        {"PIP_FIND_LINKS": "/nowhere"},
        {"PIP_EXTRA_INDEX_URL": ""},
    ],
    ids=lambda variables: ",".join(variables) or "plain",
)
def test_uv_chooses_what_pip_chooses(
    variables: dict[str, str],
    pip_environment: dict[str, str],
    local_index: LocalIndex,
    make_wheel: WheelMaker,
    bare_python: Path,
    interpreter: Interpreter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given two indexes and a folder of wheels that each have something the others lack
    other = type(local_index)(tmp_path / "other", make_wheel)
    local_index.add("app", "1.0", ["lib"])
    local_index.add("lib", "1.0")
    local_index.add("lib", "3.0rc1")
    other.add("lib", "2.0")
    other.add("lib", "2.5", yanked=True)
    make_wheel("lib", "1.5")
    make_wheel("app", "0.9", ["lib"])
    (tmp_path / "constraints.txt").write_text("lib<2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    write(
        pip_environment,
        f"[global]\nindex-url = {local_index.url}\nextra-index-url = {other.url}\n"
        f"find-links = {make_wheel.folder}\n",
    )
    environment = pip_environment | variables

    # When both resolve the same requirement
    expected = pip_would_install(environment, bare_python, "app")
    lock = Resolver(interpreter, read_pip_settings(environment)).resolve(("app",))

    # Then they agree
    assert lock.versions == expected


def test_a_constraint_file_of_pip_binds_uv(
    local_index: LocalIndex, local_settings: PipSettings, interpreter: Interpreter, tmp_path: Path
) -> None:
    local_index.add("lib", "1.0")
    local_index.add("lib", "2.0")
    file = tmp_path / "with space.txt"
    file.write_text("lib<2\n")

    lock = Resolver(interpreter, replace(local_settings, constraints=(str(file),))).resolve(
        ("lib",)
    )

    assert lock.versions == {"lib": "1.0"}
