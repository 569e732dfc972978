"""Items of the Responses API, as hidden rounds are put back among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wane.formats.response_items import part_of
from wane.proxy import jsons
from wane.proxy.wire.base import AnsweredRound, Message
from wane.proxy.wire.blocks import Block, BlockReader
from wane.proxy.wire.responses.reply import call_id_of, is_call, without_id

_IDENTITY: Final = ("id", "status")
"""Fields of an item that some clients leave out."""


class _Items(BlockReader):
    keeps_unseen = True

    def blocks(self, message: Message) -> list[Block]:
        items: list[Block] = message["items"]
        return items

    def with_blocks(self, message: Message, blocks: list[Block]) -> Message:
        # An own call keeps its id only if the reasoning before it is present under its own id: OpenAI checks that.
        present = {item.get("id") for item in blocks if self.is_reasoning(item)}
        orphans, named = set[int](), True
        for item in message["items"]:
            if self.is_reasoning(item):
                named = item.get("id") in present
            elif not named:
                orphans.add(id(item))
        return {**message, "items": [without_id(item) if id(item) in orphans else item for item in blocks]}

    def own(self, rounds: Sequence[AnsweredRound]) -> frozenset[str]:
        results = (item for round_ in rounds for result in round_.results for item in result["items"])
        return frozenset(filter(None, map(call_id_of, results)))

    def is_own(self, block: Block, own: frozenset[str]) -> bool:
        return call_id_of(block) in own

    def is_call(self, block: Block) -> bool:
        return is_call(block)

    def is_reasoning(self, block: Block) -> bool:
        return block.get("type") == "reasoning"

    def text(self, block: Block) -> str:
        part = part_of(block) if _kind(block) == "message" else None
        return "" if part is None else part.text.strip()

    def keys(self, block: Block) -> Sequence[object]:
        kind, call_id = _kind(block), call_id_of(block)
        if call_id is not None:
            return [(kind, call_id)]
        keys: list[object] = [(kind, name, block[name]) for name in ("id", "encrypted_content") if block.get(name)]
        if kind == "reasoning" and (part := part_of(block)) is not None and part.text.strip():
            keys.append((kind, part.text.strip()))
        elif kind not in ("message", "reasoning"):
            keys.append(jsons.dumps({name: value for name, value in block.items() if name not in _IDENTITY}))
        return keys


def _kind(item: Block) -> str:
    return str(item.get("type") or "message")


ITEMS: Final[BlockReader] = _Items()
"""Reads items of messages."""
