"""Which classes of the frameworks give DeepSeek and Kimi back their reasoning, as the table of servers has it.

Nothing of Wane's runs here but the server: a class that drops reasoning fails with such a server by itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from wane.testing import Call, Reply, Request, ScriptedServer
from wane.testing.adapters import content_of
from wane.testing.rules import calls_need_reasoning

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

TABLE = Path(__file__).parents[3] / "docs" / "servers.md"
DEEPSEEK, KIMI = "deepseek-reasoner", "kimi-k2-thinking"


def read(path: str) -> str:
    """Read a file.

    Args:
        path: Its name.
    """
    return content_of(path)


def answer(request: Request) -> Reply:
    """A model that thinks and reads, and then is done."""
    if "a, line 1," in str(request.body):
        done = Call("final_answer", {"answer": "Done."})
        return Reply(calls=(done,)) if "final_answer" in request.tools else Reply("Done.")
    return Reply(None, "I think so.", (Call("read", {"path": "a"}, "call_1"),))


def run_langchain(module: str, name: str) -> Callable[[str, str], Any]:
    def run(url: str, model: str) -> Any:
        made = getattr(pytest.importorskip(module), name)
        from langchain.agents import create_agent

        base = {"ChatOpenAI": "base_url", "ChatDeepSeek": "api_base"}[name]
        chat = made(model=model, api_key="k", max_retries=0, **{base: f"{url}/v1"})
        return create_agent(chat, [read]).invoke({"messages": [("user", "Go.")]})

    return run


def run_pydantic_ai(module: str, name: str) -> Callable[[str, str], Any]:
    def run(url: str, model: str) -> Any:
        provider = getattr(pytest.importorskip(f"pydantic_ai.providers.{module}"), name)
        from openai import AsyncOpenAI
        from pydantic_ai import Agent
        from pydantic_ai.models.openai import OpenAIChatModel

        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
        return Agent(OpenAIChatModel(model, provider=provider(openai_client=client)), tools=[read]).run_sync("Go.")

    return run


def run_agno(module: str, name: str) -> Callable[[str, str], Any]:
    def run(url: str, model: str) -> Any:
        made = getattr(pytest.importorskip(f"agno.models.{module}"), name)
        from agno.agent import Agent

        chat = made(id=model, api_key="k", base_url=f"{url}/v1", max_retries=0)
        return Agent(model=chat, tools=[read], telemetry=False).run("Go.")

    return run


def run_strands(url: str, model: str) -> Any:
    strands = pytest.importorskip("strands")
    from strands.models.openai import OpenAIModel

    chat = OpenAIModel(client_args={"base_url": f"{url}/v1", "api_key": "k", "max_retries": 0}, model_id=model)
    return strands.Agent(model=chat, tools=[strands.tool(read)], callback_handler=None)("Go.")


def run_smolagents(url: str, model: str) -> Any:
    smolagents = pytest.importorskip("smolagents")
    settings = {"api_base": f"{url}/v1", "api_key": "k", "client_kwargs": {"max_retries": 0}}
    chat = smolagents.OpenAIModel(model_id=model, **settings)
    return smolagents.ToolCallingAgent(tools=[smolagents.tool(read)], model=chat, verbosity_level=-1).run("Go.")


def run_openai_agents(url: str, model: str) -> Any:
    agents = pytest.importorskip("agents")
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    chat = agents.OpenAIChatCompletionsModel(model=model, openai_client=client)
    agent = agents.Agent(name="a", model=chat, tools=[agents.function_tool(read)])
    return asyncio.run(agents.Runner.run(agent, "Go."))


def run_haystack(url: str, model: str) -> Any:
    pytest.importorskip("haystack")
    from haystack.components.agents import Agent
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import Tool
    from haystack.utils import Secret

    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tool = Tool(name="read", description="Read a file.", parameters=schema, function=read)
    key = Secret.from_token("k")
    chat = OpenAIChatGenerator(model=model, api_key=key, api_base_url=f"{url}/v1", max_retries=0)
    return Agent(chat_generator=chat, tools=[tool]).run(messages=[ChatMessage.from_user("Go.")])


def run_agent_framework(url: str, model: str) -> Any:
    openai = pytest.importorskip("agent_framework_openai")
    from agent_framework import Agent

    chat = openai.OpenAIChatCompletionClient(model=model, api_key="k", base_url=f"{url}/v1")
    return asyncio.run(Agent(client=chat, tools=[read]).run("Go."))


def run_crewai(url: str, model: str) -> Any:
    os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false")
    crewai = pytest.importorskip("crewai")
    from crewai.tools import tool

    prefix = "deepseek" if model == DEEPSEEK else "openai"
    chat = crewai.LLM(model=f"{prefix}/{model}", base_url=f"{url}/v1", api_key="k")
    agent = crewai.Agent(role="a", goal="Go.", backstory="Good.", llm=chat, tools=[tool("read")(read)])
    task = crewai.Task(description="Go.", expected_output="A word.", agent=agent)
    return crewai.Crew(agents=[agent], tasks=[task]).kickoff()


def run_litellm(url: str, model: str) -> Any:
    litellm = pytest.importorskip("litellm")
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "read", "parameters": schema}}]
    prefix = "deepseek" if model == DEEPSEEK else "moonshot"
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for _ in range(2):
        reply = litellm.completion(
            f"{prefix}/{model}", messages=messages, tools=tools, api_base=f"{url}/v1", api_key="k", num_retries=0
        )
        messages.append(reply.choices[0].message.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": read("a")})


def run_google_adk(url: str, model: str) -> Any:
    pytest.importorskip("google.adk")
    pytest.importorskip("litellm")
    from google.adk.agents import LlmAgent
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    prefix = "deepseek" if model == DEEPSEEK else "moonshot"
    chat = LiteLlm(model=f"{prefix}/{model}", api_base=f"{url}/v1", api_key="k", num_retries=0)
    runner = InMemoryRunner(agent=LlmAgent(name="a", model=chat, tools=[read]), app_name="app")
    runner.auto_create_session = True
    said = types.Content(role="user", parts=[types.Part(text="Go.")])
    return list(runner.run(user_id="u", session_id="s", new_message=said))


def run_inspect(prefixes: Mapping[str, str]) -> Callable[[str, str], Any]:
    def run(url: str, model: str) -> Any:
        inspect_ai = pytest.importorskip("inspect_ai")
        from inspect_ai.agent import react
        from inspect_ai.dataset import Sample
        from inspect_ai.model import get_model
        from inspect_ai.tool import tool

        @tool(name="read")
        def reader() -> Any:
            async def execute(path: str) -> str:
                """Read a file.

                Args:
                    path: Its name.
                """
                return read(path)

            return execute

        chat = get_model(f"{prefixes[model]}/{model}", base_url=f"{url}/v1", api_key="k")
        task = inspect_ai.Task(dataset=[Sample("Go.")], solver=react(prompt=None, tools=[reader()], submit=False))
        with TemporaryDirectory() as folder:
            given = {"display": "none", "log_level": "error", "log_dir": folder}
            (log,) = inspect_ai.eval(task, model=chat, max_retries=0, **given)
        assert log.status == "success", log.error

    return run


def run_openhands(url: str, model: str) -> Any:
    if sys.version_info < (3, 12):
        pytest.skip("the OpenHands SDK needs Python 3.12 or newer")
    pytest.importorskip("openhands.sdk")
    from tests.integrations.adapters.test_openhands import agent_of, begin_conversation, model_at

    prefix = "deepseek" if model == DEEPSEEK else "moonshot"
    with TemporaryDirectory() as folder:
        conversation = begin_conversation(agent_of(model_at(url, model=f"{prefix}/{model}")), Path(folder))
        conversation.send_message("Go.")
        conversation.run()


# By the table's name of a class: how to run it, and the models that get their reasoning back.
CLASSES: dict[str, tuple[Callable[[str, str], Any], tuple[str, ...]]] = {
    "LangChain's `ChatOpenAI`": (run_langchain("langchain_openai", "ChatOpenAI"), ()),
    "LangChain's `ChatDeepSeek`": (run_langchain("langchain_deepseek", "ChatDeepSeek"), ()),
    "Pydantic AI's `DeepSeekProvider`": (run_pydantic_ai("deepseek", "DeepSeekProvider"), (DEEPSEEK, KIMI)),
    "Pydantic AI's `MoonshotAIProvider`": (run_pydantic_ai("moonshotai", "MoonshotAIProvider"), (DEEPSEEK, KIMI)),
    "Pydantic AI's `OpenAIProvider`": (run_pydantic_ai("openai", "OpenAIProvider"), (DEEPSEEK, KIMI)),
    "Agno's `MoonShot`": (run_agno("moonshot", "MoonShot"), (DEEPSEEK, KIMI)),
    "Agno's `OpenAIChat`": (run_agno("openai", "OpenAIChat"), ()),
    "Strands' `OpenAIModel`": (run_strands, ()),
    "smolagents' `OpenAIModel`": (run_smolagents, (DEEPSEEK, KIMI)),
    "OpenAI Agents' `OpenAIChatCompletionsModel`": (run_openai_agents, (DEEPSEEK,)),
    "Haystack's `OpenAIChatGenerator`": (run_haystack, ()),
    "Agent Framework's `OpenAIChatCompletionClient`": (run_agent_framework, ()),
    "CrewAI's `LLM`": (run_crewai, ()),
    "LiteLLM, so mini-swe-agent": (run_litellm, (DEEPSEEK, KIMI)),
    "Google ADK's `LiteLlm`": (run_google_adk, (DEEPSEEK, KIMI)),
    "Inspect's `deepseek` and `moonshot`": (run_inspect({DEEPSEEK: "deepseek", KIMI: "moonshot"}), (DEEPSEEK, KIMI)),
    "Inspect's `openai-api`": (run_inspect(dict.fromkeys((DEEPSEEK, KIMI), "openai-api/own")), (DEEPSEEK, KIMI)),
    "OpenHands' `LLM`": (run_openhands, (DEEPSEEK, KIMI)),
}


@pytest.mark.full
@pytest.mark.parametrize("model", [DEEPSEEK, KIMI])
@pytest.mark.parametrize("name", CLASSES)
def test_a_class_gives_reasoning_back_or_drops_it(name: str, model: str) -> None:
    run, working = CLASSES[name]
    # Each framework has an error of its own for a refused request.
    fails = nullcontext() if model in working else suppress(Exception)
    with ScriptedServer(answer, rules=[calls_need_reasoning]) as server, fails:
        run(server.url, model)
    assert len(server.requests) + len(server.refusals) >= 2
    assert all("reasoning_content" in refusal.message for refusal in server.refusals)
    assert (not server.refusals) == (model in working)


@pytest.mark.parametrize("name", CLASSES)
def test_the_table_says_which_class_works(name: str) -> None:
    _, working = CLASSES[name]
    said = " | ".join("works" if model in working else "refused" for model in (DEEPSEEK, KIMI))
    assert f"\n| {name} | {said} |" in TABLE.read_text(encoding="utf-8")
