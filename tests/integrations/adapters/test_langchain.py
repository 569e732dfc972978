"""The adapter of LangChain over its real models, on three wires."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    SummarizationMiddleware,
)
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from wane.conversation.events import HistoryForked, HistoryReplaced, MessageTaken
from wane.formats.base import Part
from wane.formats.frameworks.langchain import LangChainFormat
from wane.integrations.langchain import ContextLifecycle, LifecycleState
from wane.testing import Call, Reply, ScriptedServer, adapters

FORMAT = LangChainFormat()


@tool
def read(path: str) -> str:
    """Read a file."""
    return adapters.content_of(path)


@tool
def grep(pattern: str) -> str:
    """Search for a pattern."""
    return adapters.content_of(pattern)


def helper(model: Any, lifecycle: ContextLifecycle) -> BaseTool:
    """A sub-agent as a tool."""
    agent = create_agent(model, [read, grep], system_prompt="Help.", middleware=[lifecycle])

    @tool
    def helper(task: str) -> str:
        """Help with a task."""
        return agent.invoke({"messages": [("user", task)]})["messages"][-1].text

    return helper


class LangChainThread:
    """A thread of an agent, in a checkpoint."""

    def __init__(self, model: Any, settings: dict[str, Any], saver: Any = None, *, sub_agent: bool = False) -> None:
        self._model, self._settings = model, settings
        self._saver = saver or InMemorySaver()
        lifecycle = ContextLifecycle(**settings)
        tools = [read, grep, helper(model, lifecycle)] if sub_agent else [read, grep]
        self._agent = create_agent(
            model, tools, system_prompt="Be good.", middleware=[lifecycle], checkpointer=self._saver
        )
        self._config: Any = {"configurable": {"thread_id": "1"}}

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        given: Any = {"messages": [("user", prompt)]}
        if not stream:
            return self._agent.invoke(given, self._config)["messages"][-1].text
        chunks = [chunk for chunk, _ in self._agent.stream(given, self._config, stream_mode="messages")]
        assert any(isinstance(chunk, AIMessageChunk) for chunk in chunks)
        return self._agent.get_state(self._config).values["messages"][-1].text

    def stored(self) -> Sequence[Part]:
        messages = self._agent.get_state(self._config).values["messages"]
        return [part for message in messages for part in FORMAT.parts(message)]

    def again(self) -> LangChainThread:
        return LangChainThread(self._model, self._settings, self._saver)


class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    cannot = dict.fromkeys(("mark-list", "tool-list"), "ChatOpenAI raises a ValidationError for such an answer")

    def model(self, url: str) -> Any:
        return ChatOpenAI(model="gpt-x", base_url=f"{url}/v1", api_key="k", max_retries=0)

    def begin(self, url: str, **settings: Any) -> LangChainThread:
        return LangChainThread(self.model(url), settings)

    def delegate(self, url: str, **settings: Any) -> LangChainThread:
        return LangChainThread(self.model(url), settings, sub_agent=True)


@pytest.mark.full
class TestResponses(TestChat):
    """Responses, its items as they come."""

    version = "responses/v1"
    reasoning = True

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


@pytest.mark.full
class TestResponsesStandard(TestResponses):
    """Responses, in LangChain's own blocks."""

    version = "v1"


@pytest.mark.full
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    cannot = adapters.ONLY_OBJECTS
    reasoning = True

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
        thread = TestChat().begin(server.url)
        thread.turn("Go.")
        again = LangChainThread(thread._model, {"on_event": taken.append}, thread._saver)
        assert again.turn("On.") == "b"
    assert "malformed" in server.requests[1].results["r1"]
    new = [part.text for event in taken if isinstance(event, MessageTaken) for part in FORMAT.parts(event.message)]
    assert new == ["a", "On."]


def test_a_graph_of_ones_own_goes_on_after_calls_that_could_not_be_read() -> None:
    told: list[Any] = []
    lifecycle = ContextLifecycle(recall=True, on_event=told.append)
    tools = [read, *lifecycle.tools]
    wrong = (Call("read", "a, please", "r1"), Call("delimiter", "start, please", "d1"))
    look = Call("delimiter", {"action": "start", "name": "look", "type": "expl"}, "d2")
    replies = [Reply(calls=(*wrong, look)), Reply(calls=(Call("recall", {"name": "look"}, "q"),)), Reply("Done.")]
    with ScriptedServer(replies) as server:
        model = TestChat().model(server.url).bind_tools(tools)

        def node(state: LifecycleState) -> dict[str, Any]:
            return lifecycle.update(state, model.invoke(lifecycle.request(state).messages))

        graph = StateGraph(LifecycleState)
        graph.add_node("model", node)
        graph.add_node("tools", ToolNode(tools, wrap_tool_call=lifecycle.wrap_tool_call))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
        graph.add_edge("tools", "model")
        thread = graph.compile().invoke({"messages": [("user", "Go.")]})["messages"]
    assert not server.refusals
    results = server.requests[-1].results
    assert all("not a JSON object" in results[call_id] for call_id in ("r1", "d1"))
    assert results["d2"].startswith("Started")
    assert "look" in results["q"]
    assert thread[-1].text == "Done."
    assert not [event for event in told if isinstance(event, (HistoryForked, HistoryReplaced))]


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
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
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
        mark = {"action": "start", "name": "look", "type": "expl"}
        return AIMessage("", tool_calls=[{"name": "delimiter", "args": mark, "id": name}])

    def both() -> AIMessage:
        others.append(run([*thread, HumanMessage("This way.", id="3")], kept, lambda: start("other")))
        return start("mine")

    others: list[dict[str, Any]] = []
    kept = run(thread[:1], {}, lambda: thread[1])
    mine = run([*thread, HumanMessage("That way.", id="4")], kept, both)
    assert mine["told"]["mine"].startswith('Started exploration "look"')
    assert others[0]["told"]["other"].startswith('Started exploration "look"')
