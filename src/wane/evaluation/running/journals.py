"""Figures of a trial, read from its session's journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.core.errors import WaneError
from wane.evaluation.results import ContextFigures, Usage
from wane.journal import UsageRecord, model_calls, read
from wane.lab.annotations import read_again
from wane.lab.readers.journal import session_of

SESSIONS: Final = "sessions"
"""Folder of the agent's sessions, in its folder for logs."""

STORE: Final = "wane"
"""Folder of the proxy's sessions, in the folder for logs of another agent."""


@dataclass(frozen=True, slots=True)
class JournalFigures:
    """Figures of a session from its beginning.

    Attributes:
        calls: usage of all model calls, in order.
        views: tokens of each request that shows a view; those for summaries show none.
        passes: how often the strategy evicted anything.
        evicted: tokens that left the view.
        read_again: results that the agent fetched again after they had left the view.
    """

    calls: tuple[UsageRecord, ...] = ()
    views: tuple[int, ...] = ()
    passes: int = 0
    evicted: int = 0
    read_again: int = 0

    def since(self, before: JournalFigures, budget: int | None) -> tuple[Usage, ContextFigures]:
        """Return what the session did after an earlier state of it.

        Args:
            before: the figures of that state.
            budget: tokens that the view may hold; None for no budget.
        """
        views = self.views[len(before.views) :]
        context = ContextFigures(
            passes=self.passes - before.passes,
            evicted_tokens=self.evicted - before.evicted,
            peak_view=max(views, default=0),
            over_budget=sum(view > budget for view in views) if budget is not None else 0,
            read_again=self.read_again - before.read_again,
        )
        return _summed(self.calls[len(before.calls) :]), context


def journals_in(trial: Path, sessions: str = SESSIONS) -> tuple[Path, ...]:
    """Return the session files of a trial of Harbor, each session once, the newest last.

    A task of several steps may have a session for each step, and a copy of a session after each step. The longest copy
    counts, because journals only grow. The order is that of the names, which begin with the time, because copying and
    cleaning change the times of files.

    Args:
        trial: its folder, which also holds files of the grader and of the task itself.
        sessions: the folder of the sessions in the agent's folder for logs.
    """
    # Harbor puts the logs of a finished step into a folder of its own.
    logs = [trial / "agent", *trial.glob("steps/*/agent")]
    found = [path for folder in logs for path in (folder / sessions).rglob("*.jsonl")]
    newest = {path.name: path for path in sorted(found, key=lambda path: (path.name, path.stat().st_size))}
    return tuple(newest.values())


def figures_of(*journals: Path) -> JournalFigures:
    """Return the figures of some sessions, together.

    Raises:
        WaneError: if a journal cannot be read.
    """
    calls: list[UsageRecord] = []
    views: list[int] = []
    evicted: list[int] = []
    again = 0
    for journal in journals:
        file = read(journal)
        calls += model_calls(file.records)
        views += [record.input_tokens for record in file.records if isinstance(record, UsageRecord)]
        session = session_of(file)
        evicted += [it.tokens_before - it.tokens_after for it in session.evictions if it.removed]
        evicted += [(it.tokens_before or 0) - (it.tokens_after or 0) for it in session.compactions]
        again += read_again(session)
    return JournalFigures(tuple(calls), tuple(views), len(evicted), sum(evicted), again)


def usage_of(*journals: Path) -> Usage:
    """Return the usage of all model calls of some sessions; empty and without a cost if a journal cannot be read.

    Args:
        journals: the session files.
    """
    try:
        return _summed([call for journal in journals for call in model_calls(read(journal).records)])
    except WaneError:
        return Usage()


def _summed(calls: Sequence[UsageRecord]) -> Usage:
    costs = [call.cost for call in calls]
    return Usage(
        model_calls=len(calls),
        input_tokens=sum(call.input_tokens for call in calls),
        cached_tokens=sum(call.cache_read_tokens for call in calls),
        cache_write_tokens=sum(call.cache_write_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
    )
