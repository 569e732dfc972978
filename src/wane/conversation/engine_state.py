"""The state of an engine as JSON data, without what follows from the history, so that the view bounds its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wane.conversation.engine import Engine
from wane.core import ContextWindow, Episode, EpisodeType
from wane.core.errors import HistoryError


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
