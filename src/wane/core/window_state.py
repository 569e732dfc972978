"""The parts of a window as JSON-able data, for its export and restore (R14)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wane.core.episodes import Episode, EpisodeGraph, EpisodeType
from wane.core.eviction import Eviction
from wane.core.opened import OpenEpisodes
from wane.core.standing import Load, StandingItems
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
"""Further ones, written only for tasks and for episodes in one (R17)."""


def export_parts(
    graph: EpisodeGraph, eviction: Eviction, view: View, standing: StandingItems, opened: OpenEpisodes
) -> dict[str, Any]:
    """Return the parts of a window as JSON-able data."""
    return {
        "graph": _export_graph(graph),
        "closings": [_export_episode(episode) for _, episode in sorted(eviction.closings.items())],
        "view": _export_view(view, graph),
        "standing": {
            "in_force": {kind: list(indexes) for kind, indexes in standing.in_force.kinds.items()},
            "stood_in": _export_owners(standing.stood_in, graph),
            "loads": _export_loads(standing.loads, graph),
            "overdue": _export_owners({index: owner for index, (owner, _) in standing.overdue.items()}, graph),
            "ranks": [rank for _, rank in standing.overdue.values()],
        },
        "notices": _pairs(view.notices),
        "active": _number(opened.active),
        "task": _number(opened.task),
        "open": [episode.number for episode in opened.annotated.values()],
        "implicit": _number(opened.implicit),
    }


def restore_parts(
    graph: EpisodeGraph,
    eviction: Eviction,
    view: View,
    standing: StandingItems,
    opened: OpenEpisodes,
    state: Mapping[str, Any],
) -> None:
    """Fill the empty parts of a new window from what `export_parts` returned."""
    live = [_restore_episode(row) for row in state["graph"]["live"]]
    closings = [_restore_episode(row) for row in state["closings"]]
    episodes = {episode.number: episode for episode in (*live, *closings)}
    for entry in (*state["graph"]["live"], *state["closings"]):
        if (task := entry.get("task")) is not None:
            episodes[entry["number"]].task = episodes[task]
    _restore_graph(graph, state["graph"], live)
    _restore_view(view, state["view"], episodes)
    view.notices.update(state["notices"])
    for episode in closings:
        eviction.keep_description(episode)
    row = state["standing"]
    standing.in_force.kinds.update((kind, list(indexes)) for kind, indexes in row["in_force"].items())
    standing.stood_in.update(_restore_owners(row["stood_in"], episodes))
    for (result, owner), (_, _, _, call, rank, tools) in zip(
        _restore_owners((load[:3] for load in row["loads"]), episodes), row["loads"], strict=True
    ):
        standing.loads.append(Load(owner, rank, call, result, set(tools)))
    for (index, owner), rank in zip(_restore_owners(row["overdue"], episodes), row["ranks"], strict=True):
        standing.overdue[index] = owner, rank
    opened.active = _find_episode(graph, state["active"])
    opened.task = _find_episode(graph, state["task"])
    opened.implicit = _find_episode(graph, state["implicit"])
    opened.restore(graph.live[number] for number in state["open"])


def _number(episode: Episode | None) -> int | None:
    return None if episode is None else episode.number


def _find_episode(graph: EpisodeGraph, number: int | None) -> Episode | None:
    return None if number is None else graph.live[number]


def _pairs(mapping: Mapping[int, Any]) -> list[list[Any]]:
    """Return a mapping as rows: the keys of a JSON object would be text."""
    return [[key, value] for key, value in mapping.items()]


def _export_graph(graph: EpisodeGraph) -> dict[str, Any]:
    archive: dict[str, list[list[int]]] = {}
    for name, spans in graph.archive.items():
        archive[name] = [list(span) for span in spans]
    return {
        "started": graph.started,
        "latest": _number(graph.latest_episode),
        "live": [_export_episode(episode) for episode in graph.live.values()],
        "archive": archive,
        "waiting": [episode.number for episode in graph.waiting],
    }


def _restore_graph(graph: EpisodeGraph, row: Mapping[str, Any], live: Iterable[Episode]) -> None:
    graph.started = row["started"]
    for episode in live:
        graph.insert(episode)
    for name, spans in row["archive"].items():
        graph.archive[name] = tuple((first, stop) for first, stop in spans)
    graph.waiting.extend(graph.live[number] for number in row["waiting"])
    graph.latest_episode = _find_episode(graph, row["latest"])
    for episode in graph.live.values():
        graph.offer(episode)


def _export_episode(episode: Episode) -> dict[str, Any]:
    row = {
        "number": episode.number,
        "name": episode.name,
        "type": episode.type.value,
        "dependencies": list(episode.dependencies),
        **{name: getattr(episode, name) for name in _PLAIN},
        "spans": [list(span) for span in episode.spans],
        "buckets": [[rank, list(indexes)] for rank, indexes in episode.buckets.items()],
        "loose": _pairs(episode.loose),
        "durable": _pairs(episode.durable),
        "texts": _pairs(episode.texts),
    }
    if episode.choice:
        row["choice"] = episode.choice
    if episode.is_task or episode.task:
        row["task"] = _number(episode.task)
        row.update((name, getattr(episode, name)) for name in _OF_TASKS)
    return row


def _restore_episode(row: Mapping[str, Any]) -> Episode:
    episode = Episode(row["number"], row["name"], EpisodeType(row["type"]), tuple(row["dependencies"]))
    names = (*_PLAIN, *_OF_TASKS) if "task" in row else _PLAIN
    for name in names:
        setattr(episode, name, row[name])
    episode.choice = row.get("choice", "")
    episode.spans = [list(span) for span in row["spans"]]
    episode.buckets = {rank: list(indexes) for rank, indexes in row["buckets"]}
    episode.loose = dict(row["loose"])
    episode.durable = dict(row["durable"])
    episode.texts = dict(row["texts"])
    return episode


def _export_owners(owners: Mapping[int, Episode], graph: EpisodeGraph) -> list[list[Any]]:
    """Return items with the numbers of their episodes, and the whole episode if the graph does not have it."""
    rows: list[list[Any]] = []
    for index, episode in owners.items():
        dropped = None if episode.number in graph.live else _export_episode(episode)
        rows.append([index, episode.number, dropped])
    return rows


def _restore_owners(rows: Iterable[Sequence[Any]], episodes: dict[int, Episode]) -> Iterator[tuple[int, Episode]]:
    for index, number, row in rows:
        if number not in episodes:
            episodes[number] = _restore_episode(row)
        yield index, episodes[number]


def _export_loads(loads: Iterable[Load], graph: EpisodeGraph) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for load in loads:
        (row,) = _export_owners({load.result: load.owner}, graph)
        rows.append([*row, load.call, load.rank, sorted(load.tools)])
    return rows


def _export_view(view: View, graph: EpisodeGraph) -> dict[str, Any]:
    return {
        "tokens": _pairs(view.tokens),
        "messages": _export_messages(view),
        "needs": [[index, list(targets)] for index, targets in view.needs.items()],
        "held": _export_owners(view.held, graph),
    }


def _export_messages(view: View) -> list[list[list[int]]]:
    """Return the visible items of each assistant message as `[others, reasoning]`, the latest message last."""
    rows: dict[VisibleMessage, list[list[int]]] = {}
    for index, message in view.messages.items():
        others, reasoning = rows.setdefault(message, [[], []])
        if index in message.reasoning:
            reasoning.append(index)
        else:
            others.append(index)
    latest = rows.pop(view.latest, [[], []])
    return [*rows.values(), latest]


def _restore_view(view: View, row: Mapping[str, Any], episodes: dict[int, Episode]) -> None:
    view.tokens.update(row["tokens"])
    for others, reasoning in row["messages"]:
        message = VisibleMessage(len(others), list(reasoning))
        view.messages.update(dict.fromkeys((*others, *reasoning), message))
        view.latest = message  # the last one, which may still grow
    for index, targets in row["needs"]:
        view.couple(index, targets)
    view.held.update(_restore_owners(row["held"], episodes))
