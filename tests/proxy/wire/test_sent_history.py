"""The client's own history goes upstream as any view does of which nothing has left."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.world import AnthropicClient, ChatClient, GeminiClient, ResponsesClient
from wane.proxy.wire.wire import Equipped, Message, SentHistory, ViewMessage, Wire

WIRES: dict[str, Wire] = {
    client.wire.name: client.wire for client in (AnthropicClient, ChatClient, ResponsesClient, GeminiClient)
}
TURNS = st.lists(st.sampled_from(["user", "answer", "calls", "results", "system"]), min_size=1, max_size=12)


def entry_of(name: str, turn: str, number: int) -> dict[str, Any]:
    """A message, or an item of it, in the form of a protocol."""
    text, call = f"Words {number}.", f"call_{number}"
    role = {"calls": "assistant", "answer": "assistant", "results": "user"}.get(turn, turn)
    if name == "gemini":
        parts: dict[str, Any] = {
            "calls": {"functionCall": {"name": "read", "args": {}}},
            "results": {"functionResponse": {"name": "read", "response": {"output": text}}},
        }
        return {"role": "model" if role == "assistant" else "user", "parts": [parts.get(turn, {"text": text})]}
    if name == "openai":
        calls = [{"id": call, "type": "function", "function": {"name": "read", "arguments": "{}"}}]
        if turn == "results":
            return {"role": "tool", "tool_call_id": call, "content": text}
        return {"role": role, "content": text, **({"tool_calls": calls} if turn == "calls" else {})}
    if name == "openai_responses":
        if turn == "calls":
            return {"type": "function_call", "call_id": call, "name": "read", "arguments": "{}"}
        if turn == "results":
            return {"type": "function_call_output", "call_id": call, "output": text}
        return {"type": "message", "role": role, "content": text}
    blocks: dict[str, Any] = {
        "calls": {"type": "tool_use", "id": call, "name": "read", "input": {}},
        "results": {"type": "tool_result", "tool_use_id": call, "content": text},
    }
    return {"role": role, "content": [blocks.get(turn, {"type": "text", "text": text})]}


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
@given(turns=TURNS)
def test_the_own_history_is_sent_as_a_view_of_all_its_messages(wire: Wire, turns: list[str]) -> None:
    entries = [entry_of(wire.name, turn, number) for number, turn in enumerate(turns)]
    body = {"model": "m", wire.history: entries}
    history: list[Message] = wire.messages(body)
    view = [ViewMessage(message, number, None, True) for number, message in enumerate(history)]
    assert [*SentHistory(history)] == view
    assert SentHistory(history)[1:] == view[1:]
    expected = wire.with_messages(Equipped(body), view, history)
    assert wire.with_messages(Equipped(body), SentHistory(history), history) == expected
