"""Makes the messages of requests: the view, with the changes that other capabilities made to a request."""

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
