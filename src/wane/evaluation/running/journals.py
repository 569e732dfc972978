"""Figures of a trial, read from its session's journal."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from pathlib import Path
from typing import Final

from wane.core.errors import WaneError
from wane.evaluation.results import ContextFigures, Usage
from wane.formats import Transcript, get_format
from wane.journal import MessageRecord, UsageRecord, model_calls, read
from wane.lab.annotations import annotations_of
from wane.lab.counting import count
from wane.lab.readers import read_file
from wane.prices import TokenUsage, cost_of

SESSIONS: Final = "sessions"
"""Folder of the agent's sessions, in its folder for logs."""

STORE: Final = "wane"
"""Folder of the proxy's sessions, in the folder for logs of another agent."""


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


def usage_of(*journals: Path, forks: bool = False) -> Usage:
    """Return the usage of all model calls of some sessions; empty and without a cost if a journal cannot be read.

    Args:
        journals: the session files.
        forks: whether one may begin with the records of another, which then count once.
    """
    records: list[UsageRecord] = []
    try:
        for journal in journals:
            known = set(records) if forks else ()
            records += [record for record in model_calls(read(journal).records) if record not in known]
    except WaneError:
        return Usage()
    costs = [record.cost if record.cost is not None else _price(record) for record in records]
    return Usage(
        model_calls=len(records),
        input_tokens=sum(record.input_tokens for record in records),
        cached_tokens=sum(record.cache_read_tokens for record in records),
        cache_write_tokens=sum(record.cache_write_tokens for record in records),
        output_tokens=sum(record.output_tokens for record in records),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def since(whole: Usage, before: Usage) -> Usage:
    """Return the usage after `before`."""
    known = whole.cost is not None and before.cost is not None
    return Usage(
        whole.model_calls - before.model_calls,
        whole.input_tokens - before.input_tokens,
        whole.cached_tokens - before.cached_tokens,
        whole.cache_write_tokens - before.cache_write_tokens,
        whole.output_tokens - before.output_tokens,
        (whole.cost or 0.0) - (before.cost or 0.0) if known else None,
    )


def item_count(journal: Path) -> int:
    """Return how many items of the history a session holds; 0 if its journal cannot be read."""
    try:
        file = read(journal)
        format_ = get_format(file.header.format)
        transcript = Transcript(format_)
        for message in format_.load([record.message for record in file.records if isinstance(record, MessageRecord)]):
            transcript.take(message)
    except WaneError:
        return 0
    return transcript.item_count


def context_since(journals: Iterable[Path], earlier: Path | None, budget: int | None) -> ContextFigures | None:
    """Return the figures of the context since an earlier state of a session; None if they are not known.

    Args:
        journals: the session file, or several if the task's steps have sessions of their own.
        earlier: the file as it was before; None for nothing.
        budget: tokens that the view may hold; None for no budget.
    """
    try:
        found = [_context_since(journal, earlier, budget) for journal in journals]
    except WaneError:
        return None
    return reduce(add, found) if found else None


def _price(record: UsageRecord) -> float | None:
    """The cost of a call whose record has none, such as those of the proxy."""
    used = TokenUsage(record.input_tokens, record.output_tokens, record.cache_read_tokens, record.cache_write_tokens)
    return cost_of(used, record.model)


def _context_since(journal: Path, earlier: Path | None, budget: int | None) -> ContextFigures:
    before = len(_views(earlier)) if earlier else 0
    views = _views(journal)[before:]
    passes, evicted, read_again = (late - early for late, early in zip(_totals(journal), _totals(earlier), strict=True))
    over = sum(view > budget for view in views) if budget is not None else 0
    return ContextFigures(passes, evicted, max(views, default=0), over, read_again)


def _views(journal: Path) -> list[int]:
    """Tokens of each request that shows a view; those for summaries show none."""
    return [record.input_tokens for record in read(journal).records if isinstance(record, UsageRecord)]


def _totals(journal: Path | None) -> tuple[int, int, int]:
    """Passes, tokens evicted, and results fetched again, in a whole session."""
    if journal is None:
        return 0, 0, 0
    (session,) = read_file(journal)
    acts = [it.tokens_before - it.tokens_after for it in session.evictions if it.removed]
    acts += [(it.tokens_before or 0) - (it.tokens_after or 0) for it in session.compactions]
    again = annotations_of(count(session)).read_again
    return len(acts), sum(acts), again
