"""The adapter of Haystack over its real chat generators."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("haystack", reason="Haystack is not installed")

from haystack.components.agents import Agent
from haystack.components.agents.state import State
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, ReasoningContent, ToolCall
from haystack.hooks import hook
from haystack.hooks.human_in_the_loop import (
    AlwaysAskPolicy,
    BlockingConfirmationStrategy,
    ConfirmationHook,
    ConfirmationUIResult,
)
from haystack.hooks.human_in_the_loop.types import ConfirmationUI
from haystack.tools import Tool
from haystack.utils import Secret

from tests.integrations.adapters.support import needs, part_texts
from wane.core import Kind
from wane.core.errors import ConfigError, FormatError
from wane.formats.message_format import Part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.integrations.haystack import ContextLifecycle, HaystackFormat
from wane.testing import ScriptedServer, adapters

FORMAT = HaystackFormat()


def tool(function: Any, argument: str) -> Tool:
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return Tool(name=function.__name__, description=function.__doc__, parameters=schema, function=function)


READ, GREP = tool(adapters.read, "path"), tool(adapters.grep, "pattern")


class Rejecting(ConfirmationUI):
    """A person who rejects a call, and says why."""

    def get_user_confirmation(self, tool_name: str, tool_description: str, tool_params: dict[str, Any]) -> Any:
        return ConfirmationUIResult(action="reject", feedback=adapters.WORDS)


class HaystackThread:
    """An agent, and the messages of its last run, as a program keeps them."""

    def __init__(self, make: Any, adapter: ContextLifecycle, messages: Sequence[ChatMessage] = (), *more: Any) -> None:
        self._make, self._messages, self._more = make, list(messages), more
        strategy = BlockingConfirmationStrategy(confirmation_policy=AlwaysAskPolicy(), confirmation_ui=Rejecting())
        self._agent = adapter.attach(
            Agent(
                chat_generator=make(),
                tools=[READ, GREP, *more],
                system_prompt="Be good.",
                hooks={"before_tool": [ConfirmationHook(confirmation_strategies={"drop": strategy})]},
                max_agent_steps=50,
            )
        )

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        chunks: list[Any] = []
        result = self._agent.run(
            messages=[*self._messages, ChatMessage.from_user(prompt)],
            streaming_callback=chunks.append if stream else None,
        )
        assert bool(chunks) == stream
        self._messages = [message for message in result["messages"] if message.role.value != "system"]
        return result["last_message"].text

    def read_stored(self) -> Sequence[Part]:
        return [part for message in self._messages for part in FORMAT.parts(message)]

    def again(self, adapter: ContextLifecycle) -> HaystackThread:
        return HaystackThread(
            self._make, adapter, [ChatMessage.from_dict(message.to_dict()) for message in self._messages], *self._more
        )

    def fork(self) -> HaystackThread:
        # The same agent; a turn replaces the list of messages.
        return copy.copy(self)


@pytest.mark.full
class TestChat(adapters.AdapterContract):
    """Chat Completions. Haystack drops calls whose arguments it cannot read, without a word to the model."""

    cannot = adapters.ONLY_OBJECTS
    argument = "input"

    def generator(self, url: str) -> Any:
        options = {"stream_options": {"include_usage": True}}
        key = Secret.from_token("k")

        def make() -> Any:
            return OpenAIChatGenerator(
                model="m", api_key=key, api_base_url=f"{url}/v1", max_retries=0, generation_kwargs=options
            )

        return make

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> HaystackThread:
        return HaystackThread(self.generator(url), adapter)

    def reject(self, url: str, adapter: ContextLifecycle, words: str) -> HaystackThread:
        assert words == adapters.WORDS

        def drop(table: str) -> str:
            """Drop a table."""
            raise AssertionError(table)

        return HaystackThread(self.generator(url), adapter, [], tool(drop, "table"))

    def delegate(self, url: str, adapter: ContextLifecycle) -> HaystackThread:
        def helper(input: str) -> str:  # noqa: A002 - the contract's argument
            """Help with a task."""
            agent = adapter.attach(Agent(chat_generator=self.generator(url)(), tools=[READ, GREP], max_agent_steps=50))
            return agent.run(messages=[ChatMessage.from_user(input)])["last_message"].text

        return HaystackThread(self.generator(url), adapter, [], tool(helper, "input"))


# What this framework does by itself


def equip_agent(server: ScriptedServer, **settings: Any) -> Agent:
    generator = OpenAIChatGenerator(
        model="m", api_key=Secret.from_token("k"), api_base_url=f"{server.url}/v1", max_retries=0
    )
    return ContextLifecycle(budget=adapters.BUDGET).attach(
        Agent(chat_generator=generator, tools=[READ, GREP], **settings)
    )


def test_an_asynchronous_run_sends_the_same() -> None:
    requests = []
    for is_async in (False, True):
        with ScriptedServer(adapters.replies_of(0)) as server:
            agent, messages = equip_agent(server), [ChatMessage.from_user("Go.")]
            result = asyncio.run(agent.run_async(messages=messages)) if is_async else agent.run(messages=messages)
            assert result["last_message"].text == "Done 0."
            requests.append([request.parts for request in server.requests])
    assert requests[0] == requests[1]


def test_other_hooks_see_all_messages() -> None:
    seen: list[int] = []

    @hook
    def count(state: State) -> None:
        seen.append(sum(len(message.tool_call_results) for message in state.data["messages"]))

    points = ("before_llm", "before_tool", "after_tool", "on_exit")
    with ScriptedServer(adapters.script()) as server:
        agent, messages = equip_agent(server, hooks={point: [count] for point in points}), list[ChatMessage]()
        for turn in range(adapters.TURNS):
            result = agent.run(messages=[*messages, ChatMessage.from_user(adapters.prompt_of(turn))])
            messages = result["messages"]
    assert "a0" not in server.requests[-1].results, "nothing was evicted"
    assert seen == sorted(seen)
    assert seen[-1] == sum(len(message.tool_call_results) for message in messages)


def test_an_agent_that_is_stored_is_attached_when_it_is_loaded() -> None:
    generator = OpenAIChatGenerator(model="m", api_key=Secret.from_env_var("A_KEY_OF_NOBODY", strict=False))
    agent = ContextLifecycle().attach(Agent(chat_generator=generator))
    with pytest.raises(ConfigError, match="store it before you attach it"):
        agent.to_dict()


# The messages, part by part

CALL = ToolCall("read", {"path": "é"}, "a")
ANSWER = ChatMessage.from_assistant("I look.", tool_calls=[CALL], reasoning=ReasoningContent("Hm.", {"signature": "s"}))


def test_a_message_is_taken_apart_and_kept_in_part() -> None:
    assert part_texts(FORMAT, ANSWER) == [(Kind.REASONING, "Hm."), (Kind.TEXT, "I look."), (Kind.CALL, "")]
    assert needs(FORMAT, ANSWER) == [(1,), (), (-2,)]
    assert FORMAT.keep(ANSWER, [0, 1, 2]) is ANSWER
    kept = FORMAT.keep(ANSWER, [1])
    assert (kept.reasonings, kept.texts, kept.tool_calls) == ([], ["I look."], [])
    result = FORMAT.result(ANSWER, 2, "It says é.")
    assert part_texts(FORMAT, result) == [(Kind.RESULT, "It says é.")]
    assert part_texts(FORMAT, FORMAT.clear_result(result, 0, "Gone.")) == [(Kind.RESULT, "Gone.")]


def test_images_count_by_an_estimate() -> None:
    image = ImageContent(base64_image="aGk=", mime_type="image/png", validation=False)
    (part,) = FORMAT.parts(ChatMessage.from_user(content_parts=["See.", image]))
    assert (part.text, part.extra_tokens) == ("See.", NON_TEXT_TOKENS)


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(FormatError, match="must be a ChatMessage, found dict"):
        FORMAT.parts({"role": "user"})
