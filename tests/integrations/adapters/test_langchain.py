"""The adapter of LangChain over its real models, on three wires."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ExtendedModelResponse,
    HumanInTheLoopMiddleware,
    ModelRequest,
    ModelResponse,
    SummarizationMiddleware,
)
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ChatMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command

from tests.integrations.adapters.support import LOOK, breaks, mark, needs
from wane.conversation.events import MessageTaken, PassRan, UsageObserved
from wane.core import Kind, chars
from wane.formats.message_format import Part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.integrations.langchain import ContextLifecycle, LangChainFormat, LifecycleState
from wane.testing import Call, Reply, ScriptedServer, adapters

FORMAT = LangChainFormat()
read, grep = tool(adapters.read), tool(adapters.grep)


@tool
def drop(table: str) -> str:
    """Drop a table."""
    raise AssertionError(table)


THREAD: Any = {"configurable": {"thread_id": "1"}}


class LangChainThread:
    """A thread of an agent, in a checkpoint."""

    words = ""

    def __init__(self, model: Any, adapter: ContextLifecycle, saver: Any = None, *more: BaseTool) -> None:
        self._model, self._saver, self._more = model, saver or InMemorySaver(), more
        middleware: list[Any] = [HumanInTheLoopMiddleware({"drop": True}), adapter]
        self._agent = create_agent(
            model,
            [read, grep, *more],
            system_prompt="Be good.",
            middleware=middleware if drop in more else [adapter],
            checkpointer=self._saver,
        )
        self._config: Any = THREAD

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        given: Any = {"messages": [("user", prompt)]}
        if stream:
            chunks = [chunk for chunk, _ in self._agent.stream(given, self._config, stream_mode="messages")]
            assert any(isinstance(chunk, AIMessageChunk) for chunk in chunks)
        elif "__interrupt__" in self._agent.invoke(given, self._config):
            decision = {"type": "reject", "message": self.words}
            self._agent.invoke(Command(resume={"decisions": [decision]}), self._config)
        state = self._agent.get_state(THREAD)
        if self._config is not THREAD:
            self._config = state.config
        return state.values["messages"][-1].text

    def read_stored(self) -> Sequence[Part]:
        messages = self._agent.get_state(self._config).values["messages"]
        return [part for message in messages for part in FORMAT.parts(message)]

    def again(self, adapter: ContextLifecycle) -> LangChainThread:
        thread = LangChainThread(self._model, adapter, self._saver, *self._more)
        thread._config = self._config
        return thread

    def fork(self) -> LangChainThread:
        # Both go on from the thread's checkpoint of now, and then each from its own latest one.
        self._config = self._agent.get_state(self._config).config
        return copy.copy(self)


@pytest.mark.full
class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    cannot = dict.fromkeys(("mark-list", "tool-list"), "ChatOpenAI raises a ValidationError for such an answer")

    def model(self, url: str) -> Any:
        return ChatOpenAI(model="gpt-x", base_url=f"{url}/v1", api_key="k", max_retries=0)

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> LangChainThread:
        return LangChainThread(self.model(url), adapter)

    def reject(self, url: str, adapter: ContextLifecycle, words: str) -> LangChainThread:
        thread = LangChainThread(self.model(url), adapter, None, drop)
        thread.words = words
        return thread

    def delegate(self, url: str, adapter: ContextLifecycle) -> LangChainThread:
        agent = create_agent(self.model(url), [read, grep], system_prompt="Help.", middleware=[adapter])

        @tool
        def helper(task: str) -> str:
            """Help with a task."""
            return agent.invoke({"messages": [("user", task)]})["messages"][-1].text

        return LangChainThread(self.model(url), adapter, None, helper)


@pytest.mark.wide
class TestResponses(TestChat):
    """Responses, its items as they come."""

    version = "responses/v1"
    reasoning = True
    serves = ("web_search", "code_execution", "file_search")

    def model(self, url: str) -> Any:
        return ChatOpenAI(
            model="gpt-x",
            base_url=f"{url}/v1",
            api_key="k",
            max_retries=0,
            use_responses_api=True,
            include=["reasoning.encrypted_content"],
            store=False,
            output_version=self.version,
        )


@pytest.mark.wide
class TestResponsesStandard(TestResponses):
    """Responses, in LangChain's own blocks."""

    version = "v1"
    overhead = 100  # streamed, a wrong call's id stands in its text, so that a pass could be due one request earlier


@pytest.mark.wide
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    cannot = adapters.ANTHROPIC
    reasoning = True
    serves = ("web_search", "code_execution")

    def model(self, url: str) -> Any:
        return ChatAnthropic(
            model="claude-x",
            base_url=url,
            api_key="k",
            max_retries=0,
            max_tokens=5_000,
            thinking={"type": "enabled", "budget_tokens": 1_024},
        )


# What this framework does by itself


def test_results_of_calls_that_could_not_be_read_are_known_again_in_a_new_process() -> None:
    # LangChain gives such a result its id only when it is stored, after Wane's state was made.
    replies = [Reply(calls=(Call("read", "a, please", "r1"), Call("read", {"path": "a"}, "r2"))), *map(Reply, "ab")]
    taken: list[Any] = []
    with ScriptedServer(replies) as server:
        thread = TestChat().begin(server.url, ContextLifecycle())
        thread.turn("Go.")
        assert thread.again(ContextLifecycle(on_event=taken.append)).turn("On.") == "b"
    assert "malformed" in server.requests[1].results["r1"]
    new = [part.text for event in taken if isinstance(event, MessageTaken) for part in FORMAT.parts(event.message)]
    assert new == ["a", "On."]


def graph_of(model: Any, lifecycle: ContextLifecycle, tools: list[Any], system: str = "") -> Any:
    """A graph of one's own."""

    def node(state: LifecycleState) -> dict[str, Any]:
        first = [("system", system)] if system else []
        return lifecycle.update(state, model.invoke([*first, *lifecycle.request(state, system).messages]))

    graph = StateGraph(LifecycleState)
    graph.add_node("model", node)
    graph.add_node("tools", ToolNode(tools, wrap_tool_call=lifecycle.wrap_tool_call))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "model")
    return graph.compile()


def test_a_graph_of_ones_own_goes_on_after_calls_that_could_not_be_read() -> None:
    told: list[Any] = []
    lifecycle = ContextLifecycle(recall=True, on_event=told.append)
    tools = [read, *lifecycle.tools]
    wrong = (Call("read", "a, please", "r1"), Call("delimiter", "start, please", "d1"))
    replies = [Reply(calls=(*wrong, mark("d2"))), Reply(calls=(Call("recall", {"name": "look"}, "q"),)), Reply("Done.")]
    with ScriptedServer(replies) as server:
        model = TestChat().model(server.url).bind_tools(tools)

        thread = graph_of(model, lifecycle, tools).invoke({"messages": [("user", "Go.")]})["messages"]
    assert not server.refusals
    results = server.requests[-1].results
    assert all("not a JSON object" in results[call_id] for call_id in ("r1", "d1"))
    assert results["d2"].startswith("Started")
    assert "look" in results["q"]
    assert thread[-1].text == "Done."
    assert not breaks(told)


def test_a_conversation_that_openai_keeps_is_left_alone_and_said_once() -> None:
    with ScriptedServer([Reply("One."), Reply("Two.")]) as server:
        model: Any = ChatOpenAI(
            model="gpt-x",
            base_url=f"{server.url}/v1",
            api_key="k",
            use_responses_api=True,
            use_previous_response_id=True,
        )
        agent: Any = create_agent(model, [read], middleware=[ContextLifecycle()])
        with pytest.warns(UserWarning, match="use_previous_response_id"):
            agent.invoke({"messages": [("user", "Go.")]})
        with warnings.catch_warnings(action="error", category=UserWarning):
            agent.invoke({"messages": [("user", "Go.")]})


def test_a_thread_that_was_summarised_beside_it_is_said() -> None:
    with ScriptedServer([Reply("One."), Reply("A summary."), Reply("Two.")]) as server:
        model: Any = ChatOpenAI(model="gpt-x", base_url=f"{server.url}/v1", api_key="k")
        summaries = SummarizationMiddleware(model, trigger=("messages", 3), keep=("messages", 1))
        agent: Any = create_agent(
            model, [read], middleware=[summaries, ContextLifecycle()], checkpointer=InMemorySaver()
        )
        config: Any = {"configurable": {"thread_id": "1"}}
        agent.invoke({"messages": [("user", "Go.")]}, config)
        with pytest.warns(UserWarning, match="SummarizationMiddleware"):
            agent.invoke({"messages": [("user", "And on.")]}, config)


WORDS = "there are twelve orders, of which none may go"


def test_what_a_person_answers_in_a_tools_place_stays() -> None:
    """A middleware makes it the result of a call that never ran, and says in a field alone that it is a person's."""

    @tool
    def count(table: str) -> str:
        """Count rows."""
        raise AssertionError(table)

    counts = Reply(calls=(Call("count", {"table": "orders"}, "d1"),))
    reads = [Reply("I look.", calls=(Call("read", {"path": f"f{n}"}, f"r{n}"),)) for n in range(12)]
    with ScriptedServer([counts, *reads, Reply("Done.")]) as server:
        asks = HumanInTheLoopMiddleware({"count": {"allowed_decisions": ["respond"]}})
        agent: Any = create_agent(
            TestChat().model(server.url),
            [read, count],
            middleware=[asks, ContextLifecycle(4_000, annotate="infer")],
            checkpointer=InMemorySaver(),
        )
        agent.invoke({"messages": [("user", "Count them.")]}, THREAD)
        decisions = {"decisions": [{"type": "respond", "message": WORDS}]}
        agent.invoke(Command(resume=decisions), THREAD)
    last = server.requests[-1].results
    assert "r0" not in last
    assert last["d1"] == WORDS


def test_what_a_middleware_says_in_the_users_place_is_a_notice() -> None:
    summary = HumanMessage("Here is a summary.", additional_kwargs={"lc_source": "summarization"})
    assert [part.kind for message in (summary, HumanMessage("Go.")) for part in FORMAT.parts(message)] == [
        Kind.NOTICE,
        Kind.USER,
    ]


def test_an_answer_waits_until_another_thread_is_done_with_the_conversations() -> None:
    """An agent and a node may share the object; both change which conversations it knows."""
    held, answered = threading.Event(), threading.Event()
    overlaps: list[bool] = []

    def counter(text: str) -> int:
        if text == "slow":
            held.set()
            overlaps.append(answered.wait(0.3))
        return len(text)

    lifecycle = ContextLifecycle(counter=counter)
    request: ModelRequest[Any] = ModelRequest(
        model=FakeListChatModel(responses=["Done."]), messages=[HumanMessage("Go.")], state={"messages": []}
    )
    other = threading.Thread(target=lifecycle.update, args=({"messages": [HumanMessage("slow")]}, AIMessage("Done.")))

    def handler(_: ModelRequest[Any]) -> ModelResponse[Any]:
        other.start()
        assert held.wait(60)
        return ModelResponse(result=[AIMessage("Done.")])

    lifecycle.wrap_model_call(request, handler)
    answered.set()
    other.join()
    assert overlaps == [False]


def test_runs_from_the_same_checkpoint_know_nothing_of_each_other() -> None:
    lifecycle = ContextLifecycle()
    thread = [HumanMessage("Go.", id="1"), AIMessage("Ready.", id="2")]

    def run(messages: list[Any], wane: dict[str, Any], answer: Callable[[], AIMessage]) -> dict[str, Any]:
        request: ModelRequest[Any] = ModelRequest(
            model=FakeListChatModel(responses=[]), messages=messages, state={"messages": messages, "wane": wane}
        )
        response = lifecycle.wrap_model_call(request, lambda _: ModelResponse(result=[answer()]))
        assert isinstance(response, ExtendedModelResponse)
        assert response.command is not None
        kept: dict[str, Any] = response.command.update["wane"]
        return kept

    def start(name: str) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": "delimiter", "args": LOOK, "id": name}])

    def both() -> AIMessage:
        others.append(run([*thread, HumanMessage("This way.", id="3")], kept, lambda: start("other")))
        return start("mine")

    others: list[dict[str, Any]] = []
    kept = run(thread[:1], {}, lambda: thread[1])
    mine = run([*thread, HumanMessage("That way.", id="4")], kept, both)
    assert mine["told"]["mine"].startswith('Started exploration "look"')
    assert others[0]["told"]["other"].startswith('Started exploration "look"')


# What a request carries besides its messages

SYSTEM = "Be good. " * 2_000  # 4,500 tokens
FITS: dict[str, Any] = {"budget": "12k", "annotate": "infer"}


def reads(count: int) -> list[Reply]:
    """Reads of 250 tokens, one after the other, and an answer."""
    calls = [Call("read", {"path": str(n)}, f"r{n}") for n in range(count)]
    return [*(Reply(calls=(call,)) for call in calls), Reply("Done.")]


def test_a_history_with_usage_counts_the_system_prompt_once() -> None:
    told: list[Any] = []
    with ScriptedServer([*reads(6), Reply("Again.")]) as server:
        model = TestChat().model(server.url)
        thread = create_agent(model, [read], system_prompt=SYSTEM).invoke({"messages": [("user", "Go.")]})
        lifecycle = ContextLifecycle(**FITS, on_event=told.append)
        managed: Any = create_agent(model, [read], system_prompt=SYSTEM, middleware=[lifecycle])
        managed.invoke({"messages": [*thread["messages"], ("user", "On.")]})
    assert len([event for event in told if isinstance(event, UsageObserved)]) == 7
    assert not [event for event in told if isinstance(event, PassRan)]
    assert len(server.requests[-1].results) == 6


def test_a_run_without_a_checkpoint_takes_in_only_what_is_new_and_shows_the_same() -> None:
    told: list[Any] = []
    with ScriptedServer([*reads(80), Reply("Again."), Reply("And again."), Reply("And again.")]) as server:
        model = TestChat().model(server.url)

        def agent(**settings: Any) -> Any:
            return create_agent(model, [read], middleware=[ContextLifecycle(**FITS, **settings)])

        kept = agent(on_event=told.append)
        thread = kept.invoke({"messages": [("user", "Go.")]}, {"recursion_limit": 400})
        before = len([event for event in told if isinstance(event, MessageTaken)])
        kept.invoke({"messages": [*thread["messages"], ("user", "On.")]})
        assert len([event for event in told if isinstance(event, MessageTaken)]) == before + 2
        assert [event for event in told if isinstance(event, PassRan)]
        # A second run of the same beginning, and one that knows nothing of it, take all of it in.
        kept.invoke({"messages": [*thread["messages"], ("user", "On.")]})
        agent().invoke({"messages": [*thread["messages"], ("user", "On.")]})
        continued, second, fresh = (request.body["messages"] for request in server.requests[-3:])
        assert continued == second == fresh


def test_threads_that_wait_at_the_same_time_share_nothing() -> None:
    told: list[Any] = []
    lifecycle = ContextLifecycle(on_event=told.append)
    prompt = HumanMessage("Go.", id="1")
    threads = [{"messages": [HumanMessage(name, id="0"), prompt]} for name in ("One.", "Two.")]
    systems = ["Be good.", SYSTEM]
    for state, system in zip(threads, systems, strict=True):
        lifecycle.request(state, system)
    for state, system in zip(threads, systems, strict=True):
        answer = AIMessage("", tool_calls=[{"name": "delimiter", "args": LOOK, "id": "d"}])
        kept = lifecycle.update({**state, "messages": [*state["messages"]]}, answer)["wane"]
        assert kept["told"]["d"].startswith("Started")
        assert kept["state"]["fixed"] == chars(system)
    assert not breaks(told)
    assert not lifecycle._asked


# Histories and states that Wane cannot use


def test_a_history_that_cannot_be_managed_gets_no_tools_and_goes_on() -> None:
    with ScriptedServer([Reply(calls=(mark("d"),)), Reply("Done.")]) as server:
        agent: Any = create_agent(TestChat().model(server.url), [read], middleware=[ContextLifecycle()])
        with pytest.warns(UserWarning, match="sent as it is"):
            thread = agent.invoke({"messages": [ChatMessage("Be good.", role="system"), ("user", "Go.")]})
    assert [request.tools for request in server.requests] == [("read",)] * 2
    assert "not managed" in server.requests[-1].results["d"]
    assert thread["messages"][-1].text == "Done."


@pytest.mark.parametrize(
    "kept", ["old", ["old"], {"mark": ["x"]}, {"mark": "x", "state": "old"}, {"state": {"messages": 1}, "told": "old"}]
)
def test_a_foreign_state_begins_anew(kept: Any) -> None:
    lifecycle = ContextLifecycle()
    with ScriptedServer([Reply(calls=(mark("d"),)), Reply("Done.")]) as server:
        model = TestChat().model(server.url).bind_tools(lifecycle.tools)
        graph = graph_of(model, lifecycle, lifecycle.tools)
        with pytest.warns(UserWarning, match="starts over"):
            thread = graph.invoke({"messages": [("user", "Go.")], "wane": kept})
    assert server.requests[-1].results["d"].startswith("Started")
    assert thread["messages"][-1].text == "Done."


# The messages, part by part

DATA = "A" * 400_000


def raw(call_id: str, path: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": f'{{"path":"{path}"}}'}}


def call(call_id: str, path: str) -> Any:
    return {"name": "read", "args": {"path": path}, "id": call_id}


def block(call_id: str, path: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {"path": path}}


@pytest.mark.parametrize("in_content", [False, True])
def test_calls_with_one_id_are_several_calls(*, in_content: bool) -> None:
    made = [("0", "a"), ("1", "b"), ("0", "c")]
    message = AIMessage(
        [block(*each) for each in made] if in_content else "",
        tool_calls=[call(*each) for each in made],
        invalid_tool_calls=[{"name": "read", "args": "d, please", "id": "0", "error": None}],
        additional_kwargs={} if in_content else {"tool_calls": [raw(*each) for each in made]},
    )
    parts = FORMAT.parts(message)
    assert [part.call_id for part in parts] == ["0", "1", "0", "0"]
    assert [part.arguments for part in parts] == ['{"path": "a"}', '{"path": "b"}', '{"path": "c"}', "d, please"]
    for place in range(4):
        kept = FORMAT.keep(message, [place])
        assert isinstance(kept, AIMessage)
        assert FORMAT.parts(kept) == [parts[place]]
        assert kept.content == ([block(*each) for each in made[place : place + 1]] if in_content else "")
        if not in_content:
            assert kept.additional_kwargs["tool_calls"] == [raw(*each) for each in made[place : place + 1]]


@pytest.mark.parametrize(
    "medium",
    [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}},
        {"type": "video", "base64": DATA, "mime_type": "video/mp4"},
        {"type": "audio", "base64": DATA, "mime_type": "audio/wav"},
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        {"type": "input_file", "filename": "a.pdf", "file_data": DATA},
        {"type": "text-plain", "base64": DATA, "mime_type": "text/plain"},
        {"type": "media", "mime_type": "video/mp4", "data": DATA},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
    ],
)
def test_the_data_of_a_file_is_not_counted_as_text(medium: dict[str, Any]) -> None:
    for message in (HumanMessage([medium]), ToolMessage([medium], tool_call_id="1"), AIMessage([medium])):
        part = FORMAT.parts(message)[0]
        assert (part.text, part.extra_tokens) == ("", NON_TEXT_TOKENS)


@pytest.mark.parametrize(
    "source",
    [
        {"type": "text", "media_type": "text/plain", "data": "Mind it."},
        {"type": "content", "content": [{"type": "text", "text": "Mind it."}]},
    ],
)
def test_a_document_of_text_counts_as_its_text(source: dict[str, Any]) -> None:
    part = FORMAT.parts(HumanMessage([{"type": "document", "source": source}]))[0]
    assert (part.text, part.extra_tokens) == ("Mind it.", 0)


@pytest.mark.parametrize(
    ("use", "result"),
    [
        (
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        ),
        (
            {"type": "mcp_tool_use", "id": "s1", "name": "look", "server_name": "crm", "input": {}},
            {"type": "mcp_tool_result", "tool_use_id": "s1", "content": []},
        ),
        (
            {"type": "server_tool_call", "id": "s1", "name": "web_search", "args": {}},
            {"type": "server_tool_result", "tool_call_id": "s1", "status": "success"},
        ),
        (
            {"type": "executable_code", "executable_code": "print(1)", "language": "PYTHON"},
            {"type": "code_execution_result", "code_execution_result": "1", "outcome": 1},
        ),
    ],
    ids=lambda block: block["type"],
)
def test_what_the_provider_ran_needs_its_result_and_text_that_cites_needs_both(use: Any, result: Any) -> None:
    cited = {"type": "text", "text": "So.", "citations": [{"type": "web_search_result_location"}]}
    content = [{"type": "text", "text": "I look."}, use, result, {"type": "text", "text": "Hm."}, cited]
    assert needs(FORMAT, AIMessage(content)) == [(), (1,), (-1,), (), (-2,)]


def test_each_call_that_could_not_be_read_has_a_result_though_its_id_was_used_before() -> None:
    wrong: Any = {"name": "read", "args": "a, please", "id": "0", "error": None}
    first = [AIMessage("", tool_calls=[call("0", "a")]), ToolMessage("a", tool_call_id="0")]
    answer = AIMessage("", tool_calls=[call("1", "b")], invalid_tool_calls=[wrong])
    result = ToolMessage("b", tool_call_id="1")
    *known, unread, last = FORMAT.read([*first, answer, result])
    assert ([*known], last) == ([*first, answer], result)
    assert isinstance(unread, ToolMessage)
    assert (unread.tool_call_id, unread.text[:5]) == ("0", "Error")
    assert FORMAT.read([*known, unread, last]) == [*known, unread, last]
    assert FORMAT.read([*first, answer]) == [*first, answer]  # its tools may still run
    same = AIMessage("", tool_calls=[call("0", "b")], invalid_tool_calls=[wrong])
    assert len(FORMAT.read([same, ToolMessage("b", tool_call_id="0")])) == 3
