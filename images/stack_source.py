"""How to get a stack again: what a manifest's evidence says of where it came from.

No part of the identity, because the same stack may be had from many places. Logins never get
into it: they belong to the settings of whoever gets the stack again.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from bitsect.images.image_identity import ImageIdentity, Recipe
from bitsect.images.layers import Record
from bitsect.images.lock import Lock, write_pylock
from bitsect.images.manifest import Manifest
from bitsect.images.manifest_errors import ManifestError
from bitsect.images.runtime.protocol import Stack

_SOURCE = "source"
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")


class PinnedPython(Record, frozen=True):
    """The interpreter of this machine that a virtual environment stands on."""

    path: str
    version: str


class PinnedImage(Record, frozen=True):
    """By what an image is found again: digests as those of `ImageIdentity`."""

    repository: str
    config: str
    manifest: str | None
    index: str | None


class StackSource(Record, frozen=True):
    """Where a stack came from.

    :param runtime: name of the runtime that had it.
    :param reference: what it was asked for by.
    :param python: for a virtual environment.
    :param lock: the text of a PEP 751 file that installs exactly it; None where nothing was
        installed.
    :param image: the image that it is, or that a hybrid begins with.
    :param recipe: what a hybrid of images is made of.
    """

    runtime: str
    reference: str
    python: PinnedPython | None = None
    lock: str | None = None
    image: PinnedImage | None = None
    recipe: Recipe | None = None


def evidence_of(stack: Stack) -> dict[str, Any]:
    """What a manifest's evidence says of a stack, by name."""
    # By way of JSON, so that it is the same before and after it was written down.
    source = msgspec.json.decode(msgspec.json.encode(_described(stack)))
    return {_SOURCE: source} | ({"image": _names_of(stack.image)} if stack.image else {})


def source_of(manifest: Manifest, path: Path | None = None) -> StackSource:
    """Where a manifest's stack came from. Raises ManifestError if it does not say so.

    :param path: the manifest's file, for the error.
    """
    file, place = (None if path is None else str(path)), f"evidence.{_SOURCE}"
    if _SOURCE not in manifest.evidence:
        raise ManifestError(file, place, "it does not say where its stack came from")
    try:
        return msgspec.convert(manifest.evidence[_SOURCE], StackSource)
    except msgspec.ValidationError as error:
        raise ManifestError(file, place, str(error)) from error


def _described(stack: Stack) -> StackSource:
    interpreter = stack.interpreter
    python = PinnedPython(interpreter.path, interpreter.version) if interpreter else None
    return StackSource(
        runtime=stack.runtime,
        reference=_LOGIN.sub("", stack.reference),
        python=python,
        lock=None if stack.lock is None else write_pylock(_without_logins(stack.lock)),
        image=None if stack.image is None else _pinned(stack.image),
        recipe=stack.recipe,
    )


def _pinned(image: ImageIdentity) -> PinnedImage:
    return PinnedImage(
        image.repository, image.config_digest, image.manifest_digest, image.index_digest
    )


def _names_of(image: ImageIdentity) -> dict[str, str | None]:
    """What an image is called, by whom, and who keeps it."""
    return {
        "requested": image.requested,
        "repository": image.repository,
        "engine_id": image.engine_id,
        "manifest_digest": image.manifest_digest,
        "index_digest": image.index_digest,
        "store": image.store,
        "engine": image.engine,
    }


def _without_logins(lock: Lock) -> Lock:
    packages = (
        package
        if package.kind == "directory"
        else msgspec.structs.replace(package, source=_without_login(package.source))
        for package in lock.packages
    )
    return Lock(lock.python, tuple(packages))


def _without_login(url: str) -> str:
    """The URL without a password; a user's name stays where it only says whose key is used."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    user = login.partition(":")[0] + at if parts.scheme.endswith("ssh") else ""
    return urlunsplit(parts._replace(netloc=user + host))
