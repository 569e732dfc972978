"""What Wane adds to a model call in each framework, beside what the framework takes by itself.

    python benchmarks/frameworks/speed.py

An agent goes on with a history of 1,000 messages and calls a tool again and again; its model is a function in the
process, so that no client and no network is in the figures. The time of a call is what lies between two answers of the
model, in processor time; alone, with Wane while nothing is evicted, so that both have the same to do, and with Wane at
the usual budget. Frameworks that are not installed here run in the environments that `make test-all` makes for them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from speed_apart import google_adk, inspect_ai, litellm, mini_swe_agent, openhands
from timed import ASKED, CALLS, MESSAGES, Clock, Run, look, pairs

ROUNDS = 3
AMPLE, USUAL = 10_000_000, 80_000


def langchain() -> Run:
    """A LangChain agent, its thread in a checkpoint."""
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langgraph.checkpoint.memory import InMemorySaver

    from wane.integrations.langchain import ContextLifecycle

    class Model(BaseChatModel):
        clock: Any

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

        def _generate(self, *_: Any, **__: Any) -> ChatResult:
            number = self.clock.ticks()
            calls = [] if number is None else [{"name": "look", "args": {"at": number}, "id": f"n{number}"}]
            return ChatResult(generations=[ChatGeneration(message=AIMessage("I look.", tool_calls=calls))])

    def run(budget: int | None, clock: Clock) -> None:
        history: list[Any] = [HumanMessage(ASKED, id="q")]
        for n in pairs():
            call = {"name": "look", "args": {"at": n}, "id": f"c{n}"}
            history += [
                AIMessage("I look.", tool_calls=[call], id=f"a{n}"),
                ToolMessage(look(n), tool_call_id=f"c{n}", id=f"r{n}"),
            ]
        middleware = [] if budget is None else [ContextLifecycle(budget, remind_at=None)]
        agent: Any = create_agent(Model(clock=clock), [look], middleware=middleware, checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}, "recursion_limit": 10 * CALLS}
        agent.invoke({"messages": [*history, HumanMessage(ASKED)]}, config)

    return run


def openai_agents() -> Run:
    """An agent of the OpenAI Agents SDK, given all its items."""
    from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from agents.testing import assistant_message, function_call

    from wane.integrations.openai_agents import ContextLifecycle

    set_tracing_disabled(True)

    class Scripted(Model):
        def __init__(self, clock: Clock) -> None:
            self.clock = clock

        async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
            number = self.clock.ticks()
            call = None if number is None else function_call("look", {"at": number}, call_id=f"n{number}")
            return ModelResponse(output=[call or assistant_message("Done.")], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    def run(budget: int | None, clock: Clock) -> None:
        history: list[Any] = [{"role": "user", "content": ASKED}]
        for n in pairs():
            call = {"type": "function_call", "name": "look", "arguments": json.dumps({"at": n}), "call_id": f"c{n}"}
            history += [call, {"type": "function_call_output", "call_id": f"c{n}", "output": look(n)}]
        agent: Any = Agent("agent", tools=[function_tool(look)], model=Scripted(clock))
        if budget is not None:
            agent = ContextLifecycle(budget, remind_at=None).equip(agent)
        given = [*history, {"role": "user", "content": ASKED}]
        asyncio.run(Runner.run(agent, given, max_turns=2 * CALLS))

    return run


def agent_framework() -> Run:
    from agent_framework import Agent, ChatResponse, Content, Message
    from agent_framework.openai import OpenAIChatCompletionClient

    from wane.integrations.agent_framework import ContextLifecycle

    class Client(OpenAIChatCompletionClient):
        clock: Clock

        def _inner_get_response(self, **_: Any) -> Any:
            async def answer() -> ChatResponse[Any]:
                number = self.clock.ticks()
                content = Content.from_text("Done.")
                if number is not None:
                    content = Content.from_function_call(f"n{number}", "look", arguments={"at": number})
                return ChatResponse(messages=[Message("assistant", [content])])

            return answer()

    def run(budget: int | None, clock: Clock) -> None:
        client = Client(model="x", api_key="k", base_url="http://127.0.0.1:9")
        client.clock = clock
        client.function_invocation_configuration["max_iterations"] = 2 * CALLS
        history = [Message("user", [ASKED])]
        for n in pairs():
            call = Content.from_function_call(f"c{n}", "look", arguments={"at": n})
            result = Content.from_function_result(f"c{n}", result=look(n))
            history += [Message("assistant", [call]), Message("tool", [result])]
        providers = [] if budget is None else [ContextLifecycle(budget, remind_at=None)]
        agent: Any = Agent(client, tools=[look], name="agent", context_providers=providers)
        asyncio.run(agent.run([*history, Message("user", [ASKED])], session=agent.create_session()))

    return run


def strands() -> Run:
    from strands import Agent, tool
    from strands.agent.conversation_manager import NullConversationManager
    from strands.models.model import Model

    from wane.integrations.strands import ContextLifecycle

    class Scripted(Model):
        clock: Clock

        def update_config(self, **_: Any) -> None:
            return

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            number = self.clock.ticks()
            yield {"messageStart": {"role": "assistant"}}
            if number is None:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": "Done."}}}
            else:
                yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": f"n{number}", "name": "look"}}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"at": number})}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn" if number is None else "tool_use"}}

    def run(budget: int | None, clock: Clock) -> None:
        history: list[Any] = [{"role": "user", "content": [{"text": ASKED}]}]
        for n in pairs():
            call = {"toolUseId": f"c{n}", "name": "look", "input": {"at": n}}
            result = {"toolUseId": f"c{n}", "status": "success", "content": [{"text": look(n)}]}
            history += [
                {"role": "assistant", "content": [{"toolUse": call}]},
                {"role": "user", "content": [{"toolResult": result}]},
            ]
        model = Scripted()
        model.clock = clock
        agent = Agent(
            model=model,
            tools=[tool(look)],
            messages=[*history, {"role": "assistant", "content": [{"text": "Done."}]}],
            plugins=[] if budget is None else [ContextLifecycle(budget, remind_at=None)],
            conversation_manager=NullConversationManager(),
            callback_handler=None,
        )
        asyncio.run(agent.invoke_async(ASKED))

    return run


FRAMEWORKS: dict[str, tuple[str, Callable[[], Run]]] = {
    "langchain": ("LangChain", langchain),
    "agents": ("OpenAI Agents", openai_agents),
    "agent_framework": ("Agent Framework", agent_framework),
    "strands": ("Strands", strands),
    "google.adk": ("Google ADK", google_adk),
    "minisweagent": ("mini-swe-agent", mini_swe_agent),
    "inspect_ai": ("Inspect AI", inspect_ai),
    "openhands.sdk": ("OpenHands", openhands),
    "litellm": ("LiteLLM", litellm),
}


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def measure(run: Run) -> list[float]:
    """Seconds of a call: alone, with Wane and nothing evicted, with Wane at the usual budget; the best round each.

    The rounds take turns, so that a busy moment is not one way's alone.
    """
    found: list[list[float]] = [[], [], []]
    for _ in range(ROUNDS):
        for budget, times in zip((None, AMPLE, USUAL), found, strict=True):
            clock = Clock()
            gc.collect()
            run(budget, clock)
            assert len(clock.times) > CALLS, f"it ended after {len(clock.times)} calls"
            times.append(clock.seconds)
    return [min(times) for times in found]


def line(framework: str, alone: float, same: float, usual: float) -> str:
    times = [f"{seconds * 1e3:.1f} ms" for seconds in (alone, same - alone, usual - alone)]
    return f"| {' | '.join([framework, *times, f'{same / alone:.2f}'])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="measure only what is installed here; a line of JSON each")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    # LiteLLM would ask the network for prices, mini-swe-agent would greet.
    os.environ |= {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "MSWEA_SILENT_STARTUP": "1",
        "OPENHANDS_SUPPRESS_BANNER": "1",
    }
    warnings.simplefilter("ignore")
    found: dict[str, list[float]] = {}
    for module, (name, make) in FRAMEWORKS.items():
        if is_installed(module):
            found[name] = measure(make())
            if options.json:
                print(json.dumps([name, found[name]]), flush=True)
    if options.json:
        return
    for python in sorted(Path(sys.prefix, "environments").glob("*/bin/python")):
        done = subprocess.run([str(python), __file__, "--json"], stdout=subprocess.PIPE, text=True, check=True)
        for told in done.stdout.splitlines():
            name, times = json.loads(told)
            found.setdefault(name, times)
    print(f"| at {MESSAGES:,} messages | a call by itself | Wane adds | at a budget of 80k | with Wane / without |")
    print("|---|--:|--:|--:|--:|")
    for name, times in found.items():
        print(line(name, *times))


if __name__ == "__main__":
    main()
