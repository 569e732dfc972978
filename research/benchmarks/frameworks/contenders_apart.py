"""The frameworks of `comparison.py` that run in an environment of their own."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from functools import wraps
from inspect import signature
from tempfile import TemporaryDirectory
from typing import Any, get_type_hints
from uuid import UUID

from contender import INSTRUCTIONS, MOST, SHARE, Begin, Contender, Ended, Tools, Turn


def google_adk() -> Iterator[Contender]:
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

    def made(more: Callable[[int], dict[str, Any]]) -> Begin:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            loop = asyncio.Runner()
            model = Claude(model="claude-x", client=AsyncAnthropic(api_key="k", base_url=url, max_retries=0))
            agent = LlmAgent(name="agent", model=model, instruction=INSTRUCTIONS, tools=list(tools))
            app = App(name="app", root_agent=agent, **more(budget))
            runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)

            async def turn(prompt: str) -> None:
                message = types.Content(role="user", parts=[types.Part(text=prompt)])
                async for _ in runner.run_async(
                    user_id="u", session_id="s", new_message=message, run_config=RunConfig(max_llm_calls=MOST)
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


def inspect_ai() -> Iterator[Contender]:
    """Yield the ways of Inspect AI: a sample whose user continues when the agent has answered."""
    os.environ["INSPECT_DISPLAY"] = "none"
    from inspect_ai import Task, eval_async
    from inspect_ai.agent import react
    from inspect_ai.dataset import Sample
    from inspect_ai.model import (
        ChatMessageSystem,
        ChatMessageUser,
        CompactionEdit,
        CompactionSummary,
        CompactionTrim,
        get_model,
    )
    from inspect_ai.tool import ToolDef
    from inspect_ai.util import display_type

    from wane.integrations.inspect_ai import ContextLifecycle
    from wane.testing.sent_request import count_chars

    display_type()  # reads the variable

    def offer_tool(tool: Callable[..., str]) -> ToolDef:
        @wraps(tool)
        async def execute(**given: Any) -> str:
            return tool(**given)

        about = {name: name for name in signature(tool).parameters}
        return ToolDef(execute, tool.__name__, tool.__doc__, about)

    runners = list[asyncio.Runner]()

    async def count_text(text: str) -> int:
        """Count as the scripted provider does. Inspect would fetch a tokenizer, whose counts differ."""
        return count_chars(text)

    def made(more: Callable[[int], dict[str, Any]]) -> Begin:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            model = get_model("openai/gpt-x", base_url=f"{url}/v1", api_key="k", memoize=False, responses_api=False)
            model.api.count_text_tokens = count_text
            prompts, answered, folder = asyncio.Queue[str](), asyncio.Event(), TemporaryDirectory()
            running = list[asyncio.Task[Any]]()

            async def go_on(state: Any) -> bool | str:
                if state.output.message.tool_calls:
                    return True
                answered.set()
                return await prompts.get()

            given = more(budget)
            theirs = [*map(offer_tool, tools), *given.pop("tools", [])]
            agent = react(prompt=None, tools=theirs, submit=False, on_continue=go_on, **given)

            async def turn(prompt: str) -> None:
                answered.clear()
                if running:
                    prompts.put_nowait(prompt)
                else:
                    said = [ChatMessageSystem(content=INSTRUCTIONS), ChatMessageUser(content=prompt)]
                    task = Task([Sample(said)], solver=agent)
                    evaluated = eval_async(task, model, log_dir=folder.name, log_realtime=False, max_retries=0)
                    running.append(asyncio.create_task(evaluated))
                await asyncio.wait(
                    [*running, asyncio.create_task(answered.wait())], return_when=asyncio.FIRST_COMPLETED
                )
                if running[0].done():
                    raise Ended(running[0].result()[0].error.message)

            runners.append(asyncio.Runner())
            return lambda prompt: runners[0].run(turn(prompt))

        return begin

    def compacted(kind: Any) -> Begin:
        return made(lambda budget: {"compaction": kind(threshold=int(SHARE * budget))})

    def managed_options(budget: int) -> dict[str, Any]:
        lifecycle = ContextLifecycle(budget)
        return {"model": lifecycle.model(), "tools": [lifecycle]}

    ways = {f"`{it.__name__}`": compacted(it) for it in (CompactionSummary, CompactionEdit, CompactionTrim)}
    for way, begin in {**ways, "**Wane**": made(managed_options)}.items():
        yield Contender("Inspect AI", way, begin)
        while runners:
            runners.pop().close()  # ends the sample, in which the agent waits for more


def openhands() -> Iterator[Contender]:
    os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENHANDS_SUPPRESS_BANNER": "1"}
    from openhands.sdk import LLM, Action, Agent, Conversation, Observation, Tool, ToolDefinition, register_tool
    from openhands.sdk.context.condenser import LLMSummarizingCondenser, default_condenser
    from openhands.sdk.tool import ToolExecutor
    from pydantic import create_model

    from wane.integrations.openhands import ContextLifecycle

    logging.getLogger("openhands").setLevel(logging.CRITICAL)

    class Answer(Observation):
        __qualname__ = "Answer"  # the SDK refuses local classes

    class Running(ToolExecutor[Any, Any]):
        def __init__(self, tool: Callable[..., str]) -> None:
            self.tool = tool

        def __call__(self, action: Any, *_: Any) -> Any:
            return Answer.from_text(self.tool(**action.model_dump(exclude={"kind"})))

    class Offered(ToolDefinition[Any, Any]):
        @classmethod
        def create(cls, *_: Any, **__: Any) -> Any:
            raise NotImplementedError  # an instance is registered

    kinds: dict[str, tuple[Any, Any]] = {}

    def define_tool(tool: Callable[..., str]) -> Tool:
        """Register a tool; its classes are made once, as the SDK finds them by name."""
        name = tool.__name__
        if name not in kinds:
            types = get_type_hints(tool)
            fields: Any = {}
            for parameter in signature(tool).parameters.values():
                default = ... if parameter.default is parameter.empty else parameter.default
                fields[parameter.name] = (types[parameter.name], default)
            action = create_model(f"{name}_action", __base__=Action, __module__=__name__, **fields)
            kinds[name] = action, type(f"{name}_tool", (Offered,), {"__qualname__": f"{name}_tool", "name": name})
        action, kind = kinds[name]
        given = {"action_type": action, "observation_type": Answer, "executor": Running(tool)}
        register_tool(name, kind(description=tool.__doc__, **given))
        return Tool(name=name)

    def made(keep: Callable[[Any, int], Any]) -> Begin:
        def begin(url: str, tools: Tools, budget: int) -> Turn:
            folder = TemporaryDirectory()
            llm = LLM(model="openai/gpt-x", base_url=f"{url}/v1", api_key="k", num_retries=0, usage_id="agent")
            agent = Agent(
                llm=llm, tools=[*map(define_tool, tools)], include_default_tools=[], system_prompt=INSTRUCTIONS
            )
            # The id is in each request, from which the provider makes ids that the condenser counts.
            same: dict[str, Any] = {"conversation_id": UUID(int=0), "workspace": folder.name}
            conversation: Any = Conversation(keep(agent, budget), max_iteration_per_run=MOST, visualizer=None, **same)

            def turn(prompt: str) -> None:
                assert folder
                conversation.send_message(prompt)
                conversation.run()

            return turn

        return begin

    def with_condenser(condenser: Callable[[Any, int], Any]) -> Begin:
        return made(lambda agent, budget: agent.model_copy(update={"condenser": condenser(agent.llm, budget)}))

    def summarising_condenser(llm: Any, budget: int) -> Any:
        return LLMSummarizingCondenser(llm=llm, max_tokens=int(SHARE * budget))

    yield Contender("OpenHands", "`default_condenser`", with_condenser(lambda llm, _: default_condenser(llm)))
    yield Contender("OpenHands", "`LLMSummarizingCondenser`", with_condenser(summarising_condenser))
    yield Contender("OpenHands", "**Wane**", made(lambda agent, budget: ContextLifecycle(budget=budget).equip(agent)))
