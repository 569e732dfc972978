"""The parts of a window as JSON-able data, for its export and restore (R14)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wane.core.episodes import Episode, EpisodeGraph, EpisodeType
from wane.core.eviction import Eviction
from wane.core.standing import StandingNotices
from wane.core.view import View, VisibleMessage

_PLAIN: Final = (
    "description",
    "closed",
    "settled",
    "tokens",
    "size",
    "inferred",
    "host",
    "latest",
    "prologue",
    "used",
    "dependents",
    "rank",
    "open_calls",
)
"""Attributes of an episode that need no conversion to JSON."""


_OF_TASKS: Final = ("depth", "given_up", "inside")
"""The same; written only for tasks and what is in one (R17)."""


def export_parts(graph: EpisodeGraph, eviction: Eviction, view: View, standing: StandingNotices) -> dict[str, Any]:
    """Return the episodes, closing pairs, visible items and standing notices of a window as JSON-able data."""
    return {
        "graph": _export_graph(graph),
        "closings": [_export_episode(episode) for _, episode in sorted(eviction.closings.items())],
        "view": _export_view(view, graph),
        "standing": {
            "in_force": {kind: list(indexes) for kind, indexes in standing.in_force.kinds.items()},
            "stood_in": _export_owners(standing.stood_in, graph),
            "overdue": _export_owners(standing.overdue, graph),
        },
    }


def restore_parts(
    graph: EpisodeGraph, eviction: Eviction, view: View, standing: StandingNotices, state: Mapping[str, Any]
) -> None:
    """Fill the empty parts of a new window with what `export_parts` described."""
    live = [_restore_episode(row) for row in state["graph"]["live"]]
    closings = [_restore_episode(row) for row in state["closings"]]
    episodes = {episode.number: episode for episode in (*live, *closings)}
    for entry in (*state["graph"]["live"], *state["closings"]):
        if (task := entry.get("task")) is not None:
            episodes[entry["number"]].task = episodes[task]
    _restore_graph(graph, state["graph"], live)
    _restore_view(view, state["view"], episodes)
    for episode in closings:
        eviction.keep_description(episode)
    row = state["standing"]
    standing.in_force.kinds.update((kind, list(indexes)) for kind, indexes in row["in_force"].items())
    standing.stood_in.update(_restore_owners(row["stood_in"], episodes))
    standing.overdue.update(_restore_owners(row["overdue"], episodes))


def _export_graph(graph: EpisodeGraph) -> dict[str, Any]:
    return {
        "started": graph.started,
        "latest": graph.latest and graph.latest.number,
        "live": [_export_episode(episode) for episode in graph.live.values()],
        "archive": {name: [list(span) for span in spans] for name, spans in graph.archive.items()},
        "waiting": [episode.number for episode in graph.waiting],
    }


def _restore_graph(graph: EpisodeGraph, row: Mapping[str, Any], live: Iterable[Episode]) -> None:
    graph.started = row["started"]
    for episode in live:
        graph.insert(episode)
    graph.archive.update(
        (name, tuple((first, stop) for first, stop in spans)) for name, spans in row["archive"].items()
    )
    graph.waiting.extend(graph.live[number] for number in row["waiting"])
    graph.latest = None if row["latest"] is None else graph.live[row["latest"]]
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
        **(_export_task(episode) if episode.is_task or episode.task else {}),
    }


def _export_task(episode: Episode) -> dict[str, Any]:
    task = None if episode.task is None else episode.task.number
    return {"task": task, **{name: getattr(episode, name) for name in _OF_TASKS}}


def _restore_episode(row: Mapping[str, Any]) -> Episode:
    episode = Episode(row["number"], row["name"], EpisodeType(row["type"]), tuple(row["dependencies"]))
    for name in (*_PLAIN, *(_OF_TASKS if "task" in row else ())):
        setattr(episode, name, row[name])
    episode.spans = [list(span) for span in row["spans"]]
    episode.buckets = {rank: list(indexes) for rank, indexes in row["buckets"]}
    episode.loose, episode.durable, episode.texts = dict(row["loose"]), dict(row["durable"]), dict(row["texts"])
    return episode


def _export_owners(owners: Mapping[int, Episode], graph: EpisodeGraph) -> list[list[Any]]:
    """Items with their episodes. Those that have left the graph are written out."""
    return [
        [index, episode.number, None if episode.number in graph.live else _export_episode(episode)]
        for index, episode in owners.items()
    ]


def _restore_owners(rows: Iterable[Sequence[Any]], episodes: dict[int, Episode]) -> Iterator[tuple[int, Episode]]:
    for index, number, row in rows:
        if number not in episodes:
            episodes[number] = _restore_episode(row)
        yield index, episodes[number]


def _export_view(view: View, graph: EpisodeGraph) -> dict[str, Any]:
    return {
        "tokens": [list(entry) for entry in view.tokens.items()],
        "messages": _export_messages(view),
        "needs": [[index, list(targets)] for index, targets in view.needs.items()],
        "held": _export_owners(view.held, graph),
    }


def _export_messages(view: View) -> list[list[list[int]]]:
    """Visible items of each assistant message, reasoning apart from the rest. The latest message comes last."""
    rows: dict[VisibleMessage, list[list[int]]] = {}
    for index, message in view.messages.items():
        rows.setdefault(message, [[], []])[index in message.reasoning].append(index)
    latest = rows.pop(view.latest, [[], []])
    return [*rows.values(), latest]


def _restore_view(view: View, row: Mapping[str, Any], episodes: dict[int, Episode]) -> None:
    view.tokens.update((index, tokens) for index, tokens in row["tokens"])
    for others, reasoning in row["messages"]:
        message = VisibleMessage(len(others), list(reasoning))
        view.messages.update(dict.fromkeys((*others, *reasoning), message))
        # The last one may still grow.
        view.latest = message
    for index, targets in row["needs"]:
        view.couple(index, targets)
    view.held.update(_restore_owners(row["held"], episodes))
