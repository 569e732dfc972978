"""Marks by the program around the agents of a framework (R18): each test runs the real library against a server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import OpenAIChatCompletionsModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
from langchain.agents import create_agent
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_graph import GraphBuilder, StepContext, reduce_list_extend
from strands import Agent as StrandsAgent
from strands import tool as strands_tool
from strands.models.openai import OpenAIModel

from wane import Policy
from wane.conversation.events import EpisodeClosed, EpisodeOpened
from wane.core import DELIMITER, Kind
from wane.core.errors import ConfigError
from wane.integrations import langchain, openai_agents, pydantic_ai, strands
from wane.integrations.langchain import LangChainFormat
from wane.testing import Call, Reply, Request, ScriptedServer, adapters

POLICY = Policy(low_water=0.5, guard=0.0, index_share=0.0)
SETTINGS: dict[str, Any] = {"budget": "100k", "annotate": "host", "policy": POLICY}


@dataclass
class Log:
    """Which episodes opened and closed, in order, and what was learned."""

    lines: list[str] = field(default_factory=list)
    descriptions: dict[str, str | None] = field(default_factory=dict)

    def __call__(self, event: object) -> None:
        if isinstance(event, EpisodeOpened | EpisodeClosed) and not event.episode.implicit:
            opened = isinstance(event, EpisodeOpened)
            task = event.episode.task and f" in {event.episode.task.name}"
            self.lines.append(f"{'+' if opened else '-'}{event.episode.name}{(opened and task) or ''}")
            self.descriptions[str(event.episode.name)] = event.episode.description


def read_first(request: Request) -> Reply:
    """A model that reads what the latest prompt names, and then says that it is clear."""
    # Prompts between which everything has left are one message (R12b).
    prompt = request.texts(Kind.USER)[-1].split("\n\n")[-1]
    if prompt == "both":
        return Reply("Done.")
    latest = [part.kind for part in request.parts if part.kind is not Kind.NOTICE][-1]
    return Reply(f"{prompt} is clear.") if latest is Kind.RESULT else Reply(calls=(Call("read", {"path": prompt}),))


def assert_no_word(server: ScriptedServer) -> None:
    """No model reads anything of Wane."""
    assert not server.refusals
    for request in server.requests:
        assert DELIMITER not in request.tools
        assert "episode" not in str(request.body)


# LangGraph


read = langchain_tool(adapters.read)


GUIDE = Path(__file__).parents[3] / "docs" / "reference" / "marks.md"


def branches(url: str, saver: Any, **settings: Any) -> tuple[Any, langchain.ContextLifecycle]:
    """The guide's graph: two branches, which explore at the same time, and a node that goes on from both."""
    code = next(part for part in GUIDE.read_text(encoding="utf-8").split("```") if "StateGraph(" in part)
    code = code.removeprefix("python").replace('budget="80k", annotate="host"', "**settings")
    model = ChatOpenAI(model="gpt-x", base_url=f"{url}/v1", api_key="k", max_retries=0)
    names: dict[str, Any] = {"model": model, "tools": [read], "by_name": {"read": read}, "settings": settings}
    exec(compile(code, "guide", "exec", dont_inherit=True), names)
    return names["graph"].compile(checkpointer=saver), names["lifecycle"]


@pytest.mark.parametrize("restart", [False, True])
def test_parallel_branches_of_the_guides_graph_share_one_history(restart: bool) -> None:
    def answer(request: Request) -> Reply:
        """Done, once it is asked behind an answer."""
        latest = [part.kind for part in request.parts if part.kind is not Kind.NOTICE][-1]
        return Reply("Done.") if latest is Kind.TEXT else read_first(request)

    log, saver, config = Log(), InMemorySaver(), {"configurable": {"thread_id": "1"}}
    settings = {**SETTINGS, "budget": "1500", "on_event": log}
    with ScriptedServer(answer) as server:
        graph, lifecycle = branches(server.url, saver, **settings)
        graph.invoke({"messages": [("user", "Go.")]}, config)
        log.lines.clear()
        if restart:
            graph, lifecycle = branches(server.url, saver, **settings)
        final = graph.invoke({"messages": [("user", "Again.")]}, config)
    assert_no_word(server)
    assert {"+code", "+tests"}.isdisjoint(log.lines), "each branch goes on from the state of the first run"
    assert "episode" not in "".join(str(message.content) for message in final["messages"])
    *_, conversation = lifecycle._known.values()
    conversation.host.ingest(final["messages"])
    marked = [episode for episode in conversation.episodes if episode.host]
    assert {str(episode.name) for episode in marked} >= {"code", "tests"}
    clear = {"Look into code. is clear.", "Look into tests. is clear."}
    assert {episode.description for episode in marked} >= clear
    assert all(episode.closed for episode in marked)
    shown = conversation.request()
    assert len(shown.messages) < len(final["messages"])
    parts = [part for message in shown.messages for part in LangChainFormat().parts(message)]
    assert {part.text for part in parts} >= clear
    calls = [part.call_id for part in parts if part.kind is Kind.CALL]
    assert calls == [part.call_id for part in parts if part.kind is Kind.RESULT]


# Pydantic AI


def pydantic_graph(url: str, lifecycle: pydantic_ai.ContextLifecycle) -> Any:
    """The same as a graph of steps: each branch goes on from the history, and what both have said is joined."""

    async def read(path: str) -> str:
        """Read a file."""
        return adapters.content_of(path)

    model = OpenAIChatModel("gpt-x", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="k"))
    agent = Agent(model, tools=[read], capabilities=[lifecycle])
    graph: Any = GraphBuilder(input_type=list[ModelMessage], output_type=list[ModelMessage])

    @graph.step
    @lifecycle.episode("code", "expl")
    async def code(ctx: StepContext[None, None, list[ModelMessage]]) -> list[ModelMessage]:
        return (await agent.run("code", message_history=ctx.inputs)).new_messages()

    @graph.step
    @lifecycle.episode("tests", "expl")
    async def tests(ctx: StepContext[None, None, list[ModelMessage]]) -> list[ModelMessage]:
        return (await agent.run("tests", message_history=ctx.inputs)).new_messages()

    join = graph.join(reduce_list_extend, initial_factory=list[ModelMessage])
    graph.add(
        graph.edge_from(graph.start_node).to(code, tests),
        graph.edge_from(code, tests).to(join),
        graph.edge_from(join).to(graph.end_node),
    )
    return agent, graph.build()


def test_parallel_steps_of_a_pydantic_graph_share_one_history() -> None:
    lifecycle = pydantic_ai.ContextLifecycle(**{**SETTINGS, "budget": "1500"})
    with ScriptedServer(read_first) as server:
        agent, graph = pydantic_graph(server.url, lifecycle)

        async def run() -> list[ModelMessage]:
            begun = (await agent.run("first")).all_messages()
            branches = await graph.run(inputs=begun)
            history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json([*begun, *branches]))
            return (await agent.run("both", message_history=history)).all_messages()

        messages = asyncio.run(run())
    assert_no_word(server)
    conversation = pydantic_ai.new_conversation(**{**SETTINGS, "budget": "1500"})
    conversation.host.ingest(messages)
    code, tests = (episode for episode in conversation.episodes if episode.host)
    assert {code.name, tests.name} == {"code", "tests"}
    assert {code.description, tests.description} == {"code is clear.", "tests is clear."}
    last = server.requests[-1]
    assert "code is clear." in last.texts(Kind.TEXT)
    assert "tests is clear." in last.texts(Kind.TEXT)
    assert len(last.results) < 3
    assert [part.call_id for part in last.parts if part.kind is Kind.CALL] == list(last.results)


# Handoffs


def hands_over(request: Request) -> Reply:
    """A model that reads, hands over to `fixer`, reads again, and is done."""
    names = [part.tool for part in request.parts if part.kind is Kind.CALL]
    prompts = request.texts(Kind.USER)
    if "transfer_to_fixer" in request.tools and len(prompts) > names.count("transfer_to_fixer"):
        done = names.count("read") >= 2 * names.count("transfer_to_fixer") + 1
        return Reply(calls=(Call("transfer_to_fixer", {}) if done else Call("read", {"path": "bug"}),))
    return Reply("Fixed.") if names.count("read") == 2 * len(prompts) else Reply(calls=(Call("read", {"path": "fix"}),))


openai_read = function_tool(adapters.read)
strands_read = strands_tool(adapters.read)


def test_a_handoff_of_openai_is_an_episode() -> None:
    set_tracing_disabled(True)
    log = Log()
    lifecycle = openai_agents.ContextLifecycle(**SETTINGS, on_event=log)
    with ScriptedServer(hands_over) as server:

        async def run() -> None:
            client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
            model, tools = OpenAIChatCompletionsModel("gpt-x", client), [openai_read]
            fixer = lifecycle.equip(OpenAIAgent("fixer", model=model, tools=[*tools]), episode="act")
            finder = OpenAIAgent("finder", model=model, tools=[*tools], handoffs=[fixer])
            finder, session = lifecycle.equip(finder, episode="expl"), SQLiteSession("1")
            for prompt in ("Go.", "Again."):
                result = await Runner.run(finder, prompt, session=session)
                assert result.final_output == "Fixed."

        asyncio.run(run())
    assert_no_word(server)
    assert log.lines == ["+finder", "-finder", "+fixer", "-fixer", "+finder 2", "-finder 2", "+fixer 2"]
    with pytest.raises(ConfigError, match="give the adapter annotate='host'"):
        openai_agents.ContextLifecycle().equip(OpenAIAgent("a"), episode="act")


# Sub-agents as tools


def delegates(request: Request) -> Reply:
    """A model that has two things researched at once, and reads; and the sub-agent."""
    if "research" not in request.tools:
        return Reply(f"{request.texts(Kind.USER)[-1]} is fine.")
    names = [part.tool for part in request.parts if part.kind is Kind.CALL]
    if not names:
        return Reply(calls=(Call("research", {"topic": "code"}), Call("research", {"topic": "tests"})))
    return Reply("Done.") if "read" in names else Reply(calls=(Call("read", {"path": "more"}),))


DELEGATED = {"research": "code is fine.", "research 2": "tests is fine."}


def delegate_openai(url: str, log: Log) -> None:
    async def run() -> None:
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
        model = OpenAIChatCompletionsModel("gpt-x", client)

        @function_tool
        async def research(topic: str) -> str:
            """Have something researched."""
            return str((await Runner.run(OpenAIAgent("helper", model=model), topic)).final_output)

        lifecycle = openai_agents.ContextLifecycle(**SETTINGS, on_event=log, subagents={"research": "expl"})
        agent = lifecycle.equip(OpenAIAgent("agent", model=model, tools=[research, openai_read]))
        await Runner.run(agent, "Go.")

    set_tracing_disabled(True)
    asyncio.run(run())


def delegate_pydantic_ai(url: str, log: Log) -> None:
    model = OpenAIChatModel("gpt-x", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="k"))
    lifecycle = pydantic_ai.ContextLifecycle(**SETTINGS, on_event=log, subagents={"research": "expl"})
    helper, agent = Agent(model), Agent(model, tools=[adapters.read], capabilities=[lifecycle])

    @agent.tool_plain
    async def research(topic: str) -> str:
        """Have something researched."""
        return (await helper.run(topic)).output

    agent.run_sync("Go.")


def delegate_strands(url: str, log: Log) -> None:
    def model() -> OpenAIModel:
        return OpenAIModel(client_args={"api_key": "k", "base_url": f"{url}/v1"}, model_id="gpt-x")

    @strands_tool
    def research(topic: str) -> str:
        """Have something researched."""
        return str(StrandsAgent(model=model(), callback_handler=None)(topic)).strip()

    lifecycle = strands.ContextLifecycle(**SETTINGS, on_event=log, subagents={"research": "expl"})
    StrandsAgent(model=model(), tools=[research, strands_read], plugins=[lifecycle], callback_handler=None)("Go.")


def delegate_langchain(url: str, log: Log) -> None:
    model = ChatOpenAI(model="gpt-x", base_url=f"{url}/v1", api_key="k", max_retries=0)

    @langchain_tool
    def research(topic: str) -> str:
        """Have something researched."""
        return create_agent(model, []).invoke({"messages": [("user", topic)]})["messages"][-1].text

    lifecycle = langchain.ContextLifecycle(**SETTINGS, on_event=log, subagents={"research": "expl"})
    create_agent(model, [research, read], middleware=[lifecycle]).invoke({"messages": [("user", "Go.")]})


@pytest.mark.parametrize("run", [delegate_langchain, delegate_openai, delegate_pydantic_ai, delegate_strands])
def test_a_sub_agent_as_a_tool_is_an_exploration(run: Any) -> None:
    log = Log()
    with ScriptedServer(delegates) as server:
        run(server.url, log)
    assert_no_word(server)
    assert log.lines == ["+research", "+research 2", "-research 2", "-research"] or log.lines == [
        "+research",
        "+research 2",
        "-research",
        "-research 2",
    ]
    assert {name: (text or "") for name, text in log.descriptions.items()} == DELEGATED


# A step of a program around an agent of Strands, which keeps its messages itself


def test_a_step_around_an_agent_of_strands_is_an_episode() -> None:
    log = Log()
    lifecycle = strands.ContextLifecycle(**SETTINGS, on_event=log)

    with ScriptedServer(read_first) as server:
        model = OpenAIModel(client_args={"api_key": "k", "base_url": f"{server.url}/v1"}, model_id="gpt-x")
        agent = StrandsAgent(model=model, tools=[strands_read], plugins=[lifecycle], callback_handler=None)
        with lifecycle.task("all"):
            for name in ("code", "tests"):
                with lifecycle.episode(name):
                    agent(name)
        agent("both")
        agent("both")
    assert_no_word(server)
    assert log.lines == ["+all", "+code in all", "-code", "+tests in all", "-tests", "-all"]
    assert log.descriptions["code"] == "code is clear."
