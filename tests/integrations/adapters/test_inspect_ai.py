"""The adapter of Inspect AI over its real models, on three wires."""

from __future__ import annotations

import copy
import itertools
import json
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="Inspect AI is not installed")

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent import Agent, AgentState, agent, as_tool, content_only, handoff, react
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentReasoning,
    ContentText,
    ContentToolUse,
    GenerateConfig,
    Model,
    ModelOutput,
    ModelUsage,
    execute_tools,
    get_model,
    trim_messages,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, ToolCall, ToolCallError, tool
from pydantic import TypeAdapter

from tests.integrations.adapters.support import LOOK, needs, part_texts
from wane.core import Kind
from wane.core.errors import FormatError
from wane.formats.message_format import Part
from wane.integrations.inspect_ai import ContextLifecycle, InspectFormat
from wane.testing import Call, Reply, ScriptedServer, adapters


@tool(parallel=True)
def read() -> Tool:
    async def execute(path: str) -> str:
        """Read a file.

        Args:
            path: The file.
        """
        return adapters.content_of(path)

    return execute


@tool(parallel=True)
def grep() -> Tool:
    async def execute(pattern: str) -> str:
        """Search for a pattern.

        Args:
            pattern: The pattern.
        """
        return adapters.content_of(pattern)

    return execute


@solver
def restore_store(data: Mapping[str, Any]) -> Solver:
    """Give a sample the store of an earlier run."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for key, value in data.items():
            state.store.set(key, value)
        return state

    return solve


def run(task: Task, model: Model, folder: Path) -> EvalLog:
    (log,) = evaluate(
        task, model=model, display="none", log_dir=str(folder), log_level="error", max_retries=0, log_format="json"
    )
    return log


class InspectThread:
    """A sample for each turn, which begins with the messages and the store of the last one."""

    sub_agent = False

    def __init__(self, model: Model, adapter: ContextLifecycle, folder: Path) -> None:
        self._model, self._lifecycle, self._folder = model, adapter, folder
        self.messages: list[ChatMessage] = []
        self.store: dict[str, Any] = {}

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        self._model.api.streaming = stream
        tools: list[Any] = [read(), grep(), self._lifecycle]
        given: dict[str, Any] = {"prompt": None, "model": self._lifecycle.model(self._model), "submit": False}
        if self.sub_agent:
            helper = react(name="helper", description="Helps with a task.", tools=tools, **given)
            tools = [*tools, as_tool(helper)]
        agent = react(tools=tools, **given)
        sample = Sample(input=[*self.messages, ChatMessageUser(content=prompt)])
        log = run(Task(dataset=[sample], solver=[restore_store(self.store), agent]), self._model, self._folder)
        assert log.status == "success", log.error
        assert log.samples is not None
        self.messages, self.store = log.samples[0].messages, log.samples[0].store
        return self.messages[-1].text

    def read_stored(self) -> Sequence[Part]:
        return [part for message in self.messages for part in InspectFormat().parts(message)]

    def again(self, adapter: ContextLifecycle) -> InspectThread:
        other = InspectThread(self._model, adapter, self._folder)
        messages = TypeAdapter(list[ChatMessage])
        other.messages = messages.validate_json(messages.dump_json(self.messages, exclude_none=True))
        other.store = json.loads(json.dumps(self.store))
        return other

    def fork(self) -> InspectThread:
        # A turn replaces the messages and the store.
        return copy.copy(self)


THREADS = "it runs one evaluation at a time in a process"


class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    argument = "input"
    cannot: Mapping[str, str] = {"threads": THREADS}

    @pytest.fixture(autouse=True)
    def _places(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def model(self, url: str) -> Model:
        return get_model("openai/gpt-x", base_url=f"{url}/v1", api_key="k", memoize=False, responses_api=False)

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> InspectThread:
        return InspectThread(self.model(url), adapter, self.folder)

    def delegate(self, url: str, adapter: ContextLifecycle) -> InspectThread:
        thread = self.begin(url, adapter)
        thread.sub_agent = True
        return thread


@pytest.mark.wide
class TestResponses(TestChat):
    """Responses, with reasoning."""

    estimated = 0.02  # it sends reasoning sealed, without the text that an estimate counts
    reasoning = True
    serves = ("web_search", "code_execution")
    cannot = {"threads": THREADS, "malformed": "Inspect sends each call as it came, by its id"}  # noqa: RUF012

    def model(self, url: str) -> Model:
        return get_model("openai/gpt-x", base_url=f"{url}/v1", api_key="k", memoize=False, responses_api=True)


@pytest.mark.wide
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    cannot = {**adapters.ANTHROPIC, "threads": THREADS}  # noqa: RUF012
    reasoning = True
    serves = ("web_search", "code_execution")
    pauses = True

    def model(self, url: str) -> Model:
        config = GenerateConfig(max_tokens=5_000, reasoning_tokens=1_024)
        return get_model("anthropic/claude-sonnet-4-5", config=config, base_url=url, api_key="k", memoize=False)


# What this framework does by itself


def serve_replies(*replies: Reply) -> ScriptedServer:
    return ScriptedServer(iter(replies))


def chat(server: ScriptedServer) -> Model:
    return get_model("openai/gpt-x", base_url=f"{server.url}/v1", api_key="k", memoize=False, responses_api=False)


def sample_of(model: Model, solver: Any, folder: Path) -> EvalSample:
    log = run(Task(dataset=[Sample(input="Go.")], solver=solver), model, folder)
    assert log.status == "success", log.error
    assert log.samples is not None
    return log.samples[0]


def results(messages: list[ChatMessage]) -> dict[str | None, str]:
    return {it.tool_call_id: it.text for it in messages if isinstance(it, ChatMessageTool)}


def test_the_guidance_stands_behind_the_system_message_and_prompts_of_the_loop_may_go(tmp_path: Path) -> None:
    lifecycle = ContextLifecycle()
    with serve_replies(Reply("Hm."), Reply(calls=(Call("submit", {"answer": "42"}, "s"),))) as server:
        sample = sample_of(chat(server), react(prompt="Be good.", model=lifecycle.model(), tools=[lifecycle]), tmp_path)
    assert not server.refusals
    assert sample.output.completion == "42"
    system = server.requests[0].texts(Kind.SYSTEM)
    assert system[0].startswith("Be good.")
    assert system[1] == lifecycle.instructions
    assert not any(message.text == lifecycle.instructions for message in sample.messages)
    assert [part.kind for message in sample.messages for part in InspectFormat().parts(message)][:4] == [
        Kind.SYSTEM,
        Kind.USER,
        Kind.TEXT,
        Kind.NOTICE,
    ]


def test_what_wane_accepts_the_framework_does_not_refuse(tmp_path: Path) -> None:
    lifecycle = ContextLifecycle()
    loose = {**LOOK, "dependencies": None, "why": "to see"}
    with serve_replies(
        Reply(calls=(Call("delimiter", loose, "d1"), Call("delimiter", "{", "d2"))), Reply("Done.")
    ) as server:
        sample = sample_of(chat(server), react(model=lifecycle.model(), tools=[lifecycle], submit=False), tmp_path)
    assert results(sample.messages)["d1"].startswith("Started exploration")
    assert "rror" in server.requests[-1].results["d2"]


def test_an_agent_as_a_tool_and_one_that_takes_over_have_windows_of_their_own(tmp_path: Path) -> None:
    lifecycle = ContextLifecycle()
    helper = react(name="helper", description="Helps.", model=lifecycle.model(), tools=[lifecycle], submit=False)
    replies = [
        Reply(calls=(Call("delimiter", LOOK, "d1"), Call("helper", {"input": "Look."}, "h"))),
        Reply(calls=(Call("delimiter", LOOK, "d2"),)),
        Reply("Seen."),
        Reply(calls=(Call("delimiter", LOOK, "d4"), Call("transfer_to_helper", {}, "t"))),
        Reply(calls=(Call("delimiter", LOOK, "d3"),)),
        Reply("Taken over."),
    ]
    with serve_replies(*replies) as server:
        tools = [as_tool(helper), handoff(helper, input_filter=content_only), lifecycle]
        sample = sample_of(chat(server), react(model=lifecycle.model(), tools=tools, submit=False), tmp_path)
    assert not server.refusals
    assert server.requests[2].results["d2"].startswith("Started exploration")
    assert server.requests[5].results["d3"].startswith("Started exploration")
    assert results(sample.messages)["d1"].startswith("Started exploration")
    assert "still active" in results(sample.messages)["d4"]


def test_an_agent_without_the_tools_is_told_what_to_change(tmp_path: Path) -> None:
    lifecycle = ContextLifecycle()
    with serve_replies(Reply("Done.")) as server:
        task = Task(dataset=[Sample(input="Go.")], solver=react(model=lifecycle.model(), submit=False))
        log = run(task, chat(server), tmp_path)
    assert log.error is not None
    assert "tools=[…, lifecycle]" in log.error.message


def test_inferred_episodes_need_no_tools(tmp_path: Path) -> None:
    lifecycle = ContextLifecycle(annotate="infer")
    with serve_replies(Reply("Done.")) as server:
        sample_of(chat(server), react(model=lifecycle.model(), submit=False), tmp_path)
    assert not server.requests[0].tools


def make_loop(
    lifecycle: ContextLifecycle, change: Callable[[list[ChatMessage]], Awaitable[list[ChatMessage]]]
) -> Agent:
    """A loop of one's own, which changes the messages after each turn."""

    @agent
    def loop() -> Agent:
        async def execute(state: AgentState) -> AgentState:
            model, tools = lifecycle.model(), [read(), grep(), *await lifecycle.tools()]
            for n in range(2):
                state.messages.append(ChatMessageUser(content=adapters.prompt_of(n)))
                while True:
                    state = await model(state, tools)
                    if not state.output.message.tool_calls:
                        break
                    state.messages.extend((await execute_tools(state.messages, tools)).messages)
                state.messages = await change(state.messages)
            return state

        return execute

    return loop()


def test_messages_that_were_taken_out_are_said(tmp_path: Path) -> None:
    async def nothing(messages: list[ChatMessage]) -> list[ChatMessage]:
        return messages

    with ScriptedServer(adapters.script()) as server, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        sample_of(chat(server), make_loop(ContextLifecycle(), nothing), tmp_path)
    assert not [each for each in warned if "Wane" in str(each.message)]
    with ScriptedServer(adapters.script()) as server, pytest.warns(UserWarning, match="truncation"):
        sample_of(chat(server), make_loop(ContextLifecycle(), trim_messages), tmp_path)


def test_a_history_that_cannot_be_taken_in_is_sent_as_it_is(tmp_path: Path) -> None:
    async def without_calls(messages: list[ChatMessage]) -> list[ChatMessage]:
        return [it if it.role != "assistant" else it.model_copy(update={"tool_calls": None}) for it in messages]

    script = itertools.chain(adapters.replies_of(0), [Reply("On."), Reply("On.")])
    outputs = [ModelOutput.from_message(_message(reply)) for reply in script]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=10, output_tokens=10, total_tokens=20)
    model = get_model("mockllm/model", custom_outputs=outputs)
    with pytest.warns(UserWarning, match="sent as it is"):
        sample = sample_of(model, make_loop(ContextLifecycle(), without_calls), tmp_path)
    assert sample.messages[-1].text == "On."


def _message(reply: Reply) -> ChatMessageAssistant:
    calls = [ToolCall(id=call.id, function=call.tool, arguments=dict(call.arguments)) for call in reply.calls]
    return ChatMessageAssistant(content=reply.text or "", tool_calls=calls or None)


# The messages, part by part

FORMAT = InspectFormat()


def answer_message(*content: Content, calls: int = 0) -> ChatMessageAssistant:
    named = [ToolCall(id=f"c{n}", function="read", arguments={"path": f"{n}"}) for n in range(calls)]
    return ChatMessageAssistant(id="m", content=list(content), tool_calls=named or None)


def test_what_messages_become() -> None:
    failed = ToolCallError("parsing", "5 is not of type 'string'")
    messages = [
        ChatMessageSystem(content="Be good."),
        ChatMessageUser(content=[ContentText(text="Look."), ContentImage(image="data:image/png;base64,eA==")]),
        answer_message(ContentReasoning(reasoning="Hm."), ContentText(text="I look."), ContentText(text=""), calls=1),
        ChatMessageTool(content="It.", tool_call_id="c0", function="read"),
        ChatMessageTool(content="", tool_call_id="c1", function="read", error=failed),
        ChatMessageAssistant(content="Done."),
        ChatMessageAssistant(content=""),
    ]
    assert [part_texts(FORMAT, message) for message in messages] == [
        [(Kind.SYSTEM, "Be good.")],
        [(Kind.USER, "Look.")],
        [(Kind.REASONING, "Hm."), (Kind.TEXT, "I look."), (Kind.CALL, "")],
        [(Kind.RESULT, "It.")],
        [(Kind.RESULT, failed.message)],
        [(Kind.TEXT, "Done.")],
        [],
    ]
    assert FORMAT.parts(messages[1])[0].extra_tokens > 0
    assert FORMAT.parts(messages[2])[2].arguments == '{"path":"0"}'


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({}, [(), (-1,), (-2,), (-3,)]),
        ({"internal": "reasoning_content"}, [(), (-1,), (-2,), (-3,)]),
        ({"internal": {"parts": []}}, [(1,), (), (-2,), (-3,)]),
        ({"signature": "x"}, [(1,), (), (-2,), (-3,)]),
        ({"redacted": True, "signature": "rs_1"}, [(1,), (-1,), (-2,), (-3,)]),
    ],
    ids=["plain", "field", "sealed", "signed", "named"],
)
def test_calls_stay_with_signed_reasoning_and_it_with_what_follows(fields: Any, needed: list[Any]) -> None:
    assert (
        needs(
            FORMAT, answer_message(ContentReasoning(reasoning="eA==", **fields), ContentText(text="I look."), calls=2)
        )
        == needed
    )


def test_some_parts_are_kept_as_they_are() -> None:
    ran = ContentToolUse(tool_type="web_search", id="w", name="search", arguments="{}", result="Found.")
    message = answer_message(ContentReasoning(reasoning="Hm."), ContentText(text="I look."), ran, calls=2)
    assert "Found." in FORMAT.parts(message)[2].text
    kept = FORMAT.keep(message, [1, 4])
    assert isinstance(kept, ChatMessageAssistant)
    assert kept.content == [ContentText(text="I look.")]
    assert kept.tool_calls == message.tool_calls[1:] if message.tool_calls else False
    assert kept.id != message.id
    assert kept.id == FORMAT.keep(message, [1, 4]).id
    bare = FORMAT.keep(ChatMessageAssistant(content="I look.", tool_calls=message.tool_calls), [1])
    assert bare.content == ""


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(FormatError, match="found str"):
        FORMAT.parts("Go.")  # type: ignore[arg-type]


def test_what_wane_writes() -> None:
    message = answer_message(ContentText(text="I look."), calls=1)
    result = FORMAT.result(message, 1, "It.")
    assert (result.role, result.text, FORMAT.parts(result)[0].call_id) == ("tool", "It.", "c0")
    failed = ChatMessageTool(content="", tool_call_id="c0", error=ToolCallError("unknown", "No."))
    assert FORMAT.parts(FORMAT.clear_result(failed, 0, "Gone."))[0].text == "Gone."
    assert FORMAT.tool("read", "Reads.", {"type": "object", "properties": {}}).name == "read"
