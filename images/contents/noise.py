"""Which files of an image cannot change a bit of what is computed in it."""

from __future__ import annotations

import re

# Each reason with the paths that it holds for. Only what no program computes with: a path that
# is missing here costs a trial, one that is here wrongly costs the answer.
_REASONS: dict[str, tuple[str, ...]] = {
    "documentation": (
        r"/usr/(local/)?share/(bug|doc|doc-base|gtk-doc|info|lintian|man|metainfo)/.*",
        r"/usr/(local/)?share/(bash-completion|zsh/(vendor|site)-\w+|fish/\w+)/.*",
        r"/usr/local/man/.*",
    ),
    "translations": (r"/usr/(local/)?share/locale/.*",),
    "caches": (
        r"/.*/__pycache__/[^/]*\.pyc",
        r"/var/cache/.*",
        r"/(root|home/[^/]+)/(\.cache|\.triton|\.nv)/.*",
        r"/etc/ld\.so\.cache",
    ),
    "logs and scratch": (r"/(tmp|run|var/(tmp|run|lock|log|mail|spool))/.*",),
    "records of package managers": (
        r"/var/lib/(dpkg|apt|pam|systemd|ucf)/.*",
        r"/var/lib/(shells\.state|python/.*_installed)",
        r"/var/backups/.*",
        r"/etc/(apt|dpkg)/.*",
        r"/.*\.dist-info/(INSTALLER|RECORD|REQUESTED|direct_url\.json|uv_cache\.json)",
    ),
    "records of version control": (r"/.*/\.git(/.*)?",),
    "accounts and names of the machine": (
        r"/etc/(machine-id|hostname|hosts|mtab|resolv\.conf|\.pwd\.lock)",
        r"/etc/(passwd|group|shadow|gshadow|subuid|subgid)-",
        r"/etc/(shadow|gshadow|subuid|subgid)",
        r"/var/lib/dbus/machine-id",
    ),
    "what was typed": (r"/(root|home/[^/]+)/\.\w+_history",),
}
_BY_REASON = {reason: re.compile("|".join(each)) for reason, each in _REASONS.items()}
_NOISE = re.compile("|".join(pattern for each in _REASONS.values() for pattern in each))


def is_noise(path: str) -> bool:
    """Whether a path cannot matter."""
    return _NOISE.fullmatch(path) is not None


def noise_reason(path: str) -> str | None:
    """Why a path cannot matter, or None for one that may."""
    return next((why for why, paths in _BY_REASON.items() if paths.fullmatch(path)), None)


_BYTECODE = re.compile(r"(.*)/__pycache__/([^/]+?)\.[\w-]+(?:\.opt-\w+)?\.pyc")


def bytecode_source(path: str) -> str | None:
    """The module that a file of bytecode was made from; None for any other file."""
    match = _BYTECODE.fullmatch(path) if path.endswith(".pyc") else None
    return None if match is None else f"{match[1]}/{match[2]}.py"
