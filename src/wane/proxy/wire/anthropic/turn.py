"""What Anthropic demands of the turn under way where thinking has a budget (`thinking.type` is `enabled`).

A tool-use loop is one turn of the assistant, and must begin with thinking. Where the beginning has left the view, a
request shows the least of it that will do: the thinking with which the turn began, and what goes with it. It is shown
from then on until the user speaks, so that nothing comes back that was gone.

A user's message that holds results and other content too can be read in two ways: the turn goes on, or the other
content begins a new one, as it does for the cache. Requests are made right by both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from wane.core import Kind, chars
from wane.formats.anthropic import AnthropicFormat
from wane.formats.base import Part
from wane.proxy.wire.anthropic.blocks import THINKING, Block, blocks_of, is_blank, plain
from wane.proxy.wire.anthropic.place import joined_up
from wane.proxy.wire.base import Body, Message

_FORMAT: Final = AnthropicFormat()


class _Opening(NamedTuple):
    """Where the turn under way begins, by one reading.

    Attributes:
        after: position of the user's last message ahead of it; -1 for none.
        at: position of the first message of the assistant in it.
        goes_on: whether what the user said there stands behind results.
    """

    after: int
    at: int
    goes_on: bool


def thinks_on_budget(body: Body) -> bool:
    """Whether a request asks for thinking with a budget, so that the turn must begin with it."""
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def unled(messages: Sequence[Message]) -> set[bool]:
    """Return by which readings the turn under way does not begin with thinking; none as a rule.

    Args:
        messages: as they go into a request.

    Returns:
        True for the reading that a message with results begins a turn, False for the other.
    """
    return {opening.goes_on for opening in _openings(list(enumerate(messages))) if not _leads(messages[opening.at])}


def turn_of(messages: Sequence[Message]) -> object:
    """Return what a client's turn under way is known by: what the user said last; None if nothing."""
    for message in reversed(messages):
        kinds = {block.get("type") == "tool_result" for block in blocks_of(message)}
        if message.get("role") == "user" and kinds == {False}:
            return [plain(block) for block in blocks_of(message)]
    return None


def led(body: Body, sent: Body, *, turn: object = None) -> Body:
    """Return a body without any thinking, if its turn does not begin with thinking; else the same.

    Args:
        body: the body.
        sent: what the client sent.
        turn: a turn of which it is known that it does not, and that goes on without thinking, as `turn_of` gives it.
    """
    goes_without = turn is not None and turn_of(sent["messages"]) == turn
    if not thinks_on_budget(body) or not (goes_without or unled(body["messages"])):
        return body
    return without({**body, "thinking": {"type": "disabled"}}, lambda _: True)


def without(body: Body, gone: Callable[[Block], bool]) -> Body:
    """Return a body without some of the thinking in its messages; those that hold nothing else then are left out.

    Args:
        body: the body.
        gone: whether a block of thinking is to go.
    """
    kept: list[Message] = []
    for message in body["messages"]:
        content = [b for b in blocks_of(message) if b.get("type") not in THINKING or not gone(b)]
        if len(content) == len(blocks_of(message)):
            kept.append(message)
        elif says_something({**message, "content": content}):
            kept.append({**message, "content": content})
    return {**body, "messages": joined_up(kept)}


def says_something(message: Message) -> bool:
    """Whether a message of the assistant holds more than thinking; that of another always does."""
    return message.get("role") != "assistant" or any(b.get("type") not in THINKING for b in blocks_of(message))


def required(history: Sequence[Message], shown: Sequence[tuple[int, Message]]) -> dict[int, list[int]]:
    """Return what a request must show besides its view for the turn under way to begin with thinking.

    Args:
        history: the whole history.
        shown: the messages of the view, by their positions in the history.

    Returns:
        Positions in the parts of messages, by the message's position in the history. Nothing for a turn that begins
        with thinking anyway, and for one of which the history holds no such beginning.
    """
    found: dict[int, list[int]] = {}
    messages = dict(shown)
    for after, at, _ in _openings(shown):
        if _leads(messages[at]):
            continue
        begin = next((number for number in range(after + 1, at + 1) if _may_lead(history[number])), None)
        if begin is not None:
            found |= _least(history, begin)
    return found


def _openings(shown: Sequence[tuple[int, Message]]) -> Iterator[_Opening]:
    """Yield where the turn under way begins, by each reading; nothing if the user spoke last.

    Neighbours of one role are one message to the provider, and what holds nothing but thinking is left out.
    """
    first, found = None, False
    said = (each for each in reversed(shown) if says_something(each[1]))
    for assistant, group in groupby(said, lambda each: each[1].get("role") == "assistant"):
        messages = list(group)
        if assistant:
            first = messages[-1][0]
            continue
        blocks = (b for _, message in messages if message.get("role") == "user" for b in blocks_of(message))
        kinds = {block.get("type") == "tool_result" for block in blocks}
        goes_on = True in kinds
        if False in kinds and first is not None and not (found and goes_on):
            found = True
            yield _Opening(messages[0][0], first, goes_on)
        if kinds == {False}:
            return
    if first is not None:
        yield _Opening(-1, first, goes_on=False)


def _leads(message: Message) -> bool:
    return any(block.get("type") in THINKING for block in blocks_of(message)[:1])


def _may_lead(message: Message) -> bool:
    """Whether a message begins with thinking, and has more to it."""
    return message.get("role") == "assistant" and _leads(message) and not all(map(_is_nothing, blocks_of(message)))


def _is_nothing(block: Block) -> bool:
    return block.get("type") in THINKING or is_blank(block)


def _least(history: Sequence[Message], begin: int) -> dict[int, list[int]]:
    """The thinking with which a message begins, and the least that may stand behind it: text, or a call."""
    parts = _FORMAT.parts(history[begin])
    lead = next((place for place, part in enumerate(parts) if part.kind is not Kind.REASONING), len(parts))
    results = _results(history, begin)
    least, found = 0, dict[int, list[int]]()
    for place in range(lead, len(parts)) if lead else ():
        # The thinking itself needs no more than company, which it has.
        kept = sorted({*range(lead), *_together(parts, place)})
        calls = [parts[each].call_id for each in kept if parts[each].kind is Kind.CALL]
        answers = [results[call] for call in calls if call in results]
        tokens = sum(_tokens(parts[each]) for each in kept) + sum(tokens for _, _, tokens in answers)
        if not found or tokens < least:
            least, found = tokens, {begin: kept}
            for number, position, _ in answers:
                found.setdefault(number, []).append(position)
    return found


def _together(parts: Sequence[Part], place: int) -> set[int]:
    """A part with all that must stand in a request with it (R12), but for company of thinking."""
    found, more = {place}, [place]
    while more:
        here = more.pop()
        needed = {here + offset for offset in parts[here].needs} - found
        found |= needed
        more += (each for each in needed if parts[each].kind is not Kind.REASONING)
    return found


def _results(history: Sequence[Message], begin: int) -> dict[str | None, tuple[int, int, int]]:
    """The results that follow a message, by their calls: their message, their position in it, and their tokens."""
    found: dict[str | None, tuple[int, int, int]] = {}
    for number in range(begin + 1, len(history)):
        if history[number].get("role") == "assistant":
            break
        for position, part in enumerate(_FORMAT.parts(history[number])):
            if part.kind is Kind.RESULT:
                found[part.call_id] = number, position, _tokens(part)
    return found


def _tokens(part: Part) -> int:
    return part.item(chars, 0).tokens
