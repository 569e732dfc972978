"""Goes back in a history for a fork, and switches to another strategy.

What left the view at a request leaves it again, whatever the settings are now (R14). Where that is no longer known, the
requests are made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from wane.conversation.adapter import Prepared
from wane.conversation.context import ContextSettings
from wane.conversation.events import Event
from wane.conversation.history import MessageHistory
from wane.core.errors import HistoryError
from wane.formats.message_format import MessageT
from wane.journal.records import MessageRecord, Record, UsageRecord


def has_answer(history: MessageHistory[MessageT], count: int) -> bool:
    """Whether a model made one of the first messages of a history."""
    messages = history.transcript.messages[:count]
    return any(history.adapter.answers(message, history.format.parts(message)) for message in messages)


def go_back(
    history: MessageHistory[MessageT], count: int, events: list[Event] | None = None
) -> tuple[MessageHistory[MessageT], int]:
    """Return a history of the first messages and their number; it is empty if no answer is among them.

    Args:
        history: the history, which stays as it is.
        count: number of messages.
        events: where the new history puts what happens; None for the same place.
    """
    empty = history.make_empty(events=events)
    if not has_answer(history, count):
        empty.host_overhead = history.host_overhead
        return empty, 0
    return _repeat(history, count, empty), count


def switch_strategy(history: MessageHistory[MessageT], context: ContextSettings) -> MessageHistory[MessageT]:
    """Return a history of the same messages under another strategy.

    What that strategy did here before is repeated; what others did is not.
    """
    switched = _repeat(history, len(history.transcript.messages), history.make_empty(context))
    switched.shown = None
    return switched


def _repeat(history: MessageHistory[MessageT], count: int, empty: MessageHistory[MessageT]) -> MessageHistory[MessageT]:
    """Return an empty history with the first messages: as was recorded, or else with their requests made again."""
    taken = empty.pair_results(empty.prepare(history.transcript.messages[:count], check=False))
    prepared = [message for message in taken if message is not None]
    repeated = None
    if count >= history.base:
        # Before a state was restored the tool classes may have been others, so that other items would be evicted.
        with suppress(HistoryError):
            repeated = _follow_records(history, prepared, empty.make_empty())
    if repeated is None:
        repeated = empty.make_empty(events=[])
        repeated.engine.inference_budget = history.engine.inference_budget
        repeated.host_overhead = history.host_overhead
        for number, message in enumerate(prepared):
            repeated.append(message, at=history.times.get(number))
        repeated.events, repeated.context, repeated.chosen = empty.events, empty.context, empty.chosen
    if count == len(history.transcript.messages):
        # The time of the latest request, and times from a restored state, are in no message.
        repeated.asked_at = history.asked_at
        repeated.answered_at = history.answered_at
    return repeated


def _follow_records(
    history: MessageHistory[MessageT], prepared: Sequence[Prepared[MessageT]], empty: MessageHistory[MessageT]
) -> MessageHistory[MessageT]:
    """Return an empty history with messages as was recorded, with the present settings in force at the end."""
    empty.host_overhead = history.host_overhead
    for record in _records_about(history, len(prepared)):
        if isinstance(record, MessageRecord):
            number = len(empty.transcript.messages)
            empty.follow(record, prepared[number], at=history.times.get(number))
        else:
            empty.follow(record)
    empty.host_overhead = history.host_overhead
    empty.apply_context()
    return empty


def _records_about(history: MessageHistory[MessageT], stop: int) -> Iterator[Record]:
    """Yield the records about the first messages, up to the request after them."""
    transcript = history.transcript
    items = transcript.first(stop) if stop < len(transcript.messages) else transcript.item_count + 1
    number = 0
    for record in history.log:
        is_message = isinstance(record, MessageRecord)
        if is_message and number == stop:
            return
        # The usage of the request after them is in an answer that is not among them.
        later = isinstance(record, UsageRecord) and record.items >= items
        if not later:
            yield record
        if is_message:
            number += 1
