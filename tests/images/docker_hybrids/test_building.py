"""What can go wrong while a hybrid is made, and what is left of it then: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bitsect.images.contents import planning
from bitsect.images.contents.model import Contents
from bitsect.images.contents.planning import Plan
from bitsect.images.errors import InfrastructureError, UnbuildableError
from bitsect.images.mixing.space import ImageSpace
from bitsect.images.runtime.docker import building, committing
from bitsect.images.runtime.docker import workbench as bench_module
from bitsect.images.runtime.docker.arranging import Arrangement
from bitsect.images.runtime.docker.runtime import DockerRuntime
from bitsect.images.runtime.docker.sweep import sweep
from bitsect.images.runtime.protocol import Stack
from tests.containers.workshop import Workshop
from tests.images.docker_hybrids.mix import Mix

pytestmark = pytest.mark.engine

Mixes = Callable[..., Mix]

ONE = "file:/opt/building/one"
OTHER = "file:/opt/building/other"
LIBRARY = "file:/usr/local/lib/libnone.so"


@pytest.fixture
def ends(workshop: Workshop) -> tuple[str, str]:
    good = workshop.derived(
        "bitsect-test/building:good",
        workshop.small(),
        files={"opt/building/one": b"1\n", "opt/building/other": b"1\n"},
    )
    bad = workshop.derived(
        "bitsect-test/building:bad",
        workshop.small(),
        ["RUN ln /opt/building/one /opt/building/another"],
        {
            "opt/building/one": b"2\n",
            "opt/building/other": b"2\n",
            "usr/local/lib/libnone.so": b"no library\n",
        },
    )
    return good, bad


@pytest.fixture
def mix(mix_of: Mixes, ends: tuple[str, str]) -> Mix:
    return mix_of(*ends)


def with_contents(space: ImageSpace, image: int, contents: Contents) -> None:
    """Let the space believe that an image has other contents than it has."""
    known = list(space.contents)
    known[image] = contents
    space.contents = tuple(known)


def built(mix: Mix, stack: Stack) -> None:
    mix.runtime.ensure(stack).release()


def assert_nothing_left(mix: Mix) -> None:
    assert mix.hybrids() == []
    assert mix.containers() == []


def test_a_donor_with_other_bytes_than_it_was_known_to_have_is_refused(mix: Mix) -> None:
    bad = mix.space.contents[1]
    path = "/opt/building/one"
    entry = msgspec.structs.replace(bad.entries[path], digest="sha256:" + "0" * 64)
    with_contents(mix.space, 1, Contents({**bad.entries, path: entry}, bad.texts))

    with pytest.raises(UnbuildableError) as caught:
        built(mix, mix.with_bad(ONE))

    assert caught.value.what == path
    assert caught.value.tail == "its content is not the one that its image was known to have"
    assert_nothing_left(mix)


@pytest.mark.parametrize("field", ["mode", "uid", "size"])
def test_a_donor_with_another_kind_of_file_is_refused(mix: Mix, field: str) -> None:
    bad = mix.space.contents[1]
    path = "/opt/building/one"
    entry = msgspec.structs.replace(bad.entries[path], **{field: 1})
    with_contents(mix.space, 1, Contents({**bad.entries, path: entry}, bad.texts))

    with pytest.raises(UnbuildableError, match=path):
        built(mix, mix.with_bad(ONE))

    assert_nothing_left(mix)


def test_a_donor_without_the_file_is_refused(mix: Mix, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a file that was recorded and is not there
    bad = mix.space.contents[1]
    path = "/opt/building/missing"
    entries = {**bad.entries, path: bad.entries["/opt/building/one"]}
    with_contents(mix.space, 1, Contents(entries, bad.texts))
    stack = mix.with_bad(ONE)

    def with_missing(*arguments: Any) -> Plan:
        return msgspec.structs.replace(planning.plan(*arguments), copies=((1, (path,)),))

    monkeypatch.setattr(building, "plan", with_missing)

    with pytest.raises(UnbuildableError) as caught:
        built(mix, stack)

    assert caught.value.tail == "the image that should lend it does not have it"
    assert_nothing_left(mix)


def test_a_second_name_of_a_file_becomes_a_file(mix: Mix) -> None:
    # Given that the engine sends one of the two names as a link to the other
    component = "file:/opt/building/another"
    assert mix.python(mix.with_bad(component), "print(open('/opt/building/another').read())") == "2"
    both = mix.with_bad(component, ONE)
    assert mix.python(both, "print(open('/opt/building/another').read())") == "2"


def test_a_path_that_changes_unplanned_is_an_error(mix_of: Mixes, workshop: Workshop) -> None:
    # Given an image whose own loader program does more than it should
    evil = workshop.derived(
        "bitsect-test/building:evil",
        workshop.small(),
        [
            "RUN mv /usr/sbin/ldconfig /usr/sbin/ldconfig.real && printf '#!/bin/sh\\n"
            "touch /opt/surprise\\n' >/usr/sbin/ldconfig && chmod 755 /usr/sbin/ldconfig"
        ],
        {"opt/else": b"x" * 100},
    )
    worse = workshop.derived(
        "bitsect-test/building:worse",
        evil,
        files={"usr/local/lib/libnone.so": b"no library\n", "opt/else": b"y" * 100},
    )
    mix = mix_of(evil, worse)

    with pytest.raises(UnbuildableError) as caught:
        built(mix, mix.with_bad(LIBRARY))

    assert caught.value.what == "/opt/surprise"
    assert_nothing_left(mix)


def test_a_failing_loader_program_is_told_with_what_it_said(
    mix_of: Mixes, workshop: Workshop
) -> None:
    broken = workshop.derived(
        "bitsect-test/building:broken",
        workshop.small(),
        [
            "RUN printf '#!/bin/sh\\nseq 100\\nexit 3\\n' >/usr/sbin/ldconfig"
            " && chmod 755 /usr/sbin/ldconfig"
        ],
        {"opt/else": b"x" * 100},
    )
    worse = workshop.derived(
        "bitsect-test/building:broken-too",
        broken,
        files={"usr/local/lib/libnone.so": b"no library\n", "opt/else": b"y" * 100},
    )
    mix = mix_of(broken, worse)

    with pytest.raises(UnbuildableError) as caught:
        built(mix, mix.with_bad(LIBRARY))

    assert caught.value.tail.splitlines() == [str(number) for number in range(51, 101)]
    assert_nothing_left(mix)


def test_what_lies_in_a_volume_of_the_image_cannot_be_moved(
    mix_of: Mixes, workshop: Workshop
) -> None:
    # Given that a container's volume is no part of what is made from it
    good, bad = (
        workshop.derived(
            f"bitsect-test/building:volume-{end}",
            workshop.small(),
            ["VOLUME /opt/data"],
            {"opt/data/file": end.encode(), "opt/else": 10 * end.encode()},
        )
        for end in ("good", "bad")
    )
    mix = mix_of(good, bad)

    with pytest.raises(UnbuildableError) as caught:
        built(mix, mix.with_bad("file:/opt/data/file"))

    assert (caught.value.what, caught.value.tail) == (
        "/opt/data/file",
        "it lies in the image's volume /opt/data",
    )
    assert_nothing_left(mix)


def test_an_image_whose_python_does_not_start_is_unbuildable(
    mix: Mix, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = mix.with_bad(ONE)
    monkeypatch.setattr(DockerRuntime, "python_of", lambda *_: Path("/bin/false"))

    with pytest.raises(UnbuildableError, match="ended with 1"):
        built(mix, stack)

    assert_nothing_left(mix)


def replaced_python(workshop: Workshop, name: str, script: str) -> tuple[str, str]:
    """Two images; the bad one has another Python on its PATH, and is the one farther away."""
    good = workshop.derived(
        f"bitsect-test/building:python-{name}-good",
        workshop.small(),
        files={"opt/large": b"x" * 1000},
    )
    bad = workshop.derived(
        f"bitsect-test/building:python-{name}-bad",
        workshop.small(),
        ["RUN chmod 755 /usr/local/bin/python3"],
        {
            "opt/large": b"y" * 1000,
            "opt/building/one": b"2\n",
            "usr/local/bin/python3": script.encode(),
        },
    )
    return good, bad


ANOTHER_PYTHON = "file:/usr/local/bin/python3"


def test_a_hybrid_in_which_nothing_runs_spoils_no_other(mix_of: Mixes, workshop: Workshop) -> None:
    # Given a hybrid whose Python cannot run, and which is the nearest to the next one
    mix = mix_of(*replaced_python(workshop, "broken", "#!/bin/false\n"))
    built(mix, mix.with_bad(ANOTHER_PYTHON))

    built(mix, mix.with_bad(ANOTHER_PYTHON, ONE))

    assert len(mix.hybrids()) == 2
    assert mix.containers() == []


def test_a_python_that_goes_silent_is_the_images_fault(
    mix_of: Mixes, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = "#!/bin/sh\nexec >&- 2>&-\nexec sleep 1000\n"
    mix = mix_of(*replaced_python(workshop, "silent", silent))
    monkeypatch.setattr(bench_module, "_LAST_WAIT", 0.1)
    # Not every engine tells that a program has closed its output.
    monkeypatch.setattr(bench_module, "PATIENCE", 5)
    everything_but = set(mix.points(0)) - {ONE}

    # From the bad end, where the large file is
    with pytest.raises(UnbuildableError, match=r"closed its output and went on|no answer in"):
        built(mix, mix.with_bad(*everything_but))

    assert_nothing_left(mix)


def test_an_image_of_the_chain_that_was_removed_is_not_the_stacks_fault(mix: Mix) -> None:
    stack = mix.with_bad(ONE)
    gone = msgspec.structs.replace(mix.space.images[0], engine_id="sha256:" + "0" * 64)
    mix.space.images = (gone, mix.space.images[1])

    with pytest.raises(InfrastructureError):
        built(mix, stack)

    assert_nothing_left(mix)


def test_of_several_who_ask_at_once_one_makes_it(mix: Mix, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = []

    def counted(*arguments: Any) -> str:
        commits.append(threading.get_ident())
        return committing.commit(*arguments)

    monkeypatch.setattr(building, "commit", counted)
    stack = mix.with_bad(ONE)

    with ThreadPoolExecutor(4) as pool:
        handles = list(pool.map(mix.runtime.ensure, [stack] * 4))

    assert len(commits) == 1
    assert len({str(handle) for handle in handles}) == 4
    for handle in handles:
        handle.release()


def test_what_one_process_made_another_one_finds(mix: Mix, mix_of: Mixes, ends: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    built(mix, mix.with_bad(ONE))
    another = mix_of(*ends)
    monkeypatch.setattr(Arrangement, "carry_out", None)

    assert another.python(another.with_bad(ONE), "print(open('/opt/building/one').read())") == "2"


def test_a_discarded_hybrid_is_made_anew(mix: Mix) -> None:
    stack = mix.with_bad(ONE)
    handle = mix.runtime.ensure(stack)
    [before] = mix.hybrids()
    first = mix.docker.engine.image(before)["Id"]

    handle.discard()
    assert mix.hybrids() == []
    built(mix, stack)

    [after] = mix.hybrids()
    assert after == before
    assert mix.docker.engine.image(after)["Id"] != first


def test_a_hybrid_of_too_many_layers_is_no_base(mix: Mix, monkeypatch: pytest.MonkeyPatch) -> None:
    built(mix, mix.with_bad(ONE))
    layers = len(mix.docker.engine.image(mix.hybrids()[0])["RootFS"]["Layers"])
    monkeypatch.setattr(building, "MOST_LAYERS", layers)

    first, second = mix.with_bad(ONE), mix.with_bad(ONE, OTHER)
    built(mix, second)

    assert first.recipe is not None
    bases = [
        mix.docker.engine.image(name)["Config"]["Labels"]["bitsect.base"] for name in mix.hybrids()
    ]
    assert first.recipe.digest not in bases


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from bitsect.images.runtime.docker import arranging
    from bitsect.images.runtime.docker.engine import Engine
    from bitsect.images.runtime.docker.files import created_container
    from bitsect.images.runtime.docker.marks import Marks
    from bitsect.images.runtime.docker.workbench import workbench

    engine, marks = Engine.connect(), Marks(Path(sys.argv[1]))
    with (
        created_container(engine, sys.argv[2], marks),
        workbench(engine, marks, sys.argv[2], "/usr/bin/python3") as bench,
    ):
        bench.order("remove", ["/opt/building/one"], int)
        print("in the middle", flush=True)
        signal.pause()
"""


def test_nothing_is_left_of_a_build_that_was_killed(
    mix: Mix, ends: tuple[str, str], cache_root: Path
) -> None:
    # Given a process in the middle of a build
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(cache_root), ends[0]],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "in the middle\n"
    assert len(mix.containers()) == 2

    # When it is killed
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    # Then its containers go with the next start, and there never was an image
    assert sweep(mix.docker.engine, mix.docker.marks) == 2
    assert_nothing_left(mix)
    # And the hybrid can be made as if nothing had happened
    built(mix, mix.with_bad(ONE))
