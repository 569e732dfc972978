"""Evidence recall, ctxkernel's own metric, of its release and of Wane on the same recordings: research/docs/loss.md.

    python research/benchmarks/evidence.py ../shared/sessions/{claude-code,codex,copilot-cli,pi}

The metric is from `ctxkernel/eval.py` in its repository, which no release has: see `wane_research.bench.figures`.
Deterministic.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

from frame import parser_of_sessions, print_table, recorded_sessions
from wane import Policy
from wane.core import Item
from wane.lab.cache.prefix import common_prefix
from wane.lab.counting import count
from wane.lab.recorded_session import RecordedSession
from wane.strategies.registry import get_strategy
from wane.strategies.strategy import Slot, Strategy, StrategySettings, SummaryNeeded
from wane_research.bench.figures import Evidence

TARGET = 30_000  # tokens that ctxkernel aims at by default: 15 % of a window of 200,000
BUDGETS = (TARGET, 80_000)
COLUMNS = ("", "budget", "mean view", "mean history", "evidence recall", "steps that lose nothing", "prefix the same")
SHARES = (0.0, 0.01, 0.02)


@dataclass(frozen=True)
class Step:
    """A model call that acted."""

    recall: float  # share of the needed names in view
    view: int  # tokens of the view
    history: int  # tokens of the history before it
    same: int  # tokens at the beginning of the view that the last view had too, so that a provider's cache has them


@dataclass(frozen=True)
class Arm:
    """A strategy at a budget."""

    strategy: str
    budget: int
    low_water: float | None = None
    index: float | None = None

    def start(self) -> Strategy:
        policy = Policy() if self.index is None else replace(Policy(), index_share=self.index)
        settings = StrategySettings(self.budget, policy=policy, low_water=self.low_water, annotate="infer")
        return get_strategy(self.strategy, settings)

    @property
    def name(self) -> str:
        name = f"`{self.strategy}`"
        if self.index is not None:
            name += f", index {self.index:.1%}"
        if self.low_water is not None:
            name += f", low water {self.low_water}"
        return name


ARMS = [
    Arm("ctxkernel", TARGET),
    *(Arm("cwl", budget, index=share) for share in SHARES for budget in (TARGET, 40_000, 80_000)),
    *(Arm(name, budget, low) for budget in BUDGETS for name, low in (("truncate", 0.5), ("compact", None))),
    Arm("none", 80_000),
]


def steps(session: RecordedSession, arm: Arm) -> Iterator[Step]:
    strategy, items, evidence = arm.start(), count(session, calibrate=False).items, Evidence(session)
    added = total = 0
    last: list[Slot] = []
    for number, call in enumerate(session.calls):
        for index in range(added, call.first):
            strategy.add(items[index], session.parts[index])
            total += items[index].tokens
        added = call.first
        outcome = strategy.fit()
        while isinstance(outcome, SummaryNeeded):
            outcome = strategy.take_summary("", 2_000)
        view = [*outcome.view]
        sizes = [_size(slot, items) for slot in view]
        same, last = common_prefix(last, view), view
        recall = evidence.recall(number, view)
        if recall is not None:
            yield Step(recall, sum(sizes), total, sum(sizes[:same]))


def _size(slot: Slot, items: Sequence[Item]) -> int:
    return items[slot].tokens if isinstance(slot, int) else slot.tokens


def cells(arm: Arm, listed: Sequence[Step]) -> list[str]:
    return [
        arm.name,
        f"{arm.budget:,}" if arm.strategy != "none" else "",
        f"{fmean(step.view for step in listed):,.0f}",
        f"{fmean(step.history for step in listed):,.0f}",
        f"{fmean(step.recall for step in listed):.3f}",
        f"{fmean(step.recall == 1 for step in listed):.1%}",
        f"{sum(step.same for step in listed) / sum(step.view for step in listed):.0%}",
    ]


def main() -> None:
    sessions = recorded_sessions(parser_of_sessions(__doc__).parse_args().sessions)
    scored: dict[Arm, list[Step]] = {}
    for session, arm in product(sessions, ARMS):
        scored.setdefault(arm, []).extend(steps(session, arm))
        print(f"{session.name}: {arm.name} {arm.budget:,}", file=sys.stderr, flush=True)
    print_table(COLUMNS, (cells(arm, listed) for arm, listed in scored.items()), words=1)
    print(f"\n{len(sessions)} sessions, {len(scored[ARMS[0]]):,} steps.")


if __name__ == "__main__":
    main()
