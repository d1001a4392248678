"""Taking the manifest of a stack: inside it or, where nothing starts, from its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bitsect.images.contents.model import Contents
from bitsect.images.contents.static_inventory import static_software
from bitsect.images.errors import BadReference
from bitsect.images.manifest import Manifest, static_manifest
from bitsect.images.payload import Payload
from bitsect.images.runner import take_inventory
from bitsect.images.runtime.errors import ProgramError
from bitsect.images.runtime.protocol import Handle, Runtime, Stack
from bitsect.images.stack_source import evidence_of


@dataclass(frozen=True)
class Pinner:
    """Takes manifests.

    :param contents: reads the files of an image.
    :param tell: told in a few words what is being done.
    """

    payload: Payload
    contents: Callable[[Stack], Contents]
    tell: Callable[[str], None] = lambda words: None

    def manifest(self, runtime: Runtime, stack: Stack, *, deep: bool = False) -> Manifest:
        """The manifest of a stack, built if need be, with its libraries warmed up.

        The one of an image without a Python that starts is what its files tell.

        :param deep: compare every installed file with its checksum.

        Raises InventoryError, ManifestError and the errors of building and starting it.
        """
        try:
            handle = runtime.ensure(stack)
        except BadReference as error:
            return self._static(stack, error, error.reason)
        try:
            return self._inside(runtime, handle, deep=deep)
        except ProgramError as error:
            return self._static(stack, error, error.reason)
        finally:
            handle.release()

    def _inside(self, runtime: Runtime, handle: Handle, *, deep: bool) -> Manifest:
        self.tell(f"taking the inventory of {handle.stack.reference}")
        with runtime.open(handle) as session:
            return take_inventory(session, self.payload, warm_up=True, deep=deep)

    def _static(self, stack: Stack, error: Exception, reason: str) -> Manifest:
        if stack.image is None:
            raise error
        self.tell(f"reading the files of {stack.reference}, since nothing starts in it: {reason}")
        contents = self.contents(stack)
        problems = [{"what": path, "reason": why} for path, why in contents.skipped]
        return static_manifest(
            static_software(contents, stack.image.environment),
            stack.image,
            stack.recipe,
            {**evidence_of(stack), "problems": problems},
        )
