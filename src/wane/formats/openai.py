"""OpenAI chat messages, with the reasoning and the signatures that DeepSeek, OpenRouter, vLLM and others add."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from wane.core import Kind
from wane.core.errors import FormatError
from wane.formats.coupling import SIGNED, UNTIED, Tie, couple
from wane.formats.fields import expect_list, sealed_tokens, string, type_name
from wane.formats.message_format import Located, Part, PlainFormat, turn_part
from wane.formats.notices import introduces_media, is_notice
from wane.formats.roles import join_contents, mend_own_calls, speaker_by_role
from wane.formats.vocabulary import CHAT, REASONING_TEXTS, are_plain, as_data

Message = dict[str, Any]

NON_TEXT_TOKENS: Final = 1_000
"""Flat estimate for an image, a sound or a file in a message, in tokens."""

_ROLES: Final = {"system": Kind.SYSTEM, "developer": Kind.SYSTEM, "user": Kind.USER}

REASONING_LISTS: Final = ("reasoning_details", "thinking_blocks", "reasoning_items", "reasoning_opaque")
"""Keys of the same reasoning with signatures: OpenRouter's, two of LiteLLM's, and the whole of it as GitHub Copilot
seals it. Some answers have it without the text."""

_SEALS: Final = ("signature", "data", "encrypted_content")

_TEXT_KEYS: Final = ("content", "refusal")
_CALL_TYPES: Final = frozenset({"function", "custom"})


class OpenAIFormat(PlainFormat):
    """OpenAI chat messages as plain dicts.

    Args:
        demands_reasoning: whether a server may demand a call's reasoning beside it, as DeepSeek's and Kimi's do (R12).
            Say False for a server that does not, and a pass can take the reasoning ahead of the calls, and the answer
            that ends a turn ahead of its calls, but not ahead of what a person answered (R12b).
    """

    name = "openai"
    called = "chat messages"
    reads_each = True
    joins_answers = False

    def __init__(self, *, demands_reasoning: bool = True) -> None:
        self.demands_reasoning = demands_reasoning

    def read(self, data: Sequence[Any]) -> Sequence[Message]:
        """Return messages; of a whole answer its message, and of an object of OpenAI's SDK its data."""
        return [_plain(entry) if type(entry) is dict and "role" in entry else _of_sdk(entry) for entry in data]

    def check(self, message: Message, *, adds_fields: bool = False) -> None:
        CHAT.check(message, adds_fields=adds_fields)
        for key in ("reasoning_content", "reasoning"):
            if message.get(key) is not None and not isinstance(message[key], str):
                raise FormatError(f"the field {key!r} must be a string, found {type_name(message[key])}")
        # Some servers leave out the type of a call.
        calls = [{"type": "function", **call} for call in message.get("tool_calls") or []]
        CHAT.check_contents(calls, _CALL_TYPES, "a call", adds_fields)

    def locate_parts(self, message: Message) -> Sequence[tuple[Any, Part]]:
        """Take a message apart: reasoning, content and calls in this order, one result (R1), or a turn (R15).

        In a user or system message each text that is a notice is an item, and so is each run of content between them.

        Raises:
            FormatError: for a role, content or call of the wrong shape.
        """
        if not isinstance(message, dict):
            raise FormatError(f"a chat message must be an object, found {type_name(message)}")
        role = message.get("role")
        if role == "assistant":
            located = _assistant_parts(message)
            ties = [_tie(message, source) for source, _ in located]
            if not self.demands_reasoning and SIGNED not in ties:
                return located
            return couple(located, ties)
        if role == "tool":
            text, extra = _content(message.get("content"), "\n")
            return [((), Part(Kind.RESULT, text, call_id=string(message, "tool_call_id"), extra_tokens=extra))]
        return _turn_parts(message)

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        if message.get("role") != "assistant":
            locations = _turn_parts(message)
            content = [message["content"][location] for position in positions for location in locations[position][0]]
            return {**message, "content": content}
        sources = [source for source, _ in _assistant_parts(message)]
        going = set(sources) - {sources[position] for position in positions}
        if not going.isdisjoint((*REASONING_TEXTS, *REASONING_LISTS)):
            # These hold the same reasoning in another form.
            going.update(REASONING_TEXTS, REASONING_LISTS)
        result = {key: value for key, value in message.items() if key not in going}
        calls = [call for number, call in enumerate(message.get("tool_calls") or []) if number not in going]
        if isinstance(details := result.get("reasoning_details"), list):
            # An entry with a call's id is its signature, and leaves with it.
            gone = {call.get("id") for n, call in enumerate(message.get("tool_calls") or []) if n in going} - {None}
            if not (remaining := [entry for entry in details if _field(entry, "id") not in gone]):
                del result["reasoning_details"]
            elif len(remaining) < len(details):
                result["reasoning_details"] = remaining
        if calls:
            result["tool_calls"] = calls
        else:
            result.pop("tool_calls", None)
        if "content" in going or "content" not in result:
            # A message with calls or a refusal may have null content; any other needs a string.
            result["content"] = None if calls or result.get("refusal") else ""
        if list(result) == list(message):
            return result
        return {key: result[key] for key in (*message, "content") if key in result}

    def sendable(self, message: Message) -> Message:
        """Return a message with own calls that servers can read.

        Answers that are empty or all reasoning, which many providers refuse, are left out otherwise (`is_sent`).
        """
        return mend_own_calls(message) if message.get("role") == "assistant" else message

    def speaker(self, message: Message) -> str | None:
        return speaker_by_role(message["role"], has_calls=bool(message.get("tool_calls")))

    def is_sent(self, message: Message) -> bool:
        return message.get("role") != "assistant" or says_something(message)

    def merge(self, first: Message, second: Message) -> Message:
        merged = {**second, **first, "content": join_contents(first.get("content"), second.get("content"))}
        for key in REASONING_TEXTS:
            texts = [message[key] for message in (first, second) if isinstance(message.get(key), str)]
            if texts:
                merged[key] = "\n\n".join(texts)
        for key in REASONING_LISTS:
            if isinstance(first.get(key), list) and isinstance(second.get(key), list):
                merged[key] = [*first[key], *second[key]]
        return merged

    def note_result(self, message: Message, text: str) -> Message | None:
        """Return a tool's message with a note behind its text: Mistral's API takes no user's message behind it."""
        if message.get("role") != "tool":
            return None
        return {**message, "content": join_contents(message.get("content"), text)}

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": dict(schema)},
        }

    def turn(self, text: str) -> Message:
        return {"role": "user", "content": text}

    def read_contents(self, output: object) -> list[Any] | None:
        return CHAT.read_contents(output)

    def result(self, message: Message, position: int, output: str | list[Any]) -> Message:
        return {"role": "tool", "tool_call_id": self.parts(message)[position].call_id, "content": output}

    def clear_result(self, message: Message, position: int, text: str) -> Message:  # noqa: ARG002 - it has one part
        return {**message, "content": text}


def _plain(message: Message) -> Message:
    """A message with the SDK's objects in its lists as data; the same object if it has none."""
    changed = {}
    for name in ("content", "tool_calls"):
        entries = message.get(name)
        if isinstance(entries, list) and not are_plain(entries):
            changed[name] = [as_data(entry) for entry in entries]
    return {**message, **changed} if changed else message


def _of_sdk(entry: Any) -> Any:
    message = as_data(entry)
    if isinstance(message, Mapping) and "choices" in message and "role" not in message:
        choices = expect_list(message["choices"], "choices")
        if len(choices) != 1:
            raise FormatError(f"an answer with {len(choices)} choices; append the message of the one that you use")
        choice = as_data(choices[0])
        if not isinstance(choice, Mapping) or "message" not in choice:
            raise FormatError("a piece of a streamed answer; append the whole message")
        message = choice["message"]
    if isinstance(message, Mapping) and "message" in message and "role" not in message:
        raise FormatError("a choice of an answer; append its `message`")
    if message is entry or not isinstance(message, dict) or "role" not in message:
        return message
    sent = {name: value for name, value in message.items() if name not in CHAT.metadata}
    if isinstance(audio := sent.get("audio"), Mapping):
        sent["audio"] = {"id": audio.get("id")}  # the sound itself is not sent again
    return sent


def says_something(message: Message) -> bool:
    """Whether an assistant's message has content that a provider accepts; reasoning alone is not enough."""
    get = message.get
    return bool(get("content") or get("tool_calls") or get("refusal") or get("audio"))


def _turn_parts(message: Message) -> list[Located[tuple[int, ...]]]:
    """The items of a system or user message, with the positions of their pieces in its content."""
    role, content = message.get("role"), message.get("content")
    kind = _ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        raise CHAT.role_error(message, CHAT.fields)
    system = kind is Kind.SYSTEM
    if not isinstance(content, list):
        text, _ = _content(content)
        return [((), turn_part(text, system=system))]
    pieces = [_content([piece]) for piece in content]
    marked = list[bool]()
    introduced = False
    for text, extra in pieces:
        marked.append(introduced if extra else is_notice(text, system=system))
        introduced |= introduces_media(text)
    located: list[Located[tuple[int, ...]]] = []
    for notice, run in groupby(range(len(pieces)), marked.__getitem__):
        if notice:
            for location in run:
                text, extra = pieces[location]
                located.append(((location,), Part(Kind.NOTICE, text, extra_tokens=extra, system=system)))
        else:
            locations = tuple(run)
            texts, extras = zip(*(pieces[location] for location in locations), strict=True)
            located.append((locations, Part(kind, "".join(texts), extra_tokens=sum(extras))))
    return located or [((), Part(kind))]


def _assistant_parts(message: Message) -> list[tuple[str | int, Part]]:
    """The parts with the key, or the number of the call, that each comes from."""
    parts: list[tuple[str | int, Part]] = []
    for key in (*REASONING_TEXTS, *REASONING_LISTS):
        reasoning = message.get(key)
        if reasoning and isinstance(reasoning, str) and key in REASONING_TEXTS:
            parts.append((key, Part(Kind.REASONING, reasoning)))
            break
        if reasoning and key in REASONING_LISTS:
            parts.append((key, _sealed_reasoning(reasoning)))
            break
    for key in _TEXT_KEYS:
        text, extra = _content(message.get(key))
        if text or extra:
            parts.append((key, Part(Kind.TEXT, text, extra_tokens=extra)))
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise FormatError(f"tool_calls must be a list, found {type_name(calls)}")
    parts += [(number, _call(call)) for number, call in enumerate(calls)]
    return parts


def _sealed_reasoning(reasoning: object) -> Part:
    """Reasoning of which a message has no text beside its entries with signatures."""
    if isinstance(reasoning, str):
        return Part(Kind.REASONING, extra_tokens=max(1, sealed_tokens(reasoning, 0)))
    entries = reasoning if isinstance(reasoning, list) else [reasoning]
    texts = [_field(entry, key) for entry in entries for key in ("text", "summary", "thinking")]
    if text := "\n".join(text for text in texts if isinstance(text, str) and text):
        return Part(Kind.REASONING, text)
    seals = sum(sealed_tokens(_field(entry, key), 0) for entry in entries for key in _SEALS)
    return Part(Kind.REASONING, extra_tokens=max(1, seals))


def _tie(message: Message, source: str | int) -> Tie:
    """What ties a part to others of its message (R12): DeepSeek and Kimi demand reasoning even without a signature."""
    if isinstance(source, int):
        call = message["tool_calls"][source]
        google = _field(_field(call, "extra_content"), "google")
        litellm = _field(call, "provider_specific_fields")
        # Behind a Chat endpoint Gemini's signature stands in one of these, or, with LiteLLM, in the call's id.
        signatures = (_field(google, "thought_signature"), _field(litellm, "thought_signature"))
        return SIGNED if any(signatures) or "__thought__" in str(call.get("id")) else UNTIED
    if source not in (*REASONING_TEXTS, *REASONING_LISTS):
        return UNTIED
    for key in REASONING_LISTS:
        value = message.get(key)
        entries = value if isinstance(value, list) else []
        sealed = any(_field(entry, seal) for entry in entries for seal in _SEALS)
        if sealed or (value and isinstance(value, str)):
            return SIGNED
    return UNTIED


def _field(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _call(call: object) -> Part:
    if not isinstance(call, Mapping):
        raise FormatError(f"a tool call must be an object, found {type_name(call)}")
    kind = call.get("type") or "function"
    body = call.get(kind) if isinstance(kind, str) else None
    if not isinstance(body, Mapping):
        raise FormatError(f"tool call {call.get('id')!r} has no {kind if isinstance(kind, str) else 'function'}")
    arguments = body.get("arguments", body.get("input"))
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        # Some servers send the object itself, not its JSON.
        arguments = json.dumps(arguments, ensure_ascii=False)
    return Part(Kind.CALL, call_id=string(call, "id"), tool=string(body, "name"), arguments=arguments)


def _content(content: object, separator: str = "") -> tuple[str, int]:
    """The text of a content, and an estimate for the rest of it.

    The parts of a result are outputs of their own, such as one for each file, so that a `separator` must keep their
    last and first words apart.
    """
    if content is None:
        return "", 0
    if isinstance(content, str):
        return content, 0
    if not isinstance(content, list):
        raise FormatError(f"content must be a string, a list of parts or null, found {type_name(content)}")
    texts, extra = [], 0
    for part in content:
        text = part.get("text", part.get("refusal")) if isinstance(part, Mapping) else part
        if isinstance(text, str):
            texts.append(text)
        else:
            extra += NON_TEXT_TOKENS
    return separator.join(filter(None, texts)), extra
