"""Anthropic's messages: their blocks, and what a view needs so that the API accepts it.

Neighbours of one role are joined, and the client's cache breakpoints stay. The current turn begins with thinking, as
Anthropic demands if thinking has a budget (`thinking.type: enabled`). If its beginning has left the view, the request
shows the least of it that is valid (`wane.formats.turns`). That stays visible until the user speaks, so that nothing
reappears later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

from wane.formats.anthropic import AnthropicFormat
from wane.formats.base import Part
from wane.formats.turns import openings, required_opening
from wane.proxy.wire.base import Body, Message

Block = dict[str, Any]
"""A content block of a message."""

THINKING: Final = ("thinking", "redacted_thinking")
"""Types of blocks with reasoning."""

_Place: TypeAlias = tuple[int, int]
"""A message of the view, and a block of it."""

# Anthropic accepts breakpoints on these, in messages of either role, but not on thinking or empty text.
_CARRIERS: Final = ("text", "image", "document", "search_result", "tool_use", "tool_result")
_JOINED: Final = ("user", "assistant", "system")

_FORMAT: Final = AnthropicFormat()


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
        if joined and not as_sent and joined[-1].get("role") == marked.get("role") in _JOINED:
            joined[-1] = _join(joined[-1], marked)
        else:
            joined.append(marked)
    return joined


def noted(body: Body, text: str) -> Body:
    """Return a body with a note as the last block of its last message, unless that is the assistant's.

    Results still come first, roles alternate as before, and breakpoints stay. The automatic breakpoint, which would
    fall on the note, is set explicitly where it would fall without the note.
    """
    messages: Sequence[Message] = body["messages"]
    if messages[-1].get("role") == "assistant":
        return body
    noted = {key: value for key, value in body.items() if key != "cache_control"}
    if "cache_control" in body:
        blocks = ((n, place, block) for n, each in enumerate(messages) for place, block in enumerate(blocks_of(each)))
        carriers = [(number, place) for number, place, block in blocks if _may_carry(block)]
        messages = _marked(messages, dict.fromkeys(carriers[-1:], body["cache_control"]))
    content = [*blocks_of(messages[-1]), {"type": "text", "text": text}]
    return {**noted, "messages": [*messages[:-1], {**messages[-1], "content": content}]}


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
    # A message of plain text counts as its block.
    where = {
        _key(block): (number, place)
        for number, message in enumerate(messages)
        for place, block in enumerate(_listed(message) or [message])
    }
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


def thinks_on_budget(body: Body) -> bool:
    """Whether a request asks for thinking with a budget, so that the turn must begin with it."""
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def readings_without(messages: Sequence[Message]) -> set[bool]:
    """Return the readings by which the current turn does not begin with thinking; usually none.

    Args:
        messages: the messages of a request.

    Returns:
        True for the reading that text after results starts a turn, False for the other.
    """
    found = openings(_backwards(list(enumerate(messages))))
    return {opening.after_results for opening in found if not opening.reasons}


def turn_of(messages: Sequence[Message]) -> object:
    """Return what identifies a client's current turn: the user's last message; None if there is none."""
    for message in reversed(messages):
        kinds = {block.get("type") == "tool_result" for block in blocks_of(message)}
        if message.get("role") == "user" and kinds == {False}:
            return [plain(block) for block in blocks_of(message)]
    return None


def disabled_if_missing(body: Body, sent: Body, *, turn: object = None) -> Body:
    """Return a body with thinking disabled if its turn does not begin with thinking; else the same body.

    Args:
        body: the body.
        sent: the client's body.
        turn: a turn known not to begin with thinking, as `turn_of` identifies it.
    """
    known = turn is not None and turn_of(sent["messages"]) == turn
    if not thinks_on_budget(body) or not (known or readings_without(body["messages"])):
        return body
    return without({**body, "thinking": {"type": "disabled"}}, lambda _: True)


def without(body: Body, gone: Callable[[Block], bool]) -> Body:
    """Return a body without some of its thinking, and without messages that have no other content.

    Args:
        body: the body.
        gone: whether to remove a block of thinking.
    """
    kept: list[Message] = []
    for message in body["messages"]:
        content = [b for b in blocks_of(message) if b.get("type") not in THINKING or not gone(b)]
        if len(content) == len(blocks_of(message)):
            kept.append(message)
        elif says_something({**message, "content": content}):
            kept.append({**message, "content": content})
    return {**body, "messages": placed(kept, [])}


def says_something(message: Message) -> bool:
    """Whether a message has more than thinking."""
    return message.get("role") != "assistant" or any(b.get("type") not in THINKING for b in blocks_of(message))


def required(history: Sequence[Message], shown: Sequence[tuple[int, Message]]) -> dict[int, list[int]]:
    """Return what a request must show besides its view so that the current turn begins with thinking.

    Args:
        history: the whole history.
        shown: the messages of the view, by their positions in the history.

    Returns:
        As `wane.formats.turns.required_opening` returns it.
    """
    return required_opening(lambda number: _FORMAT.parts(history[number]), len(history), _backwards(shown))


def _backwards(shown: Sequence[tuple[int, Message]]) -> Iterator[tuple[int, Sequence[Part]]]:
    return ((number, _FORMAT.parts(message)) for number, message in reversed(shown))
