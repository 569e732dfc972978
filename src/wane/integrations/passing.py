"""What a framework puts into one request alone, such as memories it has looked up: no part of the history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from wane.conversation import Conversation, Request
from wane.core import Kind
from wane.formats.base import MessageT

Passing = list[tuple[int, MessageT]]
"""Messages that are no part of the history, each with how many messages of the history stand ahead of it."""


def parted(
    messages: Sequence[MessageT], is_of_history: Callable[[MessageT], bool]
) -> tuple[list[MessageT], Passing[MessageT]]:
    """Part the history from what is put into one request alone.

    Args:
        messages: all messages of a request.
        is_of_history: whether a message will be there in the next request.
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
    """Put messages back into a request: at its beginning, ahead of the user's turn that followed, or at the end."""
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
