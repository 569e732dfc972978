"""The parts of a window as JSON-able data, for its export and restore (R14)."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any, Final

from wane.core.episodes import Episode, EpisodeGraph, EpisodeType
from wane.core.eviction import Eviction
from wane.core.view import Message, View

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


def export_parts(graph: EpisodeGraph, eviction: Eviction, view: View) -> dict[str, Any]:
    """Return the episodes, closing pairs and visible items of a window as JSON-able data."""
    return {
        "graph": _export_graph(graph),
        "closings": [_export_episode(episode) for _, episode in sorted(eviction.closings)],
        "view": _export_view(view),
    }


def restore_parts(graph: EpisodeGraph, eviction: Eviction, view: View, state: Mapping[str, Any]) -> None:
    """Fill the empty parts of a new window with what `export_parts` described."""
    _restore_graph(graph, state["graph"])
    closings = [_restore_episode(row) for row in state["closings"]]
    eviction.closings = [(episode.number, episode) for episode in closings]
    heapq.heapify(eviction.closings)
    graph.described.update((episode.name, episode) for episode in closings if episode.name is not None)
    _restore_view(view, state["view"], {**graph.live, **{episode.number: episode for episode in closings}})
    eviction.closing_tokens = sum(
        view.tokens[index] for episode in closings for bucket in episode.buckets.values() for index in bucket
    )


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
        "texts": [list(entry) for entry in episode.texts.items()],
    }


def _restore_episode(row: Mapping[str, Any]) -> Episode:
    episode = Episode(row["number"], row["name"], EpisodeType(row["type"]), tuple(row["dependencies"]))
    for name in _PLAIN:
        setattr(episode, name, row[name])
    episode.spans = [list(span) for span in row["spans"]]
    episode.buckets = {rank: list(indexes) for rank, indexes in row["buckets"]}
    episode.loose, episode.durable, episode.texts = dict(row["loose"]), dict(row["durable"]), dict(row["texts"])
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
        message = Message(len(others), list(reasoning))
        view.messages.update(dict.fromkeys((*others, *reasoning), message))
        # The last one may still grow.
        view.latest = message
    for index, targets in row["needs"]:
        view.couple(index, targets)
    for index, number, entry in row["held"]:
        # An owner may be gone from the graph while one of its items is still needed.
        view.held[index] = episodes.get(number) or episodes.setdefault(number, _restore_episode(entry))
