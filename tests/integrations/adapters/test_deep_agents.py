"""LangChain's Deep Agents with the middleware for LangChain, as the guide has it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("deepagents", reason="Deep Agents is not installed")
pytest.importorskip("langchain_openai", reason="needs langchain-openai")

from deepagents import create_deep_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from tests.integrations.adapters.test_guides import blocks_of, run
from wane.core import Kind
from wane.testing import Call, Reply, Request, ScriptedServer, adapters

BUDGET, WINDOW, READS = 14_000, 40_000, 60
read = tool(adapters.read)


def guides_class() -> Any:
    """The guide's middleware; its example has the class and goes on with a model."""
    (example,) = blocks_of("deep-agents", "python")
    return run(example.partition("agent = ")[0])["SummarizationMiddleware"]


def model_of(server: ScriptedServer) -> ChatOpenAI:
    profile: Any = {"max_input_tokens": WINDOW}
    return ChatOpenAI(model="gpt-x", base_url=f"{server.url}/v1", api_key="k", max_retries=0, profile=profile)  # type: ignore[arg-type]


@pytest.mark.full
@pytest.mark.filterwarnings("error::UserWarning")
def test_a_thread_beyond_the_models_window_is_not_summarised() -> None:
    def answer(request: Request) -> Reply:
        number = len(server.requests)
        return Reply(calls=(Call("read", {"path": f"a{number}"}, f"r{number}"),)) if number < READS else Reply("Done.")

    with ScriptedServer(answer) as server:
        middleware = [guides_class()(budget=BUDGET)]
        agent = create_deep_agent(model_of(server), tools=[read], middleware=middleware)
        messages = agent.invoke({"messages": [("user", "Mind §.")]}, {"recursion_limit": 400})["messages"]
    assert not server.refusals
    assert len(server.requests) == READS + 1
    assert all(request.tools and request.tokens <= BUDGET for request in server.requests)
    assert all("Mind §." in request.texts(Kind.USER)[0] for request in server.requests)
    assert sum(len(str(message.content)) for message in messages) // 4 > WINDOW


@pytest.mark.full
@pytest.mark.filterwarnings("error::UserWarning")
def test_a_sub_agent_has_a_window_of_its_own() -> None:
    def answer(request: Request) -> Reply:
        if "Help me." in request.texts(Kind.USER):
            reads = [part.call_id for part in request.parts if part.kind is Kind.CALL and part.tool == "read"]
            number = int((reads or ["s-1"])[-1][1:]) + 1  # type: ignore[index]
            return Reply(calls=(Call("read", {"path": "b"}, f"s{number}"),)) if number < READS else Reply("Helped.")
        if not request.results:
            asked = {"description": "Help me.", "subagent_type": "general-purpose"}
            return Reply(calls=(Call("task", asked, "t"),))
        return Reply("Done.")

    with ScriptedServer(answer) as server:
        make = guides_class()
        helper: Any = {
            "name": "general-purpose",
            "description": "Helps.",
            "system_prompt": "Help.",
            "middleware": [make(budget=BUDGET)],
        }
        middleware = [make(budget=BUDGET)]
        agent = create_deep_agent(model_of(server), tools=[read], middleware=middleware, subagents=[helper])
        final = agent.invoke({"messages": [("user", "Go.")]}, {"recursion_limit": 400})["messages"][-1]
    assert final.text == "Done."
    assert not server.refusals
    assert len(server.requests) == READS + 3
    assert all(request.tools and request.tokens <= BUDGET for request in server.requests)
    assert server.requests[-1].results == {"t": "Helped."}
