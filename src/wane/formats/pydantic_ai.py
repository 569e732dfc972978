"""Pydantic AI messages: lists of `ModelRequest` and `ModelResponse`, or their JSON data. Needs the `pydantic-ai` extra.

What each part becomes:

| part | item |
|---|---|
| instruction, tool and settings records, `CompactionPart` | system |
| `SystemPromptPart`, a `UserPromptPart` that is marked as a notice (`wane.formats.notices`) | notice |
| any other `UserPromptPart`, the user's `SpeechPart` | user |
| `ToolReturnPart`, a `RetryPromptPart` that answers a call | result |
| `RetryFeedbackPart`, any other `RetryPromptPart` | system: the application speaks, not a person |
| `ThinkingPart` | reasoning |
| `TextPart`, `FilePart`, the model's `SpeechPart` | text |
| `ToolCallPart` | call |
| `NativeToolCallPart` with its `NativeToolReturnPart` in the same message | call and result |
| either of the two without the other | text |
| a call or return of `load_capability`, `search_tools`, `tool_search` | system |

System items are never evicted (R13). A system prompt ahead of the first response is one of them; later ones are notices
from the host program. The last row must stay because Pydantic AI learns from the messages which tools the model has. A
request without parts is a turn, so it gives a system item and stays.

`sendable` makes messages that every request can carry. Models and terminals produce two things that would make this
request and all later ones fail:

- a lone surrogate, which UTF-8 cannot encode: half of an escaped character, or a byte that was not text;
- a number that is not finite, which JSON cannot write. Python reads `NaN`, `Infinity` and `1e999` as such numbers, and
  the arguments of a call are parsed and written again on their way to some providers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from wane.core import Kind
from wane.core.errors import FormatError, MissingExtraError
from wane.formats.coupling import Seal, Tie, couple
from wane.formats.fields import check_each, expect_list
from wane.formats.message_format import Located, NativeFormat, Part
from wane.formats.notices import is_notice
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import CALLING, RESULTS, join_contents, join_texts

try:
    from pydantic import ValidationError
    from pydantic_ai import messages as _m
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse
    from pydantic_ai.tools import ToolDefinition
    from pydantic_core import from_json
except ImportError as error:
    raise MissingExtraError("wane.formats.pydantic_ai", "pydantic-ai") from error


_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_REVEALING: Final = frozenset({"load_capability", "search_tools", "tool_search"})
# Adapters of Chat Completions store the field's name as the part's id; these are not ids of a provider.
_SYNTHETIC_IDS: Final = frozenset({"content", "reasoning", "reasoning_content"})
# So that equal turns are equal: a turn that Wane writes has no time of its own.
_NO_TIME: Final = datetime.fromtimestamp(0, UTC)
_REDACTED_IDS: Final = frozenset({"redacted_thinking", "redacted_content"})


BEYOND_JSON: Final = (
    "The arguments hold a number that JSON cannot write: NaN, Infinity, or one too large for a double. "
    "Call again with a finite number, with null, or without that argument."
)
"""What the model reads in place of the result of such a call."""


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


class PydanticAIFormat(NativeFormat[ModelMessage]):
    """Pydantic AI's model messages."""

    name = "pydantic_ai"

    def load(self, data: object) -> list[ModelMessage]:
        """Return the messages of a list that holds `ModelMessage` objects or their JSON data.

        Raises:
            FormatError: if a message is not in this format; it names the first such message.
        """
        entries = expect_list(data, "Pydantic AI messages")
        if all(isinstance(entry, ModelRequest | ModelResponse) for entry in entries):
            return list(entries)
        loaded = [message for number, entry in enumerate(entries) for message in _load(entry, number)]
        check_each(loaded, self.parts)
        return loaded

    def dump(self, messages: Sequence[ModelMessage]) -> list[Any]:
        """Return messages as JSON-able data, the inverse of `load`."""
        dumped: list[Any] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
        return dumped

    def locate_parts(self, message: ModelMessage) -> list[Located[int]]:
        """Return the parts of a message that become items, each with its position in `message.parts`.

        Raises:
            FormatError: if it is not a message, or holds an unknown part.
        """
        if isinstance(message, ModelRequest):
            located = [(position, _request_part(part)) for position, part in enumerate(message.parts)]
            return located or [(-1, Part(Kind.SYSTEM))]
        if isinstance(message, ModelResponse):
            located = list(_response_parts(message))
            return couple(located, [_tie(message.parts[location]) for location, _ in located])
        raise FormatError(
            f"a Pydantic AI message must be a ModelRequest or a ModelResponse, found {type(message).__name__}"
        )

    def keep(self, message: ModelMessage, positions: Sequence[int]) -> ModelMessage:
        """Return a copy of the message with only some of its parts; all other fields are the same."""
        located = self.locate_parts(message)
        parts: Any = [message.parts[located[number][0]] for number in positions]
        return replace(message, parts=parts)

    def speaker(self, message: ModelMessage) -> str | None:
        if isinstance(message, ModelResponse):
            has_calls = any(isinstance(part, _m.BaseToolCallPart) for part in message.parts)
            return CALLING if has_calls else "assistant"
        if any(isinstance(part, _m.UserPromptPart) for part in message.parts):
            return "user"
        has_results = any(isinstance(part, _m.ToolReturnPart) for part in message.parts)
        return RESULTS if has_results else None

    def merge(self, first: ModelMessage, second: ModelMessage) -> ModelMessage:
        """Return two turns as one message; prompts of the user as one part, as models make a message of each."""
        if isinstance(second, ModelResponse):
            return replace(second, parts=[*first.parts, *second.parts])
        *before, last = first.parts
        following, *behind = second.parts
        parts: Any = [*first.parts, *second.parts]
        if isinstance(last, _m.UserPromptPart) and isinstance(following, _m.UserPromptPart):
            content = join_contents(last.content, following.content, str)
            parts = [*before, replace(last, content=content), *behind]
        return replace(first, parts=parts)

    def note_result(self, message: ModelMessage, text: str) -> ModelMessage | None:
        last = message.parts[-1] if message.parts else None
        if not isinstance(last, _m.ToolReturnPart) or not isinstance(last.content, str):
            return None
        content: Any = join_texts(last.content, text)
        parts: Any = [*message.parts[:-1], replace(last, content=content)]
        return replace(message, parts=parts)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> ToolDefinition:
        """Return the definition of a tool."""
        return ToolDefinition(name=name, description=description, parameters_json_schema=dict(schema))

    def turn(self, text: str) -> ModelMessage:
        """Return a request with a prompt of the user."""
        return ModelRequest([_m.UserPromptPart(text, timestamp=_NO_TIME)])

    def awaits(self, message: ModelMessage, position: int) -> bool:
        """Whether the application answers a call: the provider runs native tools."""
        return isinstance(message.parts[self.locate_parts(message)[position][0]], _m.ToolCallPart)

    def result(self, message: ModelMessage, position: int, output: str | list[Any]) -> ModelMessage:
        """Return a request with the return of a call."""
        part = self.locate_parts(message)[position][1]
        return ModelRequest([_m.ToolReturnPart(part.tool or "", output, part.call_id or "")])

    def clear_result(self, message: ModelMessage, position: int, text: str) -> ModelMessage:
        """Return a request with one return's content replaced by a text; returns of native tools stay."""
        location = self.locate_parts(message)[position][0]
        part = message.parts[location]
        if not isinstance(message, ModelRequest) or not isinstance(part, _m.ToolReturnPart | _m.RetryPromptPart):  # type: ignore[deprecated, unused-ignore]
            return message
        replaced = _m.ToolReturnPart(part.tool_name or "", text, part.tool_call_id, timestamp=part.timestamp)
        return replace(message, parts=[*message.parts[:location], replaced, *message.parts[location + 1 :]])


def _request_part(part: _m.ModelRequestPart) -> Part:
    if isinstance(part, _m.ToolReturnPart):
        return _result(part)
    if isinstance(part, _m.UserPromptPart):
        text, extra = _user_text(part.content)
        return Part(Kind.NOTICE if _is_notice(part) else Kind.USER, text, extra_tokens=extra)
    if isinstance(part, _m.SystemPromptPart):
        # A prompt scoped to its request is not sent again, so it holds no tokens.
        return Part(Kind.NOTICE, "" if part.scope == "request" else part.content, system=True)
    if isinstance(part, _m.SpeechPart):
        return Part(Kind.USER, part.content, extra_tokens=_speech_tokens(part))
    if isinstance(part, _m.RetryPromptPart) and part.tool_name is not None:  # type: ignore[deprecated, unused-ignore]
        return Part(Kind.RESULT, part.model_response(), call_id=part.tool_call_id, shows_nothing=True)
    if isinstance(part, _m.RetryPromptPart | _m.RetryFeedbackPart):  # type: ignore[deprecated, unused-ignore]
        return Part(Kind.SYSTEM, part.model_response())
    if isinstance(part, _m.InstructionDeltaPart):
        return Part(Kind.SYSTEM, part.render())
    if isinstance(part, _m.CompactionPart):
        return Part(Kind.SYSTEM, part.content or "")
    if isinstance(
        part,
        _m.ToolAvailabilityDeltaPart
        | _m.CapabilityLoadDeltaPart
        | _m.ModelSettingsDeltaPart
        | _m.InstructionBaselinePart,
    ):
        return Part(Kind.SYSTEM)
    raise FormatError(f"a ModelRequest holds an unknown part: {type(part).__name__}")


def _result(part: _m.BaseToolReturnPart[Any]) -> Part:
    text, extra = part.model_response_str(), len(part.files) * NON_TEXT_TOKENS
    if part.tool_name in _REVEALING:
        return Part(Kind.SYSTEM, text, extra_tokens=extra)
    denied = part.outcome == "denied"  # the reason of a `ToolDenied` is a person's (R21)
    nothing = part.outcome != "success"
    return Part(Kind.RESULT, text, part.tool_call_id, extra_tokens=extra, person=denied, shows_nothing=nothing)


def _response_parts(message: ModelResponse) -> Iterable[Located[int]]:
    paired = _paired_natives(message)
    for position, part in enumerate(message.parts):
        if isinstance(part, _m.ToolCallPart):
            yield position, _call(part)
        elif isinstance(part, _m.NativeToolCallPart):
            yield position, _call(part) if position in paired else _lone_call(part)
        elif isinstance(part, _m.NativeToolReturnPart):
            result = _result(part)
            yield position, result if position in paired else replace(result, kind=_lone_kind(part), call_id=None)
        elif (plain := _plain_part(part)) and (plain.text or plain.extra_tokens or plain.kind is Kind.SYSTEM):
            yield position, plain


def _plain_part(part: _m.ModelResponsePart) -> Part | None:
    if isinstance(part, _m.TextPart):
        return Part(Kind.TEXT, part.content)
    if isinstance(part, _m.ThinkingPart):
        # If it is only in its signature, that is base64 of about as many bytes as the text has characters.
        hidden = max(1, len(part.signature) * 3 // 16) if part.signature and not part.content else 0
        return Part(Kind.REASONING, part.content, extra_tokens=hidden)
    if isinstance(part, _m.FilePart):
        return Part(Kind.TEXT, extra_tokens=NON_TEXT_TOKENS)
    if isinstance(part, _m.SpeechPart):
        return Part(Kind.TEXT, part.content, extra_tokens=_speech_tokens(part))
    if isinstance(part, _m.CompactionPart):
        # It stands for all that came before it, and providers accept only the whole of it.
        return Part(Kind.SYSTEM, part.content or "")
    raise FormatError(f"a ModelResponse holds an unknown part: {type(part).__name__}")


def _call(part: _m.BaseToolCallPart[Any]) -> Part:
    if part.tool_name in _REVEALING:
        return _lone_call(part)
    return Part(Kind.CALL, call_id=part.tool_call_id, tool=part.tool_name, arguments=raw_arguments(part))


def _lone_call(part: _m.BaseToolCallPart[Any]) -> Part:
    return Part(_lone_kind(part), f"{part.tool_name}{raw_arguments(part)}")


def _lone_kind(part: _m.BaseToolCallPart[Any] | _m.NativeToolReturnPart[Any]) -> Kind:
    return Kind.SYSTEM if part.tool_name in _REVEALING else Kind.TEXT


def raw_arguments(part: _m.BaseToolCallPart[Any]) -> str:
    """Return a call's arguments as JSON text; text of the model is returned as it is, even if malformed."""
    if part.args is None or isinstance(part.args, str):
        return part.args or ""
    return _ENCODER.encode(part.args)


def _paired_natives(message: ModelResponse) -> set[int]:
    """Positions of native calls whose return follows in the same message, and of these returns."""
    waiting: dict[str, int] = {}
    paired: set[int] = set()
    for position, part in enumerate(message.parts):
        if isinstance(part, _m.NativeToolCallPart):
            waiting[part.tool_call_id] = position
        elif isinstance(part, _m.NativeToolReturnPart) and part.tool_call_id in waiting:
            paired |= {waiting.pop(part.tool_call_id), position}
    return paired


def _tie(part: _m.ModelResponsePart) -> Tie:
    """What ties a part to others of its response (R12): an item of OpenAI's has an id, and its pieces share it."""
    item = _item_id(part)
    bonds = (item,) if item else ()
    if isinstance(part, _m.ThinkingPart):
        sealed = Seal.SIGNED if part.signature else Seal.NONE
        return Tie(Seal.NAMED if item else sealed, bonds)
    if isinstance(part, _m.ToolCallPart):
        return Tie(Seal.SIGNED if (part.provider_details or {}).get("thought_signature") else Seal.NONE)
    if isinstance(part, _m.NativeToolCallPart | _m.NativeToolReturnPart):
        return Tie(served=True)
    cites = isinstance(part, _m.TextPart) and (part.citations or (part.provider_details or {}).get("citations"))
    return Tie(bonds=bonds, cites=bool(cites))


def _item_id(part: object) -> str | None:
    """The provider's id of the output item that a part came from."""
    if not isinstance(part, _m.ThinkingPart | _m.TextPart) or part.id in _REDACTED_IDS:
        return None
    details = part.provider_details or {}
    native = part.id not in _SYNTHETIC_IDS or getattr(part, "signature", None) or details.get("raw_content")
    return part.id if native else None


def _user_text(content: str | Sequence[_m.UserContent]) -> tuple[str, int]:
    if isinstance(content, str):
        return content, 0
    texts, media = [], 0
    for entry in content:
        if isinstance(entry, str):
            texts.append(entry)
        elif isinstance(entry, _m.TextContent):
            texts.append(entry.content)
        elif not isinstance(entry, _m.CachePoint):
            media += 1
    return "".join(texts), media * NON_TEXT_TOKENS


def _is_notice(part: _m.UserPromptPart) -> bool:
    """Whether all content of a prompt is the harness's."""
    entries = [part.content] if isinstance(part.content, str) else part.content
    contents = [entry for entry in entries if entry and not isinstance(entry, _m.CachePoint)]
    for entry in contents:
        text = entry.content if isinstance(entry, _m.TextContent) else entry
        if not (isinstance(text, str) and is_notice(text)):
            return False
    return bool(contents)


def _speech_tokens(part: _m.SpeechPart) -> int:
    return NON_TEXT_TOKENS if part.audio is not None and not part.transcript else 0


def _load(entry: object, number: int) -> list[ModelMessage]:
    if isinstance(entry, ModelRequest | ModelResponse):
        return [entry]
    if not isinstance(entry, dict) or entry.get("kind") not in ("request", "response") or "parts" not in entry:
        text = ascii(entry)
        text = text if len(text) <= 60 else f"{text[:57]}..."
        raise FormatError(f"message {number}: expected an object with kind and parts, found {text}")
    try:
        # Through JSON text: only there does Pydantic read bytes as base64.
        data = json.dumps([entry], ensure_ascii=False)
        # Pydantic refuses lone surrogates, and no request can carry one; the rest must still be readable.
        return ModelMessagesTypeAdapter.validate_json(_SURROGATES.sub("\ufffd", data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][2:]))
        raise FormatError(f"message {number}: {where}: {first['msg']}") from None
    except (TypeError, ValueError) as error:
        raise FormatError(f"message {number}: it is not JSON data: {error}") from None


def encodable(text: str) -> str:
    """Return text that can be encoded: two halves of a character are joined, and a lone half becomes U+FFFD."""
    if text.isascii() or _SURROGATES.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def beyond_json(arguments: str | dict[str, Any] | None) -> bool:
    """Whether a lenient parser reads the arguments as JSON with a number that JSON cannot write."""
    try:
        data = from_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return False  # no parser reads it as JSON
    try:
        json.dumps(data, allow_nan=False, default=str)
    except (ValueError, RecursionError):
        return True
    return False


def sendable(message: ModelMessage) -> ModelMessage:
    """Return a message that a request can carry; the same object if it needs no change.

    Arguments that are `beyond_json` are sent as text, as Pydantic AI sends malformed JSON.
    """
    message = with_encodable_text(message)
    if not isinstance(message, ModelResponse):
        return message
    parts: list[Any] = list(message.parts)
    for position, part in enumerate(parts):
        if isinstance(part, _m.BaseToolCallPart) and beyond_json(part.args):
            parts[position] = replace(part, args={_m.INVALID_JSON_KEY: raw_arguments(part)})
    return message if _same(parts, message.parts) else replace(message, parts=parts)


def with_encodable_text(value: Any) -> Any:
    """Return a message, or anything in one, with every text `encodable`; the same object if all are."""
    if isinstance(value, str):
        return encodable(value)
    if type(value) is list or type(value) is tuple:
        entries = [with_encodable_text(entry) for entry in value]
        return value if _same(entries, value) else type(value)(entries)
    if type(value) is dict:
        pairs = [(with_encodable_text(key), with_encodable_text(entry)) for key, entry in value.items()]
        return value if all(map(_same, pairs, value.items())) else dict(pairs)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {}
    for name in _field_names(type(value)):
        old = getattr(value, name)
        if (new := with_encodable_text(old)) is not old:
            changed[name] = new
    if isinstance(value, _m.ThinkingPart) and "content" in changed and not value.id:
        # The signature is bound to the original text; the provider would refuse it with another one.
        changed["signature"] = None
    return replace(value, **changed) if changed else value


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))
