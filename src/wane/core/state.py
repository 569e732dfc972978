"""Export and restore of a window's whole state (R14)."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from wane.core.accounting import Accounting
from wane.core.delimiter import Protocol
from wane.core.episodes import Episode, EpisodeGraph, EpisodeType, OpenCall
from wane.core.errors import ConfigError
from wane.core.items import Kind
from wane.core.policy import Policy
from wane.core.view import Message, View

if TYPE_CHECKING:
    from wane.core.window import ContextWindow

STATE_VERSION: Final = 3
_PLAIN: Final = (
    "description",
    "closed",
    "settled",
    "tokens",
    "size",
    "inferred",
    "prologue",
    "used",
    "dependents",
    "rank",
    "open_calls",
)
"""Attributes of an episode that need no conversion to JSON."""


def export_window(window: ContextWindow) -> dict[str, Any]:
    """Return the state of a window as JSON-able data."""
    protocol = window._protocol
    return {
        "version": STATE_VERSION,
        "budget": window.budget,
        "policy": asdict(window.policy),
        "tool_classes": {name: cls.value for name, cls in window._classes.items()},
        "accounting": asdict(window.accounting),
        "started": protocol.started,
        "graph": _export_graph(window._graph),
        "view": _export_view(window._view),
        "closings": [_export_episode(episode) for _, episode in sorted(window._eviction.closings)],
        "count": window._count,
        "fixed": {kind.value: tokens for kind, tokens in window._fixed.items()},
        "notices": [list(entry) for entry in window._notices.items()],
        "active": window._active and window._active.number,
        "implicit": window._implicit and window._implicit.number,
        "calls": [
            [call_id, call.owner.number, call.rank, call.index]
            for call_id, waiting in window._calls.items()
            for call in waiting
        ],
        "message": [window._latest, window._starts.ordinal, window._starts.growing],
    }


def restore_window(kind: type[ContextWindow], state: Mapping[str, Any]) -> ContextWindow:
    """Return the window that `export_window` described.

    Args:
        kind: the class of windows.
        state: the state.

    Raises:
        ConfigError: if the state is not one that this version wrote.
    """
    if state.get("version") != STATE_VERSION:
        raise ConfigError(f"state has version {state.get('version')!r}; this Wane reads version {STATE_VERSION}")
    try:
        window = kind(state["budget"], Policy(**state["policy"]), tool_classes=state["tool_classes"])
        _restore_into(window, state)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ConfigError(f"the state is damaged: {error!r}") from error
    return window


def _restore_into(window: ContextWindow, state: Mapping[str, Any]) -> None:
    accounting: Accounting = window.accounting
    for name, value in state["accounting"].items():
        setattr(accounting, name, value)
    _restore_graph(window._graph, state["graph"])
    live = window._graph.live
    closings = [_restore_episode(row) for row in state["closings"]]
    window._eviction.closings = [(episode.number, episode) for episode in closings]
    heapq.heapify(window._eviction.closings)
    window._graph.described.update((episode.name, episode) for episode in closings if episode.name is not None)
    _restore_view(window._view, state["view"], {**live, **{episode.number: episode for episode in closings}})
    window._eviction.closing_tokens = sum(
        window._view.tokens[index] for episode in closings for bucket in episode.buckets.values() for index in bucket
    )
    window._active = None if state["active"] is None else live[state["active"]]
    window._implicit = None if state["implicit"] is None else live[state["implicit"]]
    window._protocol = Protocol(dict(state["started"]))
    if (active := window._active) is not None and active.name is not None and not active.inferred:
        window._protocol.active = (active.name, active.type)
    window._count = state["count"]
    window._fixed = {Kind(kind): tokens for kind, tokens in state["fixed"].items()}
    window._notices = dict(state["notices"])
    for call_id, owner, rank, index in state["calls"]:
        call = OpenCall(live[owner], rank, index)
        window._calls.setdefault(call_id, []).append(call)
    window._latest, window._starts.ordinal, window._starts.growing = state["message"]


def _export_graph(graph: EpisodeGraph) -> dict[str, Any]:
    return {
        "started": graph.started,
        "live": [_export_episode(episode) for episode in graph.live.values()],
        "archive": {name: [list(span) for span in spans] for name, spans in graph.archive.items()},
        "waiting": [episode.number for episode in graph.waiting],
    }


def _restore_graph(graph: EpisodeGraph, row: Mapping[str, Any]) -> None:
    graph.started = row["started"]
    for entry in row["live"]:
        graph.insert(_restore_episode(entry))
    graph.archive.update(
        (name, tuple((first, stop) for first, stop in spans)) for name, spans in row["archive"].items()
    )
    graph.waiting.extend(graph.live[number] for number in row["waiting"])
    for episode in graph.live.values():
        graph.offer(episode)


def _export_episode(episode: Episode) -> dict[str, Any]:
    return {
        "number": episode.number,
        "name": episode.name,
        "type": episode.type.value,
        "dependencies": list(episode.dependencies),
        **{name: getattr(episode, name) for name in _PLAIN},
        "spans": [list(span) for span in episode.spans],
        "buckets": [[rank, list(indexes)] for rank, indexes in episode.buckets.items()],
        "loose": [list(entry) for entry in episode.loose.items()],
        "durable": [list(entry) for entry in episode.durable.items()],
    }


def _restore_episode(row: Mapping[str, Any]) -> Episode:
    episode = Episode(row["number"], row["name"], EpisodeType(row["type"]), tuple(row["dependencies"]))
    for name in _PLAIN:
        setattr(episode, name, row[name])
    episode.spans = [list(span) for span in row["spans"]]
    episode.buckets = {rank: list(indexes) for rank, indexes in row["buckets"]}
    episode.loose, episode.durable = dict(row["loose"]), dict(row["durable"])
    return episode


def _export_view(view: View) -> dict[str, Any]:
    return {
        "tokens": [list(entry) for entry in view.tokens.items()],
        "messages": _export_messages(view),
        "needs": [[index, list(targets)] for index, targets in view.needs.items()],
        "held": [[index, episode.number, _export_episode(episode)] for index, episode in view.held.items()],
    }


def _export_messages(view: View) -> list[list[list[int]]]:
    """Visible items of each assistant message, reasoning apart from the rest. The latest message comes last."""
    rows: dict[Message, list[list[int]]] = {}
    for index, message in view.messages.items():
        rows.setdefault(message, [[], []])[index in message.reasoning].append(index)
    latest = rows.pop(view.latest, [[], []])
    return [*rows.values(), latest]


def _restore_view(view: View, row: Mapping[str, Any], episodes: dict[int, Episode]) -> None:
    view.tokens.update((index, tokens) for index, tokens in row["tokens"])
    for others, reasoning in row["messages"]:
        message = Message(len(others), reasoning)
        view.messages.update(dict.fromkeys((*others, *reasoning), message))
        # The last one may still grow.
        view.latest = message
    for index, targets in row["needs"]:
        view.couple(index, targets)
    for index, number, entry in row["held"]:
        # An owner may be gone from the graph while one of its items is still needed.
        view.held[index] = episodes.get(number) or episodes.setdefault(number, _restore_episode(entry))
