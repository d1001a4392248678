"""Images are made once, made anew when their recipe changes, and failures are told."""

from __future__ import annotations

import threading

import docker
import pytest

from tests.containers.workshop import ImageError, Workshop

pytestmark = pytest.mark.engine

TAG = "bitsect-test/workshop:tried"


@pytest.fixture(autouse=True)
def none_before(engine: docker.DockerClient) -> None:
    if engine.images.list(TAG):
        engine.images.remove(TAG)


def test_an_image_is_made_once(workshop: Workshop, engine: docker.DockerClient) -> None:
    # Given an image
    def made(text: bytes) -> str:
        tag = workshop.derived(TAG, workshop.small(), ["ENV PLACE=here"], {"opt/a/note.txt": text})
        return str(engine.images.get(tag).id)

    first = made(b"one")

    # Then it has what it was made from, and the same recipe gives the same image
    said = engine.containers.run(TAG, ["sh", "-c", "cat /opt/a/note.txt; echo $PLACE"], remove=True)
    assert said == b"onehere\n"
    assert made(b"one") == first

    # And another recipe gives another
    assert made(b"two") != first


def test_runs_at_the_same_time_make_it_once(
    workshop: Workshop, engine: docker.DockerClient
) -> None:
    # Given several runs that want an image whose making leaves something by chance
    found: list[str] = []

    def want() -> None:
        tag = workshop.derived(
            TAG, workshop.small(), ["RUN cat /proc/sys/kernel/random/uuid > /id"]
        )
        found.append(str(engine.images.get(tag).id))

    runs = [threading.Thread(target=want) for _ in range(3)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()

    # Then all get the same
    assert len(found) == 3
    assert len(set(found)) == 1


def test_a_failed_step_is_told(workshop: Workshop) -> None:
    with pytest.raises(ImageError) as refused:
        workshop.derived(TAG, workshop.small(), ["RUN echo the reason; exit 3"])
    assert "the reason" in refused.value.tail
    assert "exit 3" in refused.value.tail


def test_what_stands_on_another_goes_first(workshop: Workshop, engine: docker.DockerClient) -> None:
    # Given an image, one that was made from it, and one without a tag
    low = workshop.derived(f"{TAG}-low", workshop.small(), ["LABEL bitsect-test.tried=1"])
    workshop.derived(TAG, low, ["ENV PLACE=here"])
    workshop.derived(TAG, low, ["ENV PLACE=there"])

    # Then cleaning takes them all, and not what they were made from
    assert workshop.clean("bitsect-test.tried") == [TAG, f"{TAG}-low"]
    assert engine.images.list(filters={"label": "bitsect-test.tried"}) == []
    assert engine.images.get(workshop.small())
