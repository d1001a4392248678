"""Wheels and indexes made by hand, so that hardly any test needs a network."""

from __future__ import annotations

import base64
import hashlib
import html
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bitsect.images.interpreter import Interpreter, describe_interpreter
from bitsect.images.pip_settings import PipSettings


class WheelMaker:
    """Makes tiny wheels in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        name: str,
        version: str,
        requires: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        tag: str = "py3-none-any",
        requires_python: str | None = None,
        folder: Path | None = None,
    ) -> Path:
        """The wheel's path; `files` defaults to one module that holds the version."""
        folder = self.folder if folder is None else folder
        folder.mkdir(parents=True, exist_ok=True)
        module = name.replace("-", "_")
        info = f"{module}-{version}.dist-info"
        metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        metadata += [f"Requires-Dist: {each}" for each in requires]
        metadata += [f"Requires-Python: {requires_python}"] if requires_python else []
        contents = dict(files or {f"{module}.py": f"version = {version!r}\n"})
        contents[f"{info}/METADATA"] = "\n".join(metadata) + "\n"
        contents[f"{info}/WHEEL"] = (
            f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
        )
        lines = [_record_line(path, text) for path, text in contents.items()]
        contents[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"
        path = folder / f"{module}-{version}-{tag}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for inner, text in contents.items():
                # A fixed time: the same arguments give the same bytes.
                archive.writestr(zipfile.ZipInfo(inner, (2020, 1, 1, 0, 0, 0)), text)
        return path


class LocalIndex:
    """A package index in a folder, read by `file:` URL or served by HTTP."""

    def __init__(self, folder: Path, make: WheelMaker) -> None:
        self.folder = folder
        self._make = make
        self._links: dict[str, list[str]] = {}
        (folder / "simple").mkdir(parents=True)
        (folder / "files").mkdir()

    @property
    def url(self) -> str:
        return (self.folder / "simple").as_uri()

    def add(
        self,
        name: str,
        version: str,
        requires: Sequence[str] = (),
        *,
        yanked: bool = False,
        tag: str = "py3-none-any",
        requires_python: str | None = None,
        files: Mapping[str, str] | None = None,
    ) -> Path:
        wheel = self._make(
            name, version, requires, files, tag, requires_python, self.folder / "files"
        )
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        attributes = f' data-requires-python="{html.escape(requires_python or "")}"'
        attributes += ' data-yanked=""' if yanked else ""
        self._link(name, f"{wheel.name}#sha256={digest}", attributes)
        return wheel

    def add_sdist(self, name: str, version: str) -> None:
        filename = f"{name.replace('-', '_')}-{version}.tar.gz"
        (self.folder / "files" / filename).write_bytes(b"")
        self._link(name, filename, "")

    def _link(self, name: str, target: str, attributes: str) -> None:
        filename = target.partition("#")[0]
        links = self._links.setdefault(name, [])
        links.append(f'<a href="../../files/{target}"{attributes}>{filename}</a>')
        page = self.folder / "simple" / name / "index.html"
        page.parent.mkdir(exist_ok=True)
        page.write_text("<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>")


def _record_line(path: str, text: str) -> str:
    data = text.encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}"


@pytest.fixture
def make_wheel(tmp_path: Path) -> WheelMaker:
    """Makes wheels below tmp_path."""
    return WheelMaker(tmp_path / "wheels")


@pytest.fixture
def local_index(tmp_path: Path, make_wheel: WheelMaker) -> LocalIndex:
    """An empty index below tmp_path."""
    return LocalIndex(tmp_path / "index", make_wheel)


@pytest.fixture
def local_settings(
    local_index: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PipSettings:
    """Settings with that index alone; uv keeps its cache below tmp_path."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return PipSettings(index_url=local_index.url)


@pytest.fixture(scope="session")
def interpreter() -> Interpreter:
    """The Python that the tests' own environment is made of."""
    return describe_interpreter()
