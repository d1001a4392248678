"""The Python that a container would start, and interpreters that nobody packaged."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bitsect.images.contents.python import Interpreter, find_python, interpreters
from bitsect.images.contents.tree import Tree
from tests.images.contents.trees import ImageTree


def program(path: str) -> ImageTree:
    return ImageTree().file(path, "python", mode=0o755)


@pytest.mark.parametrize(
    ("image", "environment", "found"),
    [
        (program("/usr/bin/python3"), {}, "/usr/bin/python3"),
        (program("/opt/py/python3"), {"PATH": "/none:/opt/py"}, "/opt/py/python3"),
        (program("/usr/bin/python").file("/bin/python3", mode=0o644), {}, "/usr/bin/python"),
        (
            program("/usr/bin/python3.12").link("/usr/bin/python3", "python3.12"),
            {},
            "/usr/bin/python3",
        ),
        (ImageTree().link("/usr/bin/python3", "python3.12"), {}, None),
        (ImageTree().link("/usr/bin/python3", "python3"), {}, None),
        (ImageTree().folder("/usr/bin/python3"), {}, None),
        (program("/work/python3"), {"PATH": "work:."}, None),
        (ImageTree(), {}, None),
    ],
)
def test_python_is_the_first_on_path_that_can_be_executed(
    image: ImageTree, environment: Mapping[str, str], found: str | None
) -> None:
    assert find_python(image.contents(), environment) == found


def test_python3_comes_before_python_wherever_it_is() -> None:
    image = program("/usr/local/bin/python").file("/usr/bin/python3", mode=0o755)
    assert find_python(image.contents(), {}) == "/usr/bin/python3"


def cpython(prefix: str = "/usr/local", series: str = "3.12") -> ImageTree:
    image = program(f"{prefix}/bin/python{series}").link(f"{prefix}/bin/python3", f"python{series}")
    image.file(f"{prefix}/lib/python{series}/os.py").file(f"{prefix}/lib/libpython{series}.so.1.0")
    header = f'#define PY_VERSION "{series}.4"\n'
    return image.file(f"{prefix}/include/python{series}/patchlevel.h", header)


def found_in(image: ImageTree, owned: str = "-") -> tuple[Interpreter, ...]:
    contents = image.contents()
    return interpreters(contents, Tree(contents.entries), lambda path: path.startswith(owned))


def test_an_interpreter_owns_its_parts_and_nothing_that_was_installed_later() -> None:
    image = (
        cpython().file("/usr/local/lib/python3.12/site-packages/x.py").file("/usr/local/bin/pip")
    )
    image.file("/usr/local/lib/python3.12/ensurepip/_bundled/pip-24.3.1-py3-none-any.whl")
    [found] = found_in(image)
    assert (found.prefix, found.version) == ("/usr/local", "3.12.4")
    assert "/usr/local/lib/python3.12/ensurepip/_bundled/pip-24.3.1-py3-none-any.whl" in found.paths
    assert {"/usr/local/bin/python3", "/usr/local/lib/libpython3.12.so.1.0"} <= set(found.paths)
    assert "/usr/local/bin/pip" not in found.paths
    assert not any("site-packages/" in path for path in found.paths)


def test_one_of_another_series_beside_it_keeps_what_is_its_own() -> None:
    image = cpython().file("/usr/local/bin/python3.11", mode=0o755)
    image.file("/usr/local/lib/python3.11/os.py").file("/usr/local/lib/libpython3.11.so.1.0")
    older, newer = found_in(image)
    assert (older.version, newer.version) == ("3.11", "3.12.4")
    assert "/usr/local/lib/libpython3.11.so.1.0" in older.paths
    assert "/usr/local/lib/libpython3.11.so.1.0" not in newer.paths


def test_one_of_a_package_is_none() -> None:
    assert found_in(cpython("/usr"), owned="/usr/") == ()


def test_a_virtual_environment_with_a_copy_of_the_program_is_none() -> None:
    image = program("/opt/venv/bin/python3.12").file("/opt/venv/lib/python3.12/site-packages/x.py")
    assert found_in(image) == ()
