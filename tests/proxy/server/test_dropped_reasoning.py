"""A request that is refused for reasoning bound to what was evicted is sent again, and asks for it to be dropped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from tests.proxy.server.support import Asked, ask, provider, proxy, response
from wane.proxy import head
from wane.testing.anthropic import Anthropic

Handler: TypeAlias = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]

BETA = "thinking-binding-controls-2026-08-01"
MESSAGE = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
)
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}]},
    {"role": "user", "content": "Ho"},
]
HISTORY[1]["content"].append({"type": "text", "text": "Hello."})
REPLY = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "So."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


async def binding(asked: Asked, writer: asyncio.StreamWriter) -> None:
    if asked.json.get("thinking", {}).get("block_binding"):
        writer.write(response(json.dumps(REPLY).encode()))
    else:
        writer.write(response(json.dumps(Anthropic().error(400, MESSAGE)).encode(), 400))


@pytest.mark.parametrize(("theirs", "sent"), [({}, BETA), ({"anthropic-beta": "files-1"}, f"files-1,{BETA}")])
async def test_the_provider_is_asked_to_drop_it_under_the_beta_that_this_takes(
    theirs: dict[str, str], sent: str
) -> None:
    content = {"model": "claude", "max_tokens": 9, "messages": HISTORY, "tools": [{"name": "read", "input_schema": {}}]}

    async with provider(binding) as up, proxy(up.url) as running:
        answer = await ask(running, json.dumps(content).encode(), "/v1/messages", headers=theirs)
        assert (answer.status, json.loads(answer.body)) == (200, REPLY)
        first, second = up.asked
        assert first.header("anthropic-beta") == theirs.get("anthropic-beta")
        assert second.header("anthropic-beta") == sent
        assert second.json["messages"] == first.json["messages"]
        # The session's next requests ask at once: each refusal would cost them a round trip.
        told = {"role": "assistant", "content": REPLY["content"]}
        more = {**content, "messages": [*HISTORY, told, {"role": "user", "content": "More."}]}
        answer = await ask(running, json.dumps(more).encode(), "/v1/messages", headers=theirs)
        assert answer.status == 200
        assert len(up.asked) == 3
        assert up.asked[2].header("anthropic-beta") == sent
        assert up.asked[2].json["thinking"] == second.json["thinking"]


def test_a_value_that_is_there_is_not_repeated() -> None:
    sent = [(b"host", b"h"), (b"anthropic-beta", b"a, B"), (b"anthropic-beta", b"c")]
    assert head.add_values(sent, {"anthropic-beta": "b"}) == sent
    assert head.add_values(sent, {"Anthropic-Beta": "d"}) == [(b"host", b"h"), (b"anthropic-beta", b"a, B,c,d")]
    assert head.add_values(sent, {}) == sent


def refusing_provider(kind: str, message: str, refuse: Callable[[Any], bool]) -> Handler:
    """A provider that refuses some requests with a message, and answers the others."""

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        refused = refuse(asked.json)
        content = Anthropic().error(400, message) if refused else {**REPLY, "content": [{"type": "text", "text": kind}]}
        writer.write(response(json.dumps(content).encode(), 400 if refused else 200))

    return answer


def thinks(body: Any) -> list[str]:
    return [
        block["signature"]
        for message in body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else ())
        if block["type"] == "thinking"
    ]


UNLED = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."
ENABLED = {"type": "enabled", "budget_tokens": 1_024}


async def test_a_turn_that_was_refused_for_how_it_begins_goes_on_without_thinking() -> None:
    """The provider's reading is one that nobody knows: it refuses each request of the turn that asks for thinking."""
    steps: list[dict[str, Any]] = [HISTORY[0]]
    for number in range(3):
        use = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {}}
        thought = {"type": "thinking", "thinking": "t", "signature": f"s{number}"}
        steps.append({"role": "assistant", "content": [thought, use]})
        steps.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": "r"}]}
        )
    more = {"model": "claude", "max_tokens": 9, "tools": [{"name": "read", "input_schema": {}}], "thinking": ENABLED}

    refuses = refusing_provider(
        "So.", UNLED, lambda body: body["thinking"] == ENABLED and len(body["messages"]) in (3, 5, 7)
    )
    async with provider(refuses) as up, proxy(up.url) as running:
        for stop in (3, 5, 7):
            answer = await ask(running, json.dumps({**more, "messages": steps[:stop]}).encode(), "/v1/messages")
            assert answer.status == 200
        assert [asked.json["thinking"]["type"] for asked in up.asked] == ["enabled", *["disabled"] * 3]
        assert [thinks(asked.json) for asked in up.asked[1:]] == [[], [], []]
        # The user's next turn thinks again.
        said = {"role": "assistant", "content": [{"type": "text", "text": "So."}]}
        content = {**more, "messages": [*steps, said, {"role": "user", "content": "More."}]}
        assert (await ask(running, json.dumps(content).encode(), "/v1/messages")).status == 200
        assert up.asked[-1].json["thinking"] == ENABLED


async def test_thinking_that_was_refused_is_left_out_from_then_on_and_later_thinking_is_not() -> None:
    """A provider that cannot drop it by itself."""
    more = {"model": "claude", "max_tokens": 9, "tools": [{"name": "read", "input_schema": {}}]}
    more["thinking"] = {"type": "disabled"}

    refuses = refusing_provider("So.", MESSAGE, lambda body: "s" in thinks(body))
    async with provider(refuses) as up, proxy(up.url) as running:
        messages = HISTORY
        for number in range(3):
            answer = await ask(running, json.dumps({**more, "messages": messages}).encode(), "/v1/messages")
            assert answer.status == 200
            thought = {"type": "thinking", "thinking": "t", "signature": f"later {number}"}
            reply = {"role": "assistant", "content": [thought, {"type": "text", "text": f"So {number}."}]}
            messages = [*messages, reply, {"role": "user", "content": "More."}]
        assert [thinks(asked.json) for asked in up.asked] == [["s"], [], ["later 0"], ["later 0", "later 1"]]
