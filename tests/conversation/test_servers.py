"""What a strict server accepts without Wane, it accepts with Wane, after passes and restarts (R12, R12b)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import times
from wane import Conversation
from wane.core import exact_budget
from wane.testing.request import Request
from wane.testing.rules import DEEPSEEK, GEMINI_CHAT, OPENROUTER, TEMPLATE, Rule

SERVERS = {"deepseek": DEEPSEEK, "openrouter": OPENROUTER, "gemini": GEMINI_CHAT, "template": TEMPLATE}
STRATEGIES = ("cwl", "paper", "truncate", "streaming", "clear-tools", "mask", "fold")
TOOLS = ("read", "grep", "edit")
Message = dict[str, Any]


def refusal(rules: Sequence[Rule], messages: Sequence[Message]) -> str | None:
    request = Request(0, "openai-chat", "m", (), (), 0, False, {"messages": list(messages)}, b"", {})
    return next((words for rule in rules if (words := rule(request)) is not None), None)


@st.composite
def histories(draw: st.DrawFn, server: str) -> list[Message]:
    """A history that the server accepts as it is."""
    messages: list[Message] = [{"role": "system", "content": "Be brief."}]
    number = 0
    for turn in range(draw(st.integers(3, 9))):
        messages.append({"role": "user", "content": f"Question {turn}. " * draw(st.integers(1, 9))})
        for _ in range(draw(st.integers(0, 4))):
            calls, results = [], list[Message]()
            for position in range(draw(st.integers(1, 3))):
                number += 1
                function = {"name": draw(st.sampled_from(TOOLS)), "arguments": json.dumps({"path": f"f{number}"})}
                call: Message = {"id": f"c{number}", "type": "function", "function": function}
                if server == "gemini" and position == 0:
                    call["extra_content"] = {"google": {"thought_signature": "c2VhbA=="}}
                calls.append(call)
                results.append({"role": "tool", "tool_call_id": call["id"], "content": "x" * draw(st.integers(0, 400))})
            answer: Message = {"role": "assistant", "content": draw(st.sampled_from([None, "I look."]))}
            if server == "openrouter":
                answer["reasoning_details"] = [
                    {"type": "reasoning.encrypted", "data": "c2VhbA==" * 9, "id": call["id"]} for call in calls
                ]
            elif server == "deepseek" or draw(st.booleans()):
                answer["reasoning_content"] = "Hm. " * draw(st.integers(1, 60))
            messages += [{**answer, "tool_calls": calls}, *results]
        messages.append({"role": "assistant", "content": f"Answer {turn}. " * draw(st.integers(1, 60))})
    return messages


@pytest.mark.parametrize("server", SERVERS)
@times(2)
@given(data=st.data(), strategy=st.sampled_from(STRATEGIES), budget=st.integers(30, 400))
def test_a_history_that_a_server_accepts_stays_acceptable(
    server: str, data: st.DataObject, strategy: str, budget: int
) -> None:
    history = data.draw(histories(server))
    assert refusal(SERVERS[server], history) is None
    conversation = Conversation(budget=exact_budget(budget), strategy=strategy, annotate="infer")
    forked = data.draw(st.integers(0, len(history)))
    for number, message in enumerate(history):
        if message["role"] == "assistant":
            sent = conversation.request().messages
            assert refusal(SERVERS[server], sent) is None
            if number == forked:
                state = json.loads(json.dumps(conversation.state()))
                conversation = Conversation(budget=exact_budget(budget), strategy=strategy, annotate="infer")
                conversation.restore(state, history[:number])
                assert conversation.request().messages == sent
        conversation.append(message)


def test_a_mark_that_is_no_json_goes_back_as_an_empty_object_with_its_error() -> None:
    conversation = Conversation(budget="6k")
    conversation.append({"role": "user", "content": "Look."})
    conversation.request()
    function = {"name": "delimiter", "arguments": '{"action": "start", "name": "look'}
    conversation.append(
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    )
    request = conversation.request()
    assert refusal(TEMPLATE, request.messages) is None
    assert request.messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert request.messages[2]["content"].startswith("Error")
    # The history has what the model wrote.
    assert conversation.messages[1]["tool_calls"][0]["function"] == function


def test_a_mark_in_responses_goes_back_as_an_empty_object_too() -> None:
    conversation = Conversation("openai_responses", budget="6k")
    conversation.append({"role": "user", "content": "Look."})
    conversation.request()
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "arguments": '{"action": "start", "name": "look'}
    others = {**call, "id": "fc_2", "call_id": "c2", "name": "read"}
    (open_call,) = conversation.append([{**call, "name": "delimiter"}, others])
    conversation.append(open_call.result("x"))
    sent = conversation.request().messages
    # What other tools are called with goes back as the model wrote it.
    assert sent[1:3] == [{**call, "name": "delimiter", "arguments": "{}"}, others]
    assert [item["output"].startswith("Error") for item in sent if item.get("call_id") == "c1" and "output" in item]
    assert conversation.messages[1]["items"][0]["arguments"] == call["arguments"]
