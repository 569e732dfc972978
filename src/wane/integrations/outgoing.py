"""The messages of requests: the view, with what others added to a request, as a provider can be sent it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
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

from wane.conversation import Conversation
from wane.conversation.events import Event, HistoryForked, HistoryReplaced, MessageTaken
from wane.integrations.sendable import sendable

_RECORD: Final = "input_transformations"


class Outgoing:
    """Makes the messages of a conversation's requests. A request costs what is new since the last one.

    Claude models bind each thinking block to the conversation before it, and what leaves the view breaks that bond.
    Where Anthropic enforces it, Pydantic AI sends the refused request again with `drop_block`, and asks for the drop
    at once from then on, as long as the messages that it sends hold a response which records one. An eviction must
    not take that record away: it goes on with the last response that is shown. It is not sent to any model.

    Args:
        conversation: takes in the history.
    """

    def __init__(self, conversation: Conversation[ModelMessage]) -> None:
        self._conversation = conversation
        self._dropped: ModelResponse | None = None  # the latest response that records dropped thinking
        self._shown: list[ModelMessage] = []  # what the last request showed, up to the last response
        self._sent: list[ModelMessage] = []  # the same as it was sent
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

        What no response has followed yet is sent as others left it, as far as the view shows it.

        Args:
            view: what the conversation shows.
            messages: the request's messages, which others may have changed on their way from the history.
            history: the run's history, which the conversation has taken in.
            note: what to say at the end, for this request alone.
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
    """Return messages with a note after everything else, so that what a provider has cached stays as it is.

    It is said to be for this request alone: a cache breakpoint on it would be one that no later request can read,
    so Pydantic AI puts it on what stands ahead. Messages that end in a response, which a provider is about to go on
    with, get none.
    """
    last = messages[-1] if messages else None
    if not isinstance(last, ModelRequest):
        return messages
    return [*messages[:-1], replace(last, parts=[*last.parts, SystemPromptPart(text, scope="request")])]


def as_shown(
    messages: Sequence[ModelMessage], known: Sequence[ModelMessage], view: Sequence[ModelMessage]
) -> list[ModelMessage]:
    """Return messages that are no longer the history's own, as a view shows what they were made from.

    What the view lacks is left out by the identity of its parts, calls and results by their ids too. What it has in
    place of results stands there; what it says besides, such as a summary, ahead of what it stands ahead of there.
    Anything else, such as a note at the end, stays as it is.

    Args:
        messages: the messages of a request.
        known: the messages of the history.
        view: what of these is shown.
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

    told = [each for each in (_with_parts(message, kept) for message in messages) if each is not None]
    for number, message in enumerate(view):
        if message.parts and not any(id(part) in own or _is_result(part) for part in message.parts):
            behind = next((part for part in _parts(view[number + 1 :]) if id(part) in own or _is_result(part)), None)
            told.insert(_place_of(behind, told), message)
    return told


def _with_parts(message: ModelMessage, kept: Callable[[Any], Any]) -> ModelMessage | None:
    """A message with what is kept of its parts: None if that is nothing, or reasoning alone, which is refused (R9)."""
    parts = [part for part in map(kept, message.parts) if part is not None]
    if len(parts) == len(message.parts) and all(map(is_, parts, message.parts)):
        return message
    if all(isinstance(part, ThinkingPart) for part in parts):
        return None
    if isinstance(message, ModelRequest):
        return replace(message, parts=parts)
    return replace(message, parts=parts)  # the same words for another type


def _place_of(part: Any, messages: Sequence[ModelMessage]) -> int:
    """The first message that holds a part, or its call."""
    call_id = _call_id(part)
    for number, message in enumerate(messages):
        if any(each is part or (call_id is not None and _call_id(each) == call_id) for each in message.parts):
            return number
    return len(messages)


def _without(view: Sequence[ModelMessage], tail: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """A view without what it shows of the messages behind the last response."""
    own = {id(each) for message in tail for each in (message, *message.parts)}
    results = {_call_id(part) for part in _parts(tail)} - {None}
    stop = len(view)
    while stop and isinstance(last := view[stop - 1], ModelRequest):
        if id(last) not in own and not any(id(p) in own or _call_id(p) in results for p in last.parts):
            break
        stop -= 1
    return view[:stop]


def _same(one: Sequence[ModelMessage], other: Sequence[ModelMessage]) -> bool:
    """Whether these are the same messages. Lists compare objects first, at the speed of C, and only then values."""
    try:
        return one == other
    except Exception:  # what a message holds may compare in ways of its own
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
