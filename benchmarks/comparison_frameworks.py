"""The frameworks that `comparison.py` compares, each with its own context management and with Wane's.

Settings are the framework's defaults wherever there are any; what a default does not say follows from the budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeAlias

INSTRUCTIONS = "Do what the user asks for."
SHARE = 0.8
"""Share of the budget at which what has a threshold begins its work."""

Tools: TypeAlias = list[Callable[..., str]]
Turn: TypeAlias = Callable[[str], object]


@dataclass(frozen=True)
class Contender:
    """A way to keep a framework's context.

    Attributes:
        framework: the framework.
        way: what keeps its context.
        begin: given the provider's URL, tools and budget, returns what does a turn.
    """

    framework: str
    way: str
    begin: Callable[[str, Tools, int], Turn]


def contenders() -> Iterator[Contender]:
    """Yield those whose frameworks are installed."""
    for module, found in FRAMEWORKS.items():
        try:
            there = find_spec(module) is not None
        except ModuleNotFoundError:
            there = False
        if there:
            yield from found()


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

    def made(middleware: Callable[[Any, int], list[Any]]) -> Callable[[str, Tools, int], Turn]:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            model = ChatOpenAI(model="gpt-x", base_url=f"{url}/v1", api_key="k", max_retries=0)
            agent: Any = create_agent(
                model,
                tools,
                system_prompt=INSTRUCTIONS,
                middleware=middleware(model, budget),
                checkpointer=InMemorySaver(),
            )
            config = {"configurable": {"thread_id": "1"}, "recursion_limit": 1_000}
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

    def cleared(**more: Any) -> Any:
        return lambda _, budget: [
            ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=int(SHARE * budget), **more)])
        ]

    yield Contender("LangChain", "nothing", made(lambda *_: []))
    yield Contender("LangChain", "`SummarizationMiddleware`", made(summarised()))
    yield Contender(
        "LangChain", "the same, all given to the summariser", made(summarised(trim_tokens_to_summarize=None))
    )
    yield Contender("LangChain", "`ContextEditingMiddleware`", made(cleared()))
    yield Contender("LangChain", "the same, 12 results kept", made(cleared(keep=12)))
    yield Contender("LangChain", "`trim_messages`", made(trimmed))
    yield Contender("LangChain", "**Wane**", made(lambda _, budget: [ContextLifecycle(budget)]))
    yield Contender(
        "LangChain", "**Wane**, `recall=True`", made(lambda _, budget: [ContextLifecycle(budget, recall=True)])
    )


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

    def made(
        config: Callable[[], RunConfig], equip: Callable[[Any, int], Any] = lambda agent, _: agent
    ) -> Callable[[str, Tools, int], Turn]:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            runner, session = asyncio.Runner(), SQLiteSession("1")
            client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
            model = OpenAIChatCompletionsModel("gpt-x", openai_client=client)
            offered = [function_tool(tool, strict_mode=False) for tool in tools]
            agent = equip(Agent("agent", instructions=INSTRUCTIONS, tools=offered, model=model), budget)
            return lambda prompt: runner.run(
                Runner.run(agent, prompt, session=session, max_turns=1_000, run_config=config())
            )

        return begin

    yield Contender(
        "OpenAI Agents",
        "`ToolOutputTrimmer`",
        made(lambda: RunConfig(call_model_input_filter=ToolOutputTrimmer())),
    )
    yield Contender(
        "OpenAI Agents",
        "`SessionSettings(limit=40)`",
        made(lambda: RunConfig(session_settings=SessionSettings(limit=40))),
    )
    yield Contender(
        "OpenAI Agents", "**Wane**", made(RunConfig, lambda agent, budget: ContextLifecycle(budget).equip(agent))
    )


def _agent_framework() -> Iterator[Contender]:
    from agent_framework import (
        Agent,
        ContextWindowCompactionStrategy,
        SlidingWindowStrategy,
        SummarizationStrategy,
    )
    from agent_framework.openai import OpenAIChatCompletionClient

    from wane.integrations.agent_framework import ContextLifecycle

    def made(more: Callable[[Any, int], dict[str, Any]]) -> Callable[[str, Tools, int], Turn]:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            runner = asyncio.Runner()
            client = OpenAIChatCompletionClient(model="gpt-x", api_key="k", base_url=f"{url}/v1")
            client.function_invocation_configuration["max_iterations"] = 1_000
            agent: Any = Agent(client, INSTRUCTIONS, name="agent", tools=tools, **more(client, budget))
            session = agent.create_session()

            async def turn(prompt: str) -> object:
                return await agent.run(prompt, session=session)

            return lambda prompt: runner.run(turn(prompt))

        return begin

    def windowed(_client: Any, budget: int) -> dict[str, Any]:
        return {
            "compaction_strategy": ContextWindowCompactionStrategy(
                max_context_window_tokens=budget, max_output_tokens=0
            )
        }

    def summarised(client: Any, _budget: int) -> dict[str, Any]:
        return {"compaction_strategy": SummarizationStrategy(client=client, target_count=20, threshold=20)}

    name = "Agent Framework"
    yield Contender(name, "`ContextWindowCompactionStrategy`", made(windowed))
    yield Contender(name, "`SummarizationStrategy`", made(summarised))
    yield Contender(
        name,
        "`SlidingWindowStrategy`",
        made(lambda *_: {"compaction_strategy": SlidingWindowStrategy(keep_last_groups=20)}),
    )
    yield Contender(name, "**Wane**", made(lambda _, budget: {"context_providers": [ContextLifecycle(budget)]}))


def _strands() -> Iterator[Contender]:
    from strands import Agent, tool
    from strands.agent.conversation_manager import (
        SlidingWindowConversationManager,
        SummarizingConversationManager,
    )
    from strands.models.openai import OpenAIModel

    from wane.integrations.strands import ContextLifecycle

    def made(more: Callable[[int], dict[str, Any]]) -> Callable[[str, Tools, int], Turn]:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            model = OpenAIModel(
                client_args={"base_url": f"{url}/v1", "api_key": "k", "max_retries": 0},
                model_id="gpt-x",
                context_window_limit=budget,
            )
            return Agent(
                model=model,
                tools=[tool(each) for each in tools],
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


def _google_adk() -> Iterator[Contender]:
    from anthropic import AsyncAnthropic
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig
    from google.adk.apps import App
    from google.adk.apps.app import EventsCompactionConfig
    from google.adk.models.anthropic_llm import AnthropicLlm
    from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.genai import types

    from wane.integrations.google_adk import ContextLifecycle

    logging.getLogger("google_adk").setLevel(logging.CRITICAL)

    class Claude(AnthropicLlm):
        """Takes a conversation that begins with a summary, which the kit writes as the model's: Anthropic does not."""

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
            if llm_request.contents and llm_request.contents[0].role == "model":
                llm_request.contents.insert(0, types.Content(role="user", parts=[types.Part(text="Earlier:")]))
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    def made(more: Callable[[int], dict[str, Any]]) -> Callable[[str, Tools, int], Turn]:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            loop = asyncio.Runner()
            model = Claude(model="claude-x", client=AsyncAnthropic(api_key="k", base_url=url, max_retries=0))
            agent = LlmAgent(name="agent", model=model, instruction=INSTRUCTIONS, tools=list(tools))
            app = App(name="app", root_agent=agent, **more(budget))
            runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)

            async def turn(prompt: str) -> None:
                message = types.Content(role="user", parts=[types.Part(text=prompt)])
                async for _ in runner.run_async(
                    user_id="u", session_id="s", new_message=message, run_config=RunConfig(max_llm_calls=1_000)
                ):
                    pass

            return lambda prompt: loop.run(turn(prompt))

        return begin

    def compacted(budget: int) -> dict[str, Any]:
        threshold = int(SHARE * budget)
        return {"events_compaction_config": EventsCompactionConfig(token_threshold=threshold, event_retention_size=20)}

    yield Contender(
        "Google ADK",
        "`ContextFilterPlugin(2)`",
        made(lambda _: {"plugins": [ContextFilterPlugin(num_invocations_to_keep=2)]}),
    )
    yield Contender("Google ADK", "`EventsCompactionConfig`", made(compacted))
    yield Contender("Google ADK", "**Wane**", made(lambda budget: {"plugins": [ContextLifecycle(budget)]}))


FRAMEWORKS: dict[str, Callable[[], Iterator[Contender]]] = {
    "langchain": _langchain,
    "agents": _openai_agents,
    "agent_framework": _agent_framework,
    "strands": _strands,
    "google.adk": _google_adk,
}
