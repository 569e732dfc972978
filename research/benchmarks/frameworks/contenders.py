"""The frameworks that `comparison.py` compares, each with its own context management and with Wane's.

Settings are the framework's defaults wherever there are any; what a default does not say follows from the budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from contender import INSTRUCTIONS, MOST, SHARE, Begin, Contender, Tools, Turn
from contenders_apart import google_adk, inspect_ai, openhands


def contenders() -> Iterator[Contender]:
    """Yield those whose frameworks are installed."""
    for module, found in FRAMEWORKS.items():
        try:
            there = find_spec(module) is not None
        except ModuleNotFoundError:
            there = False
        if there:
            yield from found()


def _pydantic_ai() -> Iterator[Contender]:
    from pydantic_ai import Agent, UsageLimits
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai_harness.compaction import (
        ClearToolResults,
        DeduplicateFileReads,
        SlidingWindowCompaction,
        SummarizingCompaction,
        TieredCompaction,
    )

    core, harness = (version(it).split(".")[:2] for it in ("pydantic-ai-slim", "pydantic-ai-harness"))

    def made(capability: Callable[[int], Any]) -> Begin:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            runner, history = asyncio.Runner(), list[Any]()
            model = OpenAIChatModel("gpt-x", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="k"))
            agent = Agent(model, instructions=INSTRUCTIONS, tools=tools, capabilities=[capability(budget)])

            async def turn(prompt: str) -> None:
                limits = UsageLimits(request_limit=MOST)
                history[:] = (await agent.run(prompt, message_history=history, usage_limits=limits)).all_messages()

            return lambda prompt: runner.run(turn(prompt))

        return begin

    def beginning(kind: Any, **more: Any) -> Begin:
        return made(lambda budget: kind(max_tokens=int(SHARE * budget), **more))

    def read(call: ToolCallPart) -> str | None:
        return call.args_as_dict()["path"] if call.tool_name == "read_file" else None

    def tiered_compaction(budget: int) -> Any:
        tiers = [DeduplicateFileReads(file_key=read), ClearToolResults(max_tokens=1)]
        return TieredCompaction([*tiers, SummarizingCompaction(max_tokens=1)], target_tokens=int(SHARE * budget))

    name = "Pydantic AI"
    if core[1] != harness[1]:
        from wane.integrations.pydantic_ai import ContextLifecycle

        # A harness stores what it drops only beside the Pydantic AI that it was released with.
        yield Contender(name, "**Wane**", made(ContextLifecycle))
        return
    yield Contender(name, "`SlidingWindowCompaction`", beginning(SlidingWindowCompaction))
    yield Contender(name, "`ClearToolResults`", beginning(ClearToolResults))
    yield Contender(name, "`SummarizingCompaction`", beginning(SummarizingCompaction))
    yield Contender(
        name, "the same, `keep_user_messages=True`", beginning(SummarizingCompaction, keep_user_messages=True)
    )
    yield Contender(name, "`TieredCompaction`", made(tiered_compaction))


def _langchain() -> Iterator[Contender]:
    from langchain.agents import create_agent
    from langchain.agents.middleware import (
        ClearToolUsesEdit,
        ContextEditingMiddleware,
        SummarizationMiddleware,
        wrap_model_call,
    )
    from langchain_core.messages.utils import count_tokens_approximately, trim_messages
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    from wane.integrations.langchain import ContextLifecycle

    def made(middleware: Callable[[Any, int], list[Any]]) -> Begin:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            model = ChatOpenAI(model="gpt-x", base_url=f"{url}/v1", api_key="k", max_retries=0)
            agent: Any = create_agent(
                model,
                tools,
                system_prompt=INSTRUCTIONS,
                middleware=middleware(model, budget),
                checkpointer=InMemorySaver(),
            )
            config = {"configurable": {"thread_id": "1"}, "recursion_limit": MOST}
            return lambda prompt: agent.invoke({"messages": [("user", prompt)]}, config)

        return begin

    def trimmed(_model: Any, budget: int) -> list[Any]:
        @wrap_model_call
        def trim(request: Any, handler: Any) -> Any:
            messages = trim_messages(
                request.messages,
                max_tokens=int(SHARE * budget),
                token_counter=count_tokens_approximately,
                strategy="last",
                start_on="human",
            )
            return handler(request.override(messages=messages))

        return [trim]

    def summarised(**more: Any) -> Any:
        return lambda model, budget: [SummarizationMiddleware(model, trigger=("tokens", int(SHARE * budget)), **more)]

    def clear_tool_uses(**more: Any) -> Any:
        def clearing(_model: Any, budget: int) -> list[Any]:
            edit = ClearToolUsesEdit(trigger=int(SHARE * budget), **more)
            return [ContextEditingMiddleware(edits=[edit])]

        return clearing

    name = "LangChain"
    yield Contender(name, "nothing", made(lambda *_: []))
    yield Contender(name, "`SummarizationMiddleware`", made(summarised()))
    yield Contender(name, "the same, all given to the summariser", made(summarised(trim_tokens_to_summarize=None)))
    yield Contender(name, "`ContextEditingMiddleware`", made(clear_tool_uses()))
    yield Contender(name, "the same, 12 results kept", made(clear_tool_uses(keep=12)))
    yield Contender(name, "`trim_messages`", made(trimmed))
    yield Contender(name, "**Wane**", made(lambda _, budget: [ContextLifecycle(budget)]))
    yield Contender(name, "**Wane**, `recall=True`", made(lambda _, budget: [ContextLifecycle(budget, recall=True)]))


def _openai_agents() -> Iterator[Contender]:
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        RunConfig,
        Runner,
        SessionSettings,
        SQLiteSession,
        function_tool,
        set_tracing_disabled,
    )
    from agents.extensions import ToolOutputTrimmer
    from openai import AsyncOpenAI

    from wane.integrations.openai_agents import ContextLifecycle

    set_tracing_disabled(True)

    def made(config: Callable[[], RunConfig], equip: Callable[[Any, int], Any] = lambda agent, _: agent) -> Begin:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            runner, session = asyncio.Runner(), SQLiteSession("1")
            client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
            model = OpenAIChatCompletionsModel("gpt-x", openai_client=client)
            offered = [function_tool(tool, strict_mode=False) for tool in tools]
            agent = equip(Agent("agent", instructions=INSTRUCTIONS, tools=offered, model=model), budget)
            return lambda prompt: runner.run(
                Runner.run(agent, prompt, session=session, max_turns=MOST, run_config=config())
            )

        return begin

    def trimmed() -> RunConfig:
        return RunConfig(call_model_input_filter=ToolOutputTrimmer())

    def limit_session() -> RunConfig:
        return RunConfig(session_settings=SessionSettings(limit=40))

    name = "OpenAI Agents"
    yield Contender(name, "`ToolOutputTrimmer`", made(trimmed))
    yield Contender(name, "`SessionSettings(limit=40)`", made(limit_session))
    yield Contender(name, "**Wane**", made(RunConfig, lambda agent, budget: ContextLifecycle(budget).equip(agent)))


def _agent_framework() -> Iterator[Contender]:
    from agent_framework import (
        Agent,
        ContextWindowCompactionStrategy,
        SlidingWindowStrategy,
        SummarizationStrategy,
    )
    from agent_framework.openai import OpenAIChatCompletionClient

    from wane.integrations.agent_framework import ContextLifecycle

    def made(more: Callable[[Any, int], dict[str, Any]]) -> Begin:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            runner = asyncio.Runner()
            client = OpenAIChatCompletionClient(model="gpt-x", api_key="k", base_url=f"{url}/v1")
            client.function_invocation_configuration["max_iterations"] = MOST
            agent: Any = Agent(client, INSTRUCTIONS, name="agent", tools=tools, **more(client, budget))
            session = agent.create_session()

            async def turn(prompt: str) -> object:
                return await agent.run(prompt, session=session)

            return lambda prompt: runner.run(turn(prompt))

        return begin

    def window_compaction(_client: Any, budget: int) -> dict[str, Any]:
        strategy = ContextWindowCompactionStrategy(max_context_window_tokens=budget, max_output_tokens=0)
        return {"compaction_strategy": strategy}

    def summarised(client: Any, _budget: int) -> dict[str, Any]:
        return {"compaction_strategy": SummarizationStrategy(client=client, target_count=20, threshold=20)}

    def sliding(_client: Any, _budget: int) -> dict[str, Any]:
        return {"compaction_strategy": SlidingWindowStrategy(keep_last_groups=20)}

    name = "Agent Framework"
    yield Contender(name, "`ContextWindowCompactionStrategy`", made(window_compaction))
    yield Contender(name, "`SummarizationStrategy`", made(summarised))
    yield Contender(name, "`SlidingWindowStrategy`", made(sliding))
    yield Contender(name, "**Wane**", made(lambda _, budget: {"context_providers": [ContextLifecycle(budget)]}))


def _strands() -> Iterator[Contender]:
    from strands import Agent, tool
    from strands.agent.conversation_manager import (
        SlidingWindowConversationManager,
        SummarizingConversationManager,
    )
    from strands.models.openai import OpenAIModel

    from wane.integrations.strands import ContextLifecycle

    def made(more: Callable[[int], dict[str, Any]]) -> Begin:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            model = OpenAIModel(
                client_args={"base_url": f"{url}/v1", "api_key": "k", "max_retries": 0},
                model_id="gpt-x",
                context_window_limit=budget,
            )
            return Agent(
                model=model,
                tools=[tool(offered) for offered in tools],
                system_prompt=INSTRUCTIONS,
                callback_handler=None,
                **more(budget),
            )

        return begin

    def sliding(_budget: int) -> dict[str, Any]:
        return {"conversation_manager": SlidingWindowConversationManager(per_turn=True)}

    def summarising(_budget: int) -> dict[str, Any]:
        return {"conversation_manager": SummarizingConversationManager(proactive_compression=True)}

    yield Contender("Strands", "`SlidingWindowConversationManager`", made(sliding))
    yield Contender("Strands", "`SummarizingConversationManager`", made(summarising))
    yield Contender("Strands", "**Wane**", made(lambda budget: {"plugins": [ContextLifecycle(budget)]}))


FRAMEWORKS: dict[str, Callable[[], Iterator[Contender]]] = {
    "pydantic_ai_harness": _pydantic_ai,
    "langchain": _langchain,
    "agents": _openai_agents,
    "agent_framework": _agent_framework,
    "strands": _strands,
    "google.adk": google_adk,
    "inspect_ai": inspect_ai,
    "openhands.sdk": openhands,
}
