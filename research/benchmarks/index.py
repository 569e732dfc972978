"""The index of evicted content (R20): its share, chosen on half of the recorded sessions and judged on the other half.

    python research/benchmarks/index.py ../shared/sessions fit       # the shares, on the first half
    python research/benchmarks/index.py ../shared/sessions report    # the table of docs/decisions/index.md

Recall counts names, and an index lists names: so a list of as many tokens of names that left, drawn at random, stands
beside it. Deterministic: the same sessions give the same figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from frame import parser_of_folder
from own_job import OwnJob
from policy import HEAD, PRICES, Contender, Row, counted, fitting, measure, rival_at_view, rivals, rows, sets
from wane import Policy
from wane.lab.replaying.engine import Job
from wane.lab.replaying.replay import Pricing, Subject
from wane.strategies.base import Settings, Strategy
from wane.strategies.evicted import Evicted, Line
from wane.strategies.window import WindowStrategy

BUDGETS = (50_000, 80_000, 120_000)
SHARES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05)


class RandomNames(Evicted):
    """An index of names that left, drawn at random."""

    def lines(self) -> list[Line]:
        """Return a line for each name, in any order."""
        lines = [line for line in super().lines() if line.heading == "Names"]
        Random(len(lines)).shuffle(lines)
        return lines


@dataclass(frozen=True, slots=True)
class RandomJob(OwnJob):
    """A replay of the default policy with an index of random names."""

    def start(self, subject: Subject, settings: Settings) -> Strategy:  # noqa: ARG002 - for any session
        strategy = WindowStrategy("random names", settings, settings.policy)
        strategy._evicted = RandomNames()
        return strategy


@dataclass(frozen=True)
class RandomContender(Contender):
    """The default policy with an index of random names."""

    def job(self, subject: int, budget: int, pricing: Pricing) -> Job:
        settings = Settings(budget, policy=self.policy, annotate="infer")
        return RandomJob(subject, self.strategy, settings, pricing, label=self.name)


def ours(share: float) -> Contender:
    """The default policy with an index of a share."""
    return Contender(f"`Policy(index_share={share:g})`", "cwl", Policy(index_share=share))


def table(name: str, subjects: Sequence[Subject], contenders: Sequence[Contender], *, with_rivals: bool) -> None:
    """Print a table for each budget."""
    default = ours(Policy().index_share).name
    for budget in BUDGETS:
        chosen = fitting(subjects, budget)
        bases = [Contender(base, base) for base in ("paper", "none")]
        others = [*(Contender(it, it) for it in ("truncate", "compact")), *rivals()] if with_rivals else []
        found = rows(measure(chosen, [*contenders, *bases, *others], budget, PRICES[0]))
        print(f"\n### {name}: τ = {budget:,}, {PRICES[0]}, {counted(chosen)}\n\n{HEAD}")
        shown: list[Row] = [found[it.name] for it in contenders]
        if with_rivals:
            at_view = (rival_at_view(rival, found, found[default].view) for rival in ("truncate", "compact"))
            shown += [found["truncate"], found["compact"], *filter(None, at_view)]
        for row in shown:
            print(row.line(), flush=True)


def main() -> None:
    command = parser_of_folder(__doc__)
    command.add_argument("what", choices=["fit", "report"])
    options = command.parse_args()
    subjects = sets(options.sessions)
    if options.what == "fit":
        table("first half", subjects["first half"], [ours(share) for share in SHARES], with_rivals=False)
        return
    share = Policy().index_share
    at_random = RandomContender("as many tokens of random names", "cwl", Policy(index_share=share))
    for name in ("first half", "second half"):
        table(name, subjects[name], [ours(0.0), ours(share), at_random], with_rivals=True)


if __name__ == "__main__":
    main()
