"""The choices of update-alternatives: which of several files a general name leads to."""

from __future__ import annotations

from bitsect.images.contents.model import Contents
from bitsect.images.contents.tree import Tree
from bitsect.images.layers import Record

CHOSEN = "/etc/alternatives"

_RECORDS = "/var/lib/dpkg/alternatives/"


class Alternative(Record, frozen=True):
    """One group of links that are switched together.

    :param name: of the group, such as ``libblas.so.3-x86_64-linux-gnu``.
    :param target: the file that it leads to now, as the link says.
    :param paths: its record, its links in /etc/alternatives, and the general names that are
        links to those.
    """

    name: str
    target: str
    paths: tuple[str, ...]


def chosen_alternatives(contents: Contents, tree: Tree) -> tuple[Alternative, ...]:
    """Groups in the order of their names; those without a choice are left out."""
    found = []
    for path, text in sorted(contents.texts.items()):
        name = path.removeprefix(_RECORDS)
        chosen = contents.entries.get(f"{CHOSEN}/{name}")
        if name == path or chosen is None or chosen.target is None:
            continue
        links = _links(name, text.decode("utf-8", "replace").splitlines())
        paths = [path, *(each for member in links for each in _paths(member, contents, tree))]
        found.append(Alternative(name, chosen.target, tuple(paths)))
    return tuple(found)


def _links(name: str, lines: list[str]) -> list[tuple[str, str]]:
    """(name, general path) of the group's main link and of those that follow it.

    A record begins with the mode and the main link, then has pairs of lines up to an empty one.
    """
    general = lines[1] if len(lines) > 1 else ""
    followers = lines[2 : lines.index("", 2)] if "" in lines[2:] else lines[2:]
    return [(name, general), *zip(followers[::2], followers[1::2], strict=False)]


def _paths(member: tuple[str, str], contents: Contents, tree: Tree) -> list[str]:
    name, general = member
    switch = f"{CHOSEN}/{name}"
    place = tree.placed(general)
    entry = contents.entries.get(place)
    target = entry.target if entry is not None else None
    return [switch, place] if target is not None and tree.placed(target) == switch else [switch]
