"""The journals' part of a report: the view over the calls, and how the agent marked its work."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wane.core.errors import WaneError
from wane.journal import ConfigRecord
from wane.journal import read as read_journal
from wane.lab.counting import count
from wane.lab.readers import read_file
from wane.lab.session import RecordedSession
from wane_research.annotations import Annotations, annotations_of
from wane_research.evaluation.results import Arm, RunResults
from wane_research.evaluation.running.journals import journals_in


@dataclass(frozen=True, slots=True)
class View:
    """The view over the calls of a session.

    Attributes:
        arm: its arm.
        run: number of the run.
        tokens: by model call, the tokens of its request, as the provider reported them.
        passes: model calls, from 0, ahead of which something was evicted.
    """

    arm: Arm
    run: int
    tokens: tuple[int, ...]
    passes: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {**asdict(self.arm), "run": self.run, "tokens": list(self.tokens), "passes": list(self.passes)}


@dataclass(frozen=True, slots=True)
class Sessions:
    """The content of an arm's journals.

    Attributes:
        annotations: how the agent marked its work; None without a journal.
        views: the view over the calls, of sessions through several tasks.
        remarks: unreadable journals, and a budget that the provider did not take, in sentences.
    """

    annotations: Annotations | None
    views: tuple[View, ...]
    remarks: tuple[str, ...]


def sessions_of(runs: Sequence[RunResults]) -> Sessions:
    """Read the journals of an arm's runs."""
    total: Annotations | None = None
    views: list[View] = []
    remarks: list[str] = []
    lowered: list[int] = []
    for run in runs:
        for path in _journals(run):
            try:
                read = read_file(path)
                lowered += _lowered(path, run.run.arm.budget)
            except (WaneError, OSError) as error:
                remarks.append(f"A journal could not be read: {error}")
                continue
            for session in read:
                figures = annotations_of(count(session))
                total = figures if total is None else total + figures
                if run.run.arm.protocol == "single":
                    views.append(_view(run, session))
    if lowered:
        arm = runs[0].run.arm
        remarks.append(
            f"{arm.benchmark}, {arm.model}, {arm.strategy_text}, {arm.protocol}: the provider did not take views of "
            f"its budget, which was lowered to {min(lowered):,} tokens at the least (sessions: {len(lowered):,})."
        )
    return Sessions(total, tuple(view for view in views if view.tokens), tuple(remarks))


def _journals(run: RunResults) -> Iterator[Path]:
    """The journals of a run; of a single session only the last, which holds the earlier tasks as well."""
    named = [trial for trial in run.trials if trial.journal]
    folder = run.path.parent
    if run.run.arm.protocol == "single":
        named = named[-1:]
    paths: dict[Path, None] = {}
    for trial in named:
        # Isolated, each step of a task has a session of its own.
        inside = journals_in(folder / trial.directory) if trial.steps and trial.directory else ()
        paths |= dict.fromkeys(inside or (folder / trial.journal,))
    yield from paths


def _lowered(journal: Path, budget: int | None) -> list[int]:
    """The least budget of a session if it is below that of its arm."""
    budgets = [record.budget for record in read_journal(journal).records if isinstance(record, ConfigRecord)]
    return [min(budgets)] if budget is not None and budgets and min(budgets) < budget else []


def _view(run: RunResults, session: RecordedSession) -> View:
    reported = [call for call in session.calls if call.usage is not None and call.usage.total_input]
    firsts = [call.first for call in reported]
    tokens = tuple(call.usage.total_input for call in reported if call.usage is not None)
    positions = [eviction.position for eviction in session.evictions]
    positions += [compaction.position for compaction in session.compactions]
    # A pass runs ahead of the call that comes next.
    calls = {bisect_left(firsts, position) for position in positions}
    return View(run.run.arm, run.run.run, tokens, tuple(sorted(call for call in calls if call < len(firsts))))
