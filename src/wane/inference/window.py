"""Adds items to a window together with inferred marks."""

from __future__ import annotations

from collections.abc import Iterable

from wane.core import DELIMITER, Added, ContextWindow, Item, Kind
from wane.formats.base import Part
from wane.inference.annotator import Annotator


def is_annotated(parts: Iterable[Part]) -> bool:
    """Whether the agent marked its work in a history: one of its `delimiter` calls was accepted (R3).

    Args:
        parts: the whole history.
    """
    marks = (part.arguments for part in parts if part.kind is Kind.CALL and part.tool == DELIMITER)
    return any(verdict.accepted for verdict in ContextWindow().foresee(marks))


def add_annotated(window: ContextWindow, item: Item, part: Part, annotator: Annotator | None) -> Added:
    """Add the next item of the history to a window, with the marks inferred ahead of it.

    Args:
        window: the window.
        item: the item.
        part: its content.
        annotator: infers the marks; None if only the agent marks its work. It stops for good at the first accepted
            `delimiter` call.

    Raises:
        HistoryError: as `ContextWindow.add` does.
    """
    if annotator is None or annotator.stopped:
        return window.add(item)
    added = window.add(item, annotator.add(item, part))
    if added.verdict is not None and added.verdict.accepted:
        annotator.stop()
    return added
