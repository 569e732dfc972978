"""Makes the current turn begin with thinking, as Anthropic demands if thinking has a budget (`thinking.type: enabled`).

A tool-use loop is one turn of the assistant, and must begin with thinking. If its beginning has left the view, the
request shows the least of it that is valid: the thinking that began the turn, and what must go with it. It stays
visible until the user speaks, so that nothing reappears.

A user's message with results and other content can be read in two ways: the turn continues, or the other content starts
a new one, as it does for the cache. Requests are valid by both readings.
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
    """The beginning of the current turn, by one reading.

    Attributes:
        after: position of the user's last message before it; -1 for none.
        at: position of the assistant's first message in it.
        after_results: whether the user's text there comes after results.
    """

    after: int
    at: int
    after_results: bool


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
    return {
        opening.after_results for opening in _openings(list(enumerate(messages))) if not _leads(messages[opening.at])
    }


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
    return {**body, "messages": joined_up(kept)}


def says_something(message: Message) -> bool:
    """Whether a message has more than thinking."""
    return message.get("role") != "assistant" or any(b.get("type") not in THINKING for b in blocks_of(message))


def required(history: Sequence[Message], shown: Sequence[tuple[int, Message]]) -> dict[int, list[int]]:
    """Return what a request must show besides its view so that the current turn begins with thinking.

    Args:
        history: the whole history.
        shown: the messages of the view, by their positions in the history.

    Returns:
        Positions in the parts of messages, by the message's position in the history. Empty if the turn begins with
        thinking anyway, or began without it.
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
    """Yield the beginning of the current turn by each reading; nothing if the user spoke last.

    Neighbours of one role are one message to the provider, and messages with only thinking are left out.
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
        after_results = True in kinds
        if False in kinds and first is not None and not (found and after_results):
            found = True
            yield _Opening(messages[0][0], first, after_results)
        if kinds == {False}:
            return
    if first is not None:
        yield _Opening(-1, first, after_results=False)


def _leads(message: Message) -> bool:
    return any(block.get("type") in THINKING for block in blocks_of(message)[:1])


def _may_lead(message: Message) -> bool:
    """Whether a message begins with thinking, and has other content too."""
    if message.get("role") != "assistant" or not _leads(message):
        return False
    return any(block.get("type") not in THINKING and not is_blank(block) for block in blocks_of(message))


def _least(history: Sequence[Message], begin: int) -> dict[int, list[int]]:
    """The thinking that begins a message, and the smallest text or call that may follow it."""
    parts = _FORMAT.parts(history[begin])
    lead = next((place for place, part in enumerate(parts) if part.kind is not Kind.REASONING), len(parts))
    results = _results(history, begin)
    least, found = 0, dict[int, list[int]]()
    for place in range(lead, len(parts)) if lead else ():
        # The thinking needs only some part after it, which it has.
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
    """A part with all parts that a request must show with it (R12), except what thinking needs."""
    found, more = {place}, [place]
    while more:
        here = more.pop()
        needed = {here + offset for offset in parts[here].needs} - found
        found |= needed
        more += (each for each in needed if parts[each].kind is not Kind.REASONING)
    return found


def _results(history: Sequence[Message], begin: int) -> dict[str | None, tuple[int, int, int]]:
    """The results after a message, by call: their message, their position in it, and their tokens."""
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
