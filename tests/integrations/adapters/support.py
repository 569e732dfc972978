"""What the tests of several adapters share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wane.conversation.events import HistoryForked, HistoryReplaced
from wane.testing import Call

LOOK = {"action": "start", "name": "look", "type": "expl"}


def mark(call_id: str, **arguments: Any) -> Call:
    """A call of `delimiter`; without arguments, the start of an exploration."""
    return Call("delimiter", arguments or LOOK, call_id)


def breaks(events: Iterable[object]) -> list[object]:
    """The events that say that a history is not what was known."""
    return [event for event in events if isinstance(event, (HistoryForked, HistoryReplaced))]


def needs(form: Any, message: Any) -> list[tuple[int, ...]]:
    """What each part of a message needs (R12)."""
    return [part.needs for part in form.parts(message)]


def part_texts(form: Any, message: Any) -> list[tuple[Any, str]]:
    """The kind and the text of each part of a message."""
    return [(part.kind, part.text) for part in form.parts(message)]
