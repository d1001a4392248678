"""A file system in memory, which carries plans out as a builder would."""

from __future__ import annotations

from collections.abc import Mapping

from bitsect.images.contents.chain_owners import Chain
from bitsect.images.contents.model import Content, Contents
from bitsect.images.contents.noise import is_noise
from bitsect.images.contents.paths import folders_above
from bitsect.images.contents.planning import Plan


class FileSystem:
    """Begins as an image is.

    :ivar files: content by path, of files and links.
    """

    def __init__(self, contents: Contents) -> None:
        entries = contents.entries.items()
        self.folders = {path for path, entry in entries if entry.kind == "folder"}
        self.files: dict[str, Content] = {
            path: entry.content for path, entry in entries if entry.kind in ("file", "link")
        }
        self.written: dict[str, bytes] = {}

    def apply(self, plan: Plan, chain: Chain, offers: Mapping[str, Contents] | None = None) -> None:
        """Raises AssertionError where a real file system would refuse."""
        for path in plan.deletions:
            self.files.pop(path, None)
        for folder in plan.emptied:
            if not any(path.startswith(f"{folder}/") for path in (*self.files, *self.folders)):
                self.folders.discard(folder)
        for new in plan.folders:
            assert new.path not in self.files
            self._check_above(new.path)
            self.folders.add(new.path)
        for index, paths in plan.copies:
            self._copy(chain[index][0], paths)
        for offer, paths in plan.offered:
            self._copy((offers or {})[offer], paths)
        self.written.update(plan.files)

    def _copy(self, contents: Contents, paths: tuple[str, ...]) -> None:
        for path in paths:
            self._check_above(path)
            assert path not in self.folders
            self.files[path] = contents.entries[path].content

    def _check_above(self, path: str) -> None:
        assert self.folders.issuperset(folders_above(path)), path

    def content(self, path: str) -> Content | None:
        return self.files.get(path)

    def counting(self) -> dict[str, Content]:
        """All that is no noise."""
        return {path: each for path, each in self.files.items() if not is_noise(path)}
