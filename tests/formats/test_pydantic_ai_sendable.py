"""What no request could carry is kept out of requests, so that a run and its history go on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from tests.integrations.worksite import THINKING, worker
from tests.testing.support import each_protocol_once, every_protocol, model_of, run
from wane.formats.pydantic_ai import BEYOND_JSON, beyond_json, encodable, sendable, with_encodable_text
from wane.integrations.pydantic_ai import ContextLifecycle
from wane.testing import Call, Reply, ScriptedServer

HALF = "\ud83d"
"""A lone surrogate: half of a character."""


def conversation(server: ScriptedServer, protocol: str, stream: bool, **options: Any) -> list[ModelMessage]:
    """Two turns of an agent that has nothing but the capability; the history after them."""

    async def turns() -> list[ModelMessage]:
        agent = worker(model_of(server, protocol), ContextLifecycle(recall=True), **options)
        history: list[ModelMessage] = []
        for prompt in ("Go.", "Go on."):
            history = (await run(agent, prompt, stream, message_history=history)).all_messages()
        return history

    return asyncio.run(turns())


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "reply",
    [
        Reply(f"half {HALF}."),
        Reply(f"half {HALF}.", calls=(Call("read", {"path": "a.py"}),)),
        Reply("Done.", reasoning=f"half {HALF}"),
        Reply(reasoning=f"half {HALF}", calls=(Call("read", {"path": "a.py"}),)),
        Reply(calls=(Call("read", f'{{"path": "{HALF}"}}'),)),
        Reply(calls=(Call("read", r'{"path": "\ud83d"}'),)),
        Reply(calls=(Call("delimiter", f'{{"action": "start", "name": "{HALF}", "type": "expl"}}'),)),
        Reply(calls=(Call(f"read{HALF}", {}),)),
    ],
    ids=["text", "text-call", "thinking", "thinking-call", "arguments", "escaped", "delimiter", "tool"],
)
@each_protocol_once
def test_half_a_character_from_the_model_does_not_end_a_conversation(protocol: str, stream: bool, reply: Reply) -> None:
    script = [reply, Reply("Yes."), Reply("Done."), Reply("Done.")]
    with ScriptedServer(script) as server:
        history = conversation(server, protocol, stream, retries=1, model_settings=THINKING)
    assert server.refusals == ()
    assert with_encodable_text(history) is history


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
@each_protocol_once
def test_a_number_that_json_cannot_write_is_refused_and_the_conversation_goes_on(
    protocol: str, stream: bool, number: str
) -> None:
    wrong = Call("read", f'{{"path": {number}}}')
    with ScriptedServer([Reply(calls=(wrong,)), Reply("I see."), Reply("Done.")]) as server:
        history = conversation(server, protocol, stream, retries=1)
    assert server.refusals == ()
    assert BEYOND_JSON in json.dumps(server.requests[1].body)
    # The history says what the model said, as far as its client lets that through.
    response = history[1]
    assert isinstance(response, ModelResponse)
    assert "INVALID" not in str(response.tool_calls[0].args)


@pytest.mark.quick(2)
@every_protocol
@pytest.mark.parametrize("tool", ["delimiter", "recall"])
def test_our_own_tools_refuse_it_without_using_up_a_retry(protocol: str, tool: str) -> None:
    raw = '{"action": "start", "name": "x", "type": "expl", "more": NaN}'
    with ScriptedServer([Reply(calls=(Call(tool, raw),)), Reply("Yes."), Reply("Done.")]) as server:
        conversation(server, protocol, False, retries=0)
    (result,) = server.requests[1].results.values()
    assert result.startswith("Error: ")
    assert "JSON" in result
    assert server.refusals == ()


@every_protocol
def test_prompts_and_results_that_no_request_could_carry(protocol: str) -> None:
    with ScriptedServer([Reply(calls=(Call("shout", {}),)), Reply("Done.")]) as server:
        agent = worker(model_of(server, protocol), ContextLifecycle())

        @agent.tool_plain
        def shout() -> str:
            return f"{HALF}!"

        result = asyncio.run(run(agent, f"fix {HALF} it", False))
    assert "fix \ufffd it" in json.dumps(server.requests[1].body, ensure_ascii=False)
    assert server.refusals == ()
    # Only requests are changed: the history is the application's.
    assert result.all_messages()[0].parts[0].content == f"fix {HALF} it"


def test_what_can_be_sent_is_sent_as_it_is() -> None:
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart(["Go. \u00fc \U0001f600"]), ToolReturnPart("read", {"a": [1, None]}, "1")]),
        ModelResponse([TextPart("\u00fc"), ToolCallPart("read", '{"path": 1'), ToolCallPart("read", {"path": 1.5})]),
    ]
    assert all(new is old for new, old in zip(map(sendable, messages), messages, strict=True))


def test_thinking_that_was_changed_is_signed_no_more() -> None:
    signed = ThinkingPart(f"so {HALF}", signature="s", provider_name="anthropic")
    assert with_encodable_text(signed) == ThinkingPart("so \ufffd", provider_name="anthropic")
    # What goes with an id is no signature of the words.
    item = ThinkingPart(f"so {HALF}", id="rs_1", signature="s")
    assert with_encodable_text(item).signature == "s"


def test_halves_that_belong_together_are_joined() -> None:
    assert encodable("\ud83d\ude00 \ude00\ud83d \ud83d") == "\U0001f600 \ufffd\ufffd \ufffd"


@given(st.text(st.characters(categories=("Cs", "L", "S"))))
def test_any_text_becomes_one_that_can_be_encoded_and_no_longer(text: str) -> None:
    encoded = encodable(text)
    assert encoded.encode().decode() == encoded == encodable(encoded)
    assert len(encoded) <= len(text)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert encoded is text


@pytest.mark.parametrize(
    ("arguments", "beyond"),
    [
        ('{"x": NaN}', True),
        ({"x": [float("inf")]}, True),
        ('{"x": 1e999}', True),
        ('{"x": "NaN"}', False),
        ('{"x": NaN', False),
        ("", False),
        (None, False),
        ({"x": object()}, False),
    ],
)
def test_beyond_json(arguments: Any, beyond: bool) -> None:
    assert beyond_json(arguments) is beyond
