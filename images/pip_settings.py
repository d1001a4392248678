"""Where the user's packages come from: pip's own settings, handed on to uv.

pip is the tool whose indexes, constraints and certificates a user has set up, in files or in
the environment. uv does not read them, so they are translated here, once.
"""

from __future__ import annotations

import ast
import os
import ssl
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from bitsect.images.errors import InfrastructureError

# The order in which `pip install` lets a later section override an earlier one.
SECTIONS = ("global", "install", ":env:")
# Other spellings that pip takes for the same option.
ALIASES = {"default-timeout": "timeout", "pypi-url": "index-url"}
TRUE_WORDS = frozenset({"y", "yes", "t", "true", "on", "1"})

UvSubcommand = Literal["compile", "sync", "venv"]


@dataclass(frozen=True)
class PipSettings:
    """What pip would use, with every path and URL as the user wrote it.

    ``index_url`` is None where pip's built-in default holds. ``timeout`` is in seconds.
    ``no_binary`` and ``only_binary`` are project names or the single word ``:all:``.
    ``ca_bundle`` is the certificate file to trust, from pip, the environment or the system.
    """

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    constraints: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    ca_bundle: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    timeout: int | None = None
    retries: int | None = None
    prereleases: bool = False
    prefer_binary: bool = False
    only_binary: tuple[str, ...] = ()
    no_binary: tuple[str, ...] = ()

    def uv_arguments(self, subcommand: UvSubcommand) -> list[str]:
        """Options for ``uv pip compile``, ``uv pip sync`` or ``uv venv``.

        None of them can hold a secret: whatever may carry credentials goes by
        `uv_environment`, because a command line is readable by every user of the machine.
        """
        if subcommand == "venv":
            return []
        arguments = ["--no-index"] if self.no_index else []
        arguments += [f"--only-binary={name}" for name in self.only_binary]
        arguments += [f"--no-binary={name}" for name in self.no_binary]
        if subcommand == "compile":
            # pip merges all its indexes and takes the best version among them.
            arguments.append("--index-strategy=unsafe-best-match")
            arguments += [f"--constraints={path}" for path in self.constraints]
            if self.prereleases:
                arguments.append("--prerelease=allow")
        return arguments

    def uv_environment(self) -> dict[str, str]:
        """Variables to set for uv, beside the rest of the environment."""
        variables: dict[str, str] = {}
        if not self.no_index:
            if self.index_url:
                variables["UV_DEFAULT_INDEX"] = self.index_url
            if self.extra_index_urls:
                variables["UV_INDEX"] = " ".join(self.extra_index_urls)
        if links := self.existing_find_links():
            variables["UV_FIND_LINKS"] = ",".join(links)
        if self.trusted_hosts:
            variables["UV_INSECURE_HOST"] = " ".join(self.trusted_hosts)
        if self.ca_bundle:
            variables["SSL_CERT_FILE"] = self.ca_bundle
        if self.client_cert:
            variables["SSL_CLIENT_CERT"] = self.client_cert
        if self.proxy:
            variables |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), self.proxy)
        if self.timeout is not None:
            variables["UV_HTTP_TIMEOUT"] = str(self.timeout)
        if self.retries is not None:
            variables["UV_HTTP_RETRIES"] = str(self.retries)
        return variables

    def existing_find_links(self) -> tuple[str, ...]:
        """Without the folders that are not there: pip passes over them, uv would stop."""
        return tuple(
            link for link in self.find_links if "://" in link or Path(link).expanduser().exists()
        )


def read_pip_settings(environment: Mapping[str, str] | None = None) -> PipSettings:
    """Asks pip for its merged configuration, in this environment or the given one.

    Raises InfrastructureError("tool") if pip is missing or its configuration is unreadable.
    """
    environment = os.environ if environment is None else environment
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    # Cut off from the folder and the module paths that the user happens to work in, which
    # must not decide which pip answers.
    clean = {key: value for key, value in environment.items() if key != "PYTHONPATH"}
    finished = subprocess.run(
        [command[0], "-P", *command[1:]],
        env=clean, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if finished.returncode != 0:
        raise InfrastructureError("tool", "pip: " + " ".join(finished.stderr.split()))
    return settings_from_listing(finished.stdout.splitlines(), environment)


def settings_from_listing(
    lines: Iterable[str], environment: Mapping[str, str] | None = None
) -> PipSettings:
    """Settings from the lines of ``pip config list`` (``section.key='value'``)."""
    sections: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in lines:
        section, key, value = _split_line(line)
        if section in sections and value:
            sections[section][ALIASES.get(key, key)] = value
    # Lists of project names add up over the sections; everything else is replaced.
    merged = {key: value for section in SECTIONS for key, value in sections[section].items()}
    no_binary, only_binary = _formats([sections[section] for section in SECTIONS])
    return PipSettings(
        index_url=merged.get("index-url"),
        extra_index_urls=tuple(merged.get("extra-index-url", "").split()),
        find_links=tuple(merged.get("find-links", "").split()),
        no_index=_boolean(merged, "no-index"),
        constraints=tuple(_constraints(merged.get("constraint", ""))),
        trusted_hosts=tuple(merged.get("trusted-host", "").split()),
        ca_bundle=_ca_bundle(merged.get("cert"), environment or {}),
        client_cert=_expanded(merged.get("client-cert")),
        proxy=merged.get("proxy"),
        timeout=_integer(merged, "timeout"),
        retries=_integer(merged, "retries"),
        prereleases=_boolean(merged, "pre") or ":all:" in merged.get("all-releases", ""),
        prefer_binary=_boolean(merged, "prefer-binary"),
        only_binary=only_binary,
        no_binary=no_binary,
    )


def redacted(url: str) -> str:
    """The URL without user and password, fit for a message or a log."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable URL)"
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]))


def _split_line(line: str) -> tuple[str, str, str]:
    name, equals, quoted = line.partition("=")
    section, dot, key = name.rpartition(".")
    try:
        value = ast.literal_eval(quoted) if equals and dot else None
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, str):
        raise InfrastructureError("tool", f"pip config list wrote {line!r}")
    return section, key, value


def _formats(sections: list[dict[str, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(no_binary, only_binary); naming a project on one side takes it from the other."""
    chosen: dict[str, set[str]] = {"no-binary": set(), "only-binary": set()}
    other = {"no-binary": "only-binary", "only-binary": "no-binary"}
    for section in sections:
        for option, names in section.items():
            if option not in chosen:
                continue
            for name in filter(None, (word.strip() for word in names.split(","))):
                if name == ":none:":
                    chosen[option].clear()
                elif name == ":all:":
                    chosen[option] = {name}
                    chosen[other[option]].clear()
                else:
                    chosen[option].add(name)
                    chosen[other[option]].discard(name)
    return tuple(sorted(chosen["no-binary"])), tuple(sorted(chosen["only-binary"]))


def _constraints(value: str) -> Iterable[str]:
    return (word if "://" in word else str(Path(word).expanduser()) for word in value.split())


def _boolean(merged: Mapping[str, str], key: str) -> bool:
    return merged.get(key, "").lower() in TRUE_WORDS


def _integer(merged: Mapping[str, str], key: str) -> int | None:
    if key not in merged:
        return None
    try:
        return int(float(merged[key]))
    except ValueError:
        raise InfrastructureError("tool", f"pip: {key} is {merged[key]!r}, no number") from None


def _ca_bundle(configured: str | None, environment: Mapping[str, str]) -> str | None:
    """pip trusts the system's store, uv and requests only a store of their own."""
    if configured:
        return _expanded(configured)
    paths = ssl.get_default_verify_paths()
    candidates = (environment.get(paths.openssl_cafile_env), paths.cafile)
    return next((path for path in candidates if path and Path(path).is_file()), None)


def _expanded(path: str | None) -> str | None:
    return str(Path(path).expanduser()) if path else None
