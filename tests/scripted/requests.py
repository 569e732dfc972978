"""Requests as a scripted model gets them, made by hand."""

from __future__ import annotations

import itertools
import json
from typing import Any

from wane.core import DELIMITER, Kind
from wane.testing import Message, Part, Request

TOOLS = ("read_file", "edit_file", "write_file", "list_files", "grep", "shell", "recall", DELIMITER)

_ids = itertools.count()


def user(text: str) -> Message:
    return Message("user", (Part(Kind.USER, text),))


def reply_messages(place: str, *calls: tuple[str, dict[str, Any], str]) -> list[Message]:
    """A reply at a place of the model's plan, with its calls and what they returned."""
    ids = [f"c{next(_ids)}" for _ in calls]
    made = [Part(Kind.CALL, json.dumps(given), id_, tool) for id_, (tool, given, _) in zip(ids, calls, strict=True)]
    results = [Part(Kind.RESULT, result, id_) for id_, (_, _, result) in zip(ids, calls, strict=True)]
    reply = Message("assistant", (Part(Kind.TEXT, f"{place} words"), *made))
    return [reply, Message("user", tuple(results))] if results else [reply]


def request(*messages: Message, tools: tuple[str, ...] = TOOLS) -> Request:
    return Request(0, "anthropic", "m", messages, tools, 0, True, {}, b"", {})
