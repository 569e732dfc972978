"""The order of roles in a request (R12b), and calls whose arguments servers cannot read.

Chat templates of Mistral, Devstral and Gemma, as llama.cpp, vLLM and LM Studio run them, refuse a conversation unless
messages of the user and answers without calls alternate. Answers with calls and results stand between them and are not
counted. If a history kept that order and a view of it does not, a turn of the user that follows another one joins it,
and an answer that has lost its calls joins the next one. The view's last message never moves ahead of a call: the
latest answer stands before it, and is never evicted.

Requests leave out empty answers. But one that alone parts two turns with calls between them, ahead of these or behind,
stays where the format can send it, as the client gave it: the later turn would join the earlier one otherwise, ahead of
the calls, and of what a person answered to them.

Where the model's words came with a call of Wane's own, and it had nothing to add, they part the turns: behind the
call's results, as an answer of their own. Without Wane they would have been one.

An index of evicted content (R20) is no turn. Behind calls it joins the user's latest one, and so it does between an
early answer and the calls behind it: it would stand as a turn there, which one that interrupts the calls would join.

Mistral's own check, in its API and in vLLM, demands less and something else: a result is followed by an answer, so no
turn of the user stands right behind one (mistral-common before 1.11.1). If a history kept that and a view of it does
not, such a turn joins the one before the calls, too, wherever no answer without calls stands between them.

These servers speak Anthropic's Messages and OpenAI's Responses too, and make chat messages of them. So the rule is the
same in each format; what a turn is, and how two become one, is the format's to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import IntFlag
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar

from wane.core import OWN_TOOLS

T = TypeVar("T")


CALLING: Final = "calls"
"""Whose turn an answer with calls is: it ends no turn."""

RESULTS: Final = "results"
"""Whose turn a message of results is that holds nothing of the user's."""


class Order(IntFlag):
    """The orders of roles that a history has kept, and that its requests keep."""

    FREE = 0
    """None."""
    ANSWERED = 1
    """No turn of the user stands right behind calls or their results."""
    ALTERNATING = 2
    """Turns of the user and answers without calls alternate."""
    BOTH = 3
    """Both of these."""


class Joining(Protocol[T]):
    """What the order of roles needs of a format."""

    def speaker(self, message: T, /) -> str | None:
        """Return whose turn a message is: `user`, `assistant`, `CALLING`, `RESULTS`, or None for the system's."""
        ...

    def merge(self, first: T, second: T, /) -> T | None:
        """Return two turns of one role as one message; None if the format cannot."""
        ...

    def divide(self, message: T, /) -> tuple[T, T | None] | None:
        """Return an answer whose calls are all Wane's own as two: the calls, and what it says; None for another.

        What it says is None if that is nothing, and the answer itself if the format cannot divide it.
        """
        ...

    def is_index(self, message: T, /) -> bool:
        """Whether a message in the user's place is an index of evicted content (R20)."""
        ...


def join_neighbours(messages: Sequence[T], format: Joining[T], order: Order) -> list[T]:  # noqa: A002 - the field's word
    """Return the messages of a request in the order of roles that the history kept; contents are unchanged.

    Args:
        messages: those of the request.
        format: their format.
        order: the order.
    """
    if order is Order.FREE:
        return list(messages)
    joiner = NeighbourJoiner(format, order)
    for message in messages:
        joiner.add(message)
    return joiner.joined


class NeighbourJoiner(Generic[T]):
    """Joins the messages of a request as they come, where they break the order of roles that the history kept.

    An answer whose calls have left joins the answer with calls behind it. So where turns alternate, an answer that
    still is one is followed by the user, and only turns of the user can be neighbours.

    Args:
        format: the format of the messages.
        order: the order that the history kept.

    Attributes:
        order: the same.
        joined: the messages so far.
    """

    def __init__(self, format: Joining[T], order: Order) -> None:  # noqa: A002 - the field's word
        self.order = order
        self.joined: list[T] = []
        self._format = format
        self._before: str | None = None  # whose turn the latest message is
        self._turns: list[tuple[int, str]] = []  # where each turn of the user or of an answer without calls stands
        # Where an answer without calls has joined the one behind it since the user's latest turn, and both before that.
        self._absorbed: tuple[int, T, T] | None = None
        # The latest empty answer of the user's latest turn, and where it would stand.
        self._left_out: tuple[int, T] | None = None

    def leave_out(self, message: T) -> None:
        """Take in an empty answer, which is left out unless it alone parts two turns with calls between them."""
        self._left_out = len(self.joined), message

    def add(self, message: T) -> int:
        """Take in the next message; return the position of the first message that is new or has changed."""
        joined, turns = self.joined, self._turns
        speaker = self._format.speaker(message)
        behind = speaker == "user" and (self._before in (CALLING, RESULTS) or self.would_cross())
        if behind and self.order and self._format.is_index(message):
            position = self._join_latest_turn(message)
            if position is not None:
                return position
        first = self._lift_index() if speaker == CALLING and len(turns) > 1 else len(joined)
        position = None
        parted = self.part_turns() if speaker == "user" and self.would_cross() else None
        if parted is not None:
            first = parted
        elif speaker == "user" and self._follows_results():
            first = self._join_answers()
            if turns and turns[-1][1] == "user":
                position = turns[-1][0]
        elif Order.ALTERNATING in self.order:
            if turns and speaker == turns[-1][1]:
                position = turns[-1][0]
            elif speaker == CALLING and turns and turns[-1] == (len(joined) - 1, "assistant"):
                position = len(joined) - 1
        if speaker in ("user", "assistant"):
            self._left_out = None
            self._absorbed = None
        merged = None if position is None else self._format.merge(joined[position], message)
        if position is None or merged is None:
            if speaker in ("user", "assistant"):
                turns.append((len(joined), str(speaker)))
            joined.append(message)
            self._before = speaker
            return min(first, len(joined) - 1)
        if speaker == CALLING:
            self._absorbed = position, joined[position], message
            self._before = speaker
            turns.pop()
        joined[position] = merged
        return min(first, position)

    def _lift_index(self) -> int:
        """Let an index that stands between an early answer and calls join the user's turn ahead of both.

        Returns:
            The position of the first message that has changed, or that of the next one.
        """
        joined, turns = self.joined, self._turns
        at = len(joined) - 1
        stands = self.order and turns[-1] == (at, "user") and turns[-2][1] == "assistant"
        if not stands or not self._format.is_index(joined[at]):
            return len(joined)
        standing = turns.pop()
        position = self._join_latest_turn(joined[at])
        if position is None:
            turns.append(standing)
            return len(joined)
        del joined[at]
        if self._left_out is not None:
            self._left_out = min(at, self._left_out[0]), self._left_out[1]
        return position

    def _join_latest_turn(self, message: T) -> int | None:
        """Join a message with the user's latest turn; return where that stands, or None if there is none."""
        position = next((place for place, speaker in reversed(self._turns) if speaker == "user"), None)
        merged = None if position is None else self._format.merge(self.joined[position], message)
        if position is None or merged is None:
            return None
        self.joined[position] = merged
        return position

    def _follows_results(self) -> bool:
        """Return whether the next turn would stand behind calls or results, as none did in the history."""
        return Order.ANSWERED in self.order and self._before in (CALLING, RESULTS)

    def would_cross(self) -> bool:
        """Return whether the user's next turn has no answer before it, so that it would move ahead of calls."""
        crosses = bool(self._turns) and self._turns[-1][1] == "user" and self._turns[-1][0] + 1 < len(self.joined)
        return self._follows_results() or (Order.ALTERNATING in self.order and crosses)

    def part_turns(self) -> int | None:
        """Let an answer part the user's latest turn and the next one.

        It is one that has joined the calls behind it, or what came with a call of Wane's own, or an empty one.

        Returns:
            The position of the first message that has changed; None if there is no such answer.
        """
        joined, turns = self.joined, self._turns
        if self._absorbed is not None and not self._follows_results():
            first, *apart = self._absorbed
            joined[first : first + 1] = apart
            turns.append((first, "assistant"))
            return first
        own = self.divide_own()
        if own is not None:
            return own
        # Only right behind results does an empty answer keep a turn from standing there.
        if self._left_out is None or (self._follows_results() and self._left_out[0] != len(joined)):
            return None
        first, empty = self._left_out
        joined.insert(first, empty)
        turns.append((first, "assistant"))
        return first

    def divide_own(self) -> int | None:
        """Divide the latest answer that says something beside own calls, with no others behind it.

        Returns:
            Its position, or that of the next message if it cannot be divided; None if there is none.
        """
        joined = self.joined
        for position in range(len(joined) - 1, -1, -1):
            message = joined[position]
            speaker = self._format.speaker(message)
            divided = self._format.divide(message) if speaker == CALLING else None
            if divided is None and speaker != RESULTS:
                return None
            calls, words = divided or (message, None)
            if words is None:
                continue
            if words is message:  # its server demands no order
                return len(joined)
            joined[position] = calls
            self._turns.append((len(joined), "assistant"))
            if self._left_out is not None:  # an answer that says nothing may have reasoned
                words = self._format.merge(words, self._left_out[1]) or words
            joined.append(words)
            return position
        return None

    def _join_answers(self) -> int:
        """Join the latest answers without calls with the answers with calls right behind them.

        Returns:
            The position of the first message that has changed, or that of the next one.
        """
        joined, turns = self.joined, self._turns
        first = len(joined)
        while turns and turns[-1][1] == "assistant":
            position = turns[-1][0]
            if position + 1 == len(joined) or self._format.speaker(joined[position + 1]) != CALLING:
                break
            merged = self._format.merge(joined[position], joined[position + 1])
            if merged is None:
                break
            joined[position : position + 2] = [merged]
            turns.pop()
            first = position
        return first


def speaker_by_role(role: str, *, has_calls: bool) -> str | None:
    """Return whose turn a message is by the roles of Chat Completions; see `Joining.speaker`."""
    if role == "assistant" and has_calls:
        return CALLING
    if role == "tool":
        return RESULTS
    return role if role in ("user", "assistant") else None


def as_text_part(text: str) -> Any:
    """Return a text as a part of a Chat Completions content."""
    return {"type": "text", "text": text}


def join_texts(first: str, second: str) -> str:
    """Return two texts as one, with a blank line between them; an empty one adds nothing."""
    return "\n\n".join(filter(None, (first, second)))


def join_contents(first: Any, second: Any, part_of: Callable[[str], Any] = as_text_part) -> Any:
    """Return two contents as one: texts by a blank line, anything else as a list of parts.

    Args:
        first: a text or a list of parts.
        second: the other one.
        part_of: makes a part of a text.
    """
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return join_texts(first, second)
    parts: list[Any] = []
    for content in (first, second):
        if isinstance(content, str):
            parts += [part_of(content)] if content else []
        else:
            parts += content or []
    return parts


def mend_own_calls(message: dict[str, Any]) -> dict[str, Any]:
    """Return an answer whose own calls have arguments that servers can read; the same object if all have.

    Args:
        message: an assistant's message.
    """
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    mended = mend_calls(calls)
    return message if mended is calls else {**message, "tool_calls": mended}


def mend_calls(calls: list[Any]) -> list[Any]:
    """Return the calls of an answer as `mend_own_calls` does; the same list if all can be read."""
    return _mend_each(calls, _mend_call)


def _mend_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or function.get("name") not in OWN_TOOLS or is_object(function.get("arguments")):
        return call
    return {**call, "function": {**function, "arguments": "{}"}}


def mend_own_items(message: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of OpenAI's Responses likewise; see `mend_own_calls`."""
    items = message["items"]
    mended = _mend_each(items, _mend_item)
    return message if mended is items else {**message, "items": mended}


def _mend_item(item: Any) -> Any:
    if item.get("type") == "function_call" and must_mend(item.get("name"), item.get("arguments")):
        return {**item, "arguments": "{}"}
    return item


def _mend_each(entries: list[Any], mend: Callable[[Any], Any]) -> list[Any]:
    """Return entries, each mended; the same list if none needed it."""
    for entry in entries:
        if mend(entry) is not entry:
            return [mend(entry) for entry in entries]
    return entries


def must_mend(tool: object, arguments: object) -> bool:
    """Return whether a call goes back with an empty object for its arguments: an own call that has no object.

    Templates, and gateways to other protocols, parse the arguments of earlier calls: llama-server refuses the whole
    request if they are not JSON. The call's result says what was wrong. Calls of other tools go as their client or loop
    has them.

    Args:
        tool: the tool's name.
        arguments: what the model wrote, as data or as text.
    """
    return tool in OWN_TOOLS and not is_object(arguments)


def is_object(arguments: object) -> bool:
    """Whether arguments are a JSON object, as data or as text."""
    if not isinstance(arguments, str):
        return isinstance(arguments, Mapping)
    return _is_object_text(arguments)


@lru_cache(maxsize=1024)  # each request has all own calls of the view again
def _is_object_text(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
