"""Anthropic's content blocks: what they are, and the round that a reply's blocks make."""

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
"""Types of the blocks that hold reasoning."""

# How a model ends by itself; all else is a limit, a pause, a refusal, or not known to be an end.
_COMPLETE: Final = ("end_turn", "tool_use", "stop_sequence")
_INVALID: Final = "INVALID_JSON"


@dataclass(frozen=True, slots=True)
class Made:
    """A block that a model made.

    Attributes:
        block: the block, whole.
        raw: for a call, its JSON arguments as the model wrote them.
        ended: whether the provider said that it is whole.
    """

    block: Block
    raw: str = ""
    ended: bool = True


def blocks_of(message: Message) -> list[Block]:
    """Return a message's blocks; text that stands for itself is one, and nothing is none."""
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
    """Whether a block is text in which there is nothing, which the provider does not take back."""
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def is_own(block: Block, own: frozenset[str]) -> bool:
    """Whether a block is a call of one of the proxy's own tools."""
    return block.get("type") == "tool_use" and block.get("name") in own and isinstance(block.get("id"), str)


def arguments_of(raw: str) -> dict[str, Any]:
    """Return a call's `input`, which the provider takes back as an object only.

    What is no JSON object is wrapped in one, in the way that Anthropic recommends.
    """
    if not raw.strip():
        return {}
    given = _loaded(raw)
    return given if isinstance(given, dict) else {_INVALID: raw}


def given_arguments(given: object) -> str:
    """Return the JSON of a call's `input` that came as a whole, which is text if it is malformed; nothing for none."""
    if isinstance(given, str):
        return given
    return jsons.dumps(given).decode("utf-8", "surrogatepass") if given else ""


def make_round(made: Sequence[Made], own: frozenset[str], stop: object, usage: object) -> Round:
    """Return the round of a reply.

    Args:
        made: its blocks, in order.
        own: names of the proxy's own tools.
        stop: its `stop_reason`.
        usage: what the provider reported of it.
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
    """Return what a provider reported, in which `input_tokens` leaves out what was cached; None if it said nothing."""
    read, write = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    total, output = count(usage, "input_tokens") + read + write, count(usage, "output_tokens")
    return TokenUsage(total, output, read, write) if total or output else None


def _is_whole(one: Made, *, sure: bool) -> bool:
    """Whether an own call was not cut off: a limit ends the block that it falls into like any other."""
    return one.ended and (sure or isinstance(_loaded(one.raw), dict))


def _loaded(raw: str) -> object:
    try:
        return jsons.loads(raw.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
