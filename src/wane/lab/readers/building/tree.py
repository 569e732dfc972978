"""Sessions that are trees: a turn that was edited or tried again begins a branch beside the abandoned one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from wane.lab.readers.building.lines import Problems

LEFT: Final = "on an abandoned branch (a turn that was edited or tried again)"


class Node(Protocol):
    """An entry with its place in a tree.

    Attributes:
        id: its id, unique in the file.
        parent: the id of the entry that it follows; None for a root.
    """

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def parent(self) -> str | None: ...  # noqa: D102


NodeT = TypeVar("NodeT", bound=Node)


def path_to(leaf: NodeT | None, nodes: Sequence[NodeT]) -> Mapping[str, NodeT]:
    """Return the entries from a leaf to its root, by id, leaf first.

    A missing parent was lost with a broken line. The previous entry in the file takes its place, so that the earlier
    entries are not lost too.
    """
    by_id = {node.id: node for node in nodes}
    positions = {node.id: position for position, node in enumerate(nodes)}
    path: dict[str, NodeT] = {}
    while leaf is not None and leaf.id not in path:
        path[leaf.id] = leaf
        if leaf.parent is None:
            break
        before = positions[leaf.id] - 1
        leaf = by_id.get(leaf.parent) or (nodes[before] if before >= 0 else None)
    return path


def name_left(lines: Iterable[int], problems: Problems, calls: int) -> None:
    """Name the lines of abandoned branches: one problem for each run of them.

    Args:
        lines: the lines, in order.
        problems: takes the problems.
        calls: number of model calls among them.
    """
    problems.abandoned += calls
    runs: list[list[int]] = []
    for line in lines:
        # Lines between them that no request carries do not end a run.
        if runs and line <= runs[-1][1] + 3:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    for first, last in runs:
        problems.add(first, LEFT if first == last else f"lines {first} to {last}: {LEFT}", LEFT)
