"""Gemini's parts, as hidden rounds are put back into its contents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from wane.formats.gemini import is_reasoning, seal_of
from wane.formats.gemini_calls import field
from wane.proxy import jsons
from wane.proxy.wire.base import AnsweredRound, Message
from wane.proxy.wire.blocks import Block, BlockReader
from wane.proxy.wire.reply import joint

SIGNATURES: Final = ("thoughtSignature", "thought_signature")
"""The spellings of a part's signature."""


def tool_of(part: Block) -> str | None:
    """Return the name of the tool that a part calls; None if it is no call."""
    call = field(part, "functionCall")
    name = call.get("name") if isinstance(call, dict) else None
    return name if isinstance(name, str) else None


def without_signature(part: Block) -> Block:
    """Return a part without its signature."""
    return {name: value for name, value in part.items() if name not in SIGNATURES}


def listed(message: Message) -> list[Block]:
    """Return the parts of a content; none if it has no list of them."""
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def spaced(rounds: Sequence[Sequence[Block]]) -> list[Block]:
    """Return the parts of several rounds as the client gets them, with a separator between the texts of two rounds."""
    parts, before = list[Block](), ""
    for round_ in rounds:
        texts = [number for number, part in enumerate(round_) if said(part)]
        for number, part in enumerate(round_):
            first = texts[:1] == [number]
            parts.append({**part, "text": joint(before, part["text"]) + part["text"]} if first else part)
        before = round_[texts[-1]]["text"] if texts else before
    return parts


def said(part: Block) -> str:
    """Return what the model says in a part; empty for reasoning and other parts."""
    text = part.get("text")
    return text if isinstance(text, str) and not is_reasoning(part) else ""


class _GeminiParts(BlockReader):
    # The signature of a text may be a part of its own, behind it.
    ends_in_reasoning = True

    def blocks(self, message: Message) -> list[Block]:
        return listed(message)

    def with_blocks(self, message: Message, blocks: list[Block]) -> Message:
        return message if blocks == message.get("parts") else {**message, "parts": blocks}

    def own(self, rounds: Sequence[AnsweredRound]) -> frozenset[str]:
        return frozenset(_answered_tools(result for round_ in rounds for result in round_.results))

    def is_own(self, block: Block, own: frozenset[str]) -> bool:
        return tool_of(block) in own

    def is_call(self, block: Block) -> bool:
        return field(block, "functionCall") is not None

    def is_reasoning(self, block: Block) -> bool:
        return is_reasoning(block)

    def text(self, block: Block) -> str:
        return said(block).strip()

    def keys(self, block: Block) -> Sequence[object]:
        if is_reasoning(block):
            return [("thought", str(block.get("text") or seal_of(block)))]
        if (call := field(block, "functionCall")) is not None:
            # Some clients give calls ids of their own.
            return [("call", str(call.get("name")), jsons.dumps(call.get("args") or {}, canonical=True))]
        if block.get("text") is not None:
            return ()
        return [jsons.dumps(without_signature(block), canonical=True)]

    def restored(self, block: Block, original: Block) -> Block:
        if (text := self.text(block)) and text == self.text(original):
            # The text of a round may have got a separator ahead of it.
            block = {**block, "text": original["text"]}
        elif block.get("text") is not None and not is_reasoning(block):
            return block
        # Some clients sign calls themselves that seem to have lost their signature, and later no longer do.
        plain, seal = without_signature(block), seal_of(original)
        restored = {**plain, "thoughtSignature": seal} if seal else plain
        return block if restored == block else restored


def _answered_tools(results: Iterable[Message]) -> Iterable[str]:
    for result in results:
        for part in listed(result):
            response: Any = field(part, "functionResponse")
            if isinstance(response, dict):
                yield str(response.get("name"))


PARTS: Final[BlockReader] = _GeminiParts()
"""Reads parts of contents."""
