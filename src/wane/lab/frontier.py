"""The frontier of a trade-off, and its knee, beyond which a dollar buys little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def frontier(points: Sequence[_T], cost: Callable[[_T], float], value: Callable[[_T], float]) -> list[_T]:
    """Return the points that no other point beats, cheapest first.

    A point beats another if it is as cheap and worth more, or worth as much and cheaper. Of equal points the first
    counts.

    Args:
        points: the points.
        cost: cost of a point; less is better.
        value: value of a point; more is better.
    """
    best: list[_T] = []
    for point in sorted(points, key=lambda it: (cost(it), -value(it))):
        if not best or value(point) > value(best[-1]):
            best.append(point)
    return best


def knee(points: Sequence[_T], cost: Callable[[_T], float], value: Callable[[_T], float]) -> _T:
    """Return the point of a frontier that lies farthest above the line between its ends.

    Up to there another dollar buys much; beyond it, little. Both measures are scaled to 0..1 between the ends, so
    that their units do not matter. A frontier of two points has no knee; the cheaper point is returned.

    Args:
        points: a frontier, cheapest first; at least one point.
        cost: as in `frontier`.
        value: as in `frontier`.
    """
    first, last = points[0], points[-1]
    width, height = cost(last) - cost(first), value(last) - value(first)
    if width <= 0 or height <= 0:
        return first

    def above(point: _T) -> float:
        return (value(point) - value(first)) / height - (cost(point) - cost(first)) / width

    return max(points, key=above)
