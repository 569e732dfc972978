"""The figures of all processes that share a store: each publishes its own, and whoever is asked puts them together."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from wane.proxy import jsons
from wane.proxy.server.traffic import as_text
from wane.proxy.store.base import Store, StoreError
from wane.rewrites import merged_totals

_LOGGER: Final = logging.getLogger("wane.proxy")

WORKERS: Final = "worker"
"""Kind of the documents with a process's figures each."""

EVERY: Final = 2.0
"""Seconds between two looks whether the figures have changed, and should be published."""

_HEARTBEAT: Final = 20.0  # seconds after which a process publishes its figures again even if they are the same

GONE: Final = 60.0
"""Seconds after which a process that has published nothing counts as gone, and its figures are left out."""

_MOST_VIEWS: Final = 240

Figures = dict[str, Any]
"""What a process publishes, as JSON: `worker`, `at`, `started`, `requests`, `open`, `sessions_in_memory`, `sessions`,
and `metrics`, in Prometheus' text format."""


class Workers:
    """The processes that share a store; this one's name is unlike any other's.

    `figures` returns its present figures, `stamp` something that changes whenever they do, and takes no time.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        figures: Callable[[], Figures],
        stamp: Callable[[], object],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store, self._name, self._figures, self._stamp, self._now = store, name, figures, stamp, now
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
            now, stamp = self._now(), self._stamp()
            before = self._published
            fresh = before is not None and (now - _time(before["at"])).total_seconds() < _HEARTBEAT
            if before is not None and fresh and stamp == self._stamped:
                return before
            figures = self._figures()
            figures |= {"worker": self._name, "at": now.isoformat()}
            document = jsons.dumps(figures).decode()
            if not await self._store.replace_document(WORKERS, self._name, self._document, document):
                stored = await self._store.document(WORKERS, self._name)
                await self._store.replace_document(WORKERS, self._name, stored, document)
            self._document, self._published, self._stamped = document, figures, stamp
            return figures

    async def all(self) -> list[Figures]:
        """Return the figures of all processes: those of this one first, as they are now.

        Without the store, they are this process's alone.
        """
        try:
            own = await self.publish()
            others = await published(self._store, self._now())
        except StoreError as error:
            _LOGGER.warning("the figures are those of this process alone: %s", error)
            return [{**self._figures(), "worker": self._name, "at": self._now().isoformat()}]
        return [own, *(figures for figures in others if figures["worker"] != self._name)]

    async def leave(self) -> None:
        """Take the figures of this process out of the store, as it ends."""
        try:
            await self._store.replace_document(WORKERS, self._name, self._document, None)
        except StoreError:
            return  # they count as gone soon


async def published(store: Store, now: datetime) -> list[Figures]:
    """Return the figures of the processes that live, by name; delete those of the ones long gone.

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

    A session that several of them have in memory is shown as the one that used it last has it, with the requests,
    views and rewritten prefixes of all of them.
    """
    sessions: dict[str, dict[str, Any]] = {}
    for session in chain.from_iterable(figures["sessions"] for figures in all_figures):
        known = sessions.get(session["id"])
        if known is None:
            sessions[session["id"]] = session
            continue
        latest = max(known, session, key=lambda row: _time(row["last"]))
        views = sorted([*known["views"], *session["views"]])[-_MOST_VIEWS:]
        created = min(known["created"], session["created"])
        rewritten = merged_totals([known["rewritten"], session["rewritten"]])
        sessions[session["id"]] = {
            **latest,
            "views": views,
            "created": created,
            "requests": known["requests"] + session["requests"],
            "rewritten": {cause: totals.to_dict() for cause, totals in rewritten.items()},
        }
    return sorted(sessions.values(), key=lambda row: _time(row["last"]), reverse=True)


def with_agents(sessions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the sessions, each with the sums of its sub-agents among them, and of theirs, as `agents`.

    Its own figures stay without them. `agents` is None for a session that has none.
    """
    rows, children = [*sessions], dict[str, list[Mapping[str, Any]]]()
    for row in rows:
        children.setdefault(row["parent"], []).append(row)

    def descendants(session_id: str) -> Iterator[Mapping[str, Any]]:
        for child in children.get(session_id, ()):
            yield child
            yield from descendants(child["id"])

    def sums(agents: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        if not agents:
            return None
        used = {name: sum(row["used"][name] for row in agents) for name in agents[0]["used"]}
        calls = sum(row["calls"] for row in agents)
        return {"sessions": len(agents), "calls": calls, "used": used, "money": merged_money(agents)}

    return [{**row, "agents": sums([*descendants(row["id"])])} for row in rows]


def merged_money(sessions: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the sum of the sessions' money, with the calls of those whose cost is unknown; None if none is known."""
    amounts, calls = list[Mapping[str, Any]](), 0
    for session in sessions:
        calls += session["calls"]
        amounts += [] if session["money"] is None else [session["money"]]
    if not amounts:
        return None
    sums = {name: round(sum(money[name] for money in amounts), 6) for name in amounts[0]}
    return {**sums, "calls": calls}


def merged_counts(all_figures: Iterable[Figures]) -> dict[str, int]:
    """Return the number of requests of all processes, by outcome."""
    counts = Counter[str]()
    for figures in all_figures:
        counts.update(figures["requests"])
    return dict(counts)


def merged_metrics(all_figures: Sequence[Figures]) -> bytes:
    """Return the metrics of processes in Prometheus' text format, each with a label `worker`.

    They are not summed: the sum would fall when a process ends, and Prometheus would take that for a restart of all.
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
