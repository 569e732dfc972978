"""The episodes of a session and their items."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from wane.core import ContextWindow
from wane.core.policy import MAX_BUDGET
from wane.inference import Annotator, add_annotated
from wane.lab.counting import Material
from wane.lab.replaying.trace import EpisodeTrace, Trace
from wane.strategies.base import Annotate


@dataclass(frozen=True, slots=True)
class Outline:
    """The episodes of a session.

    Attributes:
        episodes: the episodes, in order of start.
        owners: by item, the number of its episode; -1 for items of none (system, user and prologue).
    """

    episodes: tuple[EpisodeTrace, ...]
    owners: tuple[int, ...]


def outline_of(material: Material, annotate: Annotate, trace: Trace | None = None) -> Outline:
    """Return the episodes that a replay saw, or those of the session if no replay knew any.

    Inference may depend on the budget, so two strategies may have seen different episodes.

    Args:
        material: the session.
        annotate: who marks its episodes.
        trace: trace of a replay of it.
    """
    trace = trace if trace is not None and trace.episodes else _traced(material, annotate)
    episodes = tuple(episode for _, episode in sorted(trace.episodes.items()))
    return Outline(episodes, tuple(trace.owners.get(index, -1) for index in range(len(material.items))))


def call_before(firsts: Sequence[int], position: int) -> int:
    """Return the number of the first model call made after `position` items."""
    return bisect_left(firsts, position)


def _traced(material: Material, annotate: Annotate) -> Trace:
    window = ContextWindow(MAX_BUDGET)
    annotator = Annotator() if annotate == "infer" else None
    trace = Trace(material)
    firsts = [call.first for call in material.session.calls]
    for index, (item, part) in enumerate(zip(material.items, material.session.parts, strict=True)):
        trace.note(call_before(firsts, index + 1), index, add_annotated(window, item, part, annotator))
    return trace
