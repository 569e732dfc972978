"""What the tests of the integrations share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.usage import RequestUsage

from tests.conversation.support import place_results
from tests.formats.convert import to_pydantic_ai
from tests.strategies import sessions
from wane import Kind
from wane.conversation import Conversation
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.testing import Call, Request

FORMAT = PydanticAIFormat()

Shape = tuple[Kind, str, str]
"""A part as it is on any wire: its kind, its text (JSON arguments in one spelling), the id of its call."""


def delimiter(**arguments: Any) -> Call:
    return Call("delimiter", arguments)


def shapes_of(messages: Iterable[ModelMessage]) -> list[Shape]:
    """The parts of messages, without system ones, of which providers make different things."""
    parts = (part for message in messages for part in FORMAT.parts(message))
    return [
        (part.kind, _normalise_arguments(part.arguments) if part.kind is Kind.CALL else part.text, part.call_id or "")
        for part in parts
        if part.kind is not Kind.SYSTEM
    ]


def shapes_on_wire(request: Request) -> list[Shape]:
    """The parts of a request to the scripted server, likewise."""
    return [
        (part.kind, _normalise_arguments(part.text) if part.kind is Kind.CALL else part.text, part.call_id or "")
        for part in request.parts
        if part.kind is not Kind.SYSTEM
    ]


def _normalise_arguments(arguments: str | None) -> str:
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return json.dumps({"INVALID_JSON": arguments})


@st.composite
def histories(draw: st.DrawFn, *, joined: bool = True, max_moves: int = 20) -> list[ModelMessage]:
    """Histories that a run might have made: every call answered, with or without reported usage."""
    messages = to_pydantic_ai(place_results(draw(sessions(max_moves=max_moves))), joined=joined)
    tokens = draw(st.lists(st.sampled_from((0, 0, 50, 200, 700)), min_size=1, max_size=5))
    return [
        replace(message, usage=RequestUsage(input_tokens=tokens[number % len(tokens)]))
        if isinstance(message, ModelResponse)
        else message
        for number, message in enumerate(messages)
    ]


def live(
    conversation: Conversation[ModelMessage], history: Sequence[ModelMessage], *, known: int = 0, asked: bool = True
) -> None:
    """Live through a history as in a run: ahead of each response the request, then the response.

    So many responses are `known` to it already; at the end, the model is `asked` once more.
    """
    stops = [number for number, message in enumerate(history) if isinstance(message, ModelResponse)]
    for stop in stops[known:]:
        conversation.host.ingest(history[:stop])
        conversation.request()
        conversation.host.ingest(history[: stop + 1])
    conversation.host.ingest(history)
    if asked:
        conversation.request()


def responses(history: Sequence[ModelMessage]) -> int:
    return sum(isinstance(message, ModelResponse) for message in history)


def standing(conversation: Conversation[ModelMessage]) -> dict[str, Any]:
    """All that makes two conversations the same."""
    request = conversation.request()
    window = conversation.window.export()
    # Ordinals of messages, and which results the newest one holds, depend on how the requests were joined, and nothing
    # on them.
    del window["message"], window["answered"]
    return {
        "window": window,
        "view": shapes_of(request.view),
        "reminder": request.reminder,
        "episodes": [(e.name, e.type, e.level, e.closed, e.spans) for e in conversation.episodes],
    }
