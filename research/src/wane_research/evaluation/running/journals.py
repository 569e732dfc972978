"""Reads the journals of a trial's sessions: figures, and each tool call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from wane.account import Account
from wane.conversation.tool_calls import normalise_arguments
from wane.core import DELIMITER, RECALL, Kind
from wane.core.delimiter import DelimiterProtocol
from wane.core.errors import WaneError
from wane.journal import UsageRecord, model_calls, read
from wane.lab.readers.journal import session_of
from wane.lab.recorded_session import RecordedSession
from wane.tools.calls import judge_call
from wane.tools.judgement import Activity
from wane_research.annotations import read_again
from wane_research.evaluation.results import ContextFigures, Usage


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool, other than Wane's own."""

    explores: bool = False  # whether it gathers information
    changes: bool = False  # whether it changes something
    repeats: bool = False  # whether it repeats an earlier exploring call of the user's turn, with no change in between


def tool_uses(session: RecordedSession) -> Iterator[ToolUse]:
    """Yield the tool calls of a session, in order, classified by their names and arguments."""
    since_change: set[tuple[str, str]] = set()
    for part in session.parts:
        if part.kind is Kind.USER:
            since_change.clear()  # the user may have changed something, and a new task has a new environment
        if part.kind is not Kind.CALL or part.tool in (DELIMITER, RECALL):
            continue
        activity = judge_call(part.tool or "", part.arguments).activity
        if activity is Activity.ACT:
            since_change.clear()
            yield ToolUse(changes=True)
        elif activity is Activity.EXPLORE:
            call = part.tool or "", normalise_arguments(part.arguments)
            yield ToolUse(explores=True, repeats=call in since_change)
            since_change.add(call)
        else:
            yield ToolUse()


def explored_first(work: Sequence[ToolUse]) -> int:
    """Return how many calls explored before the first change; all exploring calls if nothing changed."""
    return sum(use.explores for use in takewhile(lambda use: not use.changes, work))


def unended_episodes(session: RecordedSession) -> set[str]:
    """Return the names of the episodes that the model began and did not end: at most one, as it has one at a time."""
    protocol = DelimiterProtocol()
    for part in session.parts:
        if part.kind is Kind.CALL and part.tool == DELIMITER:
            protocol.judge(part.arguments)
    return {protocol.active[0]} if protocol.active else set()


SESSIONS: Final = "sessions"  # folder of the agent's sessions, in its folder for logs

PROMPT: Final = "prompt.txt"
"""The file with the task in the folder for logs of Wane's agent. It exists once the agent has begun."""

STORE: Final = "wane"  # folder of the proxy's sessions, in the folder for logs of another agent


@dataclass(frozen=True, slots=True)
class JournalFigures:
    """Figures of a session from its beginning."""

    calls: tuple[UsageRecord, ...] = ()  # usage of all model calls, in order
    views: tuple[int, ...] = ()  # tokens of each request that shows a view; those for summaries show none
    passes: int = 0  # how often the strategy evicted anything
    evicted: int = 0  # tokens that left the view
    read_again: int = 0  # results that the agent fetched again after they had left the view
    work: tuple[ToolUse, ...] = ()  # the tool calls, in order
    unended: frozenset[str] = frozenset()  # names of the episodes that the model has begun and not ended
    complete: bool = True  # whether all sessions were fully understood; otherwise the figures of evictions are too low

    def since(self, before: JournalFigures, budget: int | None) -> tuple[Usage, ContextFigures | None]:
        """Return usage and context since an earlier state of the session; no context if some of it was not understood.

        `before`: the figures of that state.
        `budget`: tokens that the view may hold; None for no budget.
        """
        usage = _sum_usage(self.calls[len(before.calls) :])
        if not (self.complete and before.complete):
            return usage, None
        views = self.views[len(before.views) :]
        work = self.work[len(before.work) :]
        over_budget = 0
        if budget is not None:
            over_budget = sum(view > budget for view in views)
        context = ContextFigures(
            passes=self.passes - before.passes,
            evicted_tokens=self.evicted - before.evicted,
            peak_view=max(views, default=0),
            over_budget=over_budget,
            read_again=self.read_again - before.read_again,
            explored_first=explored_first(work),
            repeated=sum(use.repeats for use in work),
            unended=len(self.unended - before.unended),
        )
        return usage, context


def journals_in(trial: Path, sessions: str = SESSIONS) -> tuple[Path, ...]:
    """Return the session files of a trial of Harbor, each session once, the newest last.

    A task of several steps may have a session for each step, and a copy of a session after each step. The longest copy
    counts, because journals only grow. The order is by name, because names begin with the time, while the times of
    files change when they are copied or cleaned.

    `trial`: its folder, which also holds files of the grader and of the task itself.
    `sessions`: the folder of the sessions in the agent's folder for logs.
    """
    paths: list[Path] = []
    for folder in _logs(trial):
        paths += (folder / sessions).rglob("*.jsonl")
    newest = {path.name: path for path in sorted(paths, key=lambda path: (path.name, path.stat().st_size))}
    return tuple(newest.values())


def has_begun(trial: Path) -> bool:
    """Return whether Wane's agent began in a trial of Harbor, even if it left no session here."""
    return any((folder / PROMPT).exists() for folder in _logs(trial))


def _logs(trial: Path) -> list[Path]:
    # Harbor puts the logs of a finished step into a folder of its own.
    return [trial / "agent", *trial.glob("steps/*/agent")]


def figures_of(*journals: Path) -> JournalFigures:
    calls: list[UsageRecord] = []
    views: list[int] = []
    evicted: list[int] = []  # tokens that each pass took
    work: list[ToolUse] = []
    unended: set[str] = set()
    again = 0
    complete = True
    for journal in journals:
        file = read(journal)
        calls += model_calls(file.records)
        views += [record.input_tokens for record in file.records if isinstance(record, UsageRecord)]
        session = session_of(file.header, file.records)
        passes = [eviction for eviction in session.evictions if eviction.removed]
        evicted += [eviction.tokens_before - eviction.tokens_after for eviction in passes]
        evicted += [(taken.tokens_before or 0) - (taken.tokens_after or 0) for taken in session.compactions]
        again += read_again(session)
        work += tool_uses(session)
        unended |= unended_episodes(session)
        # For example, it is not known how much an unknown strategy evicted.
        complete = complete and not session.problems
    return JournalFigures(
        tuple(calls), tuple(views), len(evicted), sum(evicted), again, tuple(work), frozenset(unended), complete
    )


def usage_of(*journals: Path) -> Usage:
    """Return the usage of all model calls of some sessions; it is unknown if a journal cannot be read."""
    calls: list[UsageRecord] = []
    try:
        for journal in journals:
            calls += model_calls(read(journal).records)
    except WaneError:
        return Usage()
    return _sum_usage(calls)


def estimate_of(journal: Path) -> float:
    """Return the dollars of a session, with an estimate for calls of unknown cost; 0 if it cannot be read."""
    try:
        return Account.of(read(journal).records).estimate
    except WaneError:
        return 0.0


def _sum_usage(calls: Sequence[UsageRecord]) -> Usage:
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
