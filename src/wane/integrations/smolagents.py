"""Context Window Lifecycle for smolagents. Needs the `smolagents` extra.

    agent = ContextLifecycle(budget="80k").attach(ToolCallingAgent(tools=tools, model=model))

The agent's memory stays complete; each model call gets a view of it. A step of the memory holds an answer with what
came of it; here these are two messages. A view is made of steps that lack some of their parts, and the framework itself
writes them as messages, so that a step of which nothing has left goes out as it does without Wane.

| step | item of Wane |
|---|---|
| `TaskStep` | user |
| `ActionStep`: `model_output` | text |
| its `tool_calls` | calls |
| its `observations`, `observations_images`, `error` | results, or a notice if it has no calls of the agent's tools |
| `PlanningStep` | text |

An agent with tools puts the observations of all calls of an answer into one text, in the order of the calls' ids. Here
they come in the order of the calls, and the step notes where each begins, so that each can leave by itself.

A `CodeAgent` calls its tools in the Python that it writes, where no mark has a place in the history. Its episodes are
inferred. If its code asks a person, the step notes the answer, and its output counts as the person's (R21).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Unpack

from wane.conversation import Adapter, Call, Conversation
from wane.conversation.request import Tool as OwnTool
from wane.core import DEFAULT_BUDGET, OWN_TOOLS, Kind, ToolClass
from wane.core.errors import ConfigError, FormatError, HistoryError, MissingExtraError
from wane.core.items import DEFAULT_TOOL_CLASSES, read_tool_classes
from wane.formats.coupling import UNTIED, Tie, couple
from wane.formats.fields import shown_text
from wane.formats.message_format import Located, NativeFormat, Part, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.integrations.lifecycle import UNMANAGED_CALL, HostMarks, LifecycleSettings, Warner, maker

try:
    from smolagents.agents import ActionStep, CodeAgent, MultiStepAgent, PlanningStep, TaskStep, ToolOutput
    from smolagents.memory import MemoryStep, ToolCall
    from smolagents.models import ChatMessage, MessageRole, get_tool_json_schema
    from smolagents.tools import Tool
    from smolagents.utils import AgentError, AgentMaxStepsError
except ImportError as error:
    raise MissingExtraError("wane.integrations.smolagents", "smolagents") from error

__all__ = ["ContextLifecycle"]

_COMPETES: Final = "Wane keeps the agent's requests small, and its memory whole: leave out callbacks that shorten steps"
_RESULTS: Final = "results_by_call"
"""Attribute of a step: the result of each of its calls, of which its `observations` are made."""
_ANSWERS: Final = "persons_answers"
"""Attribute of a step: what a person told its code, or that of an earlier step, and its `observations` show."""


class ContextLifecycle(HostMarks):
    """Keeps an agent's requests within a token budget, evicting by episode. Its memory stays whole.

    An agent that calls tools gets the tool `delimiter`, and guidance in its system prompt. One object serves any number
    of agents, each with a window of its own.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        settings: the other settings, by name (`wane.integrations.lifecycle.LifecycleSettings`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    def __init__(self, budget: int | str = DEFAULT_BUDGET, **settings: Unpack[LifecycleSettings]) -> None:
        self._make = maker(SmolagentsFormat(), _Adapter(), budget, self, **settings)
        sample = self._make()
        self.marks = sample.settings.annotate == "host"
        inferring: LifecycleSettings = {**settings}
        if sample.settings.annotate == "model":
            inferring["annotate"] = "infer"
        self._make_for_code = maker(SmolagentsFormat(), _Adapter(), budget, self, **inferring)
        self._warner = Warner(_COMPETES)
        classes = {**DEFAULT_TOOL_CLASSES, **read_tool_classes(settings.get("tool_classes"))}
        self._asking = frozenset(name for name, tool_class in classes.items() if tool_class is ToolClass.PERSON)

    def attach(self, agent: MultiStepAgent) -> MultiStepAgent:
        """Give an agent its window and its tools, and return the agent. Agents that it manages get it one by one.

        Raises:
            ConfigError: for an agent whose code runs elsewhere, with `recall`: the tool would not find the history.
        """
        code = isinstance(agent, CodeAgent)
        window = _Window(self._make_for_code if code else self._make, self._warner, self._asking)
        own_tools = window.conversation.own_tools
        if code and own_tools and agent.executor_type != "local":
            raise ConfigError(f"recall works only where the agent is, and its code runs in {agent.executor_type!r}")
        for tool in own_tools:
            agent.tools[tool.name] = _SmolTool(tool, window)
        agent.window = window
        base: type = type(agent)
        agent.__class__ = _managed_class(base)
        return agent


@dataclass(frozen=True, slots=True)
class _TakenStep:
    """A step of the memory, with its content and its messages when it was taken in."""

    step: MemoryStep
    content: list[Any]
    messages: list[MemoryStep]


class _Window:
    """The conversation of an agent's memory.

    Attributes:
        conversation: the conversation.
        managed: whether it has taken in the memory as it is.
        reminds: whether a request may have a reminder.
    """

    def __init__(self, make: Any, warner: Warner, asking: frozenset[str]) -> None:
        self._make = make
        self._warner = warner
        self._asking = asking
        self._unseen: list[str] = []  # answers of a person that no output of the agent's code has shown
        self._taken: list[_TakenStep] = []
        self.conversation: Conversation[MemoryStep] = make()
        self.managed = False
        self.reminds = True

    def messages(self, agent: MultiStepAgent, *, summary: bool) -> list[ChatMessage] | None:
        """Return the messages of a view of an agent's memory; None if it has to be sent as it is.

        Args:
            agent: the agent.
            summary: whether the model is asked for a plan, and reads neither the system prompt nor its own texts.
        """
        prompt, steps = agent.memory.system_prompt, agent.memory.steps
        if self._taken and (not steps or steps[0] is not self._taken[0].step):
            self.conversation, self._taken = self._make(), []
        conversation = self.conversation
        tools = [] if isinstance(agent, CodeAgent) else agent.tools_and_managed_agents
        conversation.overhead = json.dumps(
            [prompt.system_prompt, conversation.instructions, [*map(get_tool_json_schema, tools)]], default=str
        )
        try:
            self._warner.warn_replaced(conversation.host.ingest(self._history(steps)))
        except (FormatError, HistoryError) as error:
            self._warner.warn_unmanaged(error)
            self.managed = False
            return None
        self.managed = True
        request = conversation.request()
        text = "\n\n".join(filter(None, (prompt.system_prompt, conversation.instructions)))
        sent: list[ChatMessage] = replace(prompt, system_prompt=text).to_messages(summary_mode=summary)
        for step in request.messages if self.reminds and not summary else request.view:
            sent += step.to_messages(summary_mode=summary)
        return sent

    def _history(self, steps: Sequence[MemoryStep]) -> list[MemoryStep]:
        """Return the messages of steps; those of a step that a callback has changed are new."""
        taken: list[_TakenStep] = []
        for number, step in enumerate(steps):
            known = self._taken[number] if number < len(self._taken) else None
            if known is None or known.step is not step or known.content != _content(step):
                known = _TakenStep(step, _content(step), messages_of(step))
            taken.append(known)
        self._taken = taken
        return [message for known in taken for message in known.messages]

    def answers(self, calls: Sequence[Any]) -> dict[str, str]:
        """Judge all marks of an answer in order, and return the results of its own calls by id."""
        if not self.managed:
            return {}
        made: list[Call[MemoryStep]] = [Call(call.function.name, call.function.arguments, call.id) for call in calls]
        self.conversation.host.foresee(made)
        own = [call for call in made if call.name in OWN_TOOLS]
        return {str(call.id): self.conversation.host.answer(call) for call in own}

    def listen(self, agent: MultiStepAgent) -> None:
        """Have the tools that ask a person note the answers, where an agent's code calls them as functions."""
        tools = getattr(getattr(agent, "python_executor", None), "static_tools", None) or {}
        for name in self._asking.intersection(tools):
            if not isinstance(tools[name], _AskingTool):
                tools[name] = _AskingTool(tools[name], self._unseen)

    def note_answers(self, step: ActionStep) -> None:
        """Note in a step what a person has answered, and its output shows."""
        if answers := [answer for answer in self._unseen if answer in (step.observations or "")]:
            setattr(step, _ANSWERS, answers)
            self._unseen[:] = [answer for answer in self._unseen if answer not in answers]


@dataclass(frozen=True, slots=True)
class _AskingTool:
    """A tool that asks a person, as an agent's code calls it, and the list of the answers."""

    tool: Callable[..., Any]
    answers: list[str]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        answer = self.tool(*args, **kwargs)
        if text := str(answer).strip():
            self.answers.append(text)
        return answer


def _content(step: MemoryStep) -> list[Any]:
    """What the model reads of a step, and what is known of it besides."""
    names = ("task", "task_images", "plan", "model_output", "tool_calls", "observations", "observations_images")
    return [getattr(step, name, None) for name in (*names, "error", "token_usage", _RESULTS)]


class _SmolTool(Tool):
    """One of Wane's own tools. Only a `CodeAgent` calls it as a function."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, tool: OwnTool, window: _Window) -> None:
        self.name, self.description = tool.name, tool.description
        required = tool.schema.get("required", ())
        self.inputs = {}
        for name, schema in tool.schema["properties"].items():
            self.inputs[name] = {**schema} if name in required else {**schema, "nullable": True}
        self._window = window
        super().__init__()

    def forward(self, *args: Any, **kwargs: Any) -> str:
        """Answer a call out of code."""
        if not self._window.managed:
            return UNMANAGED_CALL
        arguments = {**dict(zip(self.inputs, args, strict=False)), **kwargs}
        return self._window.conversation.host.answer(Call(self.name, json.dumps(arguments, default=str), None))


@cache
def _managed_class(base: type[MultiStepAgent]) -> type[MultiStepAgent]:
    """Return a subclass of an agent's class whose requests are views. It has the name of the class."""

    class ManagedSmolModel(base):
        window: _Window

        def write_memory_to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
            last = self.memory.steps[-1] if self.memory.steps else None
            if isinstance(last, ActionStep) and (last.is_final_answer or isinstance(last.error, AgentMaxStepsError)):
                sent = None  # the run has ended, so no model is asked: the memory is read whole
            else:
                sent = self.window.messages(self, summary=summary_mode)
            return base.write_memory_to_messages(self, summary_mode) if sent is None else sent

        def provide_final_answer(self, task: str) -> ChatMessage:
            # This request ends with the framework's own prompt, and offers no tools.
            self.window.reminds = False
            try:
                return base.provide_final_answer(self, task)
            finally:
                self.window.reminds = True

        def _step_stream(self, memory_step: ActionStep) -> Iterator[Any]:
            self.window.listen(self)
            try:
                yield from base._step_stream(self, memory_step)
            finally:
                self.window.note_answers(memory_step)

        def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
            # The framework would refuse wrong arguments, and with them all other calls of the answer.
            return UNMANAGED_CALL if tool_name in OWN_TOOLS else base.execute_tool_call(self, tool_name, arguments)

        def process_tool_calls(self, chat_message: ChatMessage, memory_step: ActionStep) -> Iterator[Any]:
            calls, outputs, made = chat_message.tool_calls, dict[str, str](), list[ToolCall]()
            own = self.window.answers(calls)
            others = [call for call in calls if call.function.name not in OWN_TOOLS]
            try:
                for output in base.process_tool_calls(self, chat_message, memory_step):
                    if isinstance(output, ToolCall):
                        made.append(output)
                    if isinstance(output, ToolOutput):
                        if output.id in own:
                            output.output = output.observation = own[output.id]
                        outputs[output.id] = output.observation
                        # The framework refuses a final answer beside other calls; marks may stand there.
                        chat_message.tool_calls = others
                    yield output
            except AgentError:
                # The framework drops all calls of an answer of which one fails; its marks have been made.
                if marks := [call for call in made if call.id in own]:
                    memory_step.tool_calls = marks
                    _set_results(memory_step, [own[call.id] for call in marks])
                raise
            finally:
                chat_message.tool_calls = calls
            order = {call.id: number for number, call in enumerate(calls)}
            memory_step.tool_calls.sort(key=lambda call: order[call.id])
            _set_results(memory_step, [outputs[call.id] for call in memory_step.tool_calls])

        def to_dict(self) -> dict[str, Any]:
            raise ConfigError("an agent with a ContextLifecycle cannot be stored; store it before you attach it")

    ManagedSmolModel.__name__, ManagedSmolModel.__qualname__, ManagedSmolModel.__module__ = (
        base.__name__,
        base.__qualname__,
        base.__module__,
    )
    return ManagedSmolModel


class _Adapter(Adapter[MemoryStep]):
    def usage(self, message: MemoryStep) -> int:
        # A plan is asked for by another request.
        usage = message.step.token_usage if isinstance(message, HalfStep) and message.answers else None
        return usage.input_tokens if usage else 0

    def time(self, message: MemoryStep) -> float | None:
        timing = getattr(message.step if isinstance(message, HalfStep) else message, "timing", None)
        return timing.end_time or timing.start_time if timing else None


# The messages


@dataclass
class HalfStep(MemoryStep):
    """The answer of an action's step, or what came of it.

    Attributes:
        step: the step.
        answers: whether it is the answer.
    """

    step: ActionStep
    answers: bool

    def to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        answering = (MessageRole.ASSISTANT, MessageRole.TOOL_CALL)
        step = self.step
        if not self.answers and _failed_apart(step):
            # The framework would say that the error is the first call's.
            step = copy.copy(step)
            step.tool_calls = None
        messages = step.to_messages(summary_mode=summary_mode)
        return [message for message in messages if (message.role in answering) is self.answers]


@dataclass
class AddedStep(MemoryStep):
    """A step that is not in the memory: a note to the model, or the result of a call.

    Attributes:
        text: the text.
        call_id: whose result it is.
    """

    text: str
    call_id: str | None = None

    def to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:  # noqa: ARG002 - the framework's signature
        role, text = MessageRole.USER, self.text
        if self.call_id is not None:
            role, text = MessageRole.TOOL_RESPONSE, f"Observation:\n{text}"
        return [ChatMessage(role=role, content=[{"type": "text", "text": text}])]


def messages_of(step: MemoryStep) -> list[MemoryStep]:
    """Return the messages of a step, which a later change of the step does not change."""
    step = copy.copy(step)
    if not isinstance(step, ActionStep):
        return [step]
    answer, outcome = HalfStep(step, True), HalfStep(step, False)
    halves = [answer] if step.model_output is not None or step.tool_calls else []
    return [*halves, outcome] if _outcome_parts(step) else [*halves]


Location = tuple[str, int]
"""`task`, `plan`, `text`, `outcome`, `error` or `note`, or a call and a result by their number."""

_CALL_FRAME: Final = len("{'id': '', 'type': 'function', 'function': {'name': '', 'arguments': }}, ")
"""Characters around a call in the framework's text."""


class SmolagentsFormat(NativeFormat[MemoryStep]):
    """Steps of an agent's memory in smolagents, each action's in two halves (`messages_of`)."""

    name = "smolagents"

    def locate_parts(self, message: MemoryStep) -> list[Located[Location]]:
        match message:
            case TaskStep():
                return [(("task", 0), turn_part(message.task, _media(message.task_images)))]
            case PlanningStep():
                return [(("plan", 0), Part(Kind.TEXT, message.plan.strip()))]
            case HalfStep():
                return (_answer_parts if message.answers else _outcome_parts)(message.step)
            case AddedStep(call_id=None):
                return [(("note", 0), turn_part(message.text))]
            case AddedStep():
                return [(("result", 0), Part(Kind.RESULT, message.text, call_id=message.call_id))]
        raise FormatError(f"a message must be a step of a task, an action or a plan, found {type(message).__name__}")

    def keep(self, message: MemoryStep, positions: Sequence[int]) -> MemoryStep:
        located = self.locate_parts(message)
        if len(positions) == len(located):
            return message
        kept = {located[position][0] for position in positions}
        step, results = copy.copy(message.step), _results(message.step)
        name = "call" if message.answers else "result"
        step.tool_calls = [call for number, call in enumerate(step.tool_calls or []) if (name, number) in kept] or None
        if ("text", 0) not in kept:
            step.model_output = None
        if results and step.observations is not None:
            _set_results(step, [text for number, text in enumerate(results) if ("result", number) in kept])
        if ("result", len(results) - 1) not in kept:
            step.observations_images = None
        if ("error" if _failed_apart(message.step) else "result", len(results) - 1) not in kept:
            step.error = None
        return HalfStep(step, message.answers)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "description": description, "parameters": dict(schema)}}

    def turn(self, text: str) -> MemoryStep:
        return AddedStep(text)

    def result(self, message: MemoryStep, position: int, text: str) -> MemoryStep:
        return AddedStep(text, self.locate_parts(message)[position][1].call_id)

    def clear_result(self, message: MemoryStep, position: int, text: str) -> MemoryStep:
        if isinstance(message, AddedStep):
            return replace(message, text=text)
        step, results = copy.copy(message.step), _results(message.step)
        if position == len(results) - 1 and not _failed_apart(step):
            step.error = step.observations_images = None
        _set_results(step, [*results[:position], text, *results[position + 1 :]])
        return HalfStep(step, False)


def _answer_parts(step: ActionStep) -> list[Located[Location]]:
    located: list[Located[Location]] = []
    text = shown_text(step.model_output).strip()
    if text:
        located.append((("text", 0), Part(Kind.TEXT, text)))
    for number, call in enumerate(step.tool_calls or []):
        frame = (_CALL_FRAME + len(call.id)) // 4
        arguments = shown_text(call.arguments if call.arguments is not None else {})
        part = Part(Kind.CALL, call_id=call.id, tool=call.name, arguments=arguments, extra_tokens=frame)
        located.append((("call", number), part))
    return _couple_half(step, located)


def _outcome_parts(step: ActionStep) -> list[Located[Location]]:
    calls, results = step.tool_calls or [], _results(step)
    error = f"Error:\n{step.error}" if step.error is not None else ""
    images = _media(step.observations_images)
    if not calls:
        told = "\n".join(filter(None, (step.observations, error)))
        return [(("outcome", 0), Part(Kind.NOTICE, told, extra_tokens=images))] if told or images else []
    located: list[Located[Location]] = []
    apart, answers = _failed_apart(step), getattr(step, _ANSWERS, ())
    for number, (call, result) in enumerate(zip(calls, results, strict=True)):
        last = number == len(calls) - 1
        told = "\n".join(filter(None, (result, error))) if last and not apart else result
        person = any(answer in told for answer in answers)
        part = Part(Kind.RESULT, told, call_id=call.id, extra_tokens=images if last else 0, person=person)
        located.append((("result", number), part))
    if apart:
        located.append((("error", len(calls) - 1), Part(Kind.NOTICE, error)))
    return _couple_half(step, located)


def _failed_apart(step: ActionStep) -> bool:
    """Whether a step's error is of calls that it does not hold: of an answer that failed, only marks are left."""
    calls = step.tool_calls or []
    return step.error is not None and bool(calls) and all(call.name in OWN_TOOLS for call in calls)


def _couple_half(step: ActionStep, located: list[Located[Location]]) -> list[Located[Location]]:
    """Return the parts of a half. Where it is not known which result is whose, all calls stay or leave together."""
    if len(step.tool_calls or []) < 2 or _split(step) is not None:
        return located
    whole = Tie(bonds=("answer",))
    return couple(located, [UNTIED if part.kind is Kind.TEXT else whole for _, part in located])


def _results(step: ActionStep) -> list[str]:
    """Return the result of each call of a step. If they are not known apart, the first has all of them."""
    calls = step.tool_calls or []
    results = _split(step)
    if results is not None or not calls:
        return results or []
    return [step.observations or "", *[""] * (len(calls) - 1)]


def _split(step: ActionStep) -> list[str] | None:
    """Return the result of each call of a step; None if they are not known apart, or a callback has changed them."""
    results: list[str] | None = getattr(step, _RESULTS, None)
    fits = (
        results is not None
        and len(results) == len(step.tool_calls or [])
        and _join_results(results) == step.observations
    )
    return results if fits else None


def _set_results(step: ActionStep, results: list[str]) -> None:
    """Write the results of a step's calls as its observations, and note where each begins."""
    step.observations = _join_results(results) if results else None
    setattr(step, _RESULTS, results)


def _join_results(results: Sequence[str]) -> str:
    # As `process_tool_calls` does.
    return "".join(f"{result}\n" for result in results).rstrip("\n")


def _media(images: Sequence[Any] | None) -> int:
    return len(images or ()) * NON_TEXT_TOKENS
