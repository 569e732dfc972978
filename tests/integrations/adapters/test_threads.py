"""One adapter object of each framework, used by several threads at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from wane.core import Kind
from wane.testing import ScriptedServer, adapters
from wane.testing.adapters import grep, read

THREADS = 3

Turns = Callable[[str], str]
"""Sends a prompt in one conversation, and returns the answer."""


def langchain(lifecycle: Any, url: str) -> Turns:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    model = ChatOpenAI(model="gpt-x", api_key="k", base_url=f"{url}/v1", max_retries=0)  # type: ignore[arg-type]
    agent = create_agent(model, [read, grep], middleware=[lifecycle], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    return lambda prompt: agent.invoke({"messages": [("user", prompt)]}, config)["messages"][-1].text  # type: ignore[arg-type, list-item]


def strands(lifecycle: Any, url: str) -> Turns:
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    model = OpenAIModel(client_args={"api_key": "k", "base_url": f"{url}/v1", "max_retries": 0}, model_id="gpt-x")
    agent = Agent(model=model, tools=[tool(read), tool(grep)], plugins=[lifecycle], callback_handler=None)
    return lambda prompt: str(agent(prompt)).strip()


def openai_agents(lifecycle: Any, url: str) -> Turns:
    from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, function_tool
    from openai import AsyncOpenAI

    session = SQLiteSession("1")

    async def turn(prompt: str) -> str:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
            model = OpenAIResponsesModel("gpt-x", openai_client=client)
            agent = lifecycle.equip(Agent("a", model=model, tools=[function_tool(read), function_tool(grep)]))
            return str((await Runner.run(agent, prompt, session=session, max_turns=20)).final_output)

    return lambda prompt: asyncio.run(turn(prompt))


def agent_framework(lifecycle: Any, url: str) -> Turns:
    from agent_framework import Agent
    from agent_framework.openai import OpenAIChatCompletionClient

    client = OpenAIChatCompletionClient(model="gpt-x", api_key="k", base_url=f"{url}/v1")
    agent = Agent(client, tools=[read, grep], context_providers=[lifecycle])
    session = agent.create_session()

    async def turn(prompt: str) -> str:
        return (await agent.run(prompt, session=session)).messages[-1].text

    return lambda prompt: asyncio.run(turn(prompt))


def pydantic_ai(lifecycle: Any, url: str) -> Turns:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    history: list[Any] = []

    async def turn(prompt: str) -> str:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
            model = OpenAIChatModel("gpt-x", provider=OpenAIProvider(openai_client=client))
            agent = Agent(model, tools=[read, grep], capabilities=[lifecycle])
            result = await agent.run(prompt, message_history=history)
        history[:] = result.all_messages()
        return result.output

    return lambda prompt: asyncio.run(turn(prompt))


FRAMEWORKS = {each.__name__: each for each in (agent_framework, langchain, openai_agents, pydantic_ai, strands)}
MODULES = {"langchain": "langchain.agents", "openai_agents": "agents"}


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("langchain", "pydantic_ai") else pytest.mark.wide) for name in FRAMEWORKS],
)
def test_conversations_in_threads_are_as_one_alone(name: str) -> None:
    """All say the same under the same ids and names of episodes, which is the hardest to keep apart."""
    pytest.importorskip(MODULES.get(name, name), reason=f"needs {name}")
    module = pytest.importorskip(f"wane.integrations.{name}", reason=f"needs {name}")
    start = Barrier(THREADS)

    def requests(lifecycle: Any, wait: Callable[[], object]) -> list[Any]:
        with ScriptedServer(adapters.script()) as server:
            turn = FRAMEWORKS[name](lifecycle, server.url)
            for n in range(adapters.TURNS):
                wait()
                assert turn(adapters.prompt_of(n)) == f"Done {n}."
        assert not server.refusals, server.refusals
        return [(request.texts(Kind.USER), request.results, request.tokens) for request in server.requests]

    alone = requests(module.ContextLifecycle(adapters.BUDGET), lambda: None)
    assert "a0" not in alone[-1][1], "nothing was evicted"
    lifecycle = module.ContextLifecycle(adapters.BUDGET)
    with ThreadPoolExecutor(THREADS) as pool:
        for each in pool.map(lambda _: requests(lifecycle, start.wait), range(THREADS)):
            assert each == alone
