"""Messages that a framework adds to a single request, such as memories that it looked up. They are not history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from wane.conversation import Conversation, Request
from wane.core import Kind
from wane.formats.base import MessageT

Passing = list[tuple[int, MessageT]]
"""Messages that are not history, each with the number of messages of the history before it."""


def parted(
    messages: Sequence[MessageT], is_of_history: Callable[[MessageT], bool]
) -> tuple[list[MessageT], Passing[MessageT]]:
    """Separate the history from the messages of this request only.

    Args:
        messages: all messages of a request.
        is_of_history: whether a message will be part of the next request too.
    """
    history: list[MessageT] = []
    passing: Passing[MessageT] = []
    for message in messages:
        if is_of_history(message):
            history.append(message)
        else:
            passing.append((len(history), message))
    return history, passing


def joined(
    request: Request[MessageT], passing: Passing[MessageT], conversation: Conversation[MessageT]
) -> list[MessageT]:
    """Insert messages into a request again: at its beginning, before the user's turn that followed, or at the end."""
    sent = list(request.messages)
    if not passing:
        return sent
    history, end = conversation.messages, len(sent) - (request.reminder is not None)
    places = {id(message): place for place, message in enumerate(sent)}
    for ahead, message in reversed(passing):
        turns = (each for each in islice(history, ahead, None) if id(each) in places and _is_turn(conversation, each))
        turn = next(turns, None) if ahead else None
        sent.insert(0 if not ahead else end if turn is None else places[id(turn)], message)
    return sent


def _is_turn(conversation: Conversation[MessageT], message: MessageT) -> bool:
    return all(part.kind is Kind.USER for part in conversation.format.parts(message))
