"""The adapter of Strands Agents over its real models, on three wires."""

from __future__ import annotations

import itertools
import json
import shutil
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("strands", reason="Strands Agents is not installed")

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager, SlidingWindowConversationManager
from strands.hooks import BeforeToolCallEvent
from strands.middleware import InvokeModelStage
from strands.models import CacheConfig
from strands.models.anthropic import AnthropicModel
from strands.models.bedrock import BedrockModel
from strands.models.openai import OpenAIModel
from strands.models.openai_responses import OpenAIResponsesModel
from strands.session.file_session_manager import FileSessionManager

from tests.integrations.adapters.support import breaks
from wane.core import Kind
from wane.core.errors import FormatError
from wane.formats.message_format import Part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.integrations.strands import ContextLifecycle, StrandsFormat, join_neighbours
from wane.testing import Call, Reply, ScriptedServer, adapters

read, grep = tool(adapters.read), tool(adapters.grep)
FORMAT = StrandsFormat()


@tool
def drop(table: str) -> str:
    """Drop a table."""
    raise AssertionError(table)


def ask_person(event: BeforeToolCallEvent) -> None:
    """Ask a person about a call of `drop`, and reject it."""
    if event.tool_use["name"] == "drop":
        said = event.interrupt("approval", reason="drop?")
        event.cancel_tool = f"Not run. {said}"


class StrandsThread:
    """An agent with a session in files."""

    words = ""

    def __init__(self, model: Any, adapter: ContextLifecycle, folder: Path, *more: Any) -> None:
        self._model, self._adapter, self._folder, self._more = model, adapter, folder, more
        self._agent = Agent(
            model=model,
            tools=[read, grep, *more],
            system_prompt="Be good.",
            plugins=[adapter],
            session_manager=FileSessionManager(session_id="s", storage_dir=str(folder)),
            agent_id="a",
            callback_handler=None,
        )
        self._agent.add_hook(ask_person, BeforeToolCallEvent)

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        # It always streams.
        result = self._agent(prompt)
        if result.stop_reason == "interrupt":
            (interrupt,) = result.interrupts
            result = self._agent([{"interruptResponse": {"interruptId": interrupt.id, "response": self.words}}])
        return str(result).strip()

    def read_stored(self) -> Sequence[Part]:
        return [part for message in self._agent.messages for part in FORMAT.parts(message)]

    def again(self, adapter: ContextLifecycle) -> StrandsThread:
        return StrandsThread(self._model, adapter, self._folder, *self._more)

    def fork(self) -> StrandsThread:
        # An agent has one session, so the fork has an agent of its own.
        folder = self._folder.with_name(uuid4().hex)
        shutil.copytree(self._folder, folder)
        return StrandsThread(self._model, self._adapter, folder)


@pytest.mark.full
class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    argument = "input"

    @pytest.fixture(autouse=True)
    def _places(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def model(self, url: str) -> Any:
        return OpenAIModel(client_args={"base_url": f"{url}/v1", "api_key": "k", "max_retries": 0}, model_id="gpt-x")

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> StrandsThread:
        return StrandsThread(self.model(url), adapter, self.folder / uuid4().hex)

    def reject(self, url: str, adapter: ContextLifecycle, words: str) -> StrandsThread:
        thread = StrandsThread(self.model(url), adapter, self.folder / uuid4().hex, drop)
        thread.words = words
        return thread

    def delegate(self, url: str, adapter: ContextLifecycle) -> StrandsThread:
        helper = Agent(
            model=self.model(url),
            tools=[read, grep],
            name="helper",
            description="Helps with a task.",
            plugins=[adapter],
            callback_handler=None,
        )
        return StrandsThread(self.model(url), adapter, self.folder / uuid4().hex, helper)


@pytest.mark.wide
# Strands leaves a stream of Responses to the garbage collector while the client's reading of it still runs.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
class TestResponses(TestChat):
    """Responses."""

    def model(self, url: str) -> Any:
        return OpenAIResponsesModel(
            client_args={"base_url": f"{url}/v1", "api_key": "k", "max_retries": 0}, model_id="gpt-x"
        )


@pytest.mark.wide
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    cannot = adapters.ANTHROPIC
    reasoning = True

    def model(self, url: str) -> Any:
        return AnthropicModel(
            client_args={"base_url": url, "api_key": "k", "max_retries": 0},
            model_id="claude-x",
            max_tokens=5_000,
            params={"thinking": {"type": "enabled", "budget_tokens": 1_024}},
        )


# What this framework does by itself


@pytest.mark.parametrize("cached", [True, False])
def test_a_reminder_leaves_a_cache_point_on_the_result_and_else_stands_in_it(cached: bool) -> None:
    script = [Reply(calls=(Call("read", {"path": f"a{n}"}, f"r{n}"),)) for n in range(4)] + [Reply("Done.")]
    settings: dict[str, Any] = {"cache_config": CacheConfig()} if cached else {}
    with ScriptedServer(script) as server:
        model = AnthropicModel(
            client_args={"base_url": server.url, "api_key": "k"}, model_id="claude-x", max_tokens=5_000, **settings
        )
        lifecycle = ContextLifecycle(budget=adapters.BUDGET, remind_at=0.1)
        Agent(model=model, tools=[read], plugins=[lifecycle], callback_handler=None)("Go.")
    assert not server.refusals
    reminded = [request.body["messages"] for request in server.requests if adapters.NOTE in str(request.body)]
    assert reminded
    for *_, last in reminded:
        result, *notes = last["content"]
        assert (len(notes), adapters.NOTE in str(result), "cache_control" in result) == (cached, not cached, cached)


class Bedrock(BedrockModel):
    """A Bedrock model that says what a script says, and takes what Bedrock takes."""

    def __init__(self, replies: Iterator[list[dict[str, Any]]]) -> None:
        super().__init__(model_id="m", region_name="us-west-2")
        self.replies = replies
        self.asked: list[list[Any]] = []

    async def stream(self, messages: Any, *args: Any, **more: Any) -> AsyncIterator[Any]:
        roles = [message["role"] for message in messages]
        assert all(one != other for one, other in itertools.pairwise(roles)), "roles must alternate"
        self.asked.append(messages)
        blocks = next(self.replies)
        yield {"messageStart": {"role": "assistant"}}
        for block in blocks:
            if (call := block.get("toolUse")) is not None:
                start = {"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}}
                yield {"contentBlockStart": {"start": start}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(call["input"])}}}}
            else:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": block["text"]}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if "toolUse" in blocks[-1] else "end_turn"}}
        size = len(json.dumps(messages, default=str)) // 4
        yield {"metadata": {"usage": {"inputTokens": size, "outputTokens": 10, "totalTokens": size + 10}}}


def equip_agent(lifecycle: ContextLifecycle | None = None, **settings: Any) -> Any:
    """An agent of a Bedrock model that goes through the contract's script."""
    given: dict[str, Any] = {"model": bedrock(), "tools": [read, grep], "plugins": [lifecycle or ContextLifecycle()]}
    return Agent(callback_handler=None, **{**given, **settings})


def bedrock() -> Bedrock:
    return Bedrock(
        [
            *([{"text": reply.text}] if reply.text else []),
            *({"toolUse": {"toolUseId": call.id, "name": call.tool, "input": call.arguments}} for call in reply.calls),
        ]
        for reply in adapters.script()
    )


def test_roles_alternate_for_bedrock() -> None:
    model = bedrock()
    agent = equip_agent(ContextLifecycle(budget=3_000), model=model)
    for n in range(adapters.TURNS):
        assert str(agent(adapters.prompt_of(n))).strip() == f"Done {n}."
    last = [block for message in model.asked[-1] for block in message["content"]]
    assert not any(block.get("toolResult", {}).get("toolUseId") == "a0" for block in last), "nothing was evicted"
    assert [block["text"] for block in last if block.get("text", "").startswith("Turn")] == [
        adapters.prompt_of(n) for n in range(adapters.TURNS)
    ]


@pytest.mark.filterwarnings("error::UserWarning")
def test_the_default_manager_drops_nothing() -> None:
    agent = equip_agent()
    for n in range(adapters.TURNS):
        agent(adapters.prompt_of(n))
    assert len(agent.messages) >= 10 * adapters.TURNS
    equip_agent(conversation_manager=NullConversationManager())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"conversation_manager": SlidingWindowConversationManager(window_size=10)}, "NullConversationManager"),
        ({"context_manager": "auto"}, "no context_manager"),
    ],
)
def test_another_manager_is_said(settings: dict[str, Any], said: str) -> None:
    with pytest.warns(UserWarning, match=said):
        equip_agent(**settings)


def test_a_history_that_was_replaced_is_said_and_a_new_one_is_not() -> None:
    agent = equip_agent()
    with warnings.catch_warnings(action="error", category=UserWarning):
        agent(adapters.prompt_of(0))
        agent.messages.clear()
        agent(adapters.prompt_of(1))
    del agent.messages[:3]
    agent.messages.insert(0, {"role": "user", "content": [{"text": "A summary of what was said."}]})
    with pytest.warns(UserWarning, match="the history was replaced"):
        agent(adapters.prompt_of(2))


def test_a_history_that_cannot_be_taken_in_is_sent_as_it_is() -> None:
    agent = equip_agent()
    agent(adapters.prompt_of(0))
    agent.messages[1] = {"role": "assistant", "content": [{"text": "Its calls were here."}]}
    with pytest.warns(UserWarning, match="sent as it is") as told:
        agent(adapters.prompt_of(1))
    assert len(told) == 1


def test_what_others_put_at_the_end_of_a_request_is_no_part_of_the_history() -> None:
    model, forks = bedrock(), list[Any]()

    def now(context: Any) -> Any:
        messages = [*context.messages[:-1], dict(context.messages[-1])]
        messages[-1]["content"] = [*messages[-1]["content"], {"text": f"Now it is {len(model.asked)}."}]
        return context.replace(messages=messages, dynamic_trailing_blocks=1)

    agent = Agent(model=model, tools=[read, grep], callback_handler=None)
    agent.add_middleware(InvokeModelStage.Input, now)
    ContextLifecycle(budget="80k", on_event=forks.append).init_agent(agent)
    agent(adapters.prompt_of(0))
    assert not breaks(forks)
    for number, messages in enumerate(model.asked):
        texts = [block["text"] for message in messages for block in message["content"] if "text" in block]
        assert [text for text in texts if text.startswith("Now")] == [f"Now it is {number}."]


def test_a_conversation_that_the_provider_keeps_is_left_alone_and_said_once() -> None:
    class Stateful(Bedrock):
        stateful = True

        async def stream(self, messages: Any, *args: Any, **more: Any) -> AsyncIterator[Any]:
            self.given = args
            async for event in super().stream(messages, *args, **more):
                yield event

    model = Stateful(iter([[{"text": "One."}], [{"text": "Two."}]]))
    agent = equip_agent(model=model)
    with pytest.warns(UserWarning, match="stateful"):
        agent("Go.")
    with warnings.catch_warnings(action="error", category=UserWarning):
        agent("On.")
    assert "delimiter" not in str(model.given)


# The messages, block by block

ANSWER: dict[str, Any] = {
    "role": "assistant",
    "tracking_id": "m2",
    "content": [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
        {"text": "I look."},
        {"toolUse": {"toolUseId": "a", "name": "read", "input": {"path": "é"}}},
        {"toolUse": {"toolUseId": "b", "name": "read", "input": {}}},
    ],
}
RESULTS: dict[str, Any] = {
    "role": "user",
    "content": [
        {"toolResult": {"toolUseId": "a", "status": "success", "content": [{"text": "x"}, {"json": {"y": 1}}]}},
        {"toolResult": {"toolUseId": "b", "status": "error", "content": [{"image": {"source": {"bytes": b"png"}}}]}},
        {"text": "And mind this."},
        {"cachePoint": {"type": "default"}},
    ],
}


def test_a_message_is_taken_apart_and_kept_in_part() -> None:
    parts = FORMAT.parts(ANSWER)
    assert [(part.kind, part.text or part.arguments, part.call_id, part.needs) for part in parts] == [
        (Kind.REASONING, "Hm.", None, (1,)),
        (Kind.TEXT, "I look.", None, ()),
        (Kind.CALL, '{"path": "é"}', "a", (-2,)),
        (Kind.CALL, "{}", "b", (-3,)),
    ]
    results = FORMAT.parts(RESULTS)
    assert [(part.kind, part.text, part.call_id) for part in results] == [
        (Kind.RESULT, 'x{"y": 1}', "a"),
        (Kind.RESULT, "", "b"),
        (Kind.USER, "And mind this.", None),
    ]
    assert results[1].extra_tokens
    assert FORMAT.keep(ANSWER, [0, 3]) == {**ANSWER, "content": [ANSWER["content"][0], ANSWER["content"][3]]}
    assert FORMAT.awaits(ANSWER, 2)


@pytest.mark.parametrize(
    ("reasoning", "needed", "size"),
    [({"reasoningText": {"text": "Hm."}}, (), 0), ({"redactedContent": b"x" * 400}, (1,), 100)],
    ids=["unsigned", "sealed"],
)
def test_only_sealed_reasoning_needs_company(reasoning: Any, needed: tuple[int, ...], size: int) -> None:
    part, _ = FORMAT.parts({"role": "assistant", "content": [{"reasoningContent": reasoning}, {"text": "So."}]})
    assert (part.needs, part.extra_tokens) == (needed, size)


def test_what_wane_writes() -> None:
    said = {"toolUseId": "a", "status": "success", "content": [{"text": "Yes."}]}
    assert FORMAT.result(ANSWER, 2, "Yes.") == {"role": "user", "content": [{"toolResult": said}]}
    cleared = FORMAT.clear_result(RESULTS, 1, "Gone.")
    assert cleared["content"][1]["toolResult"] == {"toolUseId": "b", "status": "error", "content": [{"text": "Gone."}]}
    assert cleared["content"][0] is RESULTS["content"][0]
    turn = FORMAT.turn("Go.")
    assert join_neighbours([turn, ANSWER, RESULTS, turn])[2:] == [
        {**RESULTS, "content": [*RESULTS["content"], {"text": "Go."}]}
    ]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("Go.", "must be an object"),
        ({"role": "tool", "content": []}, "role 'tool' is unknown"),
        ({"role": "user", "content": "Go."}, "list of blocks"),
        ({"role": "user", "content": [{"hologram": {}}]}, "block 'hologram' is unknown"),
        ({"role": "assistant", "content": [{"text": "Look."}, {"hologram": {}}]}, "block 'hologram' is unknown"),
    ],
)
def test_what_is_no_message_is_refused(message: Any, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        FORMAT.parts(message)


@pytest.mark.parametrize("kind", ["image", "document", "audio", "video"])
def test_media_count_by_an_estimate_also_where_they_are_guarded(kind: str) -> None:
    medium = {kind: {"format": "x", "source": {"bytes": b"1" * 40_000}}}
    for block in (medium, {"guardContent": medium}):
        (part,) = FORMAT.parts({"role": "user", "content": [block]})
        assert (part.text, part.extra_tokens) == ("", NON_TEXT_TOKENS)
