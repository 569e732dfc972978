"""The index of evicted content (R20): its share, chosen on half of the recorded sessions and judged on the other half.

    python research/benchmarks/index.py ../shared/sessions fit       # the shares, on the first half
    python research/benchmarks/index.py ../shared/sessions report    # the table of docs/decisions/index.md

Recall counts names, and an index lists names. So the tables also have an index of as many tokens of evicted names drawn
at random. Deterministic: the same sessions give the same figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from frame import OwnJob, parser_of_folder
from policy import (
    BUDGETS,
    HEAD,
    PRICES,
    RIVALS_BY_LOW_WATER,
    Contender,
    count_sessions,
    fitting,
    measure,
    rivals_at_view,
    rows,
    sets,
)
from wane import Policy
from wane.lab.replaying.jobs import Job
from wane.lab.replaying.strategy_replay import Pricing, Subject
from wane.strategies.evicted import Evicted, IndexLine
from wane.strategies.strategy import Strategy, StrategySettings
from wane.strategies.window_strategy import WindowStrategy

SHARES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05)
RIVALS = ("truncate", "compact")


class RandomNames(Evicted):
    """An index of evicted names, drawn at random."""

    def lines(self) -> list[IndexLine]:
        lines = [line for line in super().lines() if line.heading == "Names"]
        Random(len(lines)).shuffle(lines)
        return lines


@dataclass(frozen=True, slots=True)
class RandomJob(OwnJob):
    """A replay of the default policy with an index of random names."""

    def start(self, subject: Subject, settings: StrategySettings) -> Strategy:  # noqa: ARG002 - for any session
        strategy = WindowStrategy("random names", settings, settings.policy)
        strategy._evicted = RandomNames()
        return strategy


@dataclass(frozen=True)
class RandomContender(Contender):
    """The default policy with an index of random names."""

    def job(self, subject: int, budget: int, pricing: Pricing) -> Job:
        settings = StrategySettings(budget, policy=self.policy, annotate="infer")
        return RandomJob(subject, self.strategy, settings, pricing, label=self.name)


def ours(share: float) -> Contender:
    """The default policy with an index of a share."""
    return Contender(f"`Policy(index_share={share:g})`", "cwl", Policy(index_share=share))


def tables(name: str, subjects: Sequence[Subject], contenders: Sequence[Contender], *, with_rivals: bool) -> None:
    for budget in BUDGETS:
        chosen = fitting(subjects, budget)
        others = [Contender(base, base) for base in ("paper", "none")]
        if with_rivals:
            others += [*(Contender(rival, rival) for rival in RIVALS), *RIVALS_BY_LOW_WATER]
        by_name = rows(measure(chosen, [*contenders, *others], budget, PRICES[0]))
        print(f"\n### {name}: τ = {budget:,}, {PRICES[0]}, {count_sessions(chosen)}\n\n{HEAD}")
        listed = [by_name[contender.name] for contender in contenders]
        if with_rivals:
            view = by_name[ours(Policy().index_share).name].view
            listed += [by_name[rival] for rival in RIVALS]
            listed += rivals_at_view(RIVALS, by_name, view)
        for row in listed:
            print(row.line(), flush=True)


def main() -> None:
    command = parser_of_folder(__doc__)
    command.add_argument("what", choices=["fit", "report"])
    options = command.parse_args()
    by_set = sets(options.sessions)
    if options.what == "fit":
        tables("first half", by_set["first half"], [ours(share) for share in SHARES], with_rivals=False)
        return
    share = Policy().index_share
    at_random = RandomContender("as many tokens of random names", "cwl", Policy(index_share=share))
    for name in ("first half", "second half"):
        tables(name, by_set[name], [ours(0.0), ours(share), at_random], with_rivals=True)


if __name__ == "__main__":
    main()
