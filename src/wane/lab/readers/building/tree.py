"""Sessions that are trees: a turn that was edited or tried again begins a branch beside the one that was left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from wane.lab.readers.building.lines import Problems

LEFT: Final = "on a branch that was left (a turn that was edited or tried again)"


class Node(Protocol):
    """An entry with its place in a tree.

    Attributes:
        id: its id, which no other entry has.
        parent: the id of the entry that it follows, None for a root.
    """

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def parent(self) -> str | None: ...  # noqa: D102


NodeT = TypeVar("NodeT", bound=Node)


def path_to(leaf: NodeT | None, nodes: Sequence[NodeT]) -> Mapping[str, NodeT]:
    """Return the entries from a leaf to its root, by id, the leaf first.

    A parent that is not among them was lost with a broken line. The entry ahead in the file is taken in its place,
    or all that came before it would be lost too.

    Args:
        leaf: the last entry of the path.
        nodes: all entries, in the order of the file.
    """
    by_id = {node.id: node for node in nodes}
    places = {node.id: place for place, node in enumerate(nodes)}
    path: dict[str, NodeT] = {}
    while leaf is not None and leaf.id not in path:
        path[leaf.id] = leaf
        if leaf.parent is None:
            break
        place = places[leaf.id]
        leaf = by_id.get(leaf.parent) or (nodes[place - 1] if place else None)
    return path


def name_left(lines: Iterable[int], problems: Problems) -> None:
    """Name the lines of branches that were left, one problem for each run of them.

    Args:
        lines: their numbers, ascending.
        problems: takes them.
    """
    first = last = None
    for line in lines:
        # Lines between them that no request carries do not part a run.
        if first is None or last is None or line > last + 3:
            _name(first, last, problems)
            first = line
        last = line
    _name(first, last, problems)


def _name(first: int | None, last: int | None, problems: Problems) -> None:
    if first is not None:
        problems.add(first, LEFT if first == last else f"lines {first} to {last}: {LEFT}", LEFT)
