from __future__ import annotations

import http.server
import subprocess
import threading
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitsect.images.errors import (
    BadReference,
    InfrastructureError,
    UnknownVersion,
    UnresolvedError,
)
from bitsect.images.interpreter import Interpreter
from bitsect.images.lock import Lock, LockedPackage, read_pylock, write_pylock
from bitsect.images.pip_settings import PipSettings, read_pip_settings
from bitsect.images.resolver import Resolver
from bitsect.images.uv import Uv

if TYPE_CHECKING:
    from tests.images.conftest import LocalIndex, WheelMaker

SHA = "sha256:" + "ab" * 32


def package(name: str = "lib", version: str = "1.0", **more: object) -> LockedPackage:
    source = f"https://host.example/{name}-{version}-py3-none-any.whl"
    plain = LockedPackage(name, version, "wheel", source, (SHA,))
    return msgspec.structs.replace(plain, **more)


class TestDigest:
    def test_the_order_of_packages_does_not_count(self) -> None:
        one, two = package("a"), package("b")

        assert Lock("py", (one, two)).digest == Lock("py", (two, one)).digest

    def test_where_a_hashed_file_comes_from_does_not_count(self) -> None:
        moved = package(source="https://mirror.example/lib-1.0-py3-none-any.whl")

        assert Lock("py", (moved,)).digest == Lock("py", (package(),)).digest

    @pytest.mark.parametrize(
        "other",
        [
            package("other"),
            package(version="1.1"),
            package(kind="sdist"),
            package(hashes=("sha256:" + "cd" * 32,)),
            package(hashes=()),
            package(commit="abc"),
            package(subdirectory="sub"),
        ],
    )
    def test_everything_else_counts(self, other: LockedPackage) -> None:
        assert Lock("py", (other,)).digest != Lock("py", (package(),)).digest
        assert Lock("another", (package(),)).digest != Lock("py", (package(),)).digest

    def test_a_file_without_a_hash_is_known_by_its_place(self) -> None:
        one = package(hashes=())
        moved = package(hashes=(), source="https://mirror.example/lib-1.0-py3-none-any.whl")

        assert Lock("py", (one,)).digest != Lock("py", (moved,)).digest


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(name=TEXT, value=TEXT)
def test_any_text_survives_the_written_lock(name: str, value: str) -> None:
    locked = package(source=f"https://host.example/{value}.whl", subdirectory=name)

    text = write_pylock(Lock("py", (locked,)))

    # TOML has no form of a carriage return but its escape; the reader gives what was written.
    (entry,) = tomllib.loads(text)["packages"]
    assert entry["wheels"][0]["url"] == locked.source
    assert entry["wheels"][0]["subdirectory"] == name


def test_a_written_lock_is_read_back(interpreter: Interpreter, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    archive = package("archived", kind="archive", source="https://host.example/archived.zip")
    tree = package("tree", kind="directory", source=str(folder))
    sdist = package("sdist", kind="sdist", source="https://host.example/sdist-1.0.tar.gz")
    cloned = package(
        "cloned", kind="vcs", source="https://host.example/x.git", hashes=(), commit="a" * 40
    )
    lock = Lock(interpreter.identity, (archive, cloned, package(), sdist, tree))
    file = tmp_path / "pylock.toml"
    file.write_text(write_pylock(lock))

    read = read_pylock(file, interpreter)

    # The folder's hash is computed anew from what lies there.
    assert read.by_name["tree"].hashes[0].startswith("sha256:")
    assert [each for each in read.packages if each.name != "tree"] == [
        each for each in lock.packages if each.name != "tree"
    ]


def test_a_source_tree_is_known_by_its_contents(interpreter: Interpreter, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    (folder / ".git").mkdir(parents=True)
    (folder / "a.py").write_text("1")
    file = tmp_path / "pylock.toml"
    locked = package("tree", kind="directory", source="tree")
    file.write_text(write_pylock(Lock(interpreter.identity, (locked,))))
    before = read_pylock(file, interpreter)

    (folder / ".git" / "HEAD").write_text("moved")
    same = read_pylock(file, interpreter)
    (folder / "a.py").rename(folder / "b.py")
    renamed = read_pylock(file, interpreter)

    assert before.packages[0].source == str(folder)
    assert before.digest == same.digest != renamed.digest


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "lock-version"),
        ("lock-version = ", "Invalid value"),
        ('lock-version = "2.0"\ncreated-by = "x"\npackages = []', "not supported"),
        (
            'lock-version = "1.0"\ncreated-by = "x"\nrequires-python = ">=99"\npackages = []',
            "python",
        ),
        (
            'lock-version = "1.0"\ncreated-by = "x"\n[[packages]]\nname = "lib"\n'
            'wheels = [{url = "https://x/lib-1.0-cp27-cp27m-win32.whl", hashes = {sha256="0"}}]',
            "lib",
        ),
    ],
)
def test_a_lock_that_is_none_or_not_for_this_python_is_refused(
    text: str, reason: str, interpreter: Interpreter, tmp_path: Path
) -> None:
    file = tmp_path / "pylock.toml"
    file.write_text(text)

    with pytest.raises(BadReference, match=reason) as caught:
        read_pylock(file, interpreter)

    assert caught.value.text == str(file)


def test_bytes_that_are_no_text_are_no_lock(interpreter: Interpreter, tmp_path: Path) -> None:
    file = tmp_path / "pylock.toml"
    file.write_bytes(b"\xff\xfe")

    with pytest.raises(BadReference):
        read_pylock(file, interpreter)


@pytest.fixture
def filled(local_index: LocalIndex) -> LocalIndex:
    """app 1 and 2 need base 1 and 2; base 2 needs extra."""
    local_index.add("base", "1.0")
    local_index.add("base", "2.0", ["extra"])
    local_index.add("base", "2.1", ["extra"])
    local_index.add("extra", "1.0")
    local_index.add("app", "1.0", ["base<2"])
    local_index.add("app", "2.0", ["base>=2"])
    local_index.add("tool", "1.0", ["base"])
    return local_index


@pytest.fixture
def resolver(filled: LocalIndex, local_settings: PipSettings, interpreter: Interpreter) -> Resolver:
    return Resolver(interpreter, local_settings)


@pytest.fixture
def refusing_index() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Tests print nothing."""

    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=service.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{service.server_address[1]}/simple"
    service.shutdown()
    thread.join()
    service.server_close()


class TestResolve:
    def test_every_package_gets_one_hashed_file(
        self, resolver: Resolver, filled: LocalIndex
    ) -> None:
        lock = resolver.resolve(("app==2.0",))

        assert lock.versions == {"app": "2.0", "base": "2.1", "extra": "1.0"}
        for locked in lock.packages:
            assert locked.kind == "wheel"
            assert locked.source.startswith(filled.folder.as_uri())
            assert [each.partition(":")[0] for each in locked.hashes] == ["sha256"]

    def test_the_short_way_over_known_files_gives_the_same_lock(
        self, resolver: Resolver, local_settings: PipSettings, interpreter: Interpreter
    ) -> None:
        resolver.resolve(("app==2.0",))

        again = resolver.resolve(("tool==1.0", "base==2.0"))

        fresh = Resolver(interpreter, local_settings).resolve(("tool==1.0", "base==2.0"))
        assert again == fresh

    def test_markers_and_extras_are_followed(self, resolver: Resolver, filled: LocalIndex) -> None:
        filled.add("fancy", "1.0", ['extra; extra == "more"', 'tool; python_version < "3"'])

        assert resolver.resolve(("fancy[more]",)).versions == {"extra": "1.0", "fancy": "1.0"}

    def test_what_does_not_fit_together_says_why(self, resolver: Resolver) -> None:
        with pytest.raises(UnresolvedError, match=r"app>=2\.0 depends on base>=2") as caught:
            resolver.resolve(("app==2.0", "base==1.0"))

        assert caught.value.requirements == ("app==2.0", "base==1.0")

    def test_a_version_that_nobody_offers_is_named_with_the_nearest(
        self, resolver: Resolver, interpreter: Interpreter
    ) -> None:
        with pytest.raises(UnknownVersion) as caught:
            resolver.resolve(("app", "base==1.5"))

        error = caught.value
        assert (error.package, error.version) == ("base", "1.5")
        assert error.nearest == ("1.0", "2.0", "2.1")
        assert (error.offered, error.python) == (3, interpreter.version)

    def test_a_project_that_nobody_offers_has_no_nearest(self, resolver: Resolver) -> None:
        with pytest.raises(UnknownVersion) as caught:
            resolver.resolve(("nothing==1.0",))

        assert (caught.value.nearest, caught.value.offered) == ((), 0)

    def test_a_pin_that_does_not_apply_here_is_not_blamed(self, resolver: Resolver) -> None:
        with pytest.raises(UnresolvedError):
            resolver.resolve(
                ("app==2.0", "base==1.0", 'base==9; python_version < "3"', "base==1.*")
            )

    def test_a_public_version_stands_for_its_local_builds(
        self, resolver: Resolver, filled: LocalIndex
    ) -> None:
        filled.add("built", "1.0+cpu", ["base<2"])

        assert resolver.resolve(("built==1.0",)).versions["built"] == "1.0+cpu"
        with pytest.raises(UnresolvedError):
            resolver.resolve(("built==1.0", "base==2.0"))

    def test_source_releases_are_not_built_unasked(
        self, resolver: Resolver, filled: LocalIndex
    ) -> None:
        filled.add_sdist("source", "1.0")

        with pytest.raises(UnresolvedError, match="no usable wheels"):
            resolver.resolve(("source==1.0",))

    def test_prereleases_come_only_when_asked_for(
        self,
        resolver: Resolver,
        filled: LocalIndex,
        local_settings: PipSettings,
        interpreter: Interpreter,
    ) -> None:
        filled.add("base", "3.0rc1")

        assert resolver.resolve(("base",)).versions == {"base": "2.1", "extra": "1.0"}
        asking = Resolver(interpreter, local_settings, prereleases=True)
        assert asking.resolve(("base",)).versions == {"base": "3.0rc1"}
        assert resolver.resolve(("base==3.0rc1",)).versions == {"base": "3.0rc1"}

    @pytest.mark.parametrize("requirement", ["lib", "lib==1.0"])
    def test_an_index_that_wants_a_login_is_the_hosts_fault(
        self,
        requirement: str,
        refusing_index: str,
        interpreter: Interpreter,
        local_settings: PipSettings,
    ) -> None:
        resolver = Resolver(interpreter, PipSettings(index_url=refusing_index))

        with pytest.raises(InfrastructureError, match="401"):
            resolver.resolve((requirement,))

    def test_an_index_out_of_reach_is_the_hosts_fault(
        self, interpreter: Interpreter, local_settings: PipSettings
    ) -> None:
        away = PipSettings(index_url="http://127.0.0.1:9/simple", retries=0)

        with pytest.raises(InfrastructureError) as caught:
            Resolver(interpreter, away).resolve(("lib==1",))

        assert caught.value.kind == "index"


class TestFiles:
    @pytest.fixture
    def write(self, tmp_path: Path) -> Callable[..., Path]:
        def write(text: str, name: str = "requirements.txt") -> Path:
            file = tmp_path / "requirement files" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            return file

        return write

    def test_nested_files_are_followed(
        self, resolver: Resolver, write: Callable[..., Path]
    ) -> None:
        write("base==1.0\n", "nested.txt")
        file = write("# a comment\n-r nested.txt\ntool\n")

        assert resolver.resolve(file=file).versions == {"base": "1.0", "tool": "1.0"}

    def test_a_pylock_is_taken_as_it_is(
        self, resolver: Resolver, write: Callable[..., Path]
    ) -> None:
        lock = resolver.resolve(("app==1.0",))

        assert resolver.resolve(file=write(write_pylock(lock), "pylock.toml")) == lock

    def test_a_wheel_named_by_its_path_is_kept(
        self, resolver: Resolver, write: Callable[..., Path], make_wheel: WheelMaker
    ) -> None:
        wheel = make_wheel("own", "7.0", ["base==1.0"])

        lock = resolver.resolve(file=write(f"{wheel}\n"))

        own = lock.by_name["own"]
        assert (own.kind, own.version, own.source) == ("archive", "7.0", wheel.as_uri())
        assert resolver.resolve((f"own @ {wheel.as_uri()}",)) == lock

    def test_hashes_in_the_file_must_hold(
        self, resolver: Resolver, write: Callable[..., Path]
    ) -> None:
        (found,) = resolver.resolve(("base==1.0",)).by_name["base"].hashes
        good = write(f"base==1.0 \\\n    --hash={SHA} \\\n    --hash={found}\n", "good.txt")
        nested = write(f"base==1.0 --hash={SHA}\n", "bad.txt")

        assert resolver.resolve(file=good).versions == {"base": "1.0"}
        for file in (nested, write("-r bad.txt\n")):
            with pytest.raises(BadReference, match=r"base 1\.0 has sha256"):
                resolver.resolve(file=file)

    @pytest.mark.parametrize("text", ["base=1.0\n", "-r missing.txt\n", "ba se\n"])
    def test_a_file_that_cannot_be_read_is_a_bad_reference(
        self, text: str, resolver: Resolver, write: Callable[..., Path]
    ) -> None:
        with pytest.raises(BadReference) as caught:
            resolver.resolve(file=write(text))

        assert caught.value.reason

    def test_an_unknown_version_in_a_file_is_found(
        self, resolver: Resolver, write: Callable[..., Path]
    ) -> None:
        write("base==1.5  # too far\n", "nested.txt")

        with pytest.raises(UnknownVersion, match=r"1\.5"):
            resolver.resolve(file=write("-r nested.txt\n"))

    def test_a_commit_is_recorded(
        self, resolver: Resolver, tmp_path: Path, write: Callable[..., Path]
    ) -> None:
        repository = tmp_path / "repository"
        repository.mkdir()
        (repository / "pyproject.toml").write_text('[project]\nname = "gp"\nversion = "0.3"\n')
        git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@t"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
            subprocess.run([*git, *command], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True)

        lock = resolver.resolve(file=write(f"gp @ git+{repository.as_uri()}\nbase==1.0\n"))

        cloned = lock.by_name["gp"]
        assert (cloned.kind, cloned.commit) == ("vcs", head.stdout.decode().strip())
        hybrid = resolver.resolve_pins(lock, {"base": "2.0"}).lock
        assert hybrid.by_name["gp"] == cloned
        assert hybrid.versions["base"] == "2.0"


class TestHybrids:
    def test_one_package_moves_and_nothing_else(self, resolver: Resolver) -> None:
        base = resolver.resolve(("tool==1.0", "base==2.0"))

        hybrid = resolver.resolve_pins(base, {"Base": "2.1"})

        assert hybrid.lock.versions == base.versions | {"base": "2.1"}
        assert hybrid.added == ()
        assert hybrid.lock.by_name["tool"] == base.by_name["tool"]

    def test_what_the_resolver_had_to_add_is_told(self, resolver: Resolver) -> None:
        base = resolver.resolve(("tool==1.0", "base==1.0"))

        hybrid = resolver.resolve_pins(base, {"base": "2.0"})

        assert [each.name for each in hybrid.added] == ["extra"]
        assert hybrid.lock.versions == {"base": "2.0", "extra": "1.0", "tool": "1.0"}

    def test_a_package_can_be_taken_away(self, resolver: Resolver) -> None:
        base = resolver.resolve(("tool==1.0", "base==1.0"))

        assert resolver.resolve_pins(base, {"tool": None}).lock.versions == {"base": "1.0"}

    def test_a_package_that_others_need_cannot(self, resolver: Resolver) -> None:
        base = resolver.resolve(("tool==1.0", "base==1.0"))

        with pytest.raises(UnresolvedError, match="base cannot be absent: tool requires it"):
            resolver.resolve_pins(base, {"base": None})

    def test_pins_that_do_not_fit_say_why(self, resolver: Resolver) -> None:
        base = resolver.resolve(("app==1.0",))

        with pytest.raises(UnresolvedError, match=r"app<=1\.0 depends on base<2"):
            resolver.resolve_pins(base, {"base": "2.0"})

    def test_a_pin_that_nobody_offers_is_named(self, resolver: Resolver) -> None:
        base = resolver.resolve(("app==1.0",))

        with pytest.raises(UnknownVersion):
            resolver.resolve_pins(base, {"base": "1.5"})

    def test_a_pin_is_no_way_to_smuggle_options(self, resolver: Resolver) -> None:
        base = resolver.resolve(("app==1.0",))

        with pytest.raises(BadReference):
            resolver.resolve_pins(base, {"base": "1.0\n--index-url=https://evil.invalid"})

    def test_the_bases_own_files_come_before_the_indexs(self, resolver: Resolver) -> None:
        # Given a base whose tool is another file than the index has under that version
        base = resolver.resolve(("tool==1.0", "base==2.0"))
        own = msgspec.structs.replace(base.by_name["tool"], hashes=(SHA,))
        changed = Lock(base.python, (*(p for p in base.packages if p.name != "tool"), own))

        hybrid = resolver.resolve_pins(changed, {"base": "2.1"}).lock

        assert hybrid.by_name["tool"] == own
        assert resolver.resolve_pins(base, {"base": "2.1"}).lock.by_name["tool"] != own

    def test_the_other_ends_files_are_taken_before_the_indexs(self, resolver: Resolver) -> None:
        base = resolver.resolve(("tool==1.0", "base==2.0"))
        other = Lock(base.python, (package("base", "2.1", hashes=(SHA,)),))

        hybrid = resolver.resolve_pins(base, {"base": "2.1"}, known=[other])

        assert hybrid.lock.by_name["base"].hashes == (SHA,)

    def test_the_same_hybrid_is_resolved_once(
        self, filled: LocalIndex, local_settings: PipSettings, interpreter: Interpreter
    ) -> None:
        counting = CountingUv(local_settings)
        resolver = Resolver(interpreter, local_settings, uv=counting)
        base = resolver.resolve(("tool==1.0", "base==2.0"))
        resolver.resolve_pins(base, {"base": "2.1"})
        before = counting.runs

        resolver.resolve_pins(base, {"base": "2.1"})

        assert counting.runs == before

    def test_constraints_of_pip_bind_hybrids_too(
        self, resolver: Resolver, local_settings: PipSettings, interpreter: Interpreter,
        tmp_path: Path,
    ) -> None:  # fmt: skip
        file = tmp_path / "constraints.txt"
        file.write_text("base<2.1\n")
        base = resolver.resolve(("tool==1.0", "base==2.0"))
        bound = Resolver(interpreter, replace(local_settings, constraints=(str(file),)))

        with pytest.raises(UnresolvedError, match=r"base<2\.1"):
            bound.resolve_pins(base, {"base": "2.1"})


class CountingUv(Uv):
    runs = 0

    def _run(self, *arguments: object, **keywords: object) -> str:
        self.runs += 1
        return super()._run(*arguments, **keywords)  # type: ignore[arg-type]


@pytest.mark.end_to_end
def test_the_users_own_index_gives_a_whole_lock(interpreter: Interpreter) -> None:
    resolver = Resolver(interpreter, read_pip_settings())

    lock = resolver.resolve(("numpy==1.26.4",))
    hybrid = resolver.resolve_pins(lock, {"numpy": "2.0.0"}).lock

    assert lock.versions == {"numpy": "1.26.4"}
    assert hybrid.versions == {"numpy": "2.0.0"}
    assert all(each.hashes for each in (*lock.packages, *hybrid.packages))
