"""Context Window Lifecycle for Google's Agent Development Kit. Needs the `google-adk` extra.

    app = App(name="app", root_agent=agent, plugins=[ContextLifecycle(budget="80k")])

The session's events stay whole; each model call gets a view of their contents. The state of the view is kept in the
session's state, for each agent and branch, so that any process can continue it.

The contents are those of Gemini, `google.genai.types.Content`. The kit sends calls and results without the ids that it
made itself. The results of one answer stand in the content behind it, in the order of the calls, so that a tool's first
call and its first result belong together.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain
from typing import Any, Final, Unpack
from uuid import uuid4
from weakref import finalize

from wane.conversation import Adapter, Call, Conversation, Tool
from wane.conversation.scopes import new_scope, scope_path
from wane.core import DEFAULT_BUDGET, EpisodeType, Kind
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.formats.coupling import UNTIED, Seal, Tie, couple
from wane.formats.fields import compact
from wane.formats.message_format import Located, NativeFormat, Part
from wane.formats.notices import is_notice
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import CALLING, RESULTS
from wane.integrations.lifecycle import (
    HostMarks,
    LifecycleSettings,
    Warner,
    after_answer,
    insert_passing,
    maker,
    resume,
    set_overhead,
    split_passing,
)
from wane.strategies.host import HostScope

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.events.event import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types
except ImportError as error:
    raise MissingExtraError("wane.integrations.google_adk", "google-adk") from error

__all__ = ["ContextLifecycle"]

_STORED: Final = (
    "the Interactions API keeps the conversation and requests hold only what is new, so nothing can be evicted. Set "
    "use_interactions_api of the model to False"
)
_COMPACTED: Final = (
    "the kit compacts or filters contents beside it, and what it takes out cannot be recalled. Take "
    "events_compaction_config and ContextFilterPlugin out of the App"
)

_QUESTION: Final = "adk_request_confirmation"
"""The call by which the kit asks a person to confirm another one. It is in the events, and in no request."""

_ANOTHER_AGENT: Final = ("For context: below is a transcript of what another agent did", "For context:\n")
"""How the kit begins what it tells an agent of another one's work, in the user's place."""
_AUTHOR: Final = re.compile(r"^\[([^\]\n]+)\] (?:said: |called tool `|`)", re.MULTILINE)
"""How it names the agent, in each part."""


class _Adapter(Adapter[types.Content]):
    """Tells which step of a workflow a content belongs to."""

    def __init__(self, steps: str | None) -> None:
        self._steps = steps

    def scopes(self, message: types.Content) -> Sequence[HostScope] | None:
        if self._steps is None or not _is_of_another_agent(message):
            return None
        matches = (_AUTHOR.search(part.text or "") for part in message.parts or ())
        name = next((match[1] for match in matches if match), None)
        return None if name is None else (new_scope(name, self._steps, id=f"step:{name}"),)


class ContextLifecycle(BasePlugin, HostMarks):
    """Keeps the requests of an app's agents within a token budget, evicting by episode. The events stay whole.

    Agents get the tool `delimiter` and guidance in their instructions. Each agent has a window of its own in each
    session and branch. Put it last into `plugins`, so that it sees what others have put into a request.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        name: the plugin's name.
        steps: with `annotate="host"`, what the work of a step is: an episode that explores (`expl`) or acts (`act`), or
            a `task`, with the name of its agent. In a `Workflow`, whose agents see their own steps alone, each run of a
            node; elsewhere, the work of another agent that an agent is told of, such as that of the step before it in
            a `SequentialAgent`. None for no episode.
        settings: the other settings, by name (`wane.integrations.lifecycle.LifecycleSettings`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    def __init__(
        self,
        budget: int | str = DEFAULT_BUDGET,
        *,
        name: str = "wane",
        steps: str | None = None,
        **settings: Unpack[LifecycleSettings],
    ) -> None:
        super().__init__(name=name)
        self._steps = steps
        self._format = GoogleADKFormat()
        self._make = maker(self._format, _Adapter(steps), budget, self, **settings)
        self._warner = Warner(_COMPACTED)
        sample = self._make()
        self.marks = sample.settings.annotate == "host"
        if steps is not None:
            self._scope("step", steps)  # to check it
        self._instructions = sample.instructions
        self._tools = {tool.name: _OwnTool(tool) for tool in sample.own_tools}
        # By run and agent, because several runs of a session may go on at once.
        self._runs: dict[tuple[int, str], dict[str, Conversation[types.Content]]] = {}

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Replace a request's contents by a view."""
        if llm_request.previous_interaction_id:
            self._warner.warn(_STORED)
            return
        running = callback_context.get_invocation_context()
        if running.events_compaction_config or any(
            isinstance(plugin, ContextFilterPlugin) for plugin in running.plugin_manager.plugins
        ):
            self._warner.warn(_COMPACTED)
        self._format.heard.update(_hear(callback_context.session.events))
        events = [event.content for event in callback_context.session.events if event.author == "user"]
        user_texts = {part.text for content in events if content for part in content.parts or () if part.text}
        history, passing = split_passing(llm_request.contents, lambda content: _is_of_history(content, user_texts))
        conversations, key = self._conversations(callback_context), _key(callback_context)
        try:
            conversation = conversations.get(key) or resume(
                self._make, _saved_state(callback_context), history, self._warner
            )
            self._warner.warn_replaced(conversation.host.ingest(history))
            conversations[key] = conversation
            if self._instructions:
                llm_request.append_instructions([self._instructions])
            llm_request.append_tools(list(self._tools.values()))
            set_overhead(conversation, _write_fixed(llm_request.config), [content for _, content in passing])
        except (FormatError, HistoryError) as error:
            self._warner.warn_unmanaged(error)
            return
        thinking = llm_request.config.thinking_config
        budgeted = thinking is not None and (thinking.thinking_budget or 0) > 0
        conversation.keep_opening = budgeted and "claude" in (llm_request.model or "")
        with self._step(callback_context):
            llm_request.contents = insert_passing(conversation.request(), passing, conversation)

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Take in a request's usage, and judge the answer's calls, because tools run before it is in the history."""
        conversation = self._conversations(callback_context).get(_key(callback_context))
        if llm_response.partial or conversation is None:
            return
        usage = llm_response.usage_metadata
        conversation.observe((usage.prompt_token_count if usage else 0) or 0)
        content = llm_response.content
        parts = (content.parts if content else None) or []
        function_calls = [part.function_call for part in parts if part.function_call]
        for call in function_calls:
            # The kit would add an id later. It leaves this one out of requests, like its own.
            call.id = call.id or f"adk-{uuid4()}"
        calls: list[Call[types.Content]] = [Call(call.name or "", call.args, call.id) for call in function_calls]
        callback_context.state[_key(callback_context)] = after_answer(conversation, calls)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Forget a run's conversations; the next run goes on from the stored state."""
        self._runs.pop(_run(invocation_context), None)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Answer `delimiter` and `recall`; every other tool runs as usual."""
        if tool.name not in self._tools:
            return None
        text = _saved_state(tool_context).get("told", {}).get(tool_context.function_call_id)
        if text is None and (conversation := self._conversations(tool_context).get(_key(tool_context))):
            text = conversation.host.answer(Call(tool.name, tool_args))
        return {"result": text or f"Error: `{tool.name}` cannot be answered now. Call it again."}

    def _step(self, context: CallbackContext) -> AbstractContextManager[object]:
        """The scope of the node of a `Workflow` that runs, unless the program is in an episode of its own."""
        # The path of a node has the workflow ahead of it.
        in_episode = any(scope.type is not EpisodeType.TASK for scope in scope_path(self))
        if self._steps is None or "/" not in context.node_path or in_episode:
            return nullcontext()
        return self._scope(context.agent_name, self._steps, id=f"{context.invocation_id}:{context.node_path}")

    def _conversations(self, context: CallbackContext) -> dict[str, Conversation[types.Content]]:
        """The conversations of a run by agent."""
        run = _run(context)
        if run not in self._runs:
            self._runs[run] = {}
            # The kit does not tell of the end of a run that was cancelled. But each run has its own session object.
            finalize(context.session, self._runs.pop, run, None)
        return self._runs[run]


class _OwnTool(BaseTool):
    """A tool that the plugin answers."""

    def __init__(self, tool: Tool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._declaration = GoogleADKFormat().tool(tool.name, tool.description, tool.schema)

    def _get_declaration(self) -> types.FunctionDeclaration:
        return self._declaration.model_copy()

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:  # noqa: ARG002
        return {"error": "this tool works only in an App that has `ContextLifecycle` in its `plugins`"}


def _key(context: CallbackContext) -> str:
    """The key of an agent's data in the session's state, by branch and task."""
    return ":".join(["wane", context.branch or "", context.isolation_scope or "", context.agent_name])


def _saved_state(context: CallbackContext) -> Mapping[str, Any]:
    """The agent's data in the session's state. `context.state` would copy it."""
    saved: Mapping[str, Any] = context.session.state.get(_key(context)) or {}
    return saved


def _run(context: CallbackContext | InvocationContext) -> tuple[int, str]:
    """What tells a run from all others, while its object for the session exists."""
    return id(context.session), context.invocation_id


def _is_of_history(content: types.Content, user_texts: set[str]) -> bool:
    """Whether it was said in the session: the kit adds any other text in the user's role to this request only."""
    texts = [part.text for part in content.parts or () if part.text]
    return (
        content.role == "model"
        or not texts
        or any(text in user_texts for text in texts)
        or _is_of_another_agent(content)
    )


def _write_fixed(config: types.GenerateContentConfig) -> str:
    """The system prompt and the definitions of tools, as text to count."""
    tools = [tool.model_dump_json(exclude_none=True) for tool in config.tools or () if isinstance(tool, types.Tool)]
    return "".join([_text(config.system_instruction), *tools])


def _text(instruction: Any) -> str:
    if isinstance(instruction, str) or instruction is None:
        return instruction or ""
    if isinstance(instruction, types.Content):
        return _text(instruction.parts)
    if isinstance(instruction, Sequence):
        return "\n".join(map(_text, instruction))
    return (instruction.get("text") if isinstance(instruction, Mapping) else getattr(instruction, "text", None)) or ""


# The contents


_NOTE: Final = "note"
"""The key of a response under which a note to the model stands."""


class GoogleADKFormat(NativeFormat[types.Content]):
    """Contents of Google's Agent Development Kit.

    Attributes:
        heard: digests of results that hold what a person said (R21). Contents do not tell: those of a request have no
            ids, and none of the questions that the kit asks.
    """

    name = "google_adk"

    def __init__(self) -> None:
        self.heard: set[int] = set()

    def locate_parts(self, content: types.Content) -> list[Located[int]]:
        if not isinstance(content, types.Content):
            raise FormatError(f"a message must be a content of google.genai, found {type(content).__name__}")
        if content.role == "model":
            return _couple(content, list(_answer_parts(content)))
        parts = content.parts or []
        kind = Kind.USER
        if all(part.text is not None for part in parts) and (
            _is_of_another_agent(content) or is_notice("\n".join(part.text or "" for part in parts))
        ):
            kind = Kind.NOTICE
        return list(_turn_parts(parts, kind, self.heard)) or [(0, Part(kind))]

    def keep(self, message: types.Content, positions: Sequence[int]) -> types.Content:
        located, parts = self.locate_parts(message), message.parts or []
        return message.model_copy(update={"parts": [parts[located[position][0]] for position in positions]})

    def speaker(self, content: types.Content) -> str | None:
        parts = content.parts or []
        if content.role == "model":
            calls = [part.function_call for part in parts if part.function_call is not None]
            return CALLING if calls else "assistant"
        results = [part.function_response for part in parts if part.function_response is not None]
        return RESULTS if results and len(results) == len(parts) else "user"

    def merge(self, first: types.Content, second: types.Content) -> types.Content:
        return first.model_copy(update={"parts": [*(first.parts or []), *(second.parts or [])]})

    def note_result(self, content: types.Content, text: str) -> types.Content | None:
        """Return a content with a note in its last response: for models of LiteLLM, text would be a user's message."""
        *before, last = content.parts or [types.Part()]
        if last.function_response is None:
            return None
        response = {**(last.function_response.response or {}), _NOTE: text}
        noted = last.function_response.model_copy(update={"response": response})
        return content.model_copy(update={"parts": [*before, last.model_copy(update={"function_response": noted})]})

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=name, description=description, parameters_json_schema=dict(schema))

    def turn(self, text: str) -> types.Content:
        return types.Content(role="user", parts=[types.Part(text=text)])

    def result(self, message: types.Content, position: int, text: str) -> types.Content:
        call = (message.parts or [])[self.locate_parts(message)[position][0]].function_call
        assert call is not None
        answer = types.FunctionResponse(id=call.id, name=call.name, response={"result": text})
        return types.Content(role="user", parts=[types.Part(function_response=answer)])

    def clear_result(self, message: types.Content, position: int, text: str) -> types.Content:
        location, parts = self.locate_parts(message)[position][0], list(message.parts or [])
        response = parts[location].function_response
        assert response is not None
        update = {"response": {"result": text}, "parts": None}
        parts[location] = parts[location].model_copy(update={"function_response": response.model_copy(update=update)})
        return message.model_copy(update={"parts": parts})


def _is_of_another_agent(content: types.Content) -> bool:
    first = content.parts[0].text if content.parts else None
    return bool(first) and (first == "For context:" or str(first).startswith(_ANOTHER_AGENT))


def _hear(events: Iterable[Event]) -> Iterator[int]:
    """Yield the digests of results that hold words with which a person confirmed or rejected their call."""
    questions: dict[str | None, types.FunctionCall] = {}
    words: dict[str | None, set[str]] = {}  # by id of the call
    for event in events:
        for call in event.get_function_calls():
            if call.name == _QUESTION:
                questions[call.id] = call
        for response in event.get_function_responses():
            if response.name == _QUESTION and response.id in questions:
                arguments = questions[response.id].args or {}
                call_id = (arguments.get("originalFunctionCall") or {}).get("id")
                words[call_id] = set(_texts_in(response.response)) - set(_texts_in(arguments))
            elif any(text in _result_text(response.response) for text in words.get(response.id, ())):
                yield _digest_result(response)


def _texts_in(data: object) -> Iterator[str]:
    """Yield the texts that JSON data holds, also where it is written as text itself, as the kit's web client does."""
    if isinstance(data, str) and data.startswith("{"):
        with suppress(ValueError):
            yield from _texts_in(json.loads(data))
    elif isinstance(data, str) and data.strip():
        yield data
    elif isinstance(data, Mapping):
        yield from chain.from_iterable(map(_texts_in, data.values()))
    elif isinstance(data, list):
        yield from chain.from_iterable(map(_texts_in, data))


def _digest_result(response: types.FunctionResponse) -> int:
    return hash((response.name, _result_text(response.response)))


def _turn_parts(parts: Sequence[types.Part], kind: Kind, heard: Container[int]) -> Iterator[Located[int]]:
    """What a user or a tool says."""
    counts: Counter[str] = Counter()
    for location, part in enumerate(parts):
        if (response := part.function_response) is not None:
            text, media = _result_text(response.response), NON_TEXT_TOKENS * len(response.parts or ())
            person = bool(heard) and _digest_result(response) in heard
            call_id = _call_id(response, counts)
            yield location, Part(Kind.RESULT, text, call_id=call_id, extra_tokens=media, person=person)
        elif part.text is not None:
            yield location, Part(kind, part.text)
        else:
            yield location, _other_part(part, kind)


def _answer_parts(content: types.Content) -> Iterator[Located[int]]:
    """What a model says."""
    counts: Counter[str] = Counter()
    for location, part in enumerate(content.parts or []):
        seal = len(part.thought_signature or b"") // 4
        if (call := part.function_call) is not None:
            raw = compact(call.args or {})
            yield location, Part(Kind.CALL, call_id=_call_id(call, counts), tool=call.name or "", arguments=raw)
        elif part.thought or (seal and not part.text):
            text = part.text or ""
            yield location, Part(Kind.REASONING, text, extra_tokens=0 if text else seal)
        elif part.text:
            yield location, Part(Kind.TEXT, part.text)
        elif part.text is None and (text_part := _other_part(part, Kind.TEXT)) != Part(Kind.TEXT):
            yield location, text_part


def _couple(content: types.Content, located: list[Located[int]]) -> list[Located[int]]:
    """Add what must stay together (R12). A result of code stands right behind it, and has no id."""
    parts = content.parts or []
    ties: list[Tie] = []
    for location, part in located:
        raw = parts[location]
        sealed = Seal.SIGNED if raw.thought_signature else Seal.NONE
        if raw.executable_code is not None:
            ties.append(Tie(bonds=(f"code {location}",)))
        elif raw.code_execution_result is not None:
            ties.append(Tie(bonds=(f"code {location - 1}",)))
        elif (served := raw.tool_call or raw.tool_response) is not None:
            ties.append(Tie(bonds=(served.id or "",)))
        elif part.kind is Kind.REASONING:
            # Gemini demands signatures, and no thoughts without one.
            ties.append(Tie(sealed, free=sealed is Seal.NONE))
        else:
            ties.append(Tie(sealed) if part.kind is Kind.CALL else UNTIED)
    return couple(located, ties)


def _call_id(call: types.FunctionCall | types.FunctionResponse, counts: Counter[str]) -> str:
    """The id of a call or its result; where it has none, which of the tool's calls it is within its content."""
    name = call.name or ""
    number = counts[name]
    counts[name] += 1
    return call.id or f"{name}#{number}"


def _result_text(response: Mapping[str, Any] | None) -> str:
    """A result as text: what the kit puts around a plain one is left out."""
    if response and response.keys() == {"result"} and isinstance(response["result"], str):
        return str(response["result"])
    try:
        return compact(response or {})
    except FormatError:
        return str(response)


def _other_part(part: types.Part, kind: Kind) -> Part:
    """A part that is no text, call, result or thought."""
    if part.inline_data is not None or part.file_data is not None:
        return Part(kind, extra_tokens=NON_TEXT_TOKENS)
    data = part.model_dump(mode="json", exclude_none=True, exclude={"thought_signature", "part_metadata"})
    return Part(kind, compact(data) if data else "")
