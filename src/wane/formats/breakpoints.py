"""Cache breakpoints in messages of Anthropic's Messages API: which blocks may carry one, and where one pays.

The provider's cache ends where a request had a breakpoint. A pass changes what is behind the leading messages that no
pass may take, so with one behind these it reads them from the cache instead of writing them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Message: TypeAlias = dict[str, Any]
Block: TypeAlias = dict[str, Any]
BlockLocation: TypeAlias = tuple[int, int]
"""The position of a message, and that of a block in it."""

MOST_BREAKPOINTS: Final = 4
"""Breakpoints that a request may have."""

# Anthropic accepts breakpoints on these, in messages of either role, but not on thinking or empty text.
_CARRIERS: Final = ("text", "image", "document", "search_result", "tool_use", "tool_result")


def blocks_of(message: Mapping[str, Any]) -> list[Block]:
    """Return a message's blocks; a plain string is one text block, and an empty one none."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def is_blank(block: Block) -> bool:
    """Whether a block is blank text, which the provider refuses in requests."""
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def may_carry(block: Block) -> bool:
    """Whether a block may carry a breakpoint."""
    return block.get("type") in _CARRIERS and not is_blank(block)


def breakpoint_of(block: Block) -> object:
    """Return the breakpoint on a block, or in it; None if there is none."""
    if (mark := block.get("cache_control")) is not None:
        return mark
    inside = block.get("content") if block.get("type") == "tool_result" else None
    if not isinstance(inside, list):
        return None
    for inner in inside:
        if (mark := inner.get("cache_control")) is not None:
            return mark
    return None


def has_breakpoint(message: Message) -> bool:
    """Return whether a block of a message has a breakpoint. It calls nothing for each: there are thousands."""
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if block.get("cache_control") is not None:
            return True
        if block.get("type") == "tool_result" and isinstance(inside := block.get("content"), list):
            for inner in inside:
                if inner.get("cache_control") is not None:
                    return True
    return False


def mark_blocks(messages: Sequence[Message], marks: Mapping[BlockLocation, object]) -> list[Message]:
    """Return messages with breakpoints on blocks that have none yet."""
    result = list(messages)
    for (number, position), mark in marks.items():
        content = list(blocks_of(result[number]))
        if breakpoint_of(content[position]) is None:
            content[position] = {**content[position], "cache_control": mark}
            result[number] = {**result[number], "content": content}
    return result


def last_carrier(messages: Sequence[Message]) -> BlockLocation | None:
    """Return the last block of messages that may carry a breakpoint; None if none may."""
    for number in reversed(range(len(messages))):
        for position, block in reversed(list(enumerate(blocks_of(messages[number])))):
            if may_carry(block):
                return number, position
    return None


def mark_end(messages: Sequence[Message], mark: object) -> list[Message]:
    """Return messages with a breakpoint on the last block that may carry one."""
    carrier = last_carrier(messages)
    return list(messages) if carrier is None else mark_blocks(messages, {carrier: mark})
