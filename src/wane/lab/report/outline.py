"""The episodes of a session, and which item belongs to which."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from wane.core import ContextWindow
from wane.core.policy import MAX_BUDGET
from wane.inference import Annotator, add_annotated
from wane.lab.counting import Material
from wane.lab.replaying.trace import Bar, Trace
from wane.strategies.base import Annotate


@dataclass(frozen=True, slots=True)
class Outline:
    """The episodes of a session.

    Attributes:
        bars: the episodes, in order of start.
        owners: by item, the number of its episode; -1 for system and user items and the prologue.
    """

    bars: tuple[Bar, ...]
    owners: tuple[int, ...]


def outline_of(material: Material, annotate: Annotate, trace: Trace | None = None) -> Outline:
    """Return the episodes that a replay saw, or those that a session has if no replay knew any.

    Inference may heed the budget, so that two strategies may have seen different episodes.

    Args:
        material: the session.
        annotate: who marks its episodes.
        trace: of a replay of it.
    """
    trace = trace if trace is not None and trace.bars else _traced(material, annotate)
    bars = tuple(bar for _, bar in sorted(trace.bars.items()))
    return Outline(bars, tuple(trace.owners.get(index, -1) for index in range(len(material.items))))


def call_before(firsts: Sequence[int], position: int) -> int:
    """Return the number of the first model call that was made when `position` items had happened."""
    return bisect_left(firsts, position)


def _traced(material: Material, annotate: Annotate) -> Trace:
    window = ContextWindow(MAX_BUDGET)
    annotator = Annotator() if annotate == "infer" else None
    trace = Trace(material)
    firsts = [call.first for call in material.session.calls]
    for index, (item, part) in enumerate(zip(material.items, material.session.parts, strict=True)):
        trace.note(call_before(firsts, index + 1), index, add_annotated(window, item, part, annotator))
    return trace
