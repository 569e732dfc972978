"""A request that is refused for reasoning bound to what was evicted is sent again, and asks for it to be dropped."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.proxy.server.support import Asked, ask, provider, proxy, response, run
from wane.proxy.server import headers
from wane.testing.anthropic import Anthropic

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
def test_the_provider_is_asked_to_drop_it_under_the_beta_that_this_takes(theirs: dict[str, str], sent: str) -> None:
    content = {"model": "claude", "max_tokens": 9, "messages": HISTORY, "tools": [{"name": "read", "input_schema": {}}]}

    async def main() -> None:
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

    run(main)


def test_a_value_that_is_there_is_not_repeated() -> None:
    sent = [(b"host", b"h"), (b"anthropic-beta", b"a, B"), (b"anthropic-beta", b"c")]
    assert headers.added(sent, {"anthropic-beta": "b"}) == sent
    assert headers.added(sent, {"Anthropic-Beta": "d"}) == [(b"host", b"h"), (b"anthropic-beta", b"a, B,c,d")]
    assert headers.added(sent, {}) == sent
