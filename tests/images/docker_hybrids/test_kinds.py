"""A path may be a file in one image and a folder in the other."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.containers.workshop import Workshop
from tests.images.docker_hybrids.mix import Mix

pytestmark = pytest.mark.engine

SEEN = """
import json, os
print(json.dumps([os.path.isfile("/opt/clash"), os.path.isfile("/opt/clash/sub/file")]))
"""


@pytest.mark.parametrize("file_first", [True, False])
def test_a_file_makes_way_for_a_folder_and_back(
    file_first: bool, mix_of: Callable[..., Mix], workshop: Workshop
) -> None:
    # Given the two
    plain = workshop.derived(
        "bitsect-test/kinds:file", workshop.small(), files={"opt/clash": b"file\n"}
    )
    folder = workshop.derived(
        "bitsect-test/kinds:folder", workshop.small(), files={"opt/clash/sub/file": b"deep\n"}
    )
    mix = mix_of(*((plain, folder) if file_first else (folder, plain)))

    # When the bad end is put together from its parts
    seen = json.loads(mix.python(mix.runtime.rebuilt(mix.bad), SEEN))

    # Then it is as the bad end
    assert seen == [not file_first, file_first]
