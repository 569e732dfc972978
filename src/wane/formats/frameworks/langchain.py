"""LangChain's messages, and so LangGraph's: `HumanMessage`, `AIMessage`, `ToolMessage`, `SystemMessage`.

An answer's content comes in dialects: text, Anthropic's blocks, items of OpenAI Responses (`responses/v1`) and
LangChain's own blocks (`v1`). Calls stand in `tool_calls` and, where their arguments are no JSON object, in
`invalid_tool_calls`; most dialects have them in the content as well. Needs the `langchain` extra.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from wane.core import Kind
from wane.core.errors import FormatError, MissingExtraError
from wane.formats.base import Located, NativeFormat, Part, couple_reasoning, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.values import shown_text

try:
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
except ImportError as error:
    raise MissingExtraError("wane.formats.frameworks.langchain", "langchain") from error

Location: TypeAlias = tuple[str, Any]
"""Where a part stands: in a block of the content, in the text, in a field, or as which of the calls."""


_WHOLE: Final[Location] = ("whole", None)
_TEXT: Final[Location] = ("text", None)
_REASONING_FIELD: Final = "reasoning_content"
_REASONING: Final = frozenset({"reasoning", "thinking", "redacted_thinking"})
_MEDIA: Final = frozenset(
    {"image", "image_url", "input_image", "image_generation_call", "file", "input_file", "text-plain", "document"}
    | {"audio", "input_audio", "video", "video_url", "media"}
)
"""Blocks that hold data or refer to it, of all dialects. Others count as their JSON."""
_CALLS: Final = frozenset({"tool_use", "tool_call", "function_call", "invalid_tool_call", "input_json_delta"})


class LangChainFormat(NativeFormat[BaseMessage]):
    """Messages of LangChain."""

    name = "langchain"

    def located(self, message: BaseMessage) -> list[Located[Location]]:
        """Return the items of a message, each with its location.

        Raises:
            FormatError: for anything that is no message of a conversation.
        """
        if isinstance(message, AIMessage):
            return _couple(message, list(_answer(message)))
        if not isinstance(message, BaseMessage):
            raise FormatError(f"a message must be a LangChain message, found {type(message).__name__}")
        text, extra = _text_of(message.content)
        if isinstance(message, ToolMessage):
            return [(_WHOLE, Part(Kind.RESULT, text, call_id=message.tool_call_id, extra_tokens=extra))]
        if isinstance(message, SystemMessage | HumanMessage):
            return [(_WHOLE, turn_part(text, extra, system=isinstance(message, SystemMessage)))]
        raise FormatError(f"a message of the type {message.type!r} cannot be part of a conversation")

    def keep(self, message: BaseMessage, positions: Sequence[int]) -> BaseMessage:
        """Return the message with only some of its parts; all other fields are the same."""
        if not isinstance(message, AIMessage):
            return message
        located = self.located(message)
        locations = {located[position][0] for position in positions}
        calls = _calls(message)
        stay = {number for where, number in locations if where == "call"}
        kwargs = dict(message.additional_kwargs)
        if "tool_calls" in kwargs:
            raw = kwargs["tool_calls"]
            numbers = _numbers((call.get("id") for call in raw), calls)
            kwargs["tool_calls"] = [call for call, number in zip(raw, numbers, strict=True) if number in stay]
        if (_REASONING_FIELD, None) not in locations:
            kwargs.pop(_REASONING_FIELD, None)
        content: Any = message.content
        if isinstance(content, str):
            content = content if _TEXT in locations else ""
        else:
            blocks = zip(content, _locations(content, calls), strict=True)
            content = [block for block, location in blocks if location in locations]
        valid = len(message.tool_calls)
        update = {
            "content": content,
            "additional_kwargs": kwargs,
            "tool_calls": [call for number, call in enumerate(calls[:valid]) if number in stay],
            "invalid_tool_calls": [call for number, call in enumerate(calls[valid:], valid) if number in stay],
        }
        return message.model_copy(update=update)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the definition of a tool as every chat model's `bind_tools` takes it."""
        function = {"name": name, "description": description, "parameters": dict(schema)}
        return {"type": "function", "function": function}

    def turn(self, text: str) -> BaseMessage:
        """Return a message of the user."""
        return HumanMessage(text)

    def result(self, message: BaseMessage, position: int, text: str) -> BaseMessage:
        """Return the message that answers a call."""
        call = self.located(message)[position][1]
        return ToolMessage(text, tool_call_id=call.call_id or "", name=call.tool)

    def cleared(self, message: BaseMessage, position: int, text: str) -> BaseMessage:  # noqa: ARG002 - it has one part
        """Return a message with a text in place of a result's content."""
        return message.model_copy(update={"content": text, "artifact": None})


def _answer(message: AIMessage) -> Iterator[Located[Location]]:
    calls = _calls(message)
    remaining: dict[Location, Part] = {
        ("call", number): Part(Kind.CALL, call_id=call["id"], tool=call["name"], arguments=shown_text(call["args"]))
        for number, call in enumerate(calls)
    }
    thought = message.additional_kwargs.get(_REASONING_FIELD)
    if isinstance(thought, str) and thought:
        yield (_REASONING_FIELD, None), Part(Kind.REASONING, thought)
    content = message.content
    if isinstance(content, str):
        if content:
            yield _TEXT, Part(Kind.TEXT, content)
    else:
        for block, location in zip(content, _locations(content, calls), strict=True):
            if _is_call(block):
                if (part := remaining.pop(location, None)) is not None:
                    yield location, part
            elif isinstance(block, dict) and block.get("type") in _REASONING:
                yield location, _reasoning(block)
            else:
                text, extra = _text_of([block])
                if text or extra:
                    yield location, Part(Kind.TEXT, text, extra_tokens=extra)
    yield from remaining.items()


def _calls(message: AIMessage) -> list[Any]:
    return [*message.tool_calls, *message.invalid_tool_calls]


def _numbers(ids: Iterable[Any], calls: Sequence[Any]) -> list[int | None]:
    """The number of the call of each id; calls with the same id come in order."""
    numbers: dict[Any, list[int]] = {}
    for number, call in enumerate(calls):
        numbers.setdefault(call["id"], []).append(number)
    candidates = (numbers.get(call_id, [None]) for call_id in ids)
    return [same.pop(0) if len(same) > 1 else same[0] for same in candidates]


def _locations(content: Sequence[Any], calls: Sequence[Any]) -> list[Location]:
    """The location of each block: a call's is that of the call."""
    numbers = iter(_numbers((_call_id(block) for block in content if _is_call(block)), calls))
    return [("call", next(numbers)) if _is_call(block) else ("block", index) for index, block in enumerate(content)]


def _couple(message: AIMessage, located: list[Located[Location]]) -> list[Located[Location]]:
    """Add what must stay together (R12): signed thinking, and reasoning that has an id."""
    if isinstance(message.content, str):
        return located
    sealed: dict[int, bool] = {}
    for position, ((where, number), part) in enumerate(located):
        block = message.content[number] if part.kind is Kind.REASONING and where == "block" else {}
        named = isinstance(block, dict) and str(block.get("id") or "").startswith("rs_")
        if named or _seal(block):
            sealed[position] = named
    return couple_reasoning(located, sealed)


def _reasoning(block: Mapping[str, Any]) -> Part:
    text = block.get("thinking") or block.get("reasoning") or ""
    if not text and isinstance(summary := block.get("summary"), list):
        text = "\n".join(str(entry.get("text", "")) for entry in summary if isinstance(entry, dict))
    return Part(Kind.REASONING, str(text), extra_tokens=0 if text else len(_seal(block)) // 4)


def _seal(block: object) -> str:
    """What a provider knows its own reasoning by."""
    if not isinstance(block, dict):
        return ""
    extras = block.get("extras")
    seals = [block.get(key) for key in ("signature", "data", "encrypted_content")]
    seals += [extras.get(key) for key in ("signature", "encrypted_content")] if isinstance(extras, dict) else []
    return next((seal for seal in seals if isinstance(seal, str) and seal), "")


def _is_call(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in _CALLS


def _call_id(block: object) -> Any:
    return (block.get("call_id") or block.get("id")) if isinstance(block, dict) else None


def _text_of(content: object) -> tuple[str, int]:
    """The text of a content, and the estimate for what is no text in it."""
    if isinstance(content, str):
        return content, 0
    texts, extra = [], 0
    for block in content if isinstance(content, list) else []:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict) and isinstance(text := block.get("text"), str):
            texts.append(text)
        elif isinstance(block, dict) and block.get("type") in _MEDIA:
            text, tokens = _medium(block)
            texts += [text] if text else []
            extra += tokens
        elif block:
            texts.append(shown_text(block))
    return "\n".join(texts), extra


def _medium(block: Mapping[str, Any]) -> tuple[str, int]:
    """The text of a file, or else the estimate for it: its data would count as many times the tokens that it has."""
    source = block.get("source")
    if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
        return _text_of(source.get("data") or source.get("content"))
    return "", NON_TEXT_TOKENS
