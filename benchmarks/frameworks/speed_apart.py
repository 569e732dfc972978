"""Runs of `benchmarks/frameworks/speed.py`: agents of frameworks that have an environment of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from tempfile import TemporaryDirectory
from typing import Any

from timed import ASKED, CALLS, Clock, Run, look, pairs


def google_adk() -> Run:
    """An agent of Google's Agent Development Kit, its session in memory."""
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig
    from google.adk.apps import App
    from google.adk.events import Event
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.genai import types

    from wane.integrations.google_adk import ContextLifecycle

    class Scripted(BaseLlm):
        clock: Any

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[LlmResponse]:  # noqa: ARG002
            number = self.clock.ticks()
            part = types.Part(text="Done.")
            if number is not None:
                part = types.Part(function_call=types.FunctionCall(name="look", args={"at": number}))
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    def make_event(author: str, role: str, part: types.Part, n: int) -> Event:
        return Event(author=author, invocation_id=f"i{n}", content=types.Content(role=role, parts=[part]))

    async def live(budget: int | None, clock: Clock) -> None:
        service = InMemorySessionService()
        session = await service.create_session(app_name="app", user_id="u", session_id="s")
        await service.append_event(session, make_event("user", "user", types.Part(text=ASKED), 0))
        for n in pairs():
            call = types.FunctionCall(name="look", args={"at": n}, id=f"c{n}")
            result = types.FunctionResponse(name="look", response={"result": look(n)}, id=f"c{n}")
            await service.append_event(session, make_event("agent", "model", types.Part(function_call=call), n))
            await service.append_event(session, make_event("agent", "user", types.Part(function_response=result), n))
        agent = LlmAgent(name="agent", model=Scripted(model="x", clock=clock), tools=[look])
        plugins: list[Any] = [] if budget is None else [ContextLifecycle(budget, remind_at=None)]
        runner = Runner(app=App(name="app", root_agent=agent, plugins=plugins), session_service=service)
        message = types.Content(role="user", parts=[types.Part(text=ASKED)])
        async for _ in runner.run_async(
            user_id="u", session_id="s", new_message=message, run_config=RunConfig(max_llm_calls=2 * CALLS)
        ):
            pass

    return lambda budget, clock: asyncio.run(live(budget, clock))


def mini_swe_agent() -> Run:
    """mini-swe-agent, with an environment that runs nothing."""
    import litellm
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.exceptions import Submitted
    from minisweagent.models.litellm_model import LitellmModel

    from wane.integrations.mini_swe_agent import ContextLifecycle

    class Answers:
        clock: Clock

        def _query(self, *_: Any, **__: Any) -> Any:
            number = self.clock.ticks()
            calls = [bash(-1 if number is None else number, "n")]
            return litellm.ModelResponse(choices=[{"message": {"role": "assistant", "tool_calls": calls}}])

    class Alone(Answers, LitellmModel):
        pass

    class Managed(Answers, ContextLifecycle):
        pass

    class Nowhere:
        config = None

        def execute(self, action: Any, *_: Any, **__: Any) -> dict[str, Any]:
            number = int(action["command"].split()[1])
            if number < 0:
                raise Submitted({"role": "exit", "content": "Done.", "extra": {}})
            return {"output": look(number), "returncode": 0, "exception_info": ""}

        def get_template_vars(self, **_: Any) -> dict[str, Any]:
            return {}

        def serialize(self) -> dict[str, Any]:
            return {}

    class GoingOn(DefaultAgent):
        def add_messages(self, *messages: Any) -> list[Any]:
            if not self.messages:
                for n in pairs():
                    call = {"role": "assistant", "content": None, "tool_calls": [bash(n, "c")]}
                    messages += (call, {"role": "tool", "tool_call_id": f"c{n}", "content": look(n)})
                messages += ({"role": "user", "content": ASKED},)
            added: list[Any] = super().add_messages(*messages)
            return added

    def bash(number: int, kind: str) -> dict[str, Any]:
        function = {"name": "bash", "arguments": json.dumps({"command": f"look {number}"})}
        return {"id": f"{kind}{number}", "type": "function", "function": function}

    def run(budget: int | None, clock: Clock) -> None:
        settings: dict[str, Any] = {"model_name": "openai/x", "cost_tracking": "ignore_errors"}
        settings["observation_template"] = "{{output.output}}"
        model: Any = Alone(**settings) if budget is None else Managed(**settings, budget=budget, remind_at=None)
        model.clock = clock
        given = {"system_template": "Be good.", "instance_template": "{{task}}", "step_limit": 0, "cost_limit": 0}
        GoingOn(model, Nowhere(), **given).run(ASKED)

    return run


def inspect_ai() -> Run:
    """A sample of Inspect AI, its log in a file."""
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.agent import react
    from inspect_ai.dataset import Sample
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageTool,
        ChatMessageUser,
        ModelAPI,
        ModelOutput,
        get_model,
        modelapi,
    )
    from inspect_ai.tool import ToolCall, ToolDef

    from wane.integrations.inspect_ai import ContextLifecycle

    class Scripted(ModelAPI):
        def __init__(self, model_name: str, clock: Clock, **_: Any) -> None:
            super().__init__(model_name)
            self.clock = clock

        async def generate(self, *_: Any, **__: Any) -> ModelOutput:
            number = self.clock.ticks()
            if number is None:
                return ModelOutput.from_content("x", "Done.")
            return ModelOutput.for_tool_call("x", "look", {"at": number}, tool_call_id=f"n{number}")

    modelapi("timed")(Scripted)

    async def looking(at: int) -> str:
        return look(at)

    def run(budget: int | None, clock: Clock) -> None:
        history: list[Any] = [ChatMessageUser(content=ASKED)]
        for n in pairs():
            call = ToolCall(id=f"c{n}", function="look", arguments={"at": n})
            history += [
                ChatMessageAssistant(content="I look.", tool_calls=[call]),
                ChatMessageTool(content=look(n), function="look", tool_call_id=f"c{n}"),
            ]
        tool = ToolDef(looking, name="look", description="Look at something.", parameters={"at": "What."}).as_tool()
        lifecycle = None if budget is None else ContextLifecycle(budget, remind_at=None)
        managed: dict[str, Any] = {} if lifecycle is None else {"model": lifecycle.model()}
        agent = react(prompt=None, tools=[tool, *filter(None, [lifecycle])], submit=False, **managed)
        task = Task(dataset=[Sample(input=[*history, ChatMessageUser(content=ASKED)])], solver=agent)
        with TemporaryDirectory() as folder:
            (log,) = evaluate(
                task, model=get_model("timed/x", clock=clock, memoize=False), display="none", log_dir=folder
            )
        assert log.status == "success", log.error

    return run


def openhands() -> Run:
    """An agent of the OpenHands SDK, its conversation in memory."""
    from openhands.sdk import Action, Agent, Conversation, Message, Observation, Tool, ToolDefinition, register_tool
    from openhands.sdk.event import ActionEvent, ObservationEvent
    from openhands.sdk.llm import MessageToolCall, TextContent
    from openhands.sdk.testing import TestLLM
    from openhands.sdk.tool import ToolExecutor

    from wane.integrations.openhands import ContextLifecycle

    class LookAction(Action):
        __qualname__ = "LookAction"  # the SDK refuses local classes
        at: int

    class LookObservation(Observation):
        __qualname__ = "LookObservation"

    class Look(ToolExecutor[Any, LookObservation]):
        def __call__(self, action: Any, *_: Any) -> Any:
            return LookObservation.from_text(look(action.at))

    class LookTool(ToolDefinition[LookAction, LookObservation]):
        __qualname__ = "LookTool"
        name = "look"

        @classmethod
        def create(cls, *_: Any, **__: Any) -> Any:
            given: dict[str, Any] = {"action_type": LookAction, "observation_type": LookObservation}
            return [cls(description="Look at something.", executor=Look(), **given)]

    class Scripted(TestLLM):
        def completion(self, *args: Any, **settings: Any) -> Any:
            number = clocks[-1].ticks()
            calls = [] if number is None else [make_call(number, "n")]
            said = Message(role="assistant", content=[TextContent(text="I look.")], tool_calls=calls or None)
            self._scripted_responses.append(said)
            return super().completion(*args, **settings)

    clocks: list[Clock] = []
    register_tool("look", LookTool)

    def make_call(number: int, kind: str) -> MessageToolCall:
        arguments = json.dumps({"at": number})
        return MessageToolCall(id=f"{kind}{number}", name="look", arguments=arguments, origin="completion")

    def run(budget: int | None, clock: Clock) -> None:
        clocks.append(clock)
        agent = Agent(
            llm=Scripted(model="x"), tools=[Tool(name="look")], include_default_tools=[], system_prompt="Be good."
        )
        if budget is not None:
            agent = ContextLifecycle(budget=budget, remind_at=None).equip(agent)
        with TemporaryDirectory() as folder:
            conversation: Any = Conversation(agent=agent, workspace=folder, visualizer=None)
            conversation.send_message(ASKED)
            for n in pairs():
                told = {"tool_name": "look", "tool_call_id": f"c{n}"}
                action = ActionEvent(
                    thought=[], action=LookAction(at=n), tool_call=make_call(n, "c"), llm_response_id=f"r{n}", **told
                )
                seen = ObservationEvent(observation=LookObservation.from_text(look(n)), action_id=action.id, **told)
                conversation.state.append_event(action)
                conversation.state.append_event(seen)
            conversation.send_message(ASKED)
            conversation.run()

    return run


def litellm() -> Run:
    """A loop over LiteLLM's asynchronous calls."""
    import litellm

    from wane.integrations.litellm import ContextLifecycle

    class Scripted(litellm.CustomLLM):
        async def acompletion(self, *_: Any, **__: Any) -> Any:
            number = clocks[-1].ticks()
            return litellm.ModelResponse(choices=[{"message": answer(number, "n")}])

    clocks: list[Clock] = []
    litellm.custom_provider_map = [{"provider": "timed", "custom_handler": Scripted()}]
    parameters = {"type": "object", "properties": {"at": {"type": "integer"}}}
    tools = [{"type": "function", "function": {"name": "look", "parameters": parameters}}]

    def answer(number: int | None, kind: str) -> dict[str, Any]:
        function = {"name": "look", "arguments": json.dumps({"at": number})}
        calls = [{"id": f"{kind}{number}", "type": "function", "function": function}]
        return {"role": "assistant", "content": "I look."} | ({} if number is None else {"tool_calls": calls})

    async def live(messages: list[Any]) -> None:
        while True:
            response = await litellm.acompletion(model="timed/x", messages=messages, tools=tools)
            message = response.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return
            for call in message.tool_calls:
                text = look(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    def run(budget: int | None, clock: Clock) -> None:
        clocks.append(clock)
        litellm.callbacks = [] if budget is None else [ContextLifecycle(budget)]
        history: list[Any] = [{"role": "user", "content": ASKED}]
        for n in pairs():
            history += [answer(n, "c"), {"role": "tool", "tool_call_id": f"c{n}", "content": look(n)}]
        asyncio.run(live([*history, {"role": "user", "content": ASKED}]))

    return run
