"""Anthropic's blocks, as hidden rounds are put back into its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wane.proxy import jsons
from wane.proxy.wire.anthropic.reply import THINKING, blocks_of, is_blank, is_call_of, plain
from wane.proxy.wire.base import AnsweredRound, Message
from wane.proxy.wire.blocks import Block, BlockReader


class _AnthropicBlocks(BlockReader):
    def blocks(self, message: Message) -> list[Block]:
        return blocks_of(message)

    def with_blocks(self, message: Message, blocks: list[Block]) -> Message:
        return message if blocks == message.get("content") else {**message, "content": blocks}

    def own(self, rounds: Sequence[AnsweredRound]) -> frozenset[str]:
        results = (result for round_ in rounds for result in round_.results)
        return frozenset(str(block.get("tool_use_id")) for result in results for block in blocks_of(result))

    def is_own(self, block: Block, own: frozenset[str]) -> bool:
        return is_call_of(block, own)

    def is_call(self, block: Block) -> bool:
        return block.get("type") == "tool_use"

    def is_reasoning(self, block: Block) -> bool:
        return block.get("type") in THINKING

    def text(self, block: Block) -> str:
        return str(block["text"]).strip() if block.get("type") == "text" and not is_blank(block) else ""

    def keys(self, block: Block) -> Sequence[object]:
        kind = str(block.get("type"))
        if kind == "text":
            return ()
        if kind in THINKING:
            return [("thinking", str(block.get("signature") or block.get("data") or block.get("thinking")))]
        if kind.endswith("tool_use"):
            return [("call", str(block.get("id")))]
        if kind.endswith("tool_result"):
            return [("result", str(block.get("tool_use_id")))]
        return [jsons.dumps(plain(block))]

    def restored(self, block: Block, original: Block) -> Block:
        # The provider accepts only unchanged thinking, so the original is sent and not the client's copy.
        return original if self.is_reasoning(block) else block


BLOCKS: Final[BlockReader] = _AnthropicBlocks()
"""Reads blocks of the Messages API."""
