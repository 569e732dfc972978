"""Reads Pydantic AI's messages for a conversation, and finds what is new in a run's history.

Comparing message objects is not enough: Pydantic AI joins neighbouring requests, moves results before user prompts,
closes interrupted calls, renews system prompts and reloads messages from JSON. So histories are compared by the content
of their parts; the order of parts in the requests between two responses does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import is_
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse

from wane.conversation import Adapter, Aligner, Alignment
from wane.core import Kind
from wane.formats.base import Part
from wane.formats.pydantic_ai import PydanticAIFormat

_FORMAT: Final = PydanticAIFormat()

# Pydantic AI sets these on responses whose usage sums several model requests; older versions use the second key.
_NAMESPACE: Final = "__pydantic_ai__"
_CONTEXT_KEYS: Final = ("context_input_tokens", "initial_input_tokens")

_Key = tuple[object, ...]


class PydanticAIAdapter(Adapter[ModelMessage]):
    """Reads usage, times and instructions from Pydantic AI's messages."""

    drops_orphans = True

    def usage(self, message: ModelMessage) -> int:
        """Return the input tokens of a response's request, including cached ones; 0 if they were not reported."""
        if not isinstance(message, ModelResponse):
            return 0
        marks = (message.metadata or {}).get(_NAMESPACE)
        if isinstance(marks, dict):
            for key in _CONTEXT_KEYS:
                if isinstance(tokens := marks.get(key), int):
                    return tokens
        return message.usage.input_tokens

    def time(self, message: ModelMessage) -> float | None:
        """Return a message's timestamp as a number, because a history may mix times with and without a zone."""
        return None if message.timestamp is None else message.timestamp.timestamp()

    def fixed(self, message: ModelMessage) -> str | None:
        """Return the instructions of a request."""
        return message.instructions if isinstance(message, ModelRequest) else None

    def answers(self, message: ModelMessage, parts: Sequence[Part]) -> bool:  # noqa: ARG002 - the type is enough
        """Return whether it is a response, even an empty one."""
        return isinstance(message, ModelResponse)


@dataclass(slots=True)
class _Known:
    """A message of the history when it was taken in.

    Attributes:
        message: the message.
        size: number of its parts at the time.
        number: its position among the messages taken in; None if it was not taken in as a whole.
    """

    message: ModelMessage
    size: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class _Fresh:
    """A new message, or a copy of one with only its new parts; and its entry, if all of it is new."""

    message: ModelMessage
    entry: _Known | None


@dataclass(frozen=True, slots=True)
class _Growth(Alignment[ModelMessage]):
    """An alignment, with the history's entries from the first one that may have changed."""

    since: int = 0
    entries: Sequence[_Known] = ()


class TurnAligner(Aligner[ModelMessage]):
    """Compares histories turn by turn: the requests before a response, and the response."""

    def __init__(self) -> None:
        self._entries: list[_Known] = []
        self._messages: list[ModelMessage] = []  # of the entries
        self._count = 0  # number of messages taken in, which may be parts of the history's messages

    def align(self, history: Sequence[ModelMessage]) -> Alignment[ModelMessage]:
        """Compare a run's whole history with the known one; messages that are the same objects cost nothing."""
        known = self._entries
        same = self._unchanged(history)
        if same == len(known):
            new = [_Known(message, len(message.parts), self._count + n) for n, message in enumerate(history[same:])]
            return _Growth(self._count, history[same:], (), same, new)
        # Back to the end of a response, because only there are both histories surely divided alike.
        while same and isinstance(known[same - 1].message, ModelRequest):
            same -= 1
        new = [_Known(message, len(message.parts)) for message in history[same:]]
        return self._compared(same, new)

    def accept(self, history: Sequence[ModelMessage], alignment: Alignment[ModelMessage]) -> None:  # noqa: ARG002
        """Remember a history that was taken in."""
        assert isinstance(alignment, _Growth)
        self._entries[alignment.since :] = alignment.entries
        self._messages[alignment.since :] = [entry.message for entry in alignment.entries]
        self._count = alignment.kept + len(alignment.fresh)

    def extend(self, messages: Sequence[ModelMessage]) -> None:
        """Remember messages that were taken in."""
        for message in messages:
            self._entries.append(_Known(message, len(message.parts), self._count))
            self._messages.append(message)
            self._count += 1

    def _unchanged(self, history: Sequence[ModelMessage]) -> int:
        """How many messages at the start are the same objects with the same number of parts."""
        known = self._entries
        # The common case, at the speed of C; only requests that no response has followed yet may grow.
        if len(history) >= len(known) and all(map(is_, self._messages, history)):
            tail = takewhile(lambda entry: isinstance(entry.message, ModelRequest), reversed(known))
            if all(len(entry.message.parts) == entry.size for entry in tail):
                return len(known)
        pairs = enumerate(zip(known, history, strict=False))
        changed = (n for n, (entry, m) in pairs if entry.message is not m or len(m.parts) != entry.size)
        return next(changed, min(len(known), len(history)))

    def _compared(self, since: int, new: list[_Known]) -> _Growth:
        """Align a history that has changed after an entry, by its new entries from there on."""
        before, after = list(_turns(self._entries[since:])), list(_turns(new))
        kept = _behind(self._entries[since - 1]) if since else 0
        renewed: list[_Known] = []
        for number, turn in enumerate(before):
            extra = _extra(turn, after[number]) if number < len(after) else None
            if extra is None:
                # Everything after the last equal turn is taken in again.
                return _grown(kept, [], after[number:], since, new, renewed)
            renewed += _carried(turn, after[number])
            if number + 1 == len(before):
                return _grown(self._count, extra, after[number + 1 :], since, new, renewed)
            assert turn.response is not None, "only the last turn waits for its response"
            kept = _behind(turn.response)
        raise AssertionError("nothing was known that could have changed")


def _grown(
    kept: int,
    extra: Sequence[_Fresh],
    turns: Sequence[_Turn],
    since: int,
    entries: Sequence[_Known],
    renewed: Sequence[_Known] = (),
) -> _Growth:
    changed = [(entry.number, entry.message) for entry in renewed if entry.number is not None]
    fresh = [*extra, *(_Fresh(entry.message, entry) for turn in turns for entry in turn.entries)]
    for number, each in enumerate(fresh, kept):
        if each.entry is not None:
            each.entry.number = number
    return _Growth(kept, [each.message for each in fresh], changed, since, entries)


def _behind(response: _Known) -> int:
    """How many messages were taken in up to a response."""
    assert response.number is not None, "a response is taken in as a whole"
    return response.number + 1


@dataclass(slots=True)
class _Turn:
    """Requests and the response to them; None if there is none yet."""

    requests: list[_Known]
    response: _Known | None = None

    @property
    def entries(self) -> list[_Known]:
        return self.requests if self.response is None else [*self.requests, self.response]


def _turns(entries: Sequence[_Known]) -> Iterator[_Turn]:
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


def _extra(before: _Turn, after: _Turn) -> list[_Fresh] | None:
    """What a turn adds to the known one; None if it is another turn."""
    closed = before.response
    if closed and (after.response is None or _keys(closed) != _keys(after.response)):
        return None
    unmatched = Counter(key for entry in before.requests for key in _keys(entry))
    fresh: list[_Fresh] = []
    for entry in after.requests:
        new = []
        for position, key in enumerate(_keys(entry)):
            if unmatched[key] > 0:
                unmatched[key] -= 1
            else:
                new.append(position)
        if new:
            whole = len(new) == entry.size
            fresh.append(_Fresh(entry.message if whole else _FORMAT.keep(entry.message, new), entry if whole else None))
    if unmatched.total() or (closed and fresh):
        return None
    if after.response and not closed:
        fresh.append(_Fresh(after.response.message, after.response))
    return fresh


def _carried(before: _Turn, after: _Turn) -> list[_Known]:
    """Carry positions over to messages that match one to one; return those that are other objects now."""
    pairs = list(zip(before.requests, after.requests, strict=False))
    if len(pairs) != len(before.requests) or any(_keys(one) != _keys(other) for one, other in pairs):
        pairs = []
    if before.response and after.response:
        pairs.append((before.response, after.response))
    for one, other in pairs:
        other.number = one.number
    return [other for one, other in pairs if other.message is not one.message]


def _keys(entry: _Known) -> list[_Key]:
    """The content of each part, in a form that survives JSON; parts of system and harness are alike, as they change."""
    if not entry.message.parts:
        return []
    parts = _FORMAT.parts(entry.message)
    # A request has an item for each part, and grows at its end.
    return [_key(part) for part in (parts[: entry.size] if isinstance(entry.message, ModelRequest) else parts)]


def _key(part: Part) -> _Key:
    if part.kind in (Kind.SYSTEM, Kind.NOTICE):
        return (part.kind,)
    return (part.kind, part.text, part.call_id, part.tool, part.arguments, part.extra_tokens)
