"""What the tests of hybrids do again and again."""

from __future__ import annotations

from collections.abc import Sequence

from bitsect.images.mixing.space import ImageSpace
from bitsect.images.offers.offer import Offers
from bitsect.images.runtime.docker.mixing import MixingRuntime
from bitsect.images.runtime.docker.runtime import DockerRuntime
from bitsect.images.runtime.protocol import RunSpec, Stack


class Mix:
    """A space, its runtime, and its two ends as stacks."""

    def __init__(
        self, docker_runtime: DockerRuntime, space: ImageSpace, offers: Sequence[Offers] = ()
    ) -> None:
        self.docker = docker_runtime
        self.space = space
        self.runtime = MixingRuntime(docker_runtime, space, offers=offers)
        good, bad = space.images[0], space.images[-1]
        self.good = Stack(good.requested, "image", None, {}, image=good)
        self.bad = Stack(bad.requested, "image", None, {}, image=bad)

    def points(self, image: int) -> dict[str, str]:
        """The point of every component in an image of the chain."""
        return {axis.component: axis.states[axis.at[image]].name for axis in self.space.axes}

    def with_bad(self, *components: str) -> Stack:
        """The good image with some components as the bad one has them."""
        bad = self.points(-1)
        return self.runtime.hybrid(self.good, {name: bad[name] for name in components})

    def python(self, stack: Stack, code: str) -> str:
        """What a program prints in a stack."""
        handle = self.runtime.ensure(stack)
        try:
            with self.runtime.open(handle) as session:
                ran = session.exec(RunSpec((str(session.python), "-c", code), timeout=120))
                assert ran.returncode == 0, ran.tail()
                return ran.stdout.read_text().strip()
        finally:
            handle.release()

    def hybrids(self) -> list[str]:
        """Names of the hybrids of this test that the engine has."""
        labels = [f"bitsect.root={self.docker.marks.root}", "bitsect.made=hybrid"]
        found = self.docker.engine.api.images(filters={"label": labels})
        return sorted(tag for image in found for tag in image["RepoTags"] or ["nameless"])

    def containers(self) -> list[str]:
        """Containers of this test that the engine has."""
        label = f"bitsect.root={self.docker.marks.root}"
        found = self.docker.engine.api.containers(all=True, filters={"label": label})
        return [str(each["Id"]) for each in found]
