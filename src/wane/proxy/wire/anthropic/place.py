"""Puts a view into an Anthropic request: joins neighbours of one role, and keeps the client's cache breakpoints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

from wane.proxy.wire.anthropic.blocks import Block, blocks_of, is_blank
from wane.proxy.wire.base import Body, Message

_Place: TypeAlias = tuple[int, int]
"""A message of the view, and a block of it."""

# Anthropic accepts breakpoints on these, in messages of either role, but not on thinking or empty text.
_CARRIERS: Final = ("text", "image", "document", "search_result", "tool_use", "tool_result")
_JOINED: Final = ("user", "assistant", "system")


def placed(messages: Sequence[Message], sent: Sequence[Message]) -> list[Message]:
    """Return the messages of a view as they go into a request.

    Args:
        messages: the view.
        sent: the client's messages, with its breakpoints.
    """
    position = {id(message): number for number, message in enumerate(sent)}
    joined: list[Message] = []
    before: int | None = None
    messages = _seated(messages)
    for message, marked in zip(messages, _rescued(messages, sent), strict=True):
        here = position.get(id(message))
        # Neighbours of one role that the client sent itself stay as they are.
        as_sent = before is not None and here == before + 1
        before = here
        if joined and not as_sent and _alike(joined[-1], marked):
            joined[-1] = _join(joined[-1], marked)
        else:
            joined.append(marked)
    return joined


def joined_up(messages: Sequence[Message]) -> list[Message]:
    """Return messages with all neighbours of one role joined."""
    return placed(messages, [])


def noted(body: Body, text: str) -> Body:
    """Return a body with a note as the last block of its last message, unless that is the assistant's.

    Results still come first, roles alternate as before, and breakpoints stay. The automatic breakpoint, which would
    fall on the note, is set explicitly where it would fall without the note.
    """
    messages: Sequence[Message] = body["messages"]
    if messages[-1].get("role") == "assistant":
        return body
    noted = {key: value for key, value in body.items() if key != "cache_control"}
    if "cache_control" in body and (place := _last_carrier(messages)) is not None:
        messages = _marked(messages, {place: body["cache_control"]})
    content = [*blocks_of(messages[-1]), {"type": "text", "text": text}]
    return {**noted, "messages": [*messages[:-1], {**messages[-1], "content": content}]}


def _last_carrier(messages: Sequence[Message]) -> _Place | None:
    """The last block that may carry a breakpoint."""
    blocks = ((n, place, block) for n, each in enumerate(messages) for place, block in enumerate(blocks_of(each)))
    carriers = [(number, place) for number, place, block in blocks if _may_carry(block)]
    return carriers[-1] if carriers else None


def _seated(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages with each system message where Anthropic accepts it: after a user's, before an assistant's.

    Its neighbours may have left the view. It then moves as little as possible: after the user's messages of the same
    stretch or, if there are none, of the stretch before.
    """
    if all(_sits(messages, number) for number, each in enumerate(messages) if each.get("role") == "system"):
        return messages
    seated: list[Message] = []
    behind = 0  # where the last stretch with a user's message ends
    for is_assistant, group in groupby(messages, lambda each: each.get("role") == "assistant"):
        stretch = sorted(group, key=lambda each: each.get("role") == "system")
        alone = not is_assistant and stretch[0].get("role") == "system"
        if alone and behind and not _may_precede(seated[-1]):
            seated[behind:behind] = stretch
            behind += len(stretch)
        else:
            seated += stretch
            behind = behind if is_assistant or alone else len(seated)
    return seated


def _sits(messages: Sequence[Message], number: int) -> bool:
    followed = number + 1 == len(messages) or messages[number + 1].get("role") == "assistant"
    return followed and number > 0 and _may_precede(messages[number - 1])


def _may_precede(message: Message) -> bool:
    """Whether a system message may follow: after a user's message, and after one that waits for a server tool."""
    role, content = message.get("role"), _listed(message)
    return role == "user" or (role == "assistant" and content[-1:] != [] and _is_of_a_server(content[-1]))


def _is_of_a_server(block: Block) -> bool:
    kind = str(block.get("type"))
    return kind == "server_tool_use" or (kind.endswith("_tool_result") and kind != "tool_result")


def _alike(one: Message, other: Message) -> bool:
    return one.get("role") == other.get("role") and one.get("role") in _JOINED


def _join(one: Message, other: Message) -> Message:
    content = [*blocks_of(one), *blocks_of(other)]
    if one["role"] == "user":
        # Results answer the message before them, so they must come first.
        content.sort(key=lambda block: block.get("type") != "tool_result")
    return {**other, **one, "content": content} if content else one


def _rescued(messages: Sequence[Message], sent: Sequence[Message]) -> Sequence[Message]:
    """Move breakpoints whose blocks left the view to the nearest of the client's blocks before them.

    Their number does not grow, and their order stays, which matters if their lifetimes differ.
    """
    shown = set(map(id, messages))
    marked = (each for each in sent if any(_breakpoint(block) is not None for block in _listed(each)))
    if all(id(message) in shown for message in marked):
        return messages
    where = _whereabouts(messages)
    marks: dict[_Place, object] = {}
    carrier: _Place | None = None
    for message in sent:
        for block in _listed(message) or [message]:
            place = where.get(_key(block))
            if place is not None:
                carrier = place if _may_carry(block) else carrier
            elif carrier is not None and (mark := _breakpoint(block)) is not None:
                marks.setdefault(carrier, mark)
    return _marked(messages, marks) if marks else messages


def _listed(message: Message) -> list[Block]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _whereabouts(messages: Sequence[Message]) -> dict[object, _Place]:
    """The place of each block in the view; a message of plain text counts as its block."""
    return {
        _key(block): (number, place)
        for number, message in enumerate(messages)
        for place, block in enumerate(_listed(message) or [message])
    }


def _key(block: Block) -> object:
    """The key of a block: the id of its call, which survives edits, or else its identity."""
    kind = block.get("type")
    if kind == "tool_use":
        return kind, str(block.get("id"))
    if kind == "tool_result":
        return kind, str(block.get("tool_use_id"))
    return id(block)


def _breakpoint(block: Block) -> object:
    """The breakpoint on a block, or in it."""
    if (mark := block.get("cache_control")) is not None:
        return mark
    if block.get("type") == "tool_result":
        return next((mark for inner in _listed(block) if (mark := inner.get("cache_control")) is not None), None)
    return None


def _may_carry(block: dict[str, Any]) -> bool:
    """Whether a block, or a message of plain text, may carry a breakpoint."""
    if "role" in block:
        return isinstance(block.get("content"), str) and bool(block["content"].strip())
    return block.get("type") in _CARRIERS and not is_blank(block)


def _marked(messages: Sequence[Message], marks: dict[_Place, object]) -> list[Message]:
    result = list(messages)
    for (number, place), mark in marks.items():
        content = list(blocks_of(result[number]))
        if _breakpoint(content[place]) is None:
            content[place] = {**content[place], "cache_control": mark}
            result[number] = {**result[number], "content": content}
    return result
