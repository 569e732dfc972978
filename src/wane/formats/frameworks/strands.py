"""Messages of Strands Agents: Bedrock's Converse messages, as plain dicts with a `tracking_id` and `metadata`.

What each block becomes:

| block | item of Wane |
|---|---|
| `text`, `guardContent`, an image, a document of the user | user, or a notice |
| `text`, `citationsContent` and others of the assistant | text |
| `reasoningContent` | reasoning |
| `toolUse`, `toolResult` | call and result |
| `cachePoint` | nothing: it goes with the first block that goes from its message |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from wane.core import Kind
from wane.core.errors import FormatError
from wane.formats.base import Couplings, Located, NativeFormat, Part, anchor, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.values import shown_text, type_name

Message: TypeAlias = dict[str, Any]
Block: TypeAlias = Mapping[str, Any]

_ROLES: Final = ("user", "assistant")
_MEDIA: Final = ("image", "document", "audio", "video")


class StrandsFormat(NativeFormat[Message]):
    """Messages of Strands Agents."""

    name = "strands"

    def located(self, message: Message) -> list[Located[int]]:
        """Return the items of a message, each with the position of its block in `content`.

        Raises:
            FormatError: for a role or a content of another shape, and for an unknown block.
        """
        if not isinstance(message, dict):
            raise FormatError(f"a message must be an object, found {type_name(message)}")
        role, content = message.get("role"), message.get("content")
        if role not in _ROLES:
            raise FormatError(f"role {role!r} is unknown; known: {', '.join(_ROLES)}")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            raise FormatError("content must be a list of blocks")
        parts = enumerate(_part(role, block) for block in content)
        located = [(location, part) for location, part in parts if part is not None]
        return _couple(content, located) if role == "assistant" and len(located) > 1 else located

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        """Return the message with only some of its blocks; all other fields are the same."""
        located = self.located(message)
        return {**message, "content": [message["content"][located[position][0]] for position in positions]}

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the specification of a tool."""
        return {"name": name, "description": description, "inputSchema": {"json": dict(schema)}}

    def turn(self, text: str) -> Message:
        """Return a message of the user."""
        return {"role": "user", "content": [{"text": text}]}

    def awaits(self, message: Message, position: int) -> bool:
        """Whether the application answers a call: one that the provider runs by itself has a type."""
        return "type" not in message["content"][self.located(message)[position][0]]["toolUse"]

    def result(self, message: Message, position: int, text: str) -> Message:
        """Return the user's message that answers a call."""
        call_id = self.located(message)[position][1].call_id
        block = {"toolResult": {"toolUseId": call_id, "status": "success", "content": [{"text": text}]}}
        return {"role": "user", "content": [block]}

    def cleared(self, message: Message, position: int, text: str) -> Message:
        """Return a message with a text in place of one result's content."""
        content, location = message["content"], self.located(message)[position][0]
        block = {"toolResult": {**content[location]["toolResult"], "content": [{"text": text}]}}
        return {**message, "content": [*content[:location], block, *content[location + 1 :]]}


def joined(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose roles alternate, as Bedrock demands: neighbours of one role become one message."""
    out: list[Message] = []
    for message in messages:
        if out and out[-1]["role"] == message["role"]:
            out[-1] = {**out[-1], "content": [*out[-1]["content"], *message["content"]]}
        else:
            out.append(message)
    return out


def _part(role: str, block: Block) -> Part | None:
    """What a block is; None if it says nothing."""
    if (call := block.get("toolUse")) is not None:
        return Part(Kind.CALL, call_id=call["toolUseId"], tool=call["name"], arguments=shown_text(call["input"]))
    if (result := block.get("toolResult")) is not None:
        contents = [_text_of(inner) for inner in result["content"]]
        extra = sum(tokens for _, tokens in contents)
        return Part(Kind.RESULT, "".join(text for text, _ in contents), call_id=result["toolUseId"], extra_tokens=extra)
    if (reasoning := block.get("reasoningContent")) is not None:
        text = reasoning.get("reasoningText", {}).get("text") or ""
        return Part(Kind.REASONING, text, extra_tokens=0 if text else max(1, len(_seal(block)) // 4))
    if "cachePoint" in block:
        return None
    text, extra = _text_of(block)
    if role == "assistant":
        return Part(Kind.TEXT, text, extra_tokens=extra) if text or extra else None
    return turn_part(text, extra)


def _text_of(block: Block) -> tuple[str, int]:
    """The text of a block, and the estimate for what is no text in it."""
    if isinstance(text := block.get("text"), str):
        return text, 0
    if "json" in block:
        return shown_text(block["json"]), 0
    if (guarded := block.get("guardContent")) is not None:
        return _text_of(guarded.get("text", guarded))
    if (cited := block.get("citationsContent")) is not None:
        return "".join(_text_of(inner)[0] for inner in cited.get("content") or []), 0
    if any(kind in block for kind in _MEDIA):
        return "", NON_TEXT_TOKENS
    raise FormatError(f"a block {', '.join(map(repr, block))} is unknown")


def _couple(content: Sequence[Block], located: list[Located[int]]) -> list[Located[int]]:
    """Add what must stay together (R12).

    Signed reasoning is needed by the calls that follow it, and needs one item behind it: text, which goes last of all,
    or else what is next.
    """
    couplings, signed = Couplings(), list[int]()
    for position, (location, part) in enumerate(located):
        if part.kind is Kind.CALL:
            couplings.add(position, *signed)
        elif part.kind is Kind.REASONING and _seal(content[location]):
            signed.append(position)
    for position in signed:
        couplings.add(position, *anchor(located, position))
    return couplings.applied(located)


def _seal(block: Block) -> str | bytes:
    """What a provider knows its own reasoning by; nothing for reasoning that is mere text."""
    reasoning = block["reasoningContent"]
    return reasoning.get("reasoningText", {}).get("signature") or reasoning.get("redactedContent") or b""
