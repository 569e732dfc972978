"""Messages of Microsoft Agent Framework: `Message`, whose `contents` are text, reasoning, calls, results and media.

What a provider runs by itself stands in an answer as a call and its result: text to Wane, and kept together. Needs the
`agent-framework` extra.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wane.core import Kind
from wane.core.errors import FormatError, MissingExtraError
from wane.formats.base import Couplings, Located, NativeFormat, Part
from wane.formats.notices import is_notice
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.values import sealed_tokens

try:
    from agent_framework import Content, FunctionTool, Message
except ImportError as error:
    raise MissingExtraError("wane.formats.frameworks.agent_framework", "agent-framework") from error


_TURNS: Final = {"user": Kind.USER, "system": Kind.SYSTEM, "developer": Kind.SYSTEM}
_MEDIA: Final = frozenset({"data", "uri", "hosted_file", "hosted_vector_store"})
_UNSAID: Final = frozenset({"usage", "function_approval_request", "function_approval_response"})
"""What no model reads: the framework resolves approvals ahead of a request."""


class AgentFrameworkFormat(NativeFormat[Message]):
    """Messages of Agent Framework."""

    name = "agent_framework"

    def located(self, message: Message) -> list[Located[int]]:
        """Return the parts of a message, each with its location among the contents.

        Raises:
            FormatError: for anything that is no message.
        """
        if not isinstance(message, Message):
            raise FormatError(f"a message must be an Agent Framework Message, found {type(message).__name__}")
        hosted = _answered_within(message.contents)
        kind = _TURNS.get(message.role, Kind.TEXT)
        if kind in (Kind.USER, Kind.SYSTEM) and is_notice(message.text, system=kind is Kind.SYSTEM):
            texts_only = all(content.type == "text" for content in message.contents)
            kind, system = (Kind.NOTICE, kind is Kind.SYSTEM) if texts_only else (kind, False)
        else:
            system = False
        located = [
            (location, part)
            for location, content in enumerate(message.contents)
            if (part := _part(content, kind, hosted, system=system)) is not None
        ]
        if not located and message.role in _TURNS:
            return [(-1, Part(kind, system=system))]
        return _couple(message, located) if kind is Kind.TEXT else located

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        """Return the message with only some of its contents; all other fields are the same."""
        located = self.located(message)
        fewer = copy.copy(message)
        fewer.contents = [message.contents[located[position][0]] for position in positions if located[position][0] >= 0]
        return fewer

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> FunctionTool:
        """Return the definition of a tool, without a function."""
        return FunctionTool(name=name, description=description, input_model=schema)

    def turn(self, text: str) -> Message:
        """Return a message of the user."""
        return Message("user", [text])

    def result(self, message: Message, position: int, text: str) -> Message:
        """Return the message that answers a call."""
        call = self.located(message)[position][1]
        return Message("tool", [Content.from_function_result(call_id=call.call_id or "", result=text)])

    def cleared(self, message: Message, position: int, text: str) -> Message:
        """Return a message with a text in place of one result's content."""
        location = self.located(message)[position][0]
        cleared, content = copy.copy(message), copy.copy(message.contents[location])
        content.result, content.items, content.output, content.outputs = text, None, None, None
        cleared.contents = list(message.contents)
        cleared.contents[location] = content
        return cleared


def _part(content: Content, kind: Kind, hosted: set[str], *, system: bool) -> Part | None:
    type_ = content.type
    if type_ == "text":
        text = content.text or ""
        return Part(kind, text, system=system) if text or kind is not Kind.TEXT else None
    if type_ == "text_reasoning":
        text = content.text or ""
        seal = 0 if text else sealed_tokens(content.protected_data, 0)
        return Part(Kind.REASONING, text, extra_tokens=seal) if text or content.protected_data or content.id else None
    if type_ in _UNSAID:
        return None
    if type_ in _MEDIA:
        return Part(kind, extra_tokens=NON_TEXT_TOKENS, system=system)
    if content.call_id and content.call_id not in hosted:
        if type_.endswith("_call"):
            tool = content.name or content.tool_name or type_.removesuffix("_call")
            return Part(Kind.CALL, call_id=content.call_id, tool=tool, arguments=_arguments(content))
        if type_.endswith("_result"):
            text, extra = _result_text(content)
            return Part(Kind.RESULT, text, call_id=content.call_id, extra_tokens=extra)
    return Part(kind, _as_json(content.to_dict(exclude={"raw_representation"})), system=system)


def _answered_within(contents: Sequence[Content]) -> set[str]:
    """Ids of calls whose results stand in the same message: the provider ran them."""
    calls = {content.call_id for content in contents if content.type.endswith("_call")}
    results = {content.call_id for content in contents if content.type.endswith("_result")}
    return {call_id for call_id in calls & results if call_id}


def _couple(message: Message, located: list[Located[int]]) -> list[Located[int]]:
    """Add what must stay together (R12).

    Sealed reasoning is refused without what follows it. The calls that follow are refused without it, and so is what
    stands right behind reasoning that has an id of OpenAI's. A call of the provider's goes with its result.
    """
    if len(located) < 2:
        return located
    contents = [message.contents[location] for location, _ in located]
    seals = [n for n, content in enumerate(contents) if content.type == "text_reasoning" and _is_sealed(content)]
    couplings, hosted = Couplings(), dict[str, int]()
    for position, (_, part) in enumerate(located):
        content = contents[position]
        if part.kind is Kind.TEXT and content.call_id:
            hosted_call = hosted.setdefault(content.call_id, position)
            if hosted_call != position:
                couplings.mutual(hosted_call, position)
        if not seals:
            continue
        before = [seal for seal in seals if seal < position]
        if position in seals:
            if position + 1 < len(located):
                couplings.add(position, position + 1)
        elif part.kind is Kind.CALL:
            # Chat Completions has the details of reasoning at an answer's end.
            couplings.add(position, before[-1] if before else seals[0])
        elif before and before[-1] == position - 1 and _is_openai(contents[position - 1]):
            couplings.add(position, position - 1)
    return couplings.applied(located)


def _is_sealed(content: Content) -> bool:
    return bool(content.protected_data) or _is_openai(content)


def _is_openai(content: Content) -> bool:
    return str(content.id or "").startswith("rs_")


def _arguments(content: Content) -> str:
    """The raw text that the model wrote, as far as it is told."""
    arguments: Any = content.arguments
    if arguments is None:
        arguments = content.commands or content.actions or content.inputs
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else _as_json(arguments)


def _result_text(content: Content) -> tuple[str, int]:
    """The text of a result, and the estimate for what is no text in it."""
    if content.items:
        texts = [item.text or "" for item in content.items if item.type == "text"]
        return "\n".join(texts), NON_TEXT_TOKENS * sum(item.type in _MEDIA for item in content.items)
    output = next((value for value in (content.result, content.output, content.outputs) if value is not None), "")
    extra = NON_TEXT_TOKENS if content.screenshot is not None else 0
    return output if isinstance(output, str) else _as_json(output), extra


def _as_json(value: object) -> str:
    return json.dumps(
        value, ensure_ascii=False, default=lambda leaf: leaf.to_dict() if isinstance(leaf, Content) else str(leaf)
    )
