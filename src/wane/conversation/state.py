"""Exports a conversation as JSON data whose size the view bounds, and restores it from that and the history."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, Generic

from wane.conversation.adapter import Adapter, Prepared
from wane.conversation.alignment import content_of
from wane.conversation.history import MessageHistory
from wane.conversation.tool_calls import Verdicts
from wane.core.errors import HistoryError, WaneError
from wane.formats.message_format import Format, MessageT, Part
from wane.journal.codec import decode, encode
from wane.journal.records import MessageRecord, PlacedMark

VERSION: Final = 1
"""Version of the data."""

_DAMAGED: Final = (WaneError, LookupError, TypeError, ValueError, AttributeError)  # what a malformed state raises


class Digest(Generic[MessageT]):
    """A chained digest of all messages, so that no list of keys is kept."""

    def __init__(self, format: Format[MessageT], adapter: Adapter[MessageT]) -> None:  # noqa: A002 - the field's word
        self._format = format
        self._adapter = adapter
        self._count = 0
        self._value = b""

    def of(self, messages: Sequence[MessageT], count: int) -> str:
        """Return the digest of the first messages; only messages new since the last call cost time."""
        if count < self._count:
            self.forget()
        for message in messages[self._count : count]:
            self._add(message, self._format.parts(message))
        return self._value.hex()

    def of_prepared(self, messages: Sequence[Prepared[MessageT]]) -> str:
        """Return the digest of messages that have been taken apart."""
        self.forget()
        for prepared in messages:
            self._add(prepared.message, prepared.parts)
        return self._value.hex()

    def forget(self) -> None:
        """Start again with the first message."""
        self._count, self._value = 0, b""

    def _add(self, message: MessageT, parts: Sequence[Part]) -> None:
        key: Hashable | None = self._adapter.key(message)
        content = json.dumps(content_of(parts), ensure_ascii=False, default=str)
        data = f"{'' if key is None else key}:{content}".encode("utf-8", "surrogatepass")
        self._value = blake2b(self._value + data, digest_size=16).digest()
        self._count += 1


def export_conversation(
    history: MessageHistory[MessageT], digest: Digest[MessageT], verdicts: Verdicts
) -> dict[str, Any]:
    """Return the state of a conversation."""
    messages = history.transcript.messages
    return {
        **_identify(history),
        "messages": len(messages),
        "digest": digest.of(messages, len(messages)),
        "verdicts": verdicts.export(),
        "marks": None if history.engine.host is None else encode(tuple(history.marks)),
        "persons": sorted(history.transcript.person_calls.noted),
        "ended": history.ended,
        **history.export(),
    }


def restore_conversation(
    history: MessageHistory[MessageT], state: Mapping[str, Any], data: Sequence[Any]
) -> tuple[MessageHistory[MessageT], Digest[MessageT], Verdicts, list[Prepared[MessageT]]] | None:
    """Restore an exported conversation.

    Args:
        history: a history of the same host; it stays as it is.
        state: the state.
        data: the host's history.

    Returns:
        Its history, digest, verdicts and messages; None for the state of another history or strategy.

    Raises:
        FormatError: for a message of another format.
        HistoryError: for data that is not a state, is damaged, or has another version.
    """
    messages = history.read(data)
    try:
        if state["version"] != VERSION:
            raise HistoryError(f"it has version {state['version']}, and this Wane reads version {VERSION}")
        if any(state[key] != value for key, value in _identify(history).items()):
            return None
        count = state["messages"]
        messages_then = messages[:count]
        digest: Digest[MessageT] = Digest(history.format, history.adapter)
        prepared = history.prepare(messages_then, check=False)
        if len(prepared) < count or digest.of_prepared(prepared) != state["digest"]:
            return None
        restored = _restore_history(history, state, prepared)
        verdicts = Verdicts()
        verdicts.restore(state["verdicts"])
    except _DAMAGED as error:
        reason = error if isinstance(error, HistoryError) else repr(error)
        raise HistoryError(f"the state cannot be read: {reason}") from error
    return restored, digest, verdicts, prepared


def _identify(history: MessageHistory[Any]) -> dict[str, Any]:
    """Return the data that a state must have in common with the conversation that restores it."""
    context = history.context
    return {
        "version": VERSION,
        "format": history.format.name,
        "strategy": context.strategy,
        "annotate": context.annotate,
        "tasks": context.tasks,
    }


def _restore_history(
    template: MessageHistory[MessageT], state: Mapping[str, Any], messages: Sequence[Prepared[MessageT]]
) -> MessageHistory[MessageT]:
    """Return the history that was exported, with the host and the settings of another one.

    Raises:
        HistoryError: if it does not fit the messages.
    """
    context = template.context
    if context.auto:
        context = replace(context, budget=state["engine"]["budget"])
    history = template.make_empty(context)
    history.engine.inference_budget = state["engine"]["inference_budget"]
    history.persons.update(state["persons"])
    marks = None
    if state["marks"] is not None:
        placed = tuple(decode(PlacedMark, entry) for entry in state["marks"])
        marks = MessageRecord({}, placed).marks_at
    for prepared in history.pair_results(messages):
        if prepared is not None:
            history.take(prepared, marks=marks)
    history.adopt(state)
    if state["ended"] != history.ended:  # by a stop reason, which no message has
        history.set_ended(state["ended"])
    return history
