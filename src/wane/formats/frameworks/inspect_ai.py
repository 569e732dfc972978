"""Messages of Inspect AI: `ChatMessageUser`, `ChatMessageAssistant`, `ChatMessageTool`, `ChatMessageSystem`.

What they become:

| content | item of Wane |
|---|---|
| a system message | system |
| a user message | user, or a notice |
| `ContentText` and everything else of an answer, also what the provider ran (`ContentToolUse`) | text |
| `ContentReasoning` | reasoning |
| an entry of `tool_calls` | call |
| a tool message | result; the text of its error, if it has one |

Needs the `inspect-ai` extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from wane.core import Kind
from wane.core.errors import FormatError, MissingExtraError
from wane.formats.base import Located, NativeFormat, Part, couple_reasoning, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.values import compact, sealed_tokens, type_name

try:
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageTool,
        ChatMessageUser,
        ContentReasoning,
    )
    from inspect_ai.tool import ToolInfo, ToolParams
except ImportError as error:
    raise MissingExtraError("wane.formats.frameworks.inspect_ai", "inspect-ai") from error

Location: TypeAlias = tuple[str, int]
"""Where a part stands: in the whole message, in its content by position, or in its calls by position."""


class InspectFormat(NativeFormat[ChatMessage]):
    """Messages of Inspect AI."""

    name = "inspect_ai"

    def located(self, message: object) -> list[Located[Location]]:
        """Return the items of a message, each with its location.

        Raises:
            FormatError: for anything that is no message.
        """
        if isinstance(message, ChatMessageAssistant):
            located = list(_answer(message))
            return couple_reasoning(located, _sealed(message, located))
        if not isinstance(message, (ChatMessageSystem, ChatMessageUser, ChatMessageTool)):
            raise FormatError(f"a message must be one of Inspect's, found {type_name(message)}")
        return [(("whole", 0), _message_part(message))]

    def keep(self, message: ChatMessage, positions: Sequence[int]) -> ChatMessage:
        """Return the message with only some of its parts. Its id tells which, as logs tell messages apart by id."""
        if not isinstance(message, ChatMessageAssistant):
            return message
        located = self.located(message)
        locations = {located[position][0] for position in positions}
        content: Any = message.content
        if isinstance(content, str):
            content = content if ("content", 0) in locations else ""
        else:
            content = [entry for number, entry in enumerate(content) if ("content", number) in locations]
        calls = [call for number, call in enumerate(message.tool_calls or ()) if ("call", number) in locations]
        new_id = f"{message.id}:{','.join(map(str, positions))}"
        return message.model_copy(update={"id": new_id, "content": content, "tool_calls": calls or None})

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> ToolInfo:
        """Return the definition of a tool."""
        return ToolInfo(name=name, description=description, parameters=ToolParams.model_validate(schema))

    def turn(self, text: str) -> ChatMessage:
        """Return a message of the user."""
        return ChatMessageUser(content=text)

    def result(self, message: ChatMessage, position: int, text: str) -> ChatMessage:
        """Return the message that answers a call."""
        call = self.located(message)[position][1]
        return ChatMessageTool(content=text, tool_call_id=call.call_id, function=call.tool)

    def cleared(self, message: ChatMessage, position: int, text: str) -> ChatMessage:  # noqa: ARG002 - it has one part
        """Return a message with a text in place of a result's content."""
        return message.model_copy(update={"content": text, "error": None})


def _message_part(message: ChatMessageSystem | ChatMessageUser | ChatMessageTool) -> Part:
    text, extra = _text_of(message.content)
    if isinstance(message, ChatMessageTool):
        # The model reads the error in place of the content.
        text = text if message.error is None else message.error.message
        return Part(Kind.RESULT, text, call_id=message.tool_call_id, extra_tokens=extra)
    return turn_part(text, extra, system=isinstance(message, ChatMessageSystem))


def _answer(message: ChatMessageAssistant) -> Iterator[Located[Location]]:
    for number, entry in enumerate(message.content_list):
        text, extra = _text_of([entry])
        if isinstance(entry, ContentReasoning):
            yield ("content", number), Part(Kind.REASONING, text, extra_tokens=extra)
        elif text or extra:
            yield ("content", number), Part(Kind.TEXT, text, extra_tokens=extra)
    for number, call in enumerate(message.tool_calls or ()):
        part = Part(Kind.CALL, call_id=call.id, tool=call.function, arguments=compact(call.arguments))
        yield ("call", number), part


def _text_of(content: Any) -> tuple[str, int]:
    """The text of a content, and the estimate for what is no text in it."""
    if isinstance(content, str):
        return content, 0
    texts, extra = list[str](), 0
    for entry in content:
        match entry.type:
            case "text":
                texts.append(entry.text)
            case "reasoning" if entry.redacted:
                texts.append(entry.summary or "")
                extra += 0 if entry.summary else sealed_tokens(entry.reasoning, 0)
            case "reasoning":
                texts.append(entry.reasoning)
            case "tool_use":
                texts.append("\n".join(filter(None, (entry.name, entry.arguments, entry.result, entry.error))))
            case "data":
                texts.append(compact(entry.data))
            case _:
                extra += NON_TEXT_TOKENS
    return "\n".join(texts), extra


def _sealed(message: ChatMessageAssistant, located: Sequence[Located[Location]]) -> dict[int, bool]:
    """The reasoning that a provider knows again, by position; whether it is OpenAI's, known by its id."""
    entries = message.content_list
    sealed: dict[int, bool] = {}
    for position, ((_, number), part) in enumerate(located):
        entry = entries[number] if part.kind is Kind.REASONING else None
        if isinstance(entry, ContentReasoning) and (entry.signature or entry.redacted or entry.internal):
            sealed[position] = (entry.signature or "").startswith("rs_")
    return sealed
