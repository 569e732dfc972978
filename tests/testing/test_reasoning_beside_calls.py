"""A server that refuses calls without their reasoning, as DeepSeek's and Kimi's do, accepts every request (R12)."""

from __future__ import annotations

import pytest

import wane
from wane.core import Kind
from wane.testing import Call, Reply, Request, ScriptedServer

openai = pytest.importorskip("openai")

ANSWERS = 40
READ = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}


def reply_like_kimi(request: Request) -> Reply:
    for number, message in enumerate(request.body["messages"]):
        if message["role"] == "assistant" and message.get("tool_calls") and not message.get("reasoning_content"):
            raise AssertionError(f"reasoning_content is missing in assistant tool call message at index {number}")
    step = request.number + 1
    if step == ANSWERS:
        return Reply("Finished.")
    if step % 6 == 1:
        start = {"action": "start", "name": f"look-{step}", "type": "expl"}
        return Reply(reasoning="I will mark this. " * 5, calls=(Call("delimiter", start),))
    if step % 6 == 0:
        end = {"action": "end", "name": f"look-{step - 5}", "description": "it is in a.py"}
        return Reply(reasoning="Enough seen. " * 5, calls=(Call("delimiter", end),))
    return Reply(reasoning="Let me read the next file. " * 40, calls=(Call("read", {"path": f"f{step}.py"}),))


@pytest.mark.parametrize("strategy", ["cwl", "paper", "truncate"])
def test_a_loop_goes_on_to_its_end_where_calls_are_refused_without_reasoning(strategy: str) -> None:
    with ScriptedServer(reply_like_kimi) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
        conversation = wane.Conversation(budget="6k", strategy=strategy)
        conversation.append({"role": "user", "content": "Look through all files."})
        while not conversation.ended:
            messages = conversation.request().messages
            answer = client.chat.completions.create(
                model="kimi-k2.6", messages=messages, tools=[*conversation.tools, READ]
            )
            for call in conversation.append(answer, input_tokens=answer.usage.prompt_tokens):
                conversation.append(call.result("line of code\n" * 60))
        assert len(server.requests) == ANSWERS
        last = server.requests[-1]
    # Something has left, or nothing was tested.
    assert len(last.texts(Kind.CALL)) < ANSWERS - 10
