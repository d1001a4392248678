"""Settings of the whole suite, and the container engine for those tests that need it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import docker
import pytest
from hypothesis import settings

from tests.containers.engine import REQUIRED, connect, lacking
from tests.containers.workshop import Workshop

# No test asserts a time. In CI the examples are the same in every run: a new counterexample is
# found by whoever runs the suite at home, not by whoever happens to land next.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")

_SKIPPED = pytest.StashKey[int]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without an engine, a test that needs one is skipped, or fails where one must be."""
    if item.get_closest_marker("engine") is None or (reason := lacking()) is None:
        return
    if os.environ.get(REQUIRED):
        pytest.fail(reason, pytrace=False)
    item.config.stash[_SKIPPED] = item.config.stash.get(_SKIPPED, 0) + 1
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Iterator[None]:
    """Says in the last lines what a run without an engine did not test."""
    yield
    if skipped := config.stash.get(_SKIPPED, 0):
        terminalreporter.write_line(
            f"{skipped} tests of container stacks were skipped: {lacking()}, see README"
        )


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """A connection to the container engine; for tests with the marker of this name."""
    with closing(connect()) as client:
        yield client


@pytest.fixture(scope="session")
def workshop(engine: docker.DockerClient) -> Workshop:
    """Makes the images that tests run in."""
    return Workshop(engine)


@pytest.fixture(scope="session")
def torch_image(workshop: Workshop) -> str:
    """Tag of an image with Debian's torch and NumPy on the reference BLAS."""
    return workshop.torch()


@pytest.fixture(scope="session")
def small_image(workshop: Workshop) -> str:
    """Tag of an image with Python and nothing else."""
    return workshop.small()
