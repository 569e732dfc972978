"""Thinking with a budget (Anthropic's `enabled`): the turn under way begins with thinking, whatever was evicted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.marks import first_quick, wide
from tests.proxy.agents import Worker
from tests.proxy.world import AnthropicClient, Done, Upstream, run_turn
from wane import Policy
from wane.conversation import ContextSettings
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.stores import MemoryStore

BUDGET = 6_000
SETTINGS = ContextSettings(budget=BUDGET, policy=Policy(index_share=0.05))
ENABLED = {"type": "enabled", "budget_tokens": 1024}


class ThinkingClient(AnthropicClient):
    """Asks for thinking with a budget."""

    def body(self) -> dict[str, Any]:
        return {**super().body(), "thinking": ENABLED}


class RemindingClient(ThinkingClient):
    """Puts text behind results, as harnesses do: it can be read as the begin of another turn."""

    def take(self, answer: Any, results: Callable[[str, Any], str]) -> int:
        calls = super().take(answer, results)
        if calls and len(self.history) % 3:
            self.history[-1]["content"].append({"type": "text", "text": "<reminder>Go on.</reminder>"})
        return calls


def result(tool: str, arguments: Any) -> str:
    return f"{tool} {json.dumps(arguments)}\n" + "line of output, as long as lines are\n" * 25


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "reasons"),  # whether it thinks between calls, too
    [
        (ThinkingClient, False),
        (RemindingClient, True),
        *wide((ThinkingClient, True), (RemindingClient, False)),
    ],
)
@pytest.mark.parametrize("seed", first_quick(*range(4)))
async def test_no_request_is_sent_that_the_provider_refuses(
    make: type[AnthropicClient], reasons: bool, seed: int
) -> None:
    client, index, done = make(), SessionIndex(MemoryStore(), SETTINGS), list[Done]()
    upstream = Upstream(client.provider, Worker(seed, steps=60, reasons=reasons))
    for number in range(3):
        client.say(f"User turn {number}: please do thing {number}.")
        done += await run_turn(index, client, upstream, result, limit=100)
    assert len(upstream.requests) > 60
    assert done[-1].facts.evicted > 3 * BUDGET
    assert max(request.tokens for request in upstream.requests) <= BUDGET
    # It goes on thinking: what the provider demands is kept.
    assert all(request.body["thinking"] == ENABLED for request in upstream.requests)
