"""The adapter of the OpenAI Agents SDK over its real models, on two wires."""

from __future__ import annotations

import asyncio
import copy
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed")

from agents import (
    Agent,
    ModelSettings,
    MultiProvider,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    RunContextWrapper,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI

from wane.formats.message_format import Part
from wane.formats.openai_responses import OpenAIResponsesFormat
from wane.integrations.openai_agents import ContextLifecycle
from wane.testing import adapters

set_tracing_disabled(True)


read, grep = function_tool(adapters.read), function_tool(adapters.grep)


@function_tool(needs_approval=True)
def drop(table: str) -> str:
    """Drop a table."""
    raise AssertionError(table)


class AgentsThread:
    """A session of an agent."""

    sub_agent = False
    words = ""

    def __init__(self, model: Any, url: str, adapter: ContextLifecycle, session: SQLiteSession) -> None:
        self._model, self._url, self._lifecycle, self._session = model, url, adapter, session

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        return asyncio.run(self._turn(prompt, stream))

    async def _turn(self, prompt: str, stream: bool) -> str:
        # A client is of one event loop.
        async with AsyncOpenAI(base_url=f"{self._url}/v1", api_key="k", max_retries=0) as client:
            model = self._model("gpt-x", openai_client=client)
            tools: list[Any] = [read, grep]
            # By itself it asks for a stream's usage only at OpenAI's own address.
            usage = ModelSettings(include_usage=True)
            agent = Agent("a", instructions="Be good.", tools=tools, model=model, model_settings=usage)
            if self.sub_agent:
                sub = self._lifecycle.equip(agent.clone(name="b", instructions="Help."))
                agent.tools = [*tools, sub.as_tool("helper", "Helps with a task.", max_turns=30)]
            if self.words:
                agent.tools = [*tools, drop]
            agent = self._lifecycle.equip(agent)
            if not stream:
                result: Any = await Runner.run(agent, prompt, session=self._session, max_turns=20)
                if result.interruptions:
                    state = result.to_state()
                    state.reject(result.interruptions[0], rejection_message=self.words)
                    result = await Runner.run(agent, state, session=self._session, max_turns=20)
            else:
                result = Runner.run_streamed(agent, prompt, session=self._session, max_turns=20)
                assert [event async for event in result.stream_events()]
            return str(result.final_output)

    def read_stored(self) -> Sequence[Part]:
        form, items = OpenAIResponsesFormat(), asyncio.run(self._session.get_items())
        return [part for message in form.read(items) for part in form.parts(message)]

    def again(self, adapter: ContextLifecycle) -> AgentsThread:
        thread = AgentsThread(self._model, self._url, adapter, self._session)
        thread.words = self.words
        return thread

    def fork(self) -> AgentsThread:
        thread = copy.copy(self)
        thread._session = SQLiteSession("1")  # in memory, so it is another database
        asyncio.run(thread._session.add_items(asyncio.run(self._session.get_items())))
        return thread


@pytest.mark.full
class TestResponses(adapters.AdapterContract):
    """Responses, with reasoning."""

    reasoning = True
    serves: Sequence[Any] = ("web_search", "code_execution", "file_search")
    argument = "input"
    model: Any = OpenAIResponsesModel

    @pytest.fixture(autouse=True)
    def _places(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings, states=self.folder / f"{url.rpartition(':')[2]}.db")

    def begin(self, url: str, adapter: ContextLifecycle) -> AgentsThread:
        return AgentsThread(self.model, url, adapter, SQLiteSession("1"))

    def reject(self, url: str, adapter: ContextLifecycle, words: str) -> AgentsThread:
        thread = self.begin(url, adapter)
        thread.words = words
        return thread

    def delegate(self, url: str, adapter: ContextLifecycle) -> AgentsThread:
        thread = self.begin(url, adapter)
        thread.sub_agent = True
        return thread


@pytest.mark.wide
class TestChat(TestResponses):
    """Chat Completions."""

    reasoning = False
    serves = ()
    model = OpenAIChatCompletionsModel


# What is this framework's own


def exploring_model(name: str, call: str) -> ScriptedModel:
    """A model that starts an exploration, and ends."""
    start = function_call("delimiter", {"action": "start", "name": name, "type": "expl"}, call_id=call)
    return ScriptedModel([[start], [assistant_message("Done.")]])


def results(model: ScriptedModel) -> list[str]:
    """The results that the latest call of a model was given."""
    call = model.last_call
    assert call is not None
    return [item["output"] for item in call.input if item.get("type") == "function_call_output"]


def run(agent: Agent[Any], given: Any = "Go.", **more: Any) -> Any:
    return asyncio.run(Runner.run(agent, given, **more))


@pytest.mark.parametrize("stream", [False, True])
def test_runs_at_once_whose_calls_are_numbered_alike_recall_their_own(stream: bool) -> None:
    lifecycle = ContextLifecycle(budget="80k", recall=True)
    search = function_call("recall", {"search": "number"}, call_id="call_0")
    models = [ScriptedModel([[search.model_copy()], [assistant_message("Done.")]]) for _ in range(5)]

    async def one(number: int, agent: Agent[Any]) -> None:
        if not stream:
            await Runner.run(agent, f"I am number {number}.")
            return
        async for _ in Runner.run_streamed(agent, f"I am number {number}.").stream_events():
            pass

    async def all_of_them() -> None:
        agents = [lifecycle.equip(Agent("a", model=model)) for model in models]
        await asyncio.gather(*(one(number, agent) for number, agent in enumerate(agents)))

    asyncio.run(all_of_them())
    assert all(f"I am number {number}." in results(model)[0] for number, model in enumerate(models))


def test_a_run_that_begins_while_another_looks_for_rejections_disturbs_none() -> None:
    lifecycle = ContextLifecycle(budget="80k")
    agent = lifecycle.equip(Agent("a", model=ScriptedModel([[assistant_message("Done.")]])))
    (delimiter,) = lifecycle.tools
    assert not isinstance(delimiter.is_enabled, bool)
    begin, begun = delimiter.is_enabled, list[RunContextWrapper[Any]]()

    class Asked(RunContextWrapper[Any]):
        def get_rejection_message(self, *args: Any, **named: Any) -> str | None:
            begun.append(RunContextWrapper(None))
            other = threading.Thread(target=begin, args=(begun[-1], agent))
            other.start()
            other.join(0.2)  # it may have to wait for this
            return super().get_rejection_message(*args, **named)

    earlier = [Asked(None), Asked(None)]
    for context in earlier:
        begin(context, agent)
    call = {"type": "function_call", "call_id": "c0", "name": "read", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c0", "output": "What?"}
    assert run(agent, [{"role": "user", "content": "Go."}, call, output]).final_output == "Done."
    assert begun


def test_a_handoff_goes_on_in_the_same_window() -> None:
    lifecycle = ContextLifecycle(budget="80k")
    end = function_call("delimiter", {"action": "end", "name": "look", "description": "x"}, call_id="d2")
    last = ScriptedModel([[end], [assistant_message("Over.")]])
    second = lifecycle.equip(Agent("second", model=last))
    start = function_call("delimiter", {"action": "start", "name": "look", "type": "expl"}, call_id="d1")
    first = ScriptedModel([[start], [function_call("transfer_to_second", {}, call_id="h1")]])
    assert run(lifecycle.equip(Agent("first", model=first, handoffs=[second]))).final_output == "Over."
    assert results(last)[-1].startswith("Ended")


def test_instructions_and_tools_of_the_agent_stay() -> None:
    model = ScriptedModel([[assistant_message("Done.")]])
    agent = Agent[None]("a", instructions=lambda context, agent: "Be good.", tools=[read], model=model)
    lifecycle = ContextLifecycle(budget="80k", recall=True)
    equipped = lifecycle.equip(agent)
    assert lifecycle.equip(equipped) is equipped
    run(equipped)
    call = model.last_call
    assert call is not None
    assert call.system_instructions == f"Be good.\n\n{lifecycle.instructions}"
    assert [tool.name for tool in call.tools] == ["read", "delimiter", "recall"]
    assert [tool.name for tool in agent.tools] == ["read"]


def test_the_settings_that_go_with_a_models_name_stay() -> None:
    agent = Agent[None]("a", model="gpt-5")
    assert agent.model_settings.reasoning is not None
    provider = MultiProvider(openai_client=AsyncOpenAI(api_key="k"))
    assert ContextLifecycle().equip(agent, provider=provider).model_settings == agent.model_settings


def test_a_conversation_that_openai_keeps_is_left_alone_and_said_once() -> None:
    model = ScriptedModel([[assistant_message("One.")], [assistant_message("Two.")]])
    agent = ContextLifecycle(budget="80k").equip(Agent("a", instructions="Be good.", tools=[read], model=model))
    with pytest.warns(UserWarning, match="conversation_id") as told:
        run(agent, conversation_id="conv_1")
    with warnings.catch_warnings(action="error", category=UserWarning):
        run(agent, "On.", conversation_id="conv_1")
    assert len(told) == 1
    call = model.last_call
    assert call is not None
    assert call.system_instructions == "Be good."
    assert [tool.name for tool in call.tools] == ["read"]


def test_a_history_that_cannot_be_taken_in_is_sent_as_it_is() -> None:
    model = ScriptedModel([[assistant_message("Done.")]])
    orphan = {"type": "function_call_output", "call_id": "c0", "output": "What?"}
    with pytest.warns(UserWarning, match="sent as it is"):
        run(ContextLifecycle().equip(Agent("a", model=model)), [orphan, {"role": "user", "content": "Go."}])
    assert model.last_call is not None
    assert not model.last_call.tools


@pytest.mark.parametrize("settings", [{"truncation": "auto"}, {"context_management": [{"type": "compaction"}]}])
def test_compaction_beside_it_is_said(settings: Any) -> None:
    agent = ContextLifecycle().equip(
        Agent("a", model=exploring_model("look", "c"), model_settings=ModelSettings(**settings))
    )
    with pytest.warns(UserWarning, match="compacted beside Wane") as told:
        run(agent)
    assert len(told) == 1


def test_a_run_with_another_model_is_said() -> None:
    lifecycle = ContextLifecycle()
    agent, other = lifecycle.equip(Agent("a", model=ScriptedModel([]))), exploring_model("look", "c1")
    with pytest.warns(UserWarning, match=r"lifecycle\.model"):
        run(agent, run_config=RunConfig(model=other))
    assert results(other)[0].startswith("Error")
    managed = exploring_model("look", "c2")
    run(agent, run_config=RunConfig(model=lifecycle.model(managed)))
    assert results(managed)[0].startswith("Started")


def test_a_filter_of_the_run_is_said() -> None:
    agent = ContextLifecycle().equip(Agent("a", model=exploring_model("look", "c1")))
    with pytest.warns(UserWarning, match="call_model_input_filter"):
        run(agent, run_config=RunConfig(call_model_input_filter=lambda data: data.model_data))


@pytest.mark.filterwarnings("always")
def test_a_file_of_states_that_cannot_be_used_costs_no_run(tmp_path: Path) -> None:
    broken = tmp_path / "states.db"
    broken.write_text("This is no database, " * 100)
    model = exploring_model("look", "c1")
    with pytest.warns(UserWarning, match="cannot be used"):
        assert run(ContextLifecycle(states=broken).equip(Agent("a", model=model))).final_output == "Done."
    assert results(model)[0].startswith("Started")
