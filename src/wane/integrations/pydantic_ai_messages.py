"""Pydantic AI's messages in and out: what is new in a run's history, and what its requests carry.

Comparing message objects is not enough: Pydantic AI joins neighbouring requests, moves results before user prompts,
closes interrupted calls, renews system prompts and reloads messages from JSON. So histories are compared by the content
of their parts; the order of parts in the requests between two responses does not matter.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, takewhile
from operator import is_
from threading import Lock
from typing import Any, Final, TypeAlias

from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    ThinkingPart,
    ToolReturnPart,
)

from wane.caches import rules_for
from wane.conversation import Adapter, Aligner, Alignment, Conversation, Prepared, Request
from wane.conversation.events import Event, HistoryForked, HistoryReplaced, MessageTaken
from wane.conversation.scopes import read_scopes
from wane.core import Kind
from wane.formats.message_format import GrowingOrder, Part
from wane.formats.pydantic_ai import PydanticAIFormat, sendable
from wane.integrations.pydantic_ai_caching import with_cache_point
from wane.strategies.host import HostScope

_FORMAT: Final = PydanticAIFormat()

# Pydantic AI sets these on responses whose usage sums several model requests; older versions use the second key.
_NAMESPACE: Final = "__pydantic_ai__"
_CONTEXT_KEYS: Final = ("context_input_tokens", "initial_input_tokens")

_Key: TypeAlias = tuple[object, ...]

_Sized: TypeAlias = tuple[ModelMessage, int]
"""A message with the number of its parts when it was taken in, because requests grow in place."""

_Turn: TypeAlias = list[_Sized]
"""Requests, and the response to them if there is one yet."""

STAMP: Final = "wane_scopes"
"""Where a response's metadata have the program's scopes in which it was asked for (R18)."""


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

    def cache_lifetime(self, message: ModelMessage) -> float | None:
        """Return the lifetime that the provider documents for a response's model, or that the request asked for."""
        if not isinstance(message, ModelResponse) or message.model_name is None:
            return None
        hour = message.usage.cache_write_1h_tokens > 0
        return rules_for(message.provider_name or "", message.model_name, hour=hour).lifetime

    def fixed_text(self, message: ModelMessage) -> str | None:
        """Return the instructions of a request."""
        return message.instructions if isinstance(message, ModelRequest) else None

    def scopes(self, message: ModelMessage) -> Sequence[HostScope] | None:
        """Return the scopes that a response carries."""
        return read_scopes((message.metadata or {}).get(STAMP)) if isinstance(message, ModelResponse) else None

    def answers(self, message: ModelMessage, parts: Sequence[Part]) -> bool:  # noqa: ARG002 - the type is enough
        """Return whether it is a response, even an empty one."""
        return isinstance(message, ModelResponse)


class TurnAligner(Aligner[ModelMessage]):
    """Compares histories turn by turn: the requests before a response, and the response."""

    def __init__(self) -> None:
        self._known: list[_Sized] = []  # what was taken in: the history's messages, or new parts of them
        self._seen: list[ModelMessage] = []  # the latest history
        self._open: list[int] = []  # the sizes of its requests after the last response

    def align(self, history: Sequence[ModelMessage]) -> Alignment[ModelMessage]:
        """Compare a run's whole history with the known one; messages that are the same objects cost nothing."""
        previous = self._seen
        # The common case, at the speed of C; only requests that no response has followed yet may grow.
        if len(history) >= len(previous) and all(map(is_, previous, history)) and _open_sizes(previous) == self._open:
            return Alignment(len(self._known), history[len(previous) :])
        same = sum(1 for _ in takewhile(bool, map(is_, previous, history)))
        # Back to the end of a response, because only there both histories are surely divided alike.
        same = _count_settled(history[:same])
        turns = sum(isinstance(message, ModelResponse) for message in history[:same])
        ends = (number for number, (message, _) in enumerate(self._known, 1) if isinstance(message, ModelResponse))
        unchanged = next(islice(ends, turns - 1, None)) if turns else 0
        new_turns = _turns(_with_sizes(history[same:]))
        added, renewed = list[ModelMessage](), list[tuple[int, ModelMessage]]()
        for turn in _turns(self._known[unchanged:]):
            after = next(new_turns, None)
            compared = None if after is None else _compare_turns(turn, after)
            if after is None or compared is None:
                # Everything after the last equal turn is taken in again.
                new_turns = chain([] if after is None else [after], new_turns)
                break
            added, others = compared
            renewed += [(unchanged + position, message) for position, message in others]
            unchanged += len(turn)
        return Alignment(unchanged, [*added, *(message for turn in new_turns for message, _ in turn)], renewed)

    def accept(self, history: Sequence[ModelMessage], alignment: Alignment[ModelMessage]) -> None:
        """Remember a history that was taken in."""
        for number, message in alignment.renewed:
            self._known[number] = message, self._known[number][1]
        del self._known[alignment.kept :]
        self._known += _with_sizes(alignment.fresh)
        self._seen, self._open = list(history), _open_sizes(history)

    def extend(self, taken: Sequence[Prepared[ModelMessage]]) -> None:
        """Remember messages that were taken in."""
        messages = [prepared.message for prepared in taken]
        self._known += _with_sizes(messages)
        self._seen += messages
        self._open = _open_sizes(self._seen)


def _with_sizes(messages: Iterable[ModelMessage]) -> list[_Sized]:
    return [(message, len(message.parts)) for message in messages]


def _open_sizes(messages: Sequence[ModelMessage]) -> list[int]:
    return [len(message.parts) for message in messages[_count_settled(messages) :]]


def _turns(messages: Iterable[_Sized]) -> Iterator[_Turn]:
    turn: _Turn = []
    for message in messages:
        turn.append(message)
        if isinstance(message[0], ModelResponse):
            yield turn
            turn = []
    if turn:
        yield turn


def _compare_turns(before: _Turn, after: _Turn) -> tuple[list[ModelMessage], list[tuple[int, ModelMessage]]] | None:
    """What a turn adds to the known one, and which of its messages are other objects now, each with its position.

    None if it is another turn.
    """
    requests, response = _split(before)
    new_requests, new_response = _split(after)
    if response and list(map(_keys, response)) != list(map(_keys, new_response)):
        return None
    unmatched = Counter(key for request in requests for key in _keys(request))
    added: list[ModelMessage] = []
    for message, size in new_requests:
        new = []
        for position, key in enumerate(_keys((message, size))):
            if unmatched[key] > 0:
                unmatched[key] -= 1
            else:
                new.append(position)
        if new:
            added.append(message if len(new) == size else _FORMAT.keep(message, new))
    if unmatched.total() or (response and added):
        return None
    if not response:
        added += [message for message, _ in new_response]
    # Requests are the same messages only if they match one to one.
    pairs = list(zip(requests, new_requests, strict=False))
    if len(pairs) < len(requests) or any(_keys(old) != _keys(new) for old, new in pairs):
        pairs = []
    numbered = [*enumerate(pairs), *enumerate(zip(response, new_response, strict=False), len(requests))]
    return added, [(position, new[0]) for position, (old, new) in numbered if new[0] is not old[0]]


def _split(turn: _Turn) -> tuple[_Turn, _Turn]:
    """The requests of a turn, and its response."""
    end = len(turn) - isinstance(turn[-1][0], ModelResponse)
    return turn[:end], turn[end:]


def _keys(sized: _Sized) -> list[_Key]:
    """The content of each part, in a form that survives JSON; parts of system and harness are alike, as they change."""
    message, size = sized
    if not message.parts:
        return []
    parts = _FORMAT.parts(message)
    if isinstance(message, ModelRequest):  # it has an item for each part, and grows at its end
        parts = parts[:size]
    return [
        (part.kind,)
        if part.kind in (Kind.SYSTEM, Kind.NOTICE)
        else (part.kind, part.text, part.call_id, part.tool, part.arguments, part.extra_tokens)
        for part in parts
    ]


_KEPT: Final = 8
"""Conversations kept of runs that have ended."""

_RECORD: Final = "input_transformations"
"""Where a response's details have Anthropic's record of what it dropped."""


class Outgoing:
    """Makes the messages of a conversation's requests. Only messages new since the last request cost time.

    Claude models bind each thinking block to the conversation before it, and evictions break that bond. If Anthropic
    enforces it, Pydantic AI repeats the refused request with `drop_block`, and from then on asks for the drop at once,
    as long as a response in the sent messages records one. So that an eviction does not remove that record, it moves to
    the last visible response. No model gets it.

    Attributes:
        conversation: the conversation.
    """

    def __init__(self, conversation: Conversation[ModelMessage]) -> None:
        self.conversation = conversation
        self._record = _latest_record(conversation.messages)
        conversation.listeners.append(self._hear)
        self._shown: list[ModelMessage] = []  # the last request's messages up to the last response
        self._sent: list[ModelMessage] = []  # the same messages as they were sent
        self._order = GrowingOrder(_FORMAT.speaker)

    def messages(
        self,
        request: Request[ModelMessage],
        messages: Sequence[ModelMessage],
        history: Sequence[ModelMessage],
        *,
        noted: bool = False,
        cached: CachePoint | None = None,
    ) -> list[ModelMessage]:
        """Return the messages of a request.

        Messages after the last response are sent as other capabilities left them, as far as the view shows them.

        Args:
            request: the conversation's request.
            messages: the messages as the agent would send them, possibly changed by other capabilities.
            history: the run's history, which the conversation has taken in.
            noted: whether a reminder stands in the last message, if roles keep an order. Servers with strict templates
                take no system message and no second turn of the user at the end.
            cached: goes behind the leading messages that no pass may take, where the user's words end them.
        """
        settled, known_messages = _count_settled(history), self.conversation.messages
        if _same(messages[:settled], history[:settled]):
            answered = _count_settled(known_messages)
            later = (at for at, number in enumerate(request.numbers) if number is not None and number >= answered)
            stop = next(later, len(request.view))
            sent = [
                *request.view[:stop],
                *as_shown(messages[settled:], known_messages[answered:], request.view[stop:]),
            ]
        else:
            sent = as_shown(messages, known_messages, request.view)
        if cached is not None:
            fixed = request.view[: self.conversation.host.count_fixed(request)]
            sent = with_cache_point(sent, fixed, cached)
        # Other capabilities may have added turns.
        order = self.conversation.host.order & self._order.of(messages)
        if order:
            sent = _FORMAT.join_roles(sent, order)
        sent = self._with_record(sent)
        if request.reminder is None:
            return self._sendable(sent)
        if noted and order:
            return self._sendable(_FORMAT.with_note(sent, request.reminder, order=order))
        return self._sendable(with_note(sent, request.reminder))

    def _with_record(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        settled = _count_settled(messages)
        if self._record is None or not settled or any(map(_record, messages)):
            return messages
        last = messages[settled - 1]
        assert isinstance(last, ModelResponse)
        details = {**(last.provider_details or {}), _RECORD: self._record}
        return [*messages[: settled - 1], replace(last, provider_details=details), *messages[settled:]]

    def _sendable(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        same = len(self._shown)
        if not _same(self._shown, messages[:same]):
            same = sum(1 for _ in takewhile(bool, map(is_, self._shown, messages)))
        sent = [*self._sent[:same], *map(sendable, messages[same:])]
        settled = _count_settled(messages)
        self._shown, self._sent = messages[:settled], sent[:settled]
        return sent

    def _hear(self, event: Event) -> None:
        if isinstance(event, MessageTaken):
            self._record = _record(event.message) or self._record
        elif isinstance(event, HistoryForked | HistoryReplaced):
            self._record = _latest_record(self.conversation.messages)


class FinishedRuns:
    """Keeps the conversations of the latest runs for those that continue their histories, which take in only the rest.

    A run has its conversation alone: of two that continue one history, the second takes it in anew, to the same view.
    """

    def __init__(self) -> None:
        self._kept = deque[Outgoing](maxlen=_KEPT)
        self._lock = Lock()  # agents run in threads

    def keep(self, outgoing: Outgoing) -> None:
        """Keep what a run that has ended had."""
        with self._lock:
            self._kept.append(outgoing)

    def take(self, history: Sequence[ModelMessage]) -> Outgoing | None:
        """Return what the run had that a history continues, and forget it; None if no run is known."""
        with self._lock:
            for outgoing in reversed(self._kept):
                conversation = outgoing.conversation
                if conversation.length and conversation.host.shares(history) == conversation.length:
                    self._kept.remove(outgoing)
                    return outgoing
        return None


def _latest_record(messages: Sequence[ModelMessage]) -> list[Any] | None:
    return next(filter(None, map(_record, reversed(messages))), None)


def _record(message: ModelMessage) -> list[Any] | None:
    """A response's record of dropped thinking; None if it has none."""
    record = (message.provider_details or {}).get(_RECORD) if isinstance(message, ModelResponse) else None
    for entry in record if isinstance(record, list) else ():
        dropped = isinstance(entry, dict) and entry.get("type") == "thinking_dropped"
        if dropped and entry.get("reason") == "prefix_binding_mismatch":
            return record
    return None


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
    messages: Sequence[ModelMessage], history: Sequence[ModelMessage], view: Sequence[ModelMessage]
) -> list[ModelMessage]:
    """Apply a view to messages that other capabilities have changed.

    Parts that the view lacks are left out: by identity, which alone tells what a capability took over from the history,
    and calls and results also by id. Replaced results are replaced here too. Other messages of the view, such as a
    summary, are inserted before the message that they precede there. Anything else, such as a note at the end, stays.
    """
    own = set(map(id, _parts(history)))
    visible = [part for part in _parts(view) if id(part) in own]
    instead = {part.tool_call_id: part for part in _parts(view) if id(part) not in own and _is_result(part)}
    ids = {*filter(None, map(_call_id, visible)), *instead}
    hidden = own.difference(map(id, visible))
    gone = {call_id for call_id in map(_call_id, _parts(history)) if call_id is not None} - ids

    def in_view(part: Any) -> Any:
        if isinstance(part, ToolReturnPart | RetryPromptPart) and part.tool_call_id in instead:
            return instead[part.tool_call_id]
        return None if id(part) in hidden or _call_id(part) in gone else part

    result = [changed for message in messages if (changed := _with_parts(message, in_view)) is not None]
    for number, message in enumerate(view):
        if message.parts and not any(id(part) in own or _is_result(part) for part in message.parts):
            behind = next((part for part in _parts(view[number + 1 :]) if id(part) in own or _is_result(part)), None)
            result.insert(_place_of(behind, result), message)
    return result


def _with_parts(message: ModelMessage, in_view: Callable[[Any], Any]) -> ModelMessage | None:
    """A message with its kept parts; None if nothing is left but reasoning, which would be refused (R9)."""
    parts: Any = [part for part in map(in_view, message.parts) if part is not None]
    if len(parts) == len(message.parts) and all(map(is_, parts, message.parts)):
        return message
    if all(isinstance(part, ThinkingPart) for part in parts):
        return None
    return replace(message, parts=parts)


def _place_of(part: Any, messages: Sequence[ModelMessage]) -> int:
    """Position of the first message that contains a part, or its call."""
    call_id = _call_id(part)
    for number, message in enumerate(messages):
        if any(
            candidate is part or (call_id is not None and _call_id(candidate) == call_id) for candidate in message.parts
        ):
            return number
    return len(messages)


def _same(first: Sequence[ModelMessage], second: Sequence[ModelMessage]) -> bool:
    """Whether these are the same messages. Lists compare by object first, at the speed of C, then by value."""
    try:
        return first == second
    except Exception:  # values in a message may fail to compare
        return False


def _count_settled(messages: Sequence[ModelMessage]) -> int:
    """How many messages there are up to the last response."""
    return len(messages) - sum(
        1 for _ in takewhile(lambda message: not isinstance(message, ModelResponse), reversed(messages))
    )


def _parts(messages: Iterable[ModelMessage]) -> Iterator[Any]:
    return (part for message in messages for part in message.parts)


def _call_id(part: object) -> str | None:
    return part.tool_call_id if isinstance(part, BaseToolCallPart | BaseToolReturnPart | RetryPromptPart) else None


def _is_result(part: object) -> bool:
    return isinstance(part, ToolReturnPart)
