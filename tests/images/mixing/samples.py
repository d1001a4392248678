"""Images made of nothing but records."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from bitsect.images.contents.axes import axes_between
from bitsect.images.contents.model import Contents, Elf, Entry
from bitsect.images.contents.texts import is_kept
from bitsect.images.image_identity import ImageIdentity
from bitsect.images.mixing.space import ImageSpace


def image(number: int, variables: Mapping[str, str] | None = None) -> ImageIdentity:
    """An image whose config digest ends with a number."""
    return ImageIdentity(
        requested=f"image:{number}",
        repository="image",
        engine_id=f"sha256:{number:064x}",
        config_digest=f"sha256:{number:064x}",
        manifest_digest=None,
        index_digest=None,
        diff_ids=(),
        platform="linux/amd64",
        environment=dict(variables or {}),
        entrypoint=(),
        command=(),
        working_folder="",
        user="",
        labels={},
        store="graphdriver",
        engine="Engine 1",
    )


def file(data: bytes, build_id: str | None = None) -> Entry:
    return Entry(
        kind="file",
        mode=0o644,
        uid=0,
        gid=0,
        size=len(data),
        mtime=0,
        digest="sha256:" + hashlib.sha256(data).hexdigest(),
        elf=None if build_id is None else Elf(build_id, None),
    )


def contents(files: Mapping[str, bytes | Entry]) -> Contents:
    """The files of an image, and the folders that lead to them."""
    entries: dict[str, Entry] = {}
    texts = {}
    for path, what in files.items():
        folder = path
        while folder := folder.rpartition("/")[0]:
            entries.setdefault(folder, Entry("folder", 0o755, 0, 0, 0, 0))
        entries[path] = file(what) if isinstance(what, bytes) else what
        if isinstance(what, bytes) and is_kept(path):
            texts[path] = what
    return Contents(entries, texts)


def space(
    *chain: Mapping[str, bytes | Entry], variables: tuple[Mapping[str, str], ...] = ()
) -> ImageSpace:
    """The space of images with these files and variables, good end first."""
    sets = variables or ({},) * len(chain)
    images = [image(number, each) for number, each in enumerate(sets)]
    found = [contents(files) for files in chain]
    return ImageSpace(images, found, axes_between(list(zip(found, sets, strict=True))))
