"""The adapter of the OpenHands SDK over its real models, on three wires."""

from __future__ import annotations

import copy
import os
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID, uuid4

import pytest

if sys.version_info < (3, 12):
    pytest.skip("the OpenHands SDK needs Python 3.12 or newer", allow_module_level=True)
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # without the network
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
pytest.importorskip("openhands.sdk", reason="the OpenHands SDK is not installed")

from openhands.sdk import (
    LLM,
    Action,
    Agent,
    AgentContext,
    Conversation,
    ImageContent,
    Observation,
    TextContent,
    Tool,
    ToolDefinition,
    register_tool,
)
from openhands.sdk import Message as ModelMessage
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.conversation.state import ConversationExecutionStatus
from openhands.sdk.event import (
    ActionEvent,
    AgentErrorEvent,
    CondensationSummaryEvent,
    MessageEvent,
    ObservationEvent,
    PauseEvent,
    SystemPromptEvent,
    UserRejectObservation,
)
from openhands.sdk.event.condenser import Condensation
from openhands.sdk.event.llm_convertible.observation import ObservationBaseEvent
from openhands.sdk.llm import MessageToolCall, ReasoningItemModel, RedactedThinkingBlock, ThinkingBlock
from openhands.sdk.security.confirmation_policy import AlwaysConfirm
from openhands.sdk.subagent import register_agent
from openhands.sdk.tool import ToolExecutor

from tests.integrations.adapters.support import needs, part_texts
from wane.conversation.events import PassRan, UsageObserved
from wane.core import Kind, Policy
from wane.core.errors import FormatError
from wane.formats.message_format import Part
from wane.integrations.openhands import ContextLifecycle, DelimiterTool, OpenHandsFormat
from wane.testing import Call, Reply, ScriptedServer, adapters


class PathAction(Action):
    path: str


class PatternAction(Action):
    pattern: str


class TableAction(Action):
    table: str


class TextObservation(Observation):
    pass


class _Content(ToolExecutor[Any, TextObservation]):
    def __call__(self, action: Any, conversation: Any = None) -> TextObservation:
        return TextObservation.from_text(adapters.content_of(getattr(action, "path", None) or action.pattern))


class ReadTool(ToolDefinition[Any, TextObservation]):
    name = "read"
    action: ClassVar[type[Action]] = PathAction
    about: ClassVar = "Read a file."

    @classmethod
    def create(cls, conv_state: Any = None, **_: Any) -> Sequence[Any]:
        given: dict[str, Any] = {"action_type": cls.action, "observation_type": TextObservation}
        return [cls(description=cls.about, executor=_Content(), **given)]


class GrepTool(ReadTool):
    name = "grep"
    action = PatternAction
    about = "Search for a pattern."


class DropTool(ReadTool):
    name = "drop"
    action = TableAction
    about = "Drop a table."


class LongTool(ReadTool):
    name = "long"
    about = "Read a file. " * 2_000


register_tool("read", ReadTool)
register_tool("drop", DropTool)
register_tool("long", LongTool)
register_tool("grep", GrepTool)
TOOLS = [Tool(name="read"), Tool(name="grep")]


def model_at(url: str, **settings: Any) -> LLM:
    given: dict[str, Any] = {"model": "openai/gpt-x", "base_url": f"{url}/v1", **settings}
    return LLM(api_key="k", usage_id="agent", num_retries=0, **given)


def begin_conversation(agent: Agent, folder: Path, identity: UUID | None = None) -> Any:
    return Conversation(
        agent=agent,
        workspace=str(folder),
        persistence_dir=str(folder / "kept"),
        conversation_id=identity or uuid4(),
        visualizer=None,
        token_callbacks=[lambda _: None],
    )


def agent_of(llm: LLM, tools: Sequence[Tool] = TOOLS, **more: Any) -> Agent:
    return Agent(llm=llm, tools=[*tools], include_default_tools=[], system_prompt="Be good.", **more)


class OpenHandsThread:
    """A conversation that is kept in files.

    Attributes:
        words: what its person, if one is asked, says of each call of `drop`, which the person rejects.
    """

    words = ""

    def __init__(
        self, llm: LLM, adapter: ContextLifecycle, folder: Path, identity: UUID, tools: Sequence[Tool] = TOOLS
    ) -> None:
        self._llm, self._made = llm, (folder, identity, tools)
        # Parallel tools, which are not the default.
        agent = adapter.equip(agent_of(llm, tools=tools, tool_concurrency_limit=4))
        self._conversation = begin_conversation(agent, folder, identity)

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        self._conversation.agent.llm.stream = stream
        self._conversation.send_message(prompt)
        self._conversation.run()
        while self._conversation.state.execution_status == ConversationExecutionStatus.WAITING_FOR_CONFIRMATION:
            if "drop" in self._waiting():
                self._conversation.reject_pending_actions(self.words)
            self._conversation.run()
        events = self._conversation.state.events
        last = next(event for event in reversed(list(events)) if isinstance(event, MessageEvent))
        return "".join(entry.text for entry in last.llm_message.content if isinstance(entry, TextContent))

    def ask(self) -> None:
        """Ask a person of each call."""
        self._conversation.set_confirmation_policy(AlwaysConfirm())

    def _waiting(self) -> list[str]:
        events = list(self._conversation.state.events)
        answered = {event.tool_call_id for event in events if isinstance(event, ObservationBaseEvent)}
        actions = [event for event in events if isinstance(event, ActionEvent)]
        return [action.tool_name for action in actions if action.tool_call_id not in answered]

    def read_stored(self) -> Sequence[Part]:
        form, events = OpenHandsFormat(), list(self._conversation.state.events)
        assert not any(isinstance(event, Condensation) for event in events)
        return [part for message in form.read(events) for part in form.parts(message)]

    def again(self, adapter: ContextLifecycle) -> OpenHandsThread:
        self._conversation.close()
        fresh = LLM(**{name: getattr(self._llm, name) for name in self._llm.model_fields_set})
        thread = OpenHandsThread(fresh, adapter, *self._made)
        thread.words = self.words
        return thread

    def fork(self) -> OpenHandsThread:
        thread = copy.copy(self)
        thread._conversation = self._conversation.fork()
        folder, _, tools = self._made
        thread._made = folder, thread._conversation.id, tools
        return thread


class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    cannot: Mapping[str, str] = {}

    @pytest.fixture(autouse=True)
    def _places(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.helper = f"helper-{uuid4()}"  # agents are registered for the process

    def model(self, url: str) -> LLM:
        return model_at(url)

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> OpenHandsThread:
        return OpenHandsThread(self.model(url), adapter, self.folder, uuid4())

    def reject(self, url: str, adapter: ContextLifecycle, words: str) -> OpenHandsThread:
        thread = OpenHandsThread(self.model(url), adapter, self.folder, uuid4(), [*TOOLS, Tool(name="drop")])
        thread.words = words
        thread.ask()
        return thread

    def delegate(self, url: str, adapter: ContextLifecycle) -> OpenHandsThread:
        task = pytest.importorskip("openhands.tools.task", reason="needs the package openhands-tools")
        register_agent(self.helper, lambda llm: adapter.equip(agent_of(llm)), "Helps with a task.")
        tools = [*TOOLS, Tool(name=task.TaskToolSet.name)]
        return OpenHandsThread(self.model(url), adapter, self.folder, uuid4(), tools)

    def shape_reply(self, reply: Reply) -> Reply:
        """Call the SDK's own tool for sub-agents."""
        return replace(reply, calls=tuple(self._task(call) if call.tool == "helper" else call for call in reply.calls))

    def _task(self, call: Call) -> Call:
        assert isinstance(call.arguments, Mapping)
        return replace(call, tool="task", arguments={"prompt": call.arguments["task"], "subagent_type": self.helper})


@pytest.mark.wide
class TestResponses(TestChat):
    """Responses, with reasoning."""

    cannot: Mapping[str, str] = {
        "delegate": "the SDK sends a task's result as two outputs of its call, also without Wane"
    }
    reasoning = True

    def model(self, url: str) -> LLM:
        return model_at(url, model="openai/gpt-5.5")


@pytest.mark.wide
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    cannot: Mapping[str, str] = {
        **adapters.ANTHROPIC,
        "stream": "streamed thinking is refused in the next request, also without Wane",
    }
    reasoning = True

    def model(self, url: str) -> LLM:
        thinking: dict[str, Any] = {"extended_thinking_budget": 1_024, "max_output_tokens": 5_000}
        return model_at(url, model="anthropic/claude-sonnet-4-5", base_url=url, **thinking)


# What this framework does by itself


def serve_replies(*replies: Reply) -> ScriptedServer:
    return ScriptedServer(iter(replies))


def results(conversation: Any) -> dict[str, str]:
    events = conversation.state.events
    return {it.tool_call_id: it.observation.text for it in events if isinstance(it, ObservationEvent)}


def test_an_agent_is_equipped_and_stays_as_it_is() -> None:
    lifecycle, llm = ContextLifecycle(budget="80k"), model_at("http://127.0.0.1:9")
    context = AgentContext(system_message_suffix="Mind the tests.")
    agent = agent_of(llm, agent_context=context)
    with warnings.catch_warnings(action="error", category=UserWarning):
        equipped = lifecycle.equip(agent)
        assert len(lifecycle.equip(equipped).tools) == len(equipped.tools)
    assert equipped.agent_context is not None
    assert equipped.agent_context.system_message_suffix == f"Mind the tests.\n\n{lifecycle.instructions}"
    assert agent.condenser is None
    assert agent.tools == TOOLS
    assert agent.agent_context is context
    assert context.system_message_suffix == "Mind the tests."


def test_another_condenser_is_left_out_and_said() -> None:
    llm = model_at("http://127.0.0.1:9")
    agent = agent_of(llm, condenser=LLMSummarizingCondenser(llm=llm))
    lifecycle = ContextLifecycle()
    with pytest.warns(UserWarning, match="LLMSummarizingCondenser is left out"):
        assert lifecycle.equip(agent).condenser is lifecycle


def test_settings_are_kept_with_an_agent_and_wrong_ones_refused() -> None:
    given: dict[str, Any] = {"budget": "40k", "policy": Policy(low_water=0.4), "tool_classes": {"read": "bulk"}}
    lifecycle = ContextLifecycle(**given, on_event=print)
    agent = lifecycle.equip(agent_of(model_at("http://127.0.0.1:9")))
    again = Agent.model_validate_json(agent.model_dump_json(context={"expose_secrets": True}))
    assert again.condenser == ContextLifecycle(**given)
    for wrong in ({"budget": 0}, {"remind_at": -1.0}, {"tool_classes": {"read": "nothing"}}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ContextLifecycle(**wrong)


def test_inferred_episodes_need_no_tool_and_are_kept(tmp_path: Path) -> None:
    with serve_replies(Reply(calls=(Call("read", {"path": "a"}, "a"),)), Reply("Done.")) as server:
        conversation = begin_conversation(
            ContextLifecycle(annotate="infer").equip(agent_of(model_at(server.url))), tmp_path
        )
        conversation.send_message("Go.")
        conversation.run()
    assert server.requests[0].tools == ("read", "grep")
    assert conversation.state.agent_state["wane"]["state"]["annotate"] == "infer"


def test_a_condenser_without_the_tools_is_said(tmp_path: Path) -> None:
    with serve_replies(Reply("Done.")) as server:
        conversation = begin_conversation(agent_of(model_at(server.url), condenser=ContextLifecycle()), tmp_path)
        conversation.send_message("Go.")
        with pytest.warns(UserWarning, match="lifecycle.equip"):
            conversation.run()
    assert server.requests[0].texts(Kind.USER) == ("Go.",)


@pytest.mark.filterwarnings("ignore:.*lifecycle.equip")
def test_conversations_that_begin_in_a_thread_disturb_no_request_in_another() -> None:
    class State:
        view = None

        def __init__(self, number: int) -> None:
            self.id = f"thread-{number}"

    states = [State(number) for number in range(300)]
    beginning = threading.Thread(target=lambda: [DelimiterTool.create(state) for state in states])
    lifecycle, view = ContextLifecycle(), View.model_construct(events=[])
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        beginning.start()
        while beginning.is_alive():
            assert lifecycle.condense(view) is view
    finally:
        sys.setswitchinterval(interval)
        beginning.join()


def test_a_fork_goes_on_with_the_same_view_and_a_window_of_its_own(tmp_path: Path) -> None:
    with ScriptedServer(adapters.script()) as server:
        agent = ContextLifecycle(budget=adapters.BUDGET).equip(agent_of(model_at(server.url)))
        conversation = begin_conversation(agent, tmp_path)
        for n in range(3):
            conversation.send_message(adapters.prompt_of(n))
            conversation.run()
        fork = conversation.fork()
        fork.send_message(adapters.prompt_of(3))
        fork.run()
        before = set(server.requests[-6].results)
        assert "a0" not in server.requests[-1].results
        assert "look-3" in results(fork)
        assert "look-3" not in results(conversation)
    assert not server.refusals
    assert before


def test_events_that_cannot_be_taken_in_are_sent_as_they_are(tmp_path: Path) -> None:
    lifecycle = ContextLifecycle()
    with serve_replies(Reply("Done.")) as server:
        conversation = begin_conversation(lifecycle.equip(agent_of(model_at(server.url))), tmp_path)
        conversation.send_message("Go.")
        conversation.run()
    orphan = AgentErrorEvent(tool_name="read", tool_call_id="x", error="It fell.")
    conversation.state.append_event(orphan)
    view = conversation.state.view
    with pytest.warns(UserWarning, match="sent as it is"):
        assert lifecycle.condense(view) is view


def test_events_with_usage_count_the_tools_once(tmp_path: Path) -> None:
    told: list[Any] = []
    reads = [Reply(calls=(Call("long", {"path": str(n)}, f"r{n}"),)) for n in range(6)]
    with serve_replies(*reads, Reply("Done."), Reply("Again.")) as server:
        lifecycle = ContextLifecycle(budget="14k")
        thread = OpenHandsThread(model_at(server.url), lifecycle, tmp_path, uuid4(), [Tool(name="long")])
        thread.turn("Go.")
        thread._conversation.state.agent_state = {}  # as if the conversation were older than Wane
        assert thread.again(ContextLifecycle(budget="14k", on_event=told.append)).turn("On.") == "Again."
    assert not [event for event in told if isinstance(event, PassRan)]
    assert [event for event in told if isinstance(event, UsageObserved)]
    assert len(server.requests[-1].results) == 6


# The events, one by one

FORMAT = OpenHandsFormat()


def call(number: int, *, answer: str = "r1", thought: str = "", **fields: Any) -> ActionEvent:
    made = MessageToolCall(id=f"c{number}", name="read", arguments=f'{{"path": "{number}"}}', origin="completion")
    return ActionEvent(
        thought=[TextContent(text=thought)] if thought else [],
        tool_name="read",
        tool_call_id=f"c{number}",
        tool_call=made,
        llm_response_id=answer,
        **fields,
    )


def error_event(number: int) -> AgentErrorEvent:
    return AgentErrorEvent(tool_name="read", tool_call_id=f"c{number}", error="It fell.")


def message(text: str, *, role: Any = "user", source: Any = "user", images: int = 0) -> MessageEvent:
    content: list[Any] = [TextContent(text=text)]
    content += [ImageContent(image_urls=["data:image/png;base64,eA=="] * images)] if images else []
    return MessageEvent(source=source, llm_message=ModelMessage(role=role, content=content))


def test_what_events_become() -> None:
    events = [
        SystemPromptEvent(
            system_prompt=TextContent(text="Be good."), tools=[], dynamic_context=TextContent(text="Now.")
        ),
        message("Go."),
        message("A hook says no.", source="environment"),
        message("<system-reminder>Mind it.</system-reminder>"),
        CondensationSummaryEvent(summary="All that was."),
        call(1, thought="I look.", reasoning_content="Hm."),
        error_event(1),
        call(2, answer="r2"),
        UserRejectObservation(tool_name="read", tool_call_id="c2", action_id="x", rejection_reason="Not now."),
        message("Done.", role="assistant", source="agent"),
        message("Look at it.", images=2),
    ]
    assert [part_texts(FORMAT, answer) for answer in FORMAT.read(events)] == [
        [(Kind.SYSTEM, "Be good.\nNow.")],
        [(Kind.USER, "Go.")],
        [(Kind.NOTICE, "A hook says no.")],
        [(Kind.NOTICE, "<system-reminder>Mind it.</system-reminder>")],
        [(Kind.USER, "All that was.")],
        [(Kind.REASONING, "Hm."), (Kind.TEXT, "I look."), (Kind.CALL, "")],
        [(Kind.RESULT, "It fell.")],
        [(Kind.CALL, "")],
        [(Kind.RESULT, "Action rejected: Not now.")],
        [(Kind.TEXT, "Done.")],
        [(Kind.USER, "Look at it.")],
    ]
    of_hook = UserRejectObservation(tool_name="read", tool_call_id="c2", action_id="x", rejection_source="hook")
    assert [FORMAT.parts((event,))[0].person for event in (events[-3], of_hook)] == [True, False]
    assert FORMAT.parts((events[-1],))[0].extra_tokens > FORMAT.parts((message("", images=1),))[0].extra_tokens > 0


def test_an_answer_is_one_message_and_the_result_of_a_malformed_call_goes_behind_it() -> None:
    one, bad, error, two, other = call(1), call(2), error_event(2), call(3), call(4, answer="r2")
    messages = FORMAT.read([one, bad, error, two, error_event(1), other])
    assert messages == [(one, bad, two), (error,), (messages[2][0],), (other,)]
    assert FORMAT.read(messages) == messages
    assert FORMAT.wire(messages)[:4] == [one, bad, two, error]


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({"reasoning_content": "Hm."}, [(), (-1,), (-2,), (-3,)]),
        ({"thinking_blocks": [ThinkingBlock(thinking="Hm.", signature="x")]}, [(1,), (), (-2,), (-3,)]),
        ({"thinking_blocks": [RedactedThinkingBlock(data="eA==")]}, [(1,), (), (-2,), (-3,)]),
        (
            {"responses_reasoning_item": ReasoningItemModel(id="rs_1", encrypted_content="eA==")},
            [(1,), (-1,), (-2,), (-3,)],
        ),
    ],
    ids=["plain", "signed", "redacted", "item"],
)
def test_calls_stay_with_reasoning_and_sealed_reasoning_with_what_follows(fields: Any, needed: list[Any]) -> None:
    assert needs(FORMAT, (call(1, thought="I look.", **fields), call(2))) == needed


def test_what_is_kept_of_an_answer_stands_in_the_first_event_that_is_kept() -> None:
    first = call(1, thought="I look.", reasoning_content="Hm.")
    message = (first, call(2), call(3))
    (kept, last) = FORMAT.keep(message, [0, 1, 3, 4])
    assert isinstance(kept, ActionEvent)
    assert (kept.tool_call_id, kept.reasoning_content) == ("c2", "Hm.")
    assert kept.thought == first.thought
    assert last is message[2]
    (bare,) = FORMAT.keep(message, [2])
    assert isinstance(bare, ActionEvent)
    assert (bare.tool_call_id, bare.reasoning_content, list(bare.thought)) == ("c1", None, [])
    (text,) = FORMAT.keep(message, [1])
    assert isinstance(text, MessageEvent)
    assert [(part.kind, part.text) for part in FORMAT.parts((text,))] == [(Kind.TEXT, "I look.")]


def test_what_is_kept_of_a_last_answer() -> None:
    said = ModelMessage(role="assistant", content=[TextContent(text="Done.")], reasoning_content="Hm.")
    answer = (MessageEvent(source="agent", llm_message=said),)
    assert part_texts(FORMAT, answer) == [(Kind.REASONING, "Hm."), (Kind.TEXT, "Done.")]
    assert part_texts(FORMAT, FORMAT.keep(answer, [1])) == [(Kind.TEXT, "Done.")]


def test_an_event_that_no_model_is_shown_is_refused() -> None:
    with pytest.raises(FormatError, match="found PauseEvent"):
        FORMAT.parts(FORMAT.read([PauseEvent()])[0])


def test_what_wane_writes() -> None:
    message = (call(1),)
    (result,) = FORMAT.result(message, 0, "It.")
    assert [(part.text, part.call_id) for part in FORMAT.parts((result,))] == [("It.", "c1")]
    assert FORMAT.parts(FORMAT.clear_result((error_event(1),), 0, "Gone."))[0].text == "Gone."
    assert FORMAT.parts(FORMAT.turn("Go."))[0].kind is Kind.USER
    assert FORMAT.tool("read", "Reads.", {"type": "object"})["function"]["name"] == "read"
