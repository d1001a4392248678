"""Reads what package indexes and find-links places list, with pip's settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import requests
import urllib3
from pypi_simple import (
    ACCEPT_JSON_PREFERRED,
    PYPI_SIMPLE_ENDPOINT,
    DistributionPackage,
    ProjectPage,
    RepositoryPage,
    UnsupportedContentTypeError,
    UnsupportedRepoVersionError,
)
from requests.adapters import HTTPAdapter

from bitsect.images.errors import InfrastructureError, host_faults
from bitsect.images.pip_settings import PipSettings, redacted
from bitsect.images.web_errors import innermost_reason

# pip's own defaults.
TIMEOUT_SECONDS = 15
RETRIES = 5
ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz")
# Some static hosts answer so for a name that they do not have.
ABSENT = (404, 410)
PERHAPS_ABSENT = 403


class IndexFile(NamedTuple):
    """One file of a project: its name, its Requires-Python or None, and whether it is yanked."""

    filename: str
    requires_python: str | None
    yanked: bool


class IndexClient:
    """Reads every place that the settings name. A place without the project is no error."""

    def __init__(self, settings: PipSettings) -> None:
        self._settings = settings
        self._session = requests.Session()
        retries = RETRIES if settings.retries is None else settings.retries
        self._session.mount("https://", HTTPAdapter(max_retries=retries))
        self._session.mount("http://", HTTPAdapter(max_retries=retries))

    def files(self, project: str) -> list[IndexFile]:
        """The files of all places together, for a normalised project name.

        Raises InfrastructureError("index") for a place that cannot be reached or read.
        """
        found: list[IndexFile] = []
        refusals: list[InfrastructureError] = []
        with self._session:
            for link in self._settings.existing_find_links():
                found += self._find_links(link, project, refusals)
            for index in self._indexes():
                found += self._project(index, project, refusals)
        if refusals and not found:
            raise refusals[0]
        return found

    def _indexes(self) -> Iterator[str]:
        if self._settings.no_index:
            return
        # The client library knows pip's built-in default: no host stands in our code.
        urls = (self._settings.index_url or PYPI_SIMPLE_ENDPOINT, *self._settings.extra_index_urls)
        for url in urls:
            yield url if "://" in url else Path(url).expanduser().absolute().as_uri()

    def _project(
        self, index: str, project: str, refusals: list[InfrastructureError]
    ) -> list[IndexFile]:
        url = f"{index.rstrip('/')}/{project}/"
        if urlsplit(url).scheme == "file":
            folder = _local_path(url)
            return _read_page(folder / "index.html", project)
        response = self._get(url, refusals)
        if response is None:
            return []
        try:
            page = ProjectPage.from_response(response, project)
        except (
            UnsupportedContentTypeError,
            UnsupportedRepoVersionError,
            ValueError,
            KeyError,
            TypeError,
        ) as error:
            detail = f"{redacted(url)}: it is no package index ({type(error).__name__})"
            raise InfrastructureError("index", detail) from error
        return [_index_file(package) for package in page.packages]

    def _find_links(
        self, link: str, project: str, refusals: list[InfrastructureError]
    ) -> list[IndexFile]:
        if "://" in link and urlsplit(link).scheme != "file":
            response = self._get(link, refusals)
            if response is None:
                return []
            return _links(response.content, response.url)
        path = _local_path(link) if "://" in link else Path(link).expanduser().absolute()
        with host_faults(path):
            if path.is_dir():
                names = sorted(entry.name for entry in path.iterdir())
                return [IndexFile(name, None, False) for name in names if _is_archive(name)]
        if _is_archive(path.name):
            return [IndexFile(path.name, None, False)] if path.is_file() else []
        return _read_page(path, project)

    def _get(self, url: str, refusals: list[InfrastructureError]) -> requests.Response | None:
        settings = self._settings
        proxies = {"http": settings.proxy, "https": settings.proxy} if settings.proxy else None
        try:
            response = self._session.get(
                url,
                headers={"Accept": ACCEPT_JSON_PREFERRED},
                timeout=settings.timeout or TIMEOUT_SECONDS,
                # Given with each request: a session's own would lose against the environment.
                verify=self._verify(url),
                cert=settings.client_cert,
                proxies=proxies,
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            detail = f"{redacted(url)}: {innermost_reason(error)}"
            raise InfrastructureError("index", detail) from error
        if response.status_code in ABSENT:
            return None
        if not response.ok:
            detail = f"{redacted(url)}: HTTP {response.status_code} {response.reason}"
            refusal = InfrastructureError("index", detail)
            if response.status_code != PERHAPS_ABSENT:
                raise refusal
            refusals.append(refusal)
            return None
        return response

    def _verify(self, url: str) -> bool | str:
        parts = urlsplit(url)
        names = {parts.hostname, f"{parts.hostname}:{parts.port}"}
        if names.intersection(self._settings.trusted_hosts):
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            return False
        return self._settings.ca_bundle or True


def _read_page(path: Path, project: str) -> list[IndexFile]:
    try:
        with host_faults(path):
            content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return []
    return _links(content, path.as_uri())


def _links(content: bytes, base: str) -> list[IndexFile]:
    try:
        page = RepositoryPage.from_html(content, base)
    except (UnsupportedRepoVersionError, ValueError) as error:
        detail = f"{redacted(base)}: it is no page of links"
        raise InfrastructureError("index", detail) from error
    files = (_index_file(DistributionPackage.from_link(link)) for link in page.links)
    return [file for file in files if _is_archive(file.filename)]


def _index_file(package: DistributionPackage) -> IndexFile:
    # By its address, as pip does it: a link's text is free.
    filename = unquote(urlsplit(package.url).path.rpartition("/")[2])
    return IndexFile(filename, package.requires_python, package.is_yanked)


def _is_archive(filename: str) -> bool:
    return filename.endswith(ARCHIVES)


def _local_path(url: str) -> Path:
    return Path(url2pathname(urlsplit(url).path))
