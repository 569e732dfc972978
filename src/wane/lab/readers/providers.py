"""Messages of providers' APIs (OpenAI chat, Anthropic, OpenAI Responses, Gemini): a list, a body, or one per line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from wane.core import chars
from wane.core.errors import FormatError
from wane.formats import get_format
from wane.formats.anthropic import AnthropicFormat
from wane.formats.detection import telling_format
from wane.formats.fields import compact
from wane.formats.gemini_calls import field, name_results
from wane.formats.openai_responses import group
from wane.journal.titles import title_of
from wane.lab.readers.building.builder import SessionBuilder, builders
from wane.lab.readers.building.json_lines import Problems
from wane.lab.readers.building.values import amount, items, mapping, seconds, text, usage_of
from wane.lab.readers.documents import RecordedChat, Value, chats, is_model_message
from wane.lab.recorded_session import ModelCall, RecordedSession

PROVIDERS: Final = ("openai", "anthropic", "openai_responses", "gemini")
"""The names in `wane.formats` of the formats of providers' messages."""

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "model"})
_CONTENT: Final = frozenset({"content", "function_call", "parts", "reasoning", "reasoning_content", "tool_calls"})
"""Fields of which a message has one; others with a role are lines of a session file in a form that is not known."""
_ANTHROPIC: Final = frozenset({"tool_use", "tool_result", "thinking"})


@dataclass(frozen=True, slots=True)
class ProviderReader:
    """Reads messages of providers' APIs.

    Attributes:
        NAME: their format, one of `PROVIDERS`; "auto" to recognise that of each chat.
    """

    NAME: str

    def recognises(self, head: Sequence[object]) -> bool:
        """Return whether JSON values are messages, or hold them."""
        return bool(chats([(None, value) for value in head], _is_message))

    def sessions(self, values: Sequence[Value], name: str, problems: Problems) -> list[RecordedSession]:
        """Return the chats among JSON values, each as a session; see `DocumentReader`."""
        file_chats = chats(values, _is_message)
        if not file_chats:
            raise FormatError(
                "it holds no messages: objects with a role, in a list, in a request body (messages, input or contents),"
                " or one per line"
            )
        formats = [self.NAME] * len(file_chats)
        if self.NAME == "auto":
            formats = [_format_of(chat) for chat in file_chats]
        numbered = zip(file_chats, formats, builders(name, formats, problems), strict=True)
        sessions = [_session(chat, format_name, builder) for chat, format_name, builder in numbered]
        unread = [problem.what for session in sessions for problem in session.problems]
        if unread and not any(session.parts for session in sessions):
            raise FormatError(f"none of its messages can be read as {', '.join(sorted(set(formats)))}: {unread[0]}")
        return sessions


def _format_of(chat: RecordedChat) -> str:
    """Return the format of a chat's messages; OpenAI chat if several formats are possible."""
    name = telling_format(chat.body or [message for _, message in chat.messages])
    return name if name in PROVIDERS else "openai"


def _session(chat: RecordedChat, name: str, builder: SessionBuilder) -> RecordedSession:
    message_format = get_format(name)
    model = text(chat.body.get("model")) or None
    builder.system_tokens = _overhead(chat)
    for number, line, message in _messages(chat, name):
        where = "" if line else f"message {number}: "
        try:
            if name == "openai":
                _refuse_anthropic(message)
            parts = message_format.parts(message)
        except FormatError as error:
            builder.problems.add(line, f"{where}{error}", "a message that cannot be read", unread=True)
            continue
        builder.name_unknown(message, message_format, line, where)
        builder.entitle(title_of(message) or "")
        if is_model_message(message):
            builder.settle(line=line)
            call = _call(message)
            builder.answer(parts, usage=call.usage, at=call.at, model=call.model or model, line=line, cost=call.cost)
        else:
            builder.message(parts, line=line)
    return builder.build()


def _call(message: Any) -> ModelCall:
    """Return what mini-swe-agent records of a call beside its answer, in `extra`: the response, its cost, the time."""
    extra = mapping(mapping(message).get("extra"))
    response = mapping(extra.get("response"))
    used = mapping(response.get("usage"))
    details = mapping(used.get("prompt_tokens_details")) or mapping(used.get("input_tokens_details"))
    usage = usage_of(
        used.get("prompt_tokens", used.get("input_tokens")),
        read=details.get("cached_tokens"),
        written=used.get("cache_creation_input_tokens"),
        output=used.get("completion_tokens", used.get("output_tokens")),
    )
    model = text(response.get("model")) or None
    return ModelCall(0, 0, usage, seconds(extra.get("timestamp")), model, cost=amount(extra.get("cost")))


def _messages(chat: RecordedChat, name: str) -> Iterator[tuple[int, int | None, Any]]:
    """Yield the messages with their numbers and lines; items of Responses are grouped into messages."""
    entries = [entry for _, entry in chat.messages]
    if name == "gemini":
        entries = name_results(entries)
    if name != "openai_responses" or all(isinstance(entry, dict) and "items" in entry for entry in entries):
        for number, (line, _) in enumerate(chat.messages):
            yield number, line, entries[number]
        return
    number = 0
    for message in group(entries):
        yield number, chat.messages[number][0], message
        number += len(message["items"])


def _overhead(chat: RecordedChat) -> int | None:
    """Return the tokens of a request body besides its messages: tools and instructions; None if it has none."""
    body = chat.body
    weights: list[int] = []
    if body.get("tools"):
        weights.append(chars(compact(body["tools"])))
    if isinstance(instructions := body.get("instructions"), str):
        weights.append(chars(instructions))
    if (instruction := field(body, "systemInstruction")) is not None:
        weights.append(chars(compact(instruction)))
    if system := body.get("system"):
        with suppress(FormatError):
            parts = AnthropicFormat().parts({"role": "system", "content": system})
            weights += [part.item(chars, 0).tokens for part in parts]
    return sum(weights) if weights else None


def _is_message(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    role = value.get("role")
    if isinstance(role, str) and role in _ROLES and not _CONTENT.isdisjoint(value):
        return True
    return any(map(_is_message, items(value.get("items"))))


def _refuse_anthropic(message: Any) -> None:
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and (kind := text(block.get("type"))) in _ANTHROPIC:
            raise FormatError(f"content of the type {kind!r} is Anthropic's; to read it, name the format anthropic")
