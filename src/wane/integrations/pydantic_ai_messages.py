"""Pydantic AI's messages in and out: what is new in a run's history, and what its requests carry.

Comparing message objects is not enough: Pydantic AI joins neighbouring requests, moves results before user prompts,
closes interrupted calls, renews system prompts and reloads messages from JSON. So histories are compared by the content
of their parts; the order of parts in the requests between two responses does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat, takewhile
from operator import is_
from typing import Any, Final

from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    ThinkingPart,
    ToolReturnPart,
)

from wane.conversation import Adapter, Aligner, Alignment, Conversation
from wane.conversation.events import Event, HistoryForked, HistoryReplaced, MessageTaken
from wane.core import Kind
from wane.formats.base import Part
from wane.formats.pydantic_ai import PydanticAIFormat, sendable

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
class _Entry:
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
class _NewMessage:
    """A new message, or a copy of one with only its new parts; and its entry, if all of it is new."""

    message: ModelMessage
    entry: _Entry | None


@dataclass(frozen=True, slots=True)
class _TurnAlignment(Alignment[ModelMessage]):
    """An alignment, with the history's entries from the first one that may have changed."""

    since: int = 0
    entries: Sequence[_Entry] = ()


class TurnAligner(Aligner[ModelMessage]):
    """Compares histories turn by turn: the requests before a response, and the response."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._messages: list[ModelMessage] = []  # of the entries
        self._count = 0  # number of messages taken in, which may be parts of the history's messages

    def align(self, history: Sequence[ModelMessage]) -> Alignment[ModelMessage]:
        """Compare a run's whole history with the known one; messages that are the same objects cost nothing."""
        known = self._entries
        same = self._unchanged(history)
        if same == len(known):
            new = [_Entry(message, len(message.parts), self._count + n) for n, message in enumerate(history[same:])]
            return _TurnAlignment(self._count, history[same:], (), same, new)
        # Back to the end of a response, because only there are both histories surely divided alike.
        while same and isinstance(known[same - 1].message, ModelRequest):
            same -= 1
        new = [_Entry(message, len(message.parts)) for message in history[same:]]
        return self._compared(same, new)

    def accept(self, history: Sequence[ModelMessage], alignment: Alignment[ModelMessage]) -> None:  # noqa: ARG002
        """Remember a history that was taken in."""
        assert isinstance(alignment, _TurnAlignment)
        self._entries[alignment.since :] = alignment.entries
        self._messages[alignment.since :] = [entry.message for entry in alignment.entries]
        self._count = alignment.kept + len(alignment.fresh)

    def extend(self, messages: Sequence[ModelMessage]) -> None:
        """Remember messages that were taken in."""
        for message in messages:
            self._entries.append(_Entry(message, len(message.parts), self._count))
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

    def _compared(self, since: int, new: list[_Entry]) -> _TurnAlignment:
        """Align a history that has changed after an entry, by its new entries from there on."""
        before, after = list(_turns(self._entries[since:])), list(_turns(new))
        kept = _behind(self._entries[since - 1]) if since else 0
        renewed: list[_Entry] = []
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
    extra: Sequence[_NewMessage],
    turns: Sequence[_Turn],
    since: int,
    entries: Sequence[_Entry],
    renewed: Sequence[_Entry] = (),
) -> _TurnAlignment:
    changed = [(entry.number, entry.message) for entry in renewed if entry.number is not None]
    fresh = [*extra, *(_NewMessage(entry.message, entry) for turn in turns for entry in turn.entries)]
    for number, each in enumerate(fresh, kept):
        if each.entry is not None:
            each.entry.number = number
    return _TurnAlignment(kept, [each.message for each in fresh], changed, since, entries)


def _behind(response: _Entry) -> int:
    """How many messages were taken in up to a response."""
    assert response.number is not None, "a response is taken in as a whole"
    return response.number + 1


@dataclass(slots=True)
class _Turn:
    """Requests and the response to them; None if there is none yet."""

    requests: list[_Entry]
    response: _Entry | None = None

    @property
    def entries(self) -> list[_Entry]:
        return self.requests if self.response is None else [*self.requests, self.response]


def _turns(entries: Sequence[_Entry]) -> Iterator[_Turn]:
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


def _extra(before: _Turn, after: _Turn) -> list[_NewMessage] | None:
    """What a turn adds to the known one; None if it is another turn."""
    closed = before.response
    if closed and (after.response is None or _keys(closed) != _keys(after.response)):
        return None
    unmatched = Counter(key for entry in before.requests for key in _keys(entry))
    fresh: list[_NewMessage] = []
    for entry in after.requests:
        new = []
        for position, key in enumerate(_keys(entry)):
            if unmatched[key] > 0:
                unmatched[key] -= 1
            else:
                new.append(position)
        if new:
            whole = len(new) == entry.size
            fresh.append(
                _NewMessage(entry.message if whole else _FORMAT.keep(entry.message, new), entry if whole else None)
            )
    if unmatched.total() or (closed and fresh):
        return None
    if after.response and not closed:
        fresh.append(_NewMessage(after.response.message, after.response))
    return fresh


def _carried(before: _Turn, after: _Turn) -> list[_Entry]:
    """Carry positions over to messages that match one to one; return those that are other objects now."""
    pairs = list(zip(before.requests, after.requests, strict=False))
    if len(pairs) != len(before.requests) or any(_keys(one) != _keys(other) for one, other in pairs):
        pairs = []
    if before.response and after.response:
        pairs.append((before.response, after.response))
    for one, other in pairs:
        other.number = one.number
    return [other for one, other in pairs if other.message is not one.message]


def _keys(entry: _Entry) -> list[_Key]:
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


_RECORD: Final = "input_transformations"


class Outgoing:
    """Makes the messages of a conversation's requests. Only messages new since the last request cost time.

    Claude models bind each thinking block to the conversation before it, and evictions break that bond. If Anthropic
    enforces it, Pydantic AI repeats the refused request with `drop_block`, and from then on asks for the drop at once,
    as long as a response in the sent messages records one. So that an eviction does not remove that record, it moves to
    the last visible response. No model gets it.

    Args:
        conversation: the conversation with the history.
    """

    def __init__(self, conversation: Conversation[ModelMessage]) -> None:
        self._conversation = conversation
        self._dropped: ModelResponse | None = None  # the latest response that records dropped thinking
        self._shown: list[ModelMessage] = []  # the last request's messages up to the last response
        self._sent: list[ModelMessage] = []  # the same messages as they were sent
        self._note_drops(conversation.messages)
        conversation.listeners.append(self._hear)

    def messages(
        self,
        view: Sequence[ModelMessage],
        messages: Sequence[ModelMessage],
        history: Sequence[ModelMessage],
        note: str | None = None,
    ) -> list[ModelMessage]:
        """Return the messages of a request.

        Messages after the last response are sent as other capabilities left them, as far as the view shows them.

        Args:
            view: the conversation's view.
            messages: the request's messages, made from the history and possibly changed by other capabilities.
            history: the run's history, which the conversation has taken in.
            note: a note at the end of this request only.
        """
        settled = _settled(history)
        if _same(messages[:settled], history[:settled]):
            known = self._conversation.messages
            tail = known[_settled(known) :]
            head = _without(view, tail)
            shown = [*head, *as_shown(messages[settled:], tail, view[len(head) :])]
        else:
            shown = as_shown(messages, self._conversation.messages, view)
        shown = shown if note is None else with_note(shown, note)
        return self._sendable(self._with_record(shown))

    def _with_record(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        dropped = self._dropped
        settled = _settled(messages)
        if dropped is None or not settled or any(map(is_, messages, repeat(dropped))):
            return messages
        last = messages[settled - 1]
        assert isinstance(last, ModelResponse)
        details = {**(last.provider_details or {}), _RECORD: (dropped.provider_details or {})[_RECORD]}
        return [*messages[: settled - 1], replace(last, provider_details=details), *messages[settled:]]

    def _sendable(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        same = len(self._shown)
        if not _same(self._shown, messages[:same]):
            pairs = enumerate(zip(self._shown, messages, strict=False))
            same = next((n for n, (one, other) in pairs if one is not other), min(same, len(messages)))
        sent = [*self._sent[:same], *map(sendable, messages[same:])]
        settled = _settled(messages)
        self._shown, self._sent = messages[:settled], sent[:settled]
        return sent

    def _hear(self, event: Event) -> None:
        if isinstance(event, MessageTaken):
            self._note_drops([event.message])
        elif isinstance(event, HistoryForked | HistoryReplaced):
            self._dropped = None
            self._note_drops(self._conversation.messages)

    def _note_drops(self, messages: Iterable[ModelMessage]) -> None:
        for message in messages:
            if isinstance(message, ModelResponse) and _records_drop(message):
                self._dropped = message


def with_note(messages: list[ModelMessage], text: str) -> list[ModelMessage]:
    """Return messages with a note at the end, so that the provider's cached prefix stays valid.

    The note has the scope of this request, so that Pydantic AI puts the cache breakpoint before it: no later request
    could read one on the note. Messages that end in a response, which the provider will continue, get no note.
    """
    last = messages[-1] if messages else None
    if not isinstance(last, ModelRequest):
        return messages
    return [*messages[:-1], replace(last, parts=[*last.parts, SystemPromptPart(text, scope="request")])]


def as_shown(
    messages: Sequence[ModelMessage], known: Sequence[ModelMessage], view: Sequence[ModelMessage]
) -> list[ModelMessage]:
    """Apply a view to messages that other capabilities have changed.

    Parts that the view lacks are left out, by identity, and calls and results also by id. Replaced results are replaced
    here too. Other messages of the view, such as a summary, are inserted before the message that they precede there.
    Anything else, such as a note at the end, stays.

    Args:
        messages: the messages of a request.
        known: the messages of the history.
        view: the view of these.
    """
    own = set(map(id, _parts(known)))
    shown = [part for part in _parts(view) if id(part) in own]
    instead = {part.tool_call_id: part for part in _parts(view) if id(part) not in own and _is_result(part)}
    ids = {*filter(None, map(_call_id, shown)), *instead}
    hidden = own.difference(map(id, shown))
    gone = {call_id for call_id in map(_call_id, _parts(known)) if call_id is not None} - ids

    def kept(part: Any) -> Any:
        if isinstance(part, ToolReturnPart | RetryPromptPart) and part.tool_call_id in instead:
            return instead[part.tool_call_id]
        return None if id(part) in hidden or _call_id(part) in gone else part

    result = [each for each in (_with_parts(message, kept) for message in messages) if each is not None]
    for number, message in enumerate(view):
        if message.parts and not any(id(part) in own or _is_result(part) for part in message.parts):
            behind = next((part for part in _parts(view[number + 1 :]) if id(part) in own or _is_result(part)), None)
            result.insert(_place_of(behind, result), message)
    return result


def _with_parts(message: ModelMessage, kept: Callable[[Any], Any]) -> ModelMessage | None:
    """A message with its kept parts; None if nothing is left but reasoning, which would be refused (R9)."""
    parts = [part for part in map(kept, message.parts) if part is not None]
    if len(parts) == len(message.parts) and all(map(is_, parts, message.parts)):
        return message
    if all(isinstance(part, ThinkingPart) for part in parts):
        return None
    if isinstance(message, ModelRequest):
        return replace(message, parts=parts)
    return replace(message, parts=parts)  # the same code for the other type


def _place_of(part: Any, messages: Sequence[ModelMessage]) -> int:
    """Position of the first message that contains a part, or its call."""
    call_id = _call_id(part)
    for number, message in enumerate(messages):
        if any(each is part or (call_id is not None and _call_id(each) == call_id) for each in message.parts):
            return number
    return len(messages)


def _without(view: Sequence[ModelMessage], tail: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """A view without the messages after the last response."""
    own = {id(each) for message in tail for each in (message, *message.parts)}
    results = {_call_id(part) for part in _parts(tail)} - {None}
    stop = len(view)
    while stop and isinstance(last := view[stop - 1], ModelRequest):
        if id(last) not in own and not any(id(p) in own or _call_id(p) in results for p in last.parts):
            break
        stop -= 1
    return view[:stop]


def _same(one: Sequence[ModelMessage], other: Sequence[ModelMessage]) -> bool:
    """Whether these are the same messages. Lists compare by object first, at the speed of C, then by value."""
    try:
        return one == other
    except Exception:  # values in a message may fail to compare
        return False


def _settled(messages: Sequence[ModelMessage]) -> int:
    """How many messages there are up to the last response."""
    return len(messages) - sum(
        1 for _ in takewhile(lambda each: not isinstance(each, ModelResponse), reversed(messages))
    )


def _parts(messages: Iterable[ModelMessage]) -> Iterator[Any]:
    return (part for message in messages for part in message.parts)


def _call_id(part: object) -> str | None:
    return part.tool_call_id if isinstance(part, BaseToolCallPart | BaseToolReturnPart | RetryPromptPart) else None


def _is_result(part: object) -> bool:
    return isinstance(part, ToolReturnPart)


def _records_drop(response: ModelResponse) -> bool:
    record = (response.provider_details or {}).get(_RECORD)
    return isinstance(record, list) and any(map(_is_drop, record))


def _is_drop(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("type") == "thinking_dropped"
        and entry.get("reason") == "prefix_binding_mismatch"
    )
