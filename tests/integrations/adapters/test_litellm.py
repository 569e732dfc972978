"""The filter of LiteLLM, over its own client and two wires."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

pytest.importorskip("litellm", reason="LiteLLM is not installed")

import litellm
from litellm.types.llms.openai import ChatCompletionAssistantMessage

import wane
from wane.conversation.events import HistoryForked, HistoryReplaced, UsageObserved
from wane.core.errors import ConfigError
from wane.integrations.litellm import ContextLifecycle
from wane.testing import Call, Reply, ScriptedServer, adapters

BUDGET = 6_000
TURNS = 4
READ = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Read a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
}


def script() -> Iterator[Reply]:
    for n in range(TURNS):
        for step in range(3):
            yield Reply("I look.", calls=(Call("read", {"path": f"a{n}{step}"}, f"a{n}{step}"),))
        yield Reply(f"Done {n}.")


async def talk(
    url: str, name: str, *, stream: bool = False, objects: bool = False, told: list[object] | None = None
) -> list[Any]:
    """A loop of one's own over LiteLLM, which returns its messages; a tool takes longer than `told` waits for usage."""
    messages: list[Any] = [{"role": "system", "content": "Be good."}]
    base = url if name.startswith("anthropic") else f"{url}/v1"
    for n in range(TURNS):
        messages.append({"role": "user", "content": adapters.prompt_of(n)})
        while True:
            given: dict[str, Any] = {"model": name, "api_base": base, "api_key": "k", "num_retries": 0}
            given |= {"messages": messages, "tools": [READ], "stream": stream}
            answer = await litellm.acompletion(
                **given, **({"stream_options": {"include_usage": True}} if stream else {})
            )
            if stream:
                answer = litellm.stream_chunk_builder([chunk async for chunk in answer])
                answers = sum(message["role"] == "assistant" for message in messages)
                while told is not None and count_usages(told) <= answers:
                    await asyncio.sleep(0)
            message = answer.choices[0].message
            messages.append(message if objects else message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                text = adapters.content_of(call.id)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return messages


def count_usages(told: list[object]) -> int:
    return sum(isinstance(event, UsageObserved) for event in told)


@pytest.fixture(autouse=True)
def _callbacks() -> Iterator[None]:
    yield
    # It goes on telling the first object of a class, whatever the list holds then.
    litellm.logging_callback_manager._reset_all_callbacks()


@pytest.mark.parametrize("name", ["openai/gpt-x", pytest.param("anthropic/claude-sonnet-4-5", marks=pytest.mark.full)])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_requests_stay_within_the_budget_and_the_callers_messages_whole(name: str, stream: bool) -> None:
    told: list[object] = []
    with ScriptedServer(script()) as plain:
        asyncio.run(talk(plain.url, name, stream=stream))
    litellm.callbacks = [ContextLifecycle(BUDGET, on_event=told.append)]
    with ScriptedServer(script()) as server:
        messages = asyncio.run(talk(server.url, name, stream=stream, told=told))
    assert not server.refusals
    assert all(request.tokens <= BUDGET for request in server.requests)
    assert server.requests[-1].tools == ("read",)
    assert "a00" not in server.requests[-1].results
    assert adapters.turns_of(server.requests[-1]) == [adapters.prompt_of(n) for n in range(TURNS)]
    assert sum(message["role"] == "tool" for message in messages) == 3 * TURNS
    assert [message["content"] for message in messages if message["role"] == "tool"] == [
        adapters.content_of(f"a{n}{step}") for n in range(TURNS) for step in range(3)
    ]
    for whole, view in zip(plain.requests, server.requests, strict=True):
        there = iter(adapters.conversation_of(whole))
        assert all(part in there for part in adapters.conversation_of(view))
    assert not [event for event in told if isinstance(event, (HistoryForked, HistoryReplaced))]
    assert count_usages(told) == len(server.requests)


def test_streams_without_a_pause_are_counted_by_an_estimate() -> None:
    litellm.callbacks = [ContextLifecycle(BUDGET)]
    with ScriptedServer(script()) as server:
        asyncio.run(talk(server.url, "openai/gpt-x", stream=True))
    assert not server.refusals
    assert all(request.tokens <= BUDGET for request in server.requests)
    assert "a00" not in server.requests[-1].results


def test_each_field_of_litellms_messages_is_known() -> None:
    fields = {*litellm.Message.model_fields, *ChatCompletionAssistantMessage.__annotations__} - {"function_call"}
    for name in fields - {"role", "content", "tool_calls"}:
        value: Any = "x" if name == "reasoning_content" else [{"text": "x"}]
        wane.Conversation().append({"role": "assistant", "content": "So.", name: value})


def test_messages_may_be_litellms_own_objects() -> None:
    requests = []
    for objects in (False, True):
        litellm.callbacks = [ContextLifecycle(BUDGET)]
        with ScriptedServer(script()) as server:
            asyncio.run(talk(server.url, "openai/gpt-x", objects=objects))
        requests.append([adapters.conversation_of(request) for request in server.requests])
    assert requests[0] == requests[1]


def test_the_router_is_filtered_too() -> None:
    async def ask(url: str) -> None:
        given = {"model": "openai/gpt-x", "api_base": f"{url}/v1", "api_key": "k"}
        router = litellm.Router([{"model_name": "m", "litellm_params": given}])
        messages: list[Any] = [{"role": "user", "content": "Go."}]
        for _ in range(8):
            answer = await router.acompletion(model="m", messages=messages, tools=[READ])
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            result = {"role": "tool", "tool_call_id": message.tool_calls[0].id}
            messages.append({**result, "content": adapters.content_of(message.tool_calls[0].id)})

    litellm.callbacks = [ContextLifecycle(BUDGET)]
    with ScriptedServer(Reply(calls=(Call("read", {"path": f"f{n}"}, f"f{n}"),)) for n in range(8)) as server:
        asyncio.run(ask(server.url))
    assert all(request.tokens <= BUDGET for request in server.requests)
    assert not server.refusals


def test_a_last_answer_that_is_asked_for_without_tools_is_managed_too() -> None:
    async def ask(url: str) -> None:
        call = {"type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages: list[Any] = [{"role": "user", "content": "Go."}]
        for n in range(8):
            messages.append({"role": "assistant", "tool_calls": [{**call, "id": f"r{n}"}]})
            messages.append({"role": "tool", "tool_call_id": f"r{n}", "content": adapters.content_of(f"r{n}")})
        await litellm.acompletion(
            model="openai/gpt-x", api_base=f"{url}/v1", api_key="k", num_retries=0, messages=messages
        )

    litellm.callbacks = [ContextLifecycle(BUDGET)]
    with ScriptedServer([Reply("Done.")]) as server:
        asyncio.run(ask(server.url))
    assert server.requests[-1].tokens <= BUDGET


def test_what_has_no_tools_or_is_no_history_is_sent_as_it_is() -> None:
    async def ask(url: str, **more: Any) -> None:
        await litellm.acompletion(model="openai/gpt-x", api_base=f"{url}/v1", api_key="k", num_retries=0, **more)

    told: list[object] = []
    litellm.callbacks = [ContextLifecycle(BUDGET, on_event=told.append)]
    user, orphan = {"role": "user", "content": "Go."}, {"role": "tool", "tool_call_id": "nowhere", "content": "x"}
    with ScriptedServer([Reply("Hello.")]) as server:
        asyncio.run(ask(server.url, messages=[user]))
        assert not told
        with pytest.warns(UserWarning, match="sent as it is"), pytest.raises(litellm.BadRequestError, match="nowhere"):
            asyncio.run(ask(server.url, messages=[user, orphan], tools=[READ]))


def test_a_setting_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 80k"):
        ContextLifecycle("80")


def test_what_the_server_compacted_is_not_taken_for_the_requests_size() -> None:
    """LiteLLM 1.110.2 adds up all of Anthropic's iterations in `prompt_tokens`."""
    told: list[object] = []
    lifecycle = ContextLifecycle(BUDGET, on_event=told.append)
    call = {"litellm_call_id": "1", "messages": [{"role": "user", "content": "Go."}], "tools": [READ]}
    asyncio.run(lifecycle.async_pre_call_deployment_hook(call, "acompletion"))
    iterations = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
        {"type": "message", "input_tokens": 230, "output_tokens": 10},
    ]
    usage = {"input_tokens": 230, "output_tokens": 10, "iterations": iterations}
    counted = litellm.AnthropicConfig().calculate_usage(usage_object=usage, reasoning_content=None)
    answer = litellm.ModelResponse(usage=counted)
    asyncio.run(lifecycle.async_post_call_success_deployment_hook(call, answer, "acompletion"))
    assert [event.input_tokens for event in told if isinstance(event, UsageObserved)] == [230]
