"""Exports a conversation as JSON data whose size the view bounds, and restores it from that and the history."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Generic

from wane.conversation.alignment import Adapter, content_of
from wane.conversation.calls import Verdicts
from wane.conversation.engine import Engine
from wane.conversation.timeline import Setup, Shown, Timeline
from wane.core import ContextWindow, Episode, EpisodeType
from wane.core.errors import HistoryError, WaneError
from wane.formats.base import Format, MessageT
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
            self._value = blake2b(self._value + self._key(message), digest_size=16).digest()
        self._count = count
        return self._value.hex()

    def forget(self) -> None:
        """Start again with the first message."""
        self._count, self._value = 0, b""

    def _key(self, message: MessageT) -> bytes:
        key: Hashable | None = self._adapter.key(message)
        content = json.dumps(content_of(self._format, message), ensure_ascii=False, default=str)
        return f"{'' if key is None else key}:{content}".encode("utf-8", "surrogatepass")


def export_conversation(line: Timeline[MessageT], digest: Digest[MessageT], verdicts: Verdicts) -> dict[str, Any]:
    """Return the state of a conversation."""
    messages = line.transcript.messages
    return {
        **_identity(line.setup),
        "messages": len(messages),
        "digest": digest.of(messages, len(messages)),
        "verdicts": verdicts.export(),
        **export_timeline(line),
    }


def restore_conversation(
    setup: Setup[MessageT], state: Mapping[str, Any], history: Sequence[Any]
) -> tuple[Timeline[MessageT], Digest[MessageT], Verdicts, Sequence[MessageT]] | None:
    """Restore an exported conversation.

    Returns:
        Its timeline, digest, verdicts and messages; None for the state of another history or strategy.

    Raises:
        FormatError: for a message of another format.
        HistoryError: for data that is not a state, is damaged, or has another version.
    """
    messages = setup.read(history)
    try:
        if state["version"] != VERSION:
            raise HistoryError(f"it has version {state['version']}, and this Wane reads version {VERSION}")
        if any(state[key] != value for key, value in _identity(setup).items()):
            return None
        count = state["messages"]
        messages_then = messages[:count]
        digest: Digest[MessageT] = Digest(setup.format, setup.adapter)
        if len(messages_then) < count or digest.of(messages_then, count) != state["digest"]:
            return None
        line = restore_timeline(setup, state, messages_then)
        verdicts = Verdicts()
        verdicts.restore(state["verdicts"])
    except _DAMAGED as error:
        reason = error if isinstance(error, HistoryError) else repr(error)
        raise HistoryError(f"the state cannot be read: {reason}") from error
    return line, digest, verdicts, messages_then


def _identity(setup: Setup[Any]) -> dict[str, Any]:
    """Return the data that a state must have in common with the conversation that restores it."""
    settings = setup.settings
    return {
        "version": VERSION,
        "format": setup.format.name,
        "strategy": settings.strategy,
        "annotate": settings.annotate,
        "tasks": settings.tasks,
    }


def export_timeline(line: Timeline[Any]) -> dict[str, Any]:
    """Return the state of a timeline, without what follows from the history."""
    request = line.shown
    marks = None if line.engine.host is None else encode(tuple(line.history.marks))
    return {
        "engine": export_engine(line.engine),
        "fixed": line.host_overhead,
        "told": line.message_overhead,
        "marks": marks,
        "asked": line.asked_at,
        "answered": line.answered_at,
        "shown": None if request is None else {"reminder": request.reminder},
    }


def restore_timeline(
    setup: Setup[MessageT], state: Mapping[str, Any], messages: Iterable[MessageT]
) -> Timeline[MessageT]:
    """Return the timeline that `export_timeline` exported.

    Raises:
        HistoryError: if it does not fit the messages.
    """
    messages = list(messages)
    if setup.settings.auto:
        setup.change(budget=state["engine"]["budget"])
    line = Timeline(setup, state["engine"]["inference_budget"])
    marks = None
    if state["marks"] is not None:
        placed = tuple(decode(PlacedMark, entry) for entry in state["marks"])
        marks = MessageRecord({}, placed).marks_at
    for prepared in line.prepare(messages):
        if prepared is not None:
            line.enter(prepared, marks=marks)
    restore_engine(line.engine, state["engine"])
    line.host_overhead = int(state["fixed"])
    line.message_overhead = int(state["told"])
    line.asked_at = state["asked"]
    line.answered_at = state["answered"]
    line.base = len(line.transcript.messages)
    line.origin = lambda again: restore_timeline(again, state, messages)
    line.view.changed()
    if state["shown"] is not None:
        line.requests += 1
        line.history.sent()
        line.shown = Shown(line.engine.view, line.engine.tokens, reminder=state["shown"]["reminder"])
    return line


def export_engine(engine: Engine) -> dict[str, Any]:
    """Return the state of an engine, without what follows from the history."""
    window = _export_window(engine.window) if engine.evicts else None
    return {"episodes": len(engine.episodes), "window": window, **engine.export()}


def restore_engine(engine: Engine, state: Mapping[str, Any]) -> None:
    """Restore an exported state to an engine that has taken in the same items and nothing else.

    Raises:
        HistoryError: if the items are different.
    """
    if state["episodes"] != len(engine.episodes):
        raise HistoryError("the state is of another history")
    # If another strategy decides the view, the window evicted nothing, so that it follows from the history.
    window = _restored_window(engine, state["window"]) if engine.evicts else None
    engine.adopt(state, window)


def _export_window(window: ContextWindow) -> dict[str, Any]:
    exported = window.export()
    # The names, spans and descriptions of all episodes follow from the history.
    del exported["started"]
    del exported["graph"]["archive"]
    exported["graph"]["live"] = [_without_derived(row) for row in exported["graph"]["live"]]
    exported["closings"] = [_without_derived(row) for row in exported["closings"]]
    return exported


def _restored_window(engine: Engine, state: Mapping[str, Any]) -> ContextWindow:
    window = dict(state)
    episodes = engine.episodes
    live = [_with_derived(row, episodes) for row in window["graph"]["live"]]
    live_names = {row["name"] for row in live}
    started: dict[str, bool] = {}
    archive: dict[str, list[list[int]]] = {}
    for episode in episodes:
        if episode.name is None:
            continue
        # An act may depend on a closed exploration that the agent marked (R3).
        started[episode.name] = episode.closed and episode.type is EpisodeType.EXPL and not episode.inferred
        if episode.name not in live_names:
            archive[episode.name] = episode.spans
    window["started"] = started
    window["graph"] = {**window["graph"], "live": live, "archive": archive}
    window["closings"] = [_with_derived(row, episodes) for row in window["closings"]]
    restored = ContextWindow.restore(window)
    if restored.item_count != engine.item_count:
        raise HistoryError("the state is of another history")
    return restored


_DERIVED: Final = ("name", "type", "dependencies", "description", "closed", "inferred", "prologue", "size", "spans")
"""Attributes of an episode that follow from the history; with them, the state could outgrow the view."""


def _without_derived(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in _DERIVED}


def _with_derived(row: Mapping[str, Any], episodes: Sequence[Episode]) -> dict[str, Any]:
    episode = episodes[row["number"]]
    return {**{name: getattr(episode, name) for name in _DERIVED}, **row}
