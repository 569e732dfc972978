"""Figures of a trial, read from its session's journal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.account import Account
from wane.core.errors import WaneError
from wane.journal import UsageRecord, model_calls, read
from wane.lab.readers.journal import session_of
from wane_research.annotations import read_again
from wane_research.evaluation.running.work import ToolUse, explored_first, tool_uses, unended_episodes
from wane_research.evaluation.usage import ContextFigures, Usage

SESSIONS: Final = "sessions"
"""Folder of the agent's sessions, in its folder for logs."""

PROMPT: Final = "prompt.txt"
"""The task as Wane's agent gets it, in its folder for logs: it is there once the agent begins."""

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
        work: the tool calls, in order.
        unended: names of the episodes that the model has begun and not ended.
        complete: whether all of the sessions was understood; the figures of evictions are too low otherwise.
    """

    calls: tuple[UsageRecord, ...] = ()
    views: tuple[int, ...] = ()
    passes: int = 0
    evicted: int = 0
    read_again: int = 0
    work: tuple[ToolUse, ...] = ()
    unended: frozenset[str] = frozenset()
    complete: bool = True

    def since(self, before: JournalFigures, budget: int | None) -> tuple[Usage, ContextFigures | None]:
        """Return what the session did after an earlier state of it; for the context None if not all was understood.

        Args:
            before: the figures of that state.
            budget: tokens that the view may hold; None for no budget.
        """
        usage = _summed(self.calls[len(before.calls) :])
        if not (self.complete and before.complete):
            return usage, None
        views, work = self.views[len(before.views) :], self.work[len(before.work) :]
        context = ContextFigures(
            passes=self.passes - before.passes,
            evicted_tokens=self.evicted - before.evicted,
            peak_view=max(views, default=0),
            over_budget=sum(view > budget for view in views) if budget is not None else 0,
            read_again=self.read_again - before.read_again,
            explored_first=explored_first(work),
            repeated=sum(use.repeats for use in work),
            unended=len(self.unended - before.unended),
        )
        return usage, context


def journals_in(trial: Path, sessions: str = SESSIONS) -> tuple[Path, ...]:
    """Return the session files of a trial of Harbor, each session once, the newest last.

    A task of several steps may have a session for each step, and a copy of a session after each step. The longest copy
    counts, because journals only grow. The order is that of the names, which begin with the time, because copying and
    cleaning change the times of files.

    Args:
        trial: its folder, which also holds files of the grader and of the task itself.
        sessions: the folder of the sessions in the agent's folder for logs.
    """
    paths = [path for folder in _logs(trial) for path in (folder / sessions).rglob("*.jsonl")]
    newest = {path.name: path for path in sorted(paths, key=lambda path: (path.name, path.stat().st_size))}
    return tuple(newest.values())


def has_begun(trial: Path) -> bool:
    """Return whether Wane's agent began in a trial of Harbor, even if it left no session here."""
    return any((folder / PROMPT).exists() for folder in _logs(trial))


def _logs(trial: Path) -> list[Path]:
    # Harbor puts the logs of a finished step into a folder of its own.
    return [trial / "agent", *trial.glob("steps/*/agent")]


def figures_of(*journals: Path) -> JournalFigures:
    """Return the figures of some sessions, together.

    Raises:
        WaneError: if a journal cannot be read.
    """
    calls: list[UsageRecord] = []
    views: list[int] = []
    evicted: list[int] = []
    work: list[ToolUse] = []
    unended: set[str] = set()
    again, complete = 0, True
    for journal in journals:
        file = read(journal)
        calls += model_calls(file.records)
        views += [record.input_tokens for record in file.records if isinstance(record, UsageRecord)]
        session = session_of(file.header, file.records)
        evicted += [
            eviction.tokens_before - eviction.tokens_after for eviction in session.evictions if eviction.removed
        ]
        evicted += [
            (compaction.tokens_before or 0) - (compaction.tokens_after or 0) for compaction in session.compactions
        ]
        again += read_again(session)
        work += tool_uses(session)
        unended |= unended_episodes(session)
        # Such as what a strategy did that is not known here: how much it evicted is not known either.
        complete = complete and not session.problems
    return JournalFigures(
        tuple(calls), tuple(views), len(evicted), sum(evicted), again, tuple(work), frozenset(unended), complete
    )


def usage_of(*journals: Path) -> Usage:
    """Return the usage of all model calls of some sessions; nothing is known of it if a journal cannot be read.

    Args:
        journals: the session files.
    """
    try:
        return _summed([call for journal in journals for call in model_calls(read(journal).records)])
    except WaneError:
        return Usage()


def estimate_of(*journals: Path) -> float:
    """Return the dollars of some sessions together, with an estimate for the calls whose cost is not known.

    Args:
        journals: the session files. One that cannot be read counts nothing.
    """
    spent = 0.0
    for journal in journals:
        with suppress(WaneError):
            spent += Account.of(read(journal).records).estimate
    return spent


def _summed(calls: Sequence[UsageRecord]) -> Usage:
    account = Account.of(calls)
    return Usage(
        model_calls=account.calls,
        input_tokens=account.input_tokens,
        cached_tokens=account.cache_read_tokens,
        cache_write_tokens=account.cache_write_tokens,
        output_tokens=account.output_tokens,
        cost=account.cost,
        cost_at_least=None if account.complete else account.at_least,
        unreported=sum(not call.input_tokens for call in calls),
    )
