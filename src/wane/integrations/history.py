"""Telling what is new in a run's history.

Message objects do not do for that: Pydantic AI joins neighbouring requests, moves results ahead of user prompts,
closes calls that were interrupted, renews system prompts and reloads messages from JSON. So histories are compared by
what their parts are to Wane; within the requests between two responses the order of parts does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter, is_

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse

from wane.core import Kind
from wane.formats.base import Part
from wane.formats.pydantic_ai import PydanticAIFormat

_FORMAT = PydanticAIFormat()

_MESSAGE = attrgetter("message")

_Key = tuple[object, ...]


@dataclass(slots=True)
class Known:
    """A message of the history as it was when it was taken in.

    Attributes:
        message: the message.
        size: how many parts it had.
        number: its place in the transcript; None if it does not stand there as it is.
    """

    message: ModelMessage
    size: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Fresh:
    """Something new in a history.

    Attributes:
        message: the new message, or a copy of a message with its new parts alone.
        entry: the entry of the message, if all of it is new.
    """

    message: ModelMessage
    entry: Known | None


@dataclass(frozen=True, slots=True)
class Growth:
    """A history that continues a known one.

    Attributes:
        entries: one for each of its messages.
        renewed: those of known messages that are other objects now.
        fresh: what is new, in order.
    """

    entries: list[Known]
    renewed: list[Known]
    fresh: list[Fresh]


def growth(known: list[Known], history: Sequence[ModelMessage]) -> Growth | None:
    """Return what is new in a history, or None if it is no continuation of the known one."""
    same = _unchanged(known, history)
    new = [Known(message, len(message.parts)) for message in history[same:]]
    if same == len(known):
        return Growth(known + new, [], [Fresh(entry.message, entry) for entry in new])
    # Back to where a response ended, as only there both are sure to be cut alike.
    while same and isinstance(known[same - 1].message, ModelRequest):
        same -= 1
        new.insert(0, Known(history[same], len(history[same].parts)))
    fresh = _align(list(_turns(known[same:])), list(_turns(new)))
    if fresh is None:
        return None
    return Growth(known[:same] + new, [entry for entry in new if entry.number is not None], fresh)


def _unchanged(known: list[Known], history: Sequence[ModelMessage]) -> int:
    """How many messages at the start are the very same objects, with no part more or less."""
    # The common case, at the speed of C; only requests that no response has followed yet may grow.
    if len(history) >= len(known) and all(map(is_, map(_MESSAGE, known), history)):
        tail = takewhile(lambda entry: isinstance(entry.message, ModelRequest), reversed(known))
        if all(len(entry.message.parts) == entry.size for entry in tail):
            return len(known)
    pairs = enumerate(zip(known, history, strict=False))
    changed = (n for n, (entry, m) in pairs if entry.message is not m or len(m.parts) != entry.size)
    return next(changed, min(len(known), len(history)))


@dataclass(slots=True)
class _Turn:
    """Requests and the response to them, the latter None where none came yet."""

    requests: list[Known]
    response: Known | None = None


def _turns(entries: list[Known]) -> Iterator[_Turn]:
    turn = _Turn([])
    for entry in entries:
        if isinstance(entry.message, ModelResponse):
            turn.response = entry
            yield turn
            turn = _Turn([])
        else:
            turn.requests.append(entry)
    if turn.requests:
        yield turn


def _align(old: list[_Turn], new: list[_Turn]) -> list[Fresh] | None:
    """What the new turns have beyond the old ones; None if they do not continue them."""
    if len(old) > len(new):
        return None
    fresh: list[Fresh] = []
    for before, after in zip(old, new, strict=False):
        extra = _extra(before, after)
        if extra is None:
            return None
        fresh += extra
        _carry_numbers(before, after)
    for turn in new[len(old) :]:
        fresh += [Fresh(entry.message, entry) for entry in (*turn.requests, turn.response) if entry]
    return fresh


def _extra(before: _Turn, after: _Turn) -> list[Fresh] | None:
    """What a turn has beyond the known one; None if it is another turn."""
    closed = before.response
    if closed and (after.response is None or _keys(closed) != _keys(after.response)):
        return None
    unmatched = Counter(key for entry in before.requests for key in _keys(entry))
    fresh: list[Fresh] = []
    for entry in after.requests:
        new = []
        for position, key in enumerate(_keys(entry)):
            if unmatched[key] > 0:
                unmatched[key] -= 1
            else:
                new.append(position)
        if new:
            whole = len(new) == entry.size
            fresh.append(Fresh(entry.message if whole else _FORMAT.keep(entry.message, new), entry if whole else None))
    if unmatched.total() or (closed and fresh):
        return None
    if after.response and not closed:
        fresh.append(Fresh(after.response.message, after.response))
    return fresh


def _carry_numbers(before: _Turn, after: _Turn) -> None:
    """Messages that are there one for one keep their place in the transcript."""
    pairs = list(zip(before.requests, after.requests, strict=False))
    if len(pairs) == len(before.requests) and all(_keys(one) == _keys(other) for one, other in pairs):
        for one, other in pairs:
            other.number = one.number
    if before.response and after.response:
        after.response.number = before.response.number


def _keys(entry: Known) -> list[_Key]:
    """What each part is, in a form that survives JSON; what system and harness say may be renewed, and is alike."""
    if not entry.message.parts:
        return []
    parts = _FORMAT.parts(entry.message)
    # A request gives an item for each part, and grows at its end.
    return [_key(part) for part in (parts[: entry.size] if isinstance(entry.message, ModelRequest) else parts)]


def _key(part: Part) -> _Key:
    if part.kind in (Kind.SYSTEM, Kind.NOTICE):
        return (part.kind,)
    return (part.kind, part.text, part.call_id, part.tool, part.arguments, part.extra_tokens)
