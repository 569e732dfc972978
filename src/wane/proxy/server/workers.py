"""The figures of all processes that share a store: each publishes its own, and merges those of all when asked."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from wane.proxy import jsons
from wane.proxy.store.stores import WORKERS, Store, StoreError
from wane.proxy.traffic import as_text
from wane.rewrites import merged_totals

_LOGGER: Final = logging.getLogger("wane.proxy")

EVERY: Final = 2.0
"""Seconds between two checks whether the figures have changed and should be published."""

_HEARTBEAT: Final = 20.0  # seconds after which a process publishes its figures again even if they are the same

GONE: Final = 60.0
"""Seconds without a publication after which a process counts as gone, and its figures are left out."""

_MOST_VIEWS: Final = 240

Figures = dict[str, Any]
"""The figures of a process as JSON: `worker`, `at`, `started`, `requests`, `open`, `sessions_in_memory`, `sessions`,
and `metrics` in Prometheus' text format."""


@dataclass(eq=False)
class Workers:
    """The processes that share a store.

    Attributes:
        name: the name of this process, which no other has.
        figures: returns its present figures.
        stamp: returns a value that differs whenever the figures do; it must be fast.
        now: returns the time in UTC.
    """

    store: Store
    name: str
    figures: Callable[[], Figures]
    stamp: Callable[[], object]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def __post_init__(self) -> None:
        self._published: Figures | None = None
        self._stamped: object = None
        self._document: str | None = None
        self._lock = asyncio.Lock()

    async def publish_changes(self) -> None:
        """Publish the figures whenever they have changed, until the task is cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.publish()
            except StoreError as error:
                _LOGGER.debug("figures of this process are not published: %s", error)

    async def publish(self) -> Figures:
        """Publish the figures if they have changed, and return them.

        Raises:
            StoreError: if the store cannot be reached.
        """
        async with self._lock:
            now = self.now()
            stamp = self.stamp()
            before = self._published
            if before is not None and stamp == self._stamped:
                age = now - _time(before["at"])
                if age.total_seconds() < _HEARTBEAT:
                    return before
            figures = self.figures()
            figures |= {"worker": self.name, "at": now.isoformat()}
            document = jsons.dumps(figures).decode()
            if not await self.store.replace_document(WORKERS, self.name, self._document, document):
                stored = await self.store.document(WORKERS, self.name)
                await self.store.replace_document(WORKERS, self.name, stored, document)
            self._document = document
            self._published = figures
            self._stamped = stamp
            return figures

    async def all(self) -> list[Figures]:
        """Return the figures of all processes, beginning with the present figures of this one.

        If the store cannot be reached, return those of this process alone.
        """
        try:
            own = await self.publish()
            others = await read_published(self.store, self.now())
        except StoreError as error:
            _LOGGER.warning("the figures are those of this process alone: %s", error)
            return [{**self.figures(), "worker": self.name, "at": self.now().isoformat()}]
        return [own, *(figures for figures in others if figures["worker"] != self.name)]

    async def leave(self) -> None:
        """Delete the figures of this process from the store, before the process ends."""
        try:
            await self.store.replace_document(WORKERS, self.name, self._document, None)
        except StoreError:
            return  # they count as gone soon


async def read_published(store: Store, now: datetime) -> list[Figures]:
    """Return the figures of the running processes, by name; delete those of processes that ended long ago.

    Raises:
        StoreError: if the store cannot be reached.
    """
    living = []
    for name, document in sorted((await store.documents(WORKERS)).items()):
        try:
            figures: Figures = jsons.loads(document.encode())
            age = (now - _time(figures["at"])).total_seconds()
        except (ValueError, LookupError, TypeError):
            continue  # of another version
        if age < GONE:
            living.append(figures)
        elif age > 60 * GONE:
            await store.replace_document(WORKERS, name, document, None)
    return living


def merged_sessions(all_figures: Iterable[Figures]) -> list[dict[str, Any]]:
    """Return the sessions of processes, the most recently used first.

    If several of them have a session in memory, the figures of the one that used it last count, but its requests, views
    and rewritten prefixes are those of all of them.
    """
    sessions: dict[str, dict[str, Any]] = {}
    for figures in all_figures:
        for session in figures["sessions"]:
            known = sessions.get(session["id"])
            sessions[session["id"]] = session if known is None else _merge_sessions(known, session)
    return sorted(sessions.values(), key=lambda row: _time(row["last"]), reverse=True)


def _merge_sessions(known: dict[str, Any], session: dict[str, Any]) -> dict[str, Any]:
    latest = max(known, session, key=lambda row: _time(row["last"]))
    rewritten = merged_totals([known["rewritten"], session["rewritten"]])
    return {
        **latest,
        "views": sorted([*known["views"], *session["views"]])[-_MOST_VIEWS:],
        "created": min(known["created"], session["created"]),
        "requests": known["requests"] + session["requests"],
        "rewritten": {cause: totals.to_dict() for cause, totals in rewritten.items()},
    }


def with_agents(sessions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the sessions, each with the sums of its sub-agents and of their sub-agents, as `agents`.

    Its own figures do not include them. `agents` is None for a session without sub-agents.
    """
    rows = list(sessions)
    children: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row)

    def descendants(session_id: str) -> Iterator[Mapping[str, Any]]:
        for child in children.get(session_id, ()):
            yield child
            yield from descendants(child["id"])

    return [{**row, "agents": _sums(list(descendants(row["id"])))} for row in rows]


def _sums(agents: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not agents:
        return None
    used = Counter[str]()
    for agent in agents:
        used.update(agent["used"])
    calls = sum(agent["calls"] for agent in agents)
    return {
        "sessions": len(agents),
        "calls": calls,
        "used": dict(used),
        "money": merged_money(agents),
        "assumed": merged_assumption(agents),
    }


def merged_money(sessions: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the sum of the sessions' money; None if no cost is known. It has the calls with unknown costs too."""
    sums = Counter[str]()
    calls = 0
    for session in sessions:
        calls += session["calls"]
        sums.update(session["money"] or {})
    if not sums:
        return None
    return {**{name: round(amount, 6) for name, amount in sums.items()}, "calls": calls}


def merged_assumption(sessions: Iterable[Mapping[str, Any]]) -> str:
    """Return whose prices some of the sessions' dollars assume, as `say_assumed` says it; empty if none do."""
    return next((session["assumed"] for session in sessions if session["assumed"]), "")


def merged_counts(all_figures: Iterable[Figures]) -> dict[str, int]:
    """Return the number of requests of all processes, by outcome."""
    counts = Counter[str]()
    for figures in all_figures:
        counts.update(figures["requests"])
    return dict(counts)


def merged_metrics(all_figures: Sequence[Figures]) -> bytes:
    """Return the metrics of processes in Prometheus' text format, each with a label `worker`.

    They are not added up: a sum would fall when a process ends, and Prometheus would take that for a restart of all.
    """
    families: dict[str, Metric] = {}
    for figures in all_figures:
        for family in text_string_to_metric_families(figures["metrics"]):
            merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                labels = {**sample.labels, "worker": figures["worker"]}
                merged.add_sample(sample.name, labels, sample.value)
    return as_text(families.values())


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
