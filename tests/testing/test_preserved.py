"""Reasoning that is bound to the conversation before it, as the newest models have it."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
from pydantic_ai.models.anthropic import AnthropicStaleThinkingBlockWarning

from tests.testing.support import MESSAGES, RESPONSES, message_of, post, reader, run, streamed_or_not
from wane.testing import Call, Reply, ScriptedServer

THINK = Reply("Said.", reasoning="Thought.")
DROP = {"thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def send(server: ScriptedServer, *messages: dict[str, Any], **more: Any) -> Any:
    return post(server, MESSAGES, {"model": "m", "max_tokens": 9, "messages": messages, **more})


def talk(server: ScriptedServer, turns: int) -> list[dict[str, Any]]:
    """The messages of a conversation of so many turns, thinking in each."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages.append(user(f"Turn {turn}."))
        messages.append({"role": "assistant", "content": send(server, *messages)[1]["content"]})
    return [*messages, user("Last.")]


@pytest.fixture
def server() -> Any:
    with ScriptedServer(lambda _: THINK, preserved_reasoning=True) as running:
        yield running


def test_an_unchanged_conversation_passes(server: ScriptedServer) -> None:
    messages = talk(server, 3)
    assert send(server, *messages)[0] == 200
    assert [request.dropped_reasoning for request in server.requests] == [()] * 4


def test_a_change_ahead_of_thinking_is_refused(server: ScriptedServer) -> None:
    messages = talk(server, 2)
    messages[0] = user("Something else.")
    status, answer = send(server, *messages)
    assert status == 400
    assert "messages.1.content.0" in message_of(answer)
    assert "The block is bound to a different conversation" in message_of(answer)
    assert send(server, *talk(server, 1), system="New.")[0] == 400


def test_stale_blocks_are_dropped_on_demand(server: ScriptedServer) -> None:
    messages = talk(server, 2)
    del messages[0:2]
    status, answer = send(server, *messages, **DROP)
    assert status == 200
    dropped = [(entry["path"], entry["reason"]) for entry in answer["input_transformations"]]
    assert dropped == [("messages.1.content.0", "prefix_binding_mismatch")]
    assert server.requests[-1].dropped_reasoning == ("messages.1.content.0",)
    # What was thought on the changed conversation is bound to that one.
    messages += [{"role": "assistant", "content": answer["content"]}, user("More.")]
    assert send(server, *messages, **DROP)[1]["input_transformations"][0]["path"] == "messages.1.content.0"
    assert len(server.requests[-1].dropped_reasoning) == 1


def test_thinking_may_go_from_the_start_but_not_from_between(server: ScriptedServer) -> None:
    messages = talk(server, 3)
    first, second = (dict(messages[at], content=messages[at]["content"][1:]) for at in (1, 3))
    assert send(server, messages[0], first, *messages[2:])[0] == 200
    assert send(server, messages[0], first, messages[2], second, *messages[4:])[0] == 200
    assert send(server, *messages[:3], second, *messages[4:])[0] == 400


def test_a_cache_breakpoint_is_no_content(server: ScriptedServer) -> None:
    messages = talk(server, 1)
    messages[0]["content"][0]["cache_control"] = {"type": "ephemeral"}
    assert send(server, *messages)[0] == 200


def test_responses_drop_reasoning_and_say_so(server: ScriptedServer) -> None:
    first = {"role": "user", "content": "Turn 0."}
    items = post(server, RESPONSES, {"model": "m", "input": [first]})[1]["output"]
    whole = post(server, RESPONSES, {"model": "m", "input": [first, *items, first]})[1]
    changed = post(server, RESPONSES, {"model": "m", "input": [*items, first]})[1]
    assert whole["input_transformations"] == []
    assert [(each["id"], each["reason"]) for each in changed["input_transformations"]] == [
        (items[0]["id"], "prefix_mismatch")
    ]
    assert server.requests[-1].dropped_reasoning == (items[0]["id"],)


@streamed_or_not
def test_pydantic_ai_recovers_on_a_model_that_binds(stream: bool) -> None:
    def forget_first_exchange(messages: list[Any]) -> list[Any]:
        return messages if len(messages) < 5 else [messages[0], *messages[3:]]

    from pydantic_ai.capabilities import ProcessHistory

    script = [Reply(reasoning=f"T{step}.", calls=(Call("read", {"path": "a"}),)) for step in range(2)]
    with ScriptedServer([*script, Reply("Done.")], preserved_reasoning=True) as server:
        agent = reader(server.anthropic_model("claude-opus-5-5"), capabilities=[ProcessHistory(forget_first_exchange)])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert asyncio.run(run(agent, "Go", stream)).output == "Done."
        assert AnthropicStaleThinkingBlockWarning in [warning.category for warning in caught]
        assert len(server.refusals) == 1
        assert server.requests[-1].dropped_reasoning == ("messages.1.content.0",)
