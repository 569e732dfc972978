"""Adds messages that a format of `wane.formats` takes apart to a session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from wane.core import Kind
from wane.formats.base import Part
from wane.formats.response_items import is_model_made
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.lines import Problems
from wane.lab.session import Usage


def take(
    builder: SessionBuilder,
    parts: Sequence[Part],
    *,
    answer: bool,
    usage: Usage | None = None,
    at: float | None = None,
    model: str | None = None,
    line: int | None = None,
) -> int:
    """Append a message of a chat.

    No provider takes an answer or a user turn after a call without its result. Calls that have none by then get an
    empty one and are named.

    Args:
        builder: the session.
        parts: the parts of the message.
        answer: whether a model wrote it; it then is one model call, with all of its parts.
        usage: what the provider reported for the call.
        at: when it was recorded, in seconds since 1970 UTC.
        model: the model's name.
        line: its line.

    Returns:
        The position of its first part.
    """
    if answer or any(part.kind in (Kind.USER, Kind.NOTICE) for part in parts):
        settle(builder, line, coming={part.call_id or "" for part in parts if part.kind is Kind.RESULT and not answer})
    first = builder.position
    if answer:
        builder.answer(parts, usage=usage, at=at, model=model, line=line)
    else:
        for part in parts:
            builder.add(part, line=line)
    return first


def is_answer(message: Mapping[str, Any]) -> bool:
    """Return whether a model wrote a message, given as JSON data in any format."""
    if isinstance(items := message.get("items"), list):
        return bool(items) and is_model_made(items[0])
    return message.get("role") == "assistant" or message.get("kind") == "response"


def settle(builder: SessionBuilder, line: int | None = None, *, coming: Collection[str] = ()) -> None:
    """Give calls without a result an empty one, and name them.

    Args:
        builder: the session.
        line: line of the message before which the result is missing.
        coming: ids of calls whose result comes later, in that message for example.
    """
    for call_id in builder.unanswered:
        if call_id not in coming:
            builder.problems.add(line, f"no result of the call {call_id!r}; taken as empty", "no result of a call")
    builder.settle("", coming=coming)


def builders(name: str, sources: Sequence[str], problems: Problems) -> list[SessionBuilder]:
    """Return builders for the sessions of one file.

    Args:
        name: name of a session; several are numbered from 1.
        sources: the format of each.
        problems: what was wrong with the file; the first session reports it.
    """
    names = [name] if len(sources) == 1 else [f"{name}-{number}" for number in range(1, len(sources) + 1)]
    pairs = enumerate(zip(names, sources, strict=True))
    return [SessionBuilder(called, source, None if number else problems) for number, (called, source) in pairs]
