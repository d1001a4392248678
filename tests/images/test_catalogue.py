from __future__ import annotations

import base64
import functools
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from bitsect.images.catalogue import AxisPoints, nearest_versions, pip_axis_points, releases
from bitsect.images.errors import BadReference, InfrastructureError
from bitsect.images.interpreter import Interpreter
from bitsect.images.pip_settings import PipSettings, read_pip_settings

if TYPE_CHECKING:
    from tests.images.conftest import LocalIndex, WheelMaker

JSON_TYPE = "application/vnd.pypi.simple.v1+json"


@dataclass
class Server:
    """Answers each path with (status, content type, body); counts what was asked for."""

    url: str = ""
    pages: dict[str, tuple[int, str, bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def json(self, project: str, *files: dict[str, object]) -> None:
        meta = {"api-version": "1.1"}
        body = {"meta": meta, "name": project, "files": list(files)}
        self.pages[f"/simple/{project}/"] = (200, JSON_TYPE, json.dumps(body).encode())

    def html(self, path: str, text: str) -> None:
        self.pages[path] = (200, "text/html", text.encode())

    def status(self, path: str, code: int) -> None:
        self.pages[path] = (code, "text/plain", b"")


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append((self.path, self.headers.get("Authorization")))
            status, kind, body = state.pages.get(self.path, (404, "text/plain", b""))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Tests print nothing."""

    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=service.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{service.server_address[1]}"
    yield state
    service.shutdown()
    thread.join()
    service.server_close()


@pytest.fixture
def served(server: Server) -> PipSettings:
    return PipSettings(index_url=f"{server.url}/simple", retries=0, timeout=20)


def listed(filename: str, **more: object) -> dict[str, object]:
    return {"filename": filename, "url": f"../../{filename}", "hashes": {}, **more}


def wheel(version: str, **more: object) -> dict[str, object]:
    return listed(f"lib-{version}-py3-none-any.whl", **more)


def versions(found: object) -> list[str]:
    assert isinstance(found, tuple)
    return [release.version for release in found]


def test_releases_come_in_version_order_with_what_is_known_of_them(
    local_index: LocalIndex, local_settings: PipSettings, interpreter: Interpreter
) -> None:
    local_index.add("lib", "1.10")
    local_index.add("lib", "1.9", yanked=True)
    local_index.add("lib", "2.0rc1")
    local_index.add("lib", "2.0", tag="cp27-cp27m-win32")
    local_index.add("lib", "2.1", requires_python=">=99")
    local_index.add_sdist("lib", "1.0")

    found = releases("Lib", interpreter, local_settings)

    assert versions(found) == ["1.0", "1.9", "1.10", "2.0rc1", "2.0", "2.1"]
    assert [each.version for each in found if each.has_wheel] == ["1.9", "1.10", "2.0rc1"]
    assert [each.version for each in found if each.has_sdist] == ["1.0"]
    assert [each.version for each in found if each.yanked] == ["1.9"]
    assert [each.version for each in found if each.prerelease] == ["2.0rc1"]


def test_a_release_is_yanked_only_if_all_of_its_usable_files_are(
    server: Server, served: PipSettings, interpreter: Interpreter
) -> None:
    other = listed("lib-1.0-cp27-cp27m-win32.whl")
    half = listed("lib-2.0-1-py3-none-any.whl")
    server.json("lib", wheel("1.0", yanked="broken"), other, wheel("2.0", yanked=True), half)

    found = releases("lib", interpreter, served)

    assert [each.yanked for each in found] == [True, False]


@pytest.mark.parametrize("form", ["json", "html"])
def test_both_forms_of_an_index_are_read(
    form: str, server: Server, served: PipSettings, interpreter: Interpreter
) -> None:
    if form == "json":
        server.json("lib", wheel("1.0"), wheel("2.0", **{"requires-python": "<3"}))
    else:
        server.html(
            "/simple/lib/",
            '<a href="/x/lib-1.0-py3-none-any.whl#sha256=00">any text</a>'
            '<a href="lib-2.0-py3-none-any.whl" data-requires-python="&lt;3">lib</a>',
        )

    found = releases("lib", interpreter, served)

    assert [(each.version, each.has_wheel) for each in found] == [("1.0", True), ("2.0", False)]


def test_all_places_count_together(
    server: Server,
    served: PipSettings,
    local_index: LocalIndex,
    make_wheel: WheelMaker,
    interpreter: Interpreter,
    tmp_path: Path,
) -> None:
    # Given an index, an extra one, a folder, a page of links in a file and one on a server
    server.json("lib", wheel("1.0"))
    local_index.add("lib", "2.0")
    make_wheel("lib", "3.0")
    make_wheel("unrelated", "9.0")
    single = make_wheel("lib", "3.5", folder=tmp_path / "single")
    page = tmp_path / "links.html"
    page.write_text('<a href="x/lib-4.0-py3-none-any.whl">x</a><a href="y.html">y</a>')
    server.html("/links", '<a href="lib-5.0-py3-none-any.whl">x</a>')
    settings = replace(
        served,
        extra_index_urls=(local_index.url, f"{local_index.url}-missing"),
        find_links=(
            str(make_wheel.folder), str(single), page.as_uri(), f"{server.url}/links",
            f"{server.url}/no-links",
        ),
    )  # fmt: skip

    assert versions(releases("lib", interpreter, settings)) == [
        "1.0", "2.0", "3.0", "3.5", "4.0", "5.0",
    ]  # fmt: skip


def test_without_an_index_only_folders_count(
    make_wheel: WheelMaker, interpreter: Interpreter, server: Server, served: PipSettings
) -> None:
    make_wheel("lib", "3.0")
    server.json("lib", wheel("1.0"))
    settings = replace(served, no_index=True, find_links=(str(make_wheel.folder),))

    assert versions(releases("lib", interpreter, settings)) == ["3.0"]
    assert server.asked == []


def test_a_project_is_fetched_once(
    server: Server, served: PipSettings, interpreter: Interpreter
) -> None:
    server.json("lib", wheel("1.0"))

    releases("lib", interpreter, served)
    releases("LIB", interpreter, served)

    assert len(server.asked) == 1


def test_files_with_names_of_their_own_are_passed_over(
    server: Server, served: PipSettings, interpreter: Interpreter
) -> None:
    names = ["lib-1.0.egg", "lib.whl", "lib-1.0-py3.whl", "other-1.0.tar.gz", "lib-x.tar.gz", "a"]
    server.json("lib", *map(listed, names))

    assert releases("lib", interpreter, served) == ()


def test_a_login_in_the_address_is_used_and_never_shown(
    server: Server, served: PipSettings, interpreter: Interpreter
) -> None:
    url = server.url.replace("://", "://user:secret@") + "/simple"
    server.json("lib", wheel("1.0"))
    server.status("/simple/other/", 500)
    settings = replace(served, index_url=url)

    assert versions(releases("lib", interpreter, settings)) == ["1.0"]
    assert server.asked[0][1] == "Basic " + base64.b64encode(b"user:secret").decode()
    with pytest.raises(InfrastructureError) as caught:
        releases("other", interpreter, settings)
    assert "secret" not in caught.value.detail


def test_a_netrc_file_is_used(
    server: Server,
    served: PipSettings,
    interpreter: Interpreter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server.json("lib", wheel("1.0"))

    releases("lib", interpreter, served)

    assert server.asked[0][1] == "Basic " + base64.b64encode(b"user:secret").decode()


def test_an_unknown_project_has_no_releases(
    server: Server, served: PipSettings, interpreter: Interpreter
) -> None:
    assert releases("lib", interpreter, served) == ()


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_an_index_that_refuses_is_the_hosts_fault(
    status: int, server: Server, served: PipSettings, interpreter: Interpreter
) -> None:
    server.status("/simple/lib/", status)

    with pytest.raises(InfrastructureError, match=str(status)) as caught:
        releases("lib", interpreter, served)

    assert caught.value.kind == "index"


def test_an_index_that_hides_a_name_does_not_hide_the_others(
    server: Server, served: PipSettings, local_index: LocalIndex, interpreter: Interpreter
) -> None:
    server.status("/simple/lib/", 403)
    local_index.add("lib", "1.0")
    both = replace(served, extra_index_urls=(local_index.url,))

    assert versions(releases("lib", interpreter, both)) == ["1.0"]
    with pytest.raises(InfrastructureError, match="403"):
        releases("lib", interpreter, served)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON_TYPE, b"{"),
        (JSON_TYPE, b"[]"),
        (JSON_TYPE, b'{"meta": {"api-version": "9.0"}, "name": "lib", "files": []}'),
        ("image/png", b"x"),
    ],
)
def test_a_page_that_is_no_index_is_the_hosts_fault(
    kind: str, body: bytes, server: Server, served: PipSettings, interpreter: Interpreter
) -> None:
    server.pages["/simple/lib/"] = (200, kind, body)

    with pytest.raises(InfrastructureError, match="no package index"):
        releases("lib", interpreter, served)


@pytest.mark.parametrize(
    "settings",
    [
        PipSettings(index_url="http://127.0.0.1:9/simple", retries=0),
        PipSettings(index_url="http://index.invalid/simple", retries=0, timeout=20),
        PipSettings(proxy="http://127.0.0.1:9", retries=0),
        PipSettings(find_links=("http://127.0.0.1:9/links",), no_index=True, retries=0),
    ],
    ids=["nobody listens", "no such host", "no proxy", "no links"],
)
def test_an_index_out_of_reach_is_the_hosts_fault(
    settings: PipSettings, interpreter: Interpreter
) -> None:
    with pytest.raises(InfrastructureError) as caught:
        releases("lib", interpreter, settings)

    assert caught.value.kind == "index"
    assert caught.value.detail.count("\n") == 0


def test_one_index_out_of_reach_is_enough(
    local_index: LocalIndex, local_settings: PipSettings, interpreter: Interpreter
) -> None:
    local_index.add("lib", "1.0")
    settings = replace(local_settings, extra_index_urls=("http://127.0.0.1:9/simple",), retries=0)

    with pytest.raises(InfrastructureError):
        releases("lib", interpreter, settings)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"ca_bundle": "/ca.pem"}, {"verify": "/ca.pem"}),
        ({"trusted_hosts": ("index.example",)}, {"verify": False}),
        ({"trusted_hosts": ("index.example:8443",)}, {"verify": False}),
        ({"trusted_hosts": ("other.example",)}, {"verify": True}),
        ({"client_cert": "/me.pem"}, {"cert": "/me.pem"}),
        ({"proxy": "http://p"}, {"proxies": {"http": "http://p", "https": "http://p"}}),
        ({"timeout": 3}, {"timeout": 3}),
    ],
)
def test_requests_are_made_with_pips_settings(
    more: dict[str, Any],
    expected: dict[str, object],
    interpreter: Interpreter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_: dict[str, object] = {}

    def get(self: requests.Session, url: str, **keywords: object) -> requests.Response:
        given_.update(keywords)
        response = requests.Response()
        response.status_code = 404
        return response

    monkeypatch.setattr(requests.Session, "get", get)
    settings = PipSettings(index_url="https://index.example:8443/simple", **more)

    releases("lib", interpreter, settings)

    assert given_ | expected == given_


Axis = Callable[..., AxisPoints]


@pytest.fixture
def axis(local_index: LocalIndex, local_settings: PipSettings, interpreter: Interpreter) -> Axis:
    for version in ("1.0", "1.1", "1.2rc1", "1.2", "1.10", "2.0", "2.0+cpu", "2.1+cpu", "2.2"):
        local_index.add("lib", version)
    local_index.add("lib", "1.3", yanked=True)
    local_index.add("lib", "1.4", tag="cp27-cp27m-win32")
    local_index.add_sdist("lib", "1.5")
    local_index.add("lib", "2.1+cu99")
    return functools.partial(
        pip_axis_points, "lib", interpreter=interpreter, settings=local_settings
    )


def test_an_axis_goes_from_good_to_bad(axis: Axis) -> None:
    up, down = axis("1.0", "2.2"), axis("2.2", "1.0")

    assert up.versions == ("1.0", "1.1", "1.2", "1.10", "2.0", "2.1+cpu", "2.2")
    assert down.versions == tuple(reversed(up.versions))
    assert up.forced == down.forced == ()


def test_an_axis_counts_what_it_leaves_out(axis: Axis) -> None:
    assert axis("1.0", "2.2").left_out == {
        "prerelease": 1, "yanked": 1, "incompatible": 1, "source only": 1, "other build": 2,
    }  # fmt: skip


def test_what_is_left_out_can_be_asked_for(axis: Axis) -> None:
    points = axis("1.1", "1.10", yanked=True, prereleases=True, sdists=True)

    assert points.versions == ("1.1", "1.2rc1", "1.2", "1.3", "1.5", "1.10")


def test_the_builds_of_an_axis_are_those_of_its_ends(axis: Axis) -> None:
    assert axis("1.10", "2.2").versions == ("1.10", "2.0", "2.1+cpu", "2.2")
    assert axis("1.10", "2.2+cpu").versions == ("1.10", "2.0", "2.1+cpu", "2.2+cpu")
    assert axis("1.10+cu99", "2.2").versions == ("1.10+cu99", "2.0", "2.1+cu99", "2.2")
    assert axis("2.0+cpu", "2.2").versions == ("2.0+cpu", "2.1+cpu", "2.2")


def test_ends_stay_whatever_they_are(axis: Axis) -> None:
    points = axis("1.3", "1.99a0+git123")

    assert points.versions == ("1.3", "1.10", "1.99a0+git123")
    assert points.forced == ("1.3", "1.99a0+git123")


def test_equal_ends_make_one_point(axis: Axis) -> None:
    assert axis("1.1", "1.1").versions == ("1.1",)


def test_an_end_that_is_no_version_is_refused(axis: Axis) -> None:
    with pytest.raises(BadReference, match="no version"):
        axis("1.0", "newest")


def test_the_nearest_versions_stand_around_the_missing_one() -> None:
    offered = ["1.0", "1.2", "1.10", "2.0", "3.0"]

    assert nearest_versions("1.11", offered) == ("1.2", "1.10", "2.0", "3.0")
    assert nearest_versions("9", offered) == ("2.0", "3.0")
    assert nearest_versions("9", []) == ()
    assert nearest_versions("newest", offered) == ("1.2", "1.10", "2.0", "3.0")


@given(st.lists(st.integers(0, 30), unique=True), st.integers(0, 30))
def test_nearest_versions_leave_none_nearer_out(offered: list[int], wanted: int) -> None:
    near = [Version(each).major for each in nearest_versions(str(wanted), map(str, offered))]

    assert near == sorted(near)
    assert set(near) <= set(offered)
    below = sorted(each for each in offered if each < wanted)
    assert [each for each in near if each < wanted] == below[-2:]


@pytest.mark.end_to_end
def test_the_users_own_index_offers_numpys_releases(interpreter: Interpreter) -> None:
    points = pip_axis_points("numpy", "1.23.5", "2.4.6", interpreter, read_pip_settings())

    assert points.versions[0] == "1.23.5"
    assert points.versions[-1] == "2.4.6"
    assert {"1.24.0", "2.0.0", "2.3.0"} <= set(points.versions)
    assert sorted(points.versions, key=Version) == list(points.versions)
