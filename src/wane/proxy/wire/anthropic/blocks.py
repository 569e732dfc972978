"""Anthropic's content blocks, and the round made from a reply's blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wane.proxy import jsons
from wane.proxy.wire.base import Message, OwnCall, Round, TokenUsage
from wane.proxy.wire.usage import count

Block = dict[str, Any]
"""A content block of a message."""

THINKING: Final = ("thinking", "redacted_thinking")
"""Types of blocks with reasoning."""

# Stop reasons of a model that ended by itself; others are a limit, a pause, a refusal, or unknown.
_COMPLETE: Final = ("end_turn", "tool_use", "stop_sequence")
_INVALID: Final = "INVALID_JSON"


@dataclass(frozen=True, slots=True)
class Made:
    """A block that a model made.

    Attributes:
        block: the whole block.
        raw: for a call, its JSON arguments as the model wrote them.
        ended: whether the provider marked it as complete.
    """

    block: Block
    raw: str = ""
    ended: bool = True


def blocks_of(message: Message) -> list[Block]:
    """Return a message's blocks; a plain string is one text block, and an empty one none."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def plain(block: Block) -> Block:
    """Return a block without its cache breakpoint."""
    if "cache_control" not in block:
        return block
    return {key: value for key, value in block.items() if key != "cache_control"}


def is_blank(block: Block) -> bool:
    """Whether a block is blank text, which the provider refuses in requests."""
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def is_own(block: Block, own: frozenset[str]) -> bool:
    """Whether a block is a call of one of the proxy's own tools."""
    return block.get("type") == "tool_use" and block.get("name") in own and isinstance(block.get("id"), str)


def arguments_of(raw: str) -> dict[str, Any]:
    """Return a call's `input`, which must be an object in requests.

    Anything else is wrapped in an object, as Anthropic recommends.
    """
    if not raw.strip():
        return {}
    given = _loaded(raw)
    return given if isinstance(given, dict) else {_INVALID: raw}


def given_arguments(given: object) -> str:
    """Return the JSON of a call's `input` in a whole reply, where a malformed one is text; empty for none."""
    if isinstance(given, str):
        return given
    return jsons.dumps(given).decode("utf-8", "surrogatepass") if given else ""


def make_round(made: Sequence[Made], own: frozenset[str], stop: object, usage: object) -> Round:
    """Return the round of a reply.

    Args:
        made: its blocks, in order.
        own: names of the proxy's own tools.
        stop: its `stop_reason`.
        usage: its usage, as the provider reported it.
    """
    complete = stop in _COMPLETE
    content: list[Block] = []
    calls: list[OwnCall] = []
    theirs = 0
    for number, one in enumerate(made):
        block = one.block
        if is_own(block, own):
            if not _is_whole(one, sure=complete or number + 1 < len(made)):
                continue
            calls.append(OwnCall(block["id"], block["name"], one.raw if one.raw.strip() else "{}"))
        elif is_blank(block):
            continue
        theirs += block.get("type") == "tool_use" and not is_own(block, own)
        content.append(block)
    return Round({"role": "assistant", "content": content}, tuple(calls), theirs, complete, tokens_of(usage))


def tokens_of(usage: object) -> TokenUsage | None:
    """Return a reported usage, whose `input_tokens` exclude cached ones; None if nothing was reported."""
    read, write = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    total, output = count(usage, "input_tokens") + read + write, count(usage, "output_tokens")
    return TokenUsage(total, output, read, write) if total or output else None


def _is_whole(one: Made, *, sure: bool) -> bool:
    """Whether an own call is complete; a limit that cuts off a block still ends it like any other."""
    return one.ended and (sure or isinstance(_loaded(one.raw), dict))


def _loaded(raw: str) -> object:
    try:
        return jsons.loads(raw.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
