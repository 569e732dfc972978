"""Contents of Gemini's `generateContent`, as plain dicts.

What each part becomes:

| part | item |
|---|---|
| model: `text` | text; reasoning where `thought` is set, or where it is empty and has a signature |
| `functionCall` | call |
| `executableCode`, `toolCall` | call of a tool that Gemini runs |
| `codeExecutionResult`, `toolResponse` | its result |
| anything else | text, with a flat estimate |
| user: `functionResponse` | result |
| `text` that is a notice (`wane.formats.notices`) | notice |
| anything else | user, one item per part |

A content without a role is the user's. An empty one is one user item. Fields may be spelled `functionCall` or
`function_call`, as Gemini takes both. A call without an id, which only newer models give, is named by its tool and by
which of the tool's calls in its content it is; so is its result. A result without the id of its call gets it.

A part's signature is Gemini's own record of its reasoning, and goes back with the part, unchanged. Gemini refuses a
content of the current turn whose first call has none, and signs only the first of several parallel calls.

Instructions belong in `systemInstruction`, which is not a message. A content of role `system` is one item all the same,
because programs that serve several providers keep their instructions in the list; Gemini gets it as the user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from wane.core import Kind
from wane.core.errors import FormatError
from wane.core.items import INVALID_JSON
from wane.formats.coupling import SIGNED, UNTIED, Seal, Tie, couple
from wane.formats.fields import (
    compact,
    expect_list,
    raw_text,
    sealed_tokens,
    string,
    type_name,
)
from wane.formats.gemini_calls import OpenCall, as_called, call_ids, field, name_results
from wane.formats.message_format import Located, Lone, Part, PlainFormat, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import must_mend
from wane.formats.vocabulary import GEMINI

Message = dict[str, Any]
GeminiPart: TypeAlias = dict[str, Any]

ROLES: Final = ("user", "model")
"""The roles that Gemini takes."""

KNOWN_ROLES: Final = (*ROLES, "system", "function")
"""The roles that contents may have here; the last is what older versions of the API call a user's with results."""

UNCHECKED: Final = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Signatures that Google's guide gives for calls of other models; Gemini does not check them."""

_WHOLE: Final = -1
_CODE: Final = "code_execution"
_OUTPUTS: Final = ("output", "result", "error")
"""Keys of a response under which its text stands: Gemini's guide names the first and the last."""


class GeminiFormat(PlainFormat):
    """Contents of Gemini's `generateContent`."""

    name = "gemini"
    holds = "contents"
    called = "Gemini contents"
    lone_reasoning = Lone.PIECE

    def complete(self, messages: list[Message]) -> list[Message]:
        return name_results(messages)

    def read(self, data: Sequence[Any]) -> Sequence[Message]:
        """Return contents; of a whole answer its content, and of an object of Google's SDK its data."""
        return name_results([entry if type(entry) is dict and "parts" in entry else _of_sdk(entry) for entry in data])

    def answering(self, messages: Sequence[Message], calls: Sequence[OpenCall]) -> list[Message]:
        return name_results(messages, calls)

    def check(self, message: Message, *, adds_fields: bool = False) -> None:
        GEMINI.check_fields(
            message, GEMINI.blocks["content"], f"a content of role {message.get('role', 'user')!r}", adds_fields
        )
        for part in message["parts"]:
            GEMINI.check_fields(part, GEMINI.blocks["part"], "a part", adds_fields)
            if part.keys().isdisjoint(GEMINI.blocks["data"]):
                raise FormatError(f"a part needs one of {', '.join(_SHOWN)}; found {', '.join(part) or 'none'}")

    def locate_parts(self, message: Message) -> list[Located[int]]:
        """Return the items of a content, each with the position of its part.

        Raises:
            FormatError: for a role or part of the wrong shape.
        """
        if not isinstance(message, dict):
            raise FormatError(f"a content must be an object, found {type_name(message)}")
        role = message.get("role", "user")
        if role not in KNOWN_ROLES:
            raise GEMINI.role_error(message, ROLES)
        if "parts" not in message:
            # Names the format of a message that is another one's.
            GEMINI.check_fields(message, GEMINI.blocks["content"], "a content", adds_fields=False)
        parts = parts_of(message)
        if role == "model":
            located = list(_answer_parts(parts))
            return couple(located, [_tie(parts[location], part) for location, part in located])
        if role == "system":
            return [(_WHOLE, turn_part("".join(_text(part) for part in parts), system=True))]
        return list(_user_parts(parts)) or [(_WHOLE, Part(Kind.USER))]

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        located, parts = self.locate_parts(message), message["parts"]
        if located[0][0] == _WHOLE:
            return message
        return {**message, "parts": [parts[located[position][0]] for position in positions]}

    def sendable(self, message: Message) -> Message | None:
        """Return a content that Gemini accepts.

        Empty ones, which it refuses, and answers that are all reasoning are left out; arguments that are no object are
        wrapped in one.
        """
        role, parts = message.get("role"), message["parts"]
        if role != "model":
            said = [part for part in parts if not _is_blank(part)] or parts
            same = role == "user" and len(said) == len(parts)
            if not parts:
                return None
            return message if same else {**message, "role": "user", "parts": said}
        if all(is_reasoning(part) or _is_blank(part) for part in parts):
            return None
        if not any(_is_blank(part) or _has_raw_arguments(part) for part in parts):
            return message
        return {**message, "parts": [_mend_calls(part) for part in parts if not _is_blank(part)]}

    def arrange(self, messages: Sequence[Message]) -> list[Any]:
        """Return the contents of a request.

        Neighbours of one role become one content, with results first: Gemini wants all results of an answer in the
        content behind it, and calls right behind a user's content. Results of calls without ids have none either, which
        some versions of the API refuse, and stand in the order of the calls.
        """
        sent: list[Any] = []
        for content in messages:
            if sent and _role(content) == _role(sent[-1]):
                sent[-1] = merge_contents(sent[-1], content)
            else:
                sent.append(content)
        called = [content if _role(content) == "model" else None for content in sent]
        return [as_called(content, before) for content, before in zip(sent, [None, *called], strict=False)]

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        declared = {"name": name, "description": description, "parametersJsonSchema": dict(schema)}
        return {"functionDeclarations": [declared]}

    def turn(self, text: str) -> Message:
        return {"role": "user", "parts": [{"text": text}]}

    def awaits(self, message: Message, position: int) -> bool:
        """Whether the application answers a call: Gemini runs code and its own tools."""
        return field(message["parts"][self.locate_parts(message)[position][0]], "functionCall") is not None

    def read_contents(self, output: object) -> list[Any] | None:
        """Return parts with texts or media, which a response holds beside its text; None for other data."""
        entries: Sequence[object] = output if isinstance(output, (list, tuple)) else ()
        parts = [_of_sdk(entry) for entry in entries]
        for part in parts:
            if not isinstance(part, dict) or not part.keys() <= GEMINI.blocks["part"]:
                return None
            media = any(isinstance(field(part, name), dict) for name in ("inlineData", "fileData"))
            if media == isinstance(part.get("text"), str):
                return None
        return parts or None

    def result(self, message: Message, position: int, output: str | list[Any]) -> Message:
        call = self.locate_parts(message)[position][1]
        parts: list[Any] = [{"text": output}] if isinstance(output, str) else output
        texts = [part["text"] for part in parts if "text" in part]
        answer: dict[str, Any] = {"id": call.call_id, "name": call.tool, "response": {"output": "\n".join(texts)}}
        if media := [part for part in parts if "text" not in part]:
            answer["parts"] = media
        return {"role": "user", "parts": [{"functionResponse": answer}]}

    def clear_result(self, message: Message, position: int, text: str) -> Message:
        """Return a content with a text in place of one result's response. Results of Gemini's own tools stay."""
        location, parts = self.locate_parts(message)[position][0], message["parts"]
        response = field(parts[location], "functionResponse")
        if response is None:
            return message
        cleared = {name: value for name, value in response.items() if name != "parts"} | {"response": {"output": text}}
        name = "functionResponse" if "functionResponse" in parts[location] else "function_response"
        part = {**parts[location], name: cleared}
        return {**message, "parts": [*parts[:location], part, *parts[location + 1 :]]}


def parts_of(message: Mapping[str, Any]) -> list[GeminiPart]:
    """Return the parts of a content.

    Raises:
        FormatError: if they are no list of objects.
    """
    parts = message.get("parts")
    if not isinstance(parts, list):
        raise FormatError(f"the parts of a content must be a list, found {type_name(parts)}")
    for part in parts:
        if not isinstance(part, dict):
            raise FormatError(f"a part must be an object, found {type_name(part)}")
    return parts


def merge_contents(first: Message, second: Message) -> Message:
    """Return two contents of one role as one; a user's results come first."""
    parts = [*first["parts"], *second["parts"]]
    if _role(first) == "user":
        parts.sort(key=lambda part: field(part, "functionResponse") is None)
    return {**first, "parts": parts}


def seal_of(part: Mapping[str, Any]) -> str:
    """Return the signature of a part; empty for none."""
    seal = field(part, "thoughtSignature")
    return seal if isinstance(seal, str) else ""


def is_signed(part: Mapping[str, Any]) -> bool:
    """Whether Gemini has signed a part; not with a signature that clients set, and that it does not check."""
    return seal_of(part) not in ("", *UNCHECKED)


def is_reasoning(part: Mapping[str, Any]) -> bool:
    """Whether a model's part is reasoning: a thought, or a signature by itself."""
    if part.get("thought"):
        return True
    return bool(seal_of(part)) and not part.get("text") and all(field(part, name) is None for name in _OBJECTS)


_OBJECTS: Final = (
    *("functionCall", "functionResponse", "inlineData", "fileData"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
_SHOWN: Final = ("text", *_OBJECTS)


def _role(message: Message) -> str:
    return "model" if message.get("role") == "model" else "user"


def _of_sdk(entry: Any) -> Any:
    """The content in an answer, a candidate or an object of the SDK."""
    dump = getattr(entry, "model_dump", None)
    data = dump(mode="json", exclude_none=True, by_alias=True) if callable(dump) else entry
    if isinstance(data, dict) and "parts" not in data and "candidates" in data:
        candidates = expect_list(data["candidates"], "candidates")
        if len(candidates) != 1:
            raise FormatError(f"an answer with {len(candidates)} candidates; append the content of the one you use")
        data = candidates[0]
    if isinstance(data, dict) and "parts" not in data and isinstance(data.get("content"), dict):
        data = data["content"]
        # An answer that was cut off before its first word has no parts.
        return data if "parts" in data else {"role": "model", **data, "parts": []}
    return data


def _text(part: GeminiPart) -> str:
    value = part.get("text")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FormatError(f"text must be a string, found {type_name(value)}")
    return value


def _object(part: GeminiPart, name: str) -> Mapping[str, Any] | None:
    value = field(part, name)
    if value is not None and not isinstance(value, dict):
        raise FormatError(f"{name} must be an object, found {type_name(value)}")
    return value


def _user_parts(parts: Sequence[GeminiPart]) -> Iterator[Located[int]]:
    id_of = call_ids()
    for location, part in enumerate(parts):
        response = _object(part, "functionResponse")
        if response is not None:
            media = response.get("parts")
            extra = NON_TEXT_TOKENS * len(media) if isinstance(media, list) else 0
            name = string(response, "name")
            output, call_id = response.get("response"), id_of(response, name)
            text = _response_text(output)
            failed = isinstance(output, dict) and "error" in output
            yield location, Part(Kind.RESULT, text, call_id, extra_tokens=extra, shows_nothing=failed)
        elif part.get("text") is not None:
            yield location, turn_part(_text(part))
        else:
            yield location, Part(Kind.USER, extra_tokens=NON_TEXT_TOKENS)


def _answer_parts(parts: Sequence[GeminiPart]) -> Iterator[Located[int]]:
    id_of = call_ids()
    for location, part in enumerate(parts):
        if (call := _object(part, "functionCall")) is not None:
            tool, args = string(call, "name"), call.get("args")
            raw = "{}" if args is None else raw_text(args)
            yield location, Part(Kind.CALL, call_id=id_of(call, tool), tool=tool, arguments=raw)
        elif (served := _read_served(part)) is not None:
            kind, call, tool = served
            call_id = id_of(call, f"{kind} {tool}").removeprefix(f"{kind} ")
            told = compact({name: value for name, value in call.items() if name != "id"})
            if kind is Kind.CALL:
                yield location, Part(kind, call_id=call_id, tool=tool, arguments=told)
            else:
                yield location, Part(kind, told, call_id=call_id)
        elif is_reasoning(part):
            text = _text(part)
            yield (
                location,
                Part(Kind.REASONING, text, extra_tokens=0 if text else max(1, sealed_tokens(seal_of(part), 0))),
            )
        elif text := _text(part):
            yield location, Part(Kind.TEXT, text)
        elif part.get("text") is None:
            yield location, Part(Kind.TEXT, extra_tokens=NON_TEXT_TOKENS)


def _read_served(part: GeminiPart) -> tuple[Kind, Mapping[str, Any], str] | None:
    """A call that Gemini runs, or its result, with the tool's name; None for another part."""
    for kind, code, tool in (
        (Kind.CALL, "executableCode", "toolCall"),
        (Kind.RESULT, "codeExecutionResult", "toolResponse"),
    ):
        if (ran := _object(part, code)) is not None:
            return kind, ran, _CODE
        if (ran := _object(part, tool)) is not None:
            return kind, ran, str(field(ran, "toolType") or "tool").lower()
    return None


def _response_text(response: object) -> str:
    """A response as text: what stands around a plain text is left out."""
    if isinstance(response, dict) and len(response) == 1:
        (name, value), *_ = response.items()
        if name in _OUTPUTS and isinstance(value, str):
            return value
    return raw_text(response)


def _tie(raw: GeminiPart, part: Part) -> Tie:
    """What ties a part to others of its content (R12). Gemini demands signatures, and no thoughts without one."""
    sealed = is_signed(raw)
    if part.kind is Kind.REASONING:
        return SIGNED if sealed else Tie(free=True)
    if part.kind is Kind.CALL:
        served = field(raw, "functionCall") is None
        bonds = (part.call_id,) if served and part.call_id else ()
        return Tie(Seal.SIGNED if sealed else Seal.NONE, bonds)
    return Tie(bonds=tuple(filter(None, (part.call_id,)))) if part.kind is Kind.RESULT else UNTIED


def _is_blank(part: GeminiPart) -> bool:
    """Whether a part is empty text without a signature."""
    return part.get("text") == "" and not seal_of(part) and all(field(part, name) is None for name in _OBJECTS)


def _has_raw_arguments(part: GeminiPart) -> bool:
    call = field(part, "functionCall")
    return call is not None and not isinstance(call.get("args"), dict | None)


def _mend_calls(part: GeminiPart) -> GeminiPart:
    if not _has_raw_arguments(part):
        return part
    name = "functionCall" if "functionCall" in part else "function_call"
    call = part[name]
    raw = raw_text(call["args"])
    empty = must_mend(call.get("name"), call["args"]) or not raw.strip()
    return {**part, name: {**call, "args": {} if empty else {INVALID_JSON: raw}}}
