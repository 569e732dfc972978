"""Estimates the tokens and dollars of an evaluation from earlier trials or the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wane.money import dollars
from wane.prices import CacheUse, Prices, prices_of
from wane_research.evaluation.report.building import BUDGET, MODEL
from wane_research.evaluation.results import FILE_NAME, Arm, Trial, read
from wane_research.evaluation.running.config import ORACLE, Config

_PAPER_MODEL: Final = "openai:gpt-5.4"
_PAPER_BENCHMARK: Final = "terminal-bench-2.0"
_PAPER_TASKS: Final = 89
_PAPER_TOKENS: Final = 80_000_000  # input and output of one session through all tasks ("over 80 million", section 6)
_PAPER_DOLLARS: Final = 55.0  # of the same session, about
_UNCAPPED: Final = (1 / (1 - 0.2), 1 / (1 - 0.7))
"""The cost of a session without a budget, relative to that session: the paper saved 20 to 70 percent."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of all planned trials of an arm."""

    arm: Arm
    trials: int  # number of trials in all runs
    done: int  # number of trials with a result, which are not paid for again
    tokens: float | None  # tokens of the remaining trials; None if unknown
    low: float | None  # least dollars of the remaining trials; None if unknown
    high: float | None  # most dollars of them
    source: str  # the source of the figures: the end of a sentence that begins with "Estimated"

    @property
    def name(self) -> str:
        return self.arm.words

    def describe(self) -> str:
        to_come = f"{self.trials - self.done:,} of {self.trials:,} trials to come"
        if self.low is None or self.high is None:
            return f"{self.name}: {to_come}; cost not known"
        cost = dollars(self.low) if self.low == self.high else f"{dollars(self.low)} to {dollars(self.high)}"
        tokens = "" if self.tokens is None else f", {self.tokens / 1e6:,.1f}M tokens"
        return f"{self.name}: {to_come}; about {cost}{tokens}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "arm": self.name,
            "trials": self.trials,
            "done": self.done,
            "tokens": self.tokens,
            "cost_low_usd": self.low,
            "cost_high_usd": self.high,
            "source": self.source,
        }


def estimates(config: Config, tasks: int) -> tuple[Estimate, ...]:
    """Return the estimate of each arm of a configuration, from results in its output folder if there are any."""
    files = sorted(Path(config.output).rglob(FILE_NAME)) if config.output else []
    trials = [trial for path in files for trial in read(path).trials]
    return tuple(_estimate(config, arm, tasks * config.runs, trials) for arm in config.arms())


def _estimate(config: Config, arm: Arm, count: int, trials: Sequence[Trial]) -> Estimate:
    own = [trial for trial in trials if trial.arm == arm]
    if arm.strategy == ORACLE:
        return Estimate(arm, count, len(own), 0.0, 0.0, 0.0, "as 0 for the reference solution, which calls no model")
    remaining = count - len(own)
    alike = [trial for trial in own if trial.usage.cost is not None]
    source = f"from {len(alike):,} trials of the same arm"
    if not alike:
        alike = [trial for trial in trials if trial.arm.model == arm.model and trial.usage.cost is not None]
        source = f"from {len(alike):,} trials of other arms with {arm.model}"
    if alike:
        cost = sum(trial.usage.cost or 0.0 for trial in alike) / len(alike) * remaining
        sizes = [(trial.usage.input_tokens or 0) + (trial.usage.output_tokens or 0) for trial in alike]
        return Estimate(arm, count, len(own), sum(sizes) / len(sizes) * remaining, cost, cost, source)
    return _by_paper(config, arm, count, len(own))


def _by_paper(config: Config, arm: Arm, count: int, done: int) -> Estimate:
    if config.benchmark != _PAPER_BENCHMARK:
        source = (
            f"only for {_PAPER_BENCHMARK}, as the paper has no other; try some tasks (sample: {{count: 3, seed: 1}})"
        )
        return Estimate(arm, count, done, None, None, None, source)
    share = (count - done) / _PAPER_TASKS
    tokens, cost = _PAPER_TOKENS * share, _PAPER_DOLLARS * share
    ours, paper = prices_of(arm.model), prices_of(_PAPER_MODEL)
    if ours is None or paper is None:
        return Estimate(arm, count, done, tokens, None, None, f"without {arm.model}, for which no prices are known")
    low, high = _ratios(ours, paper)
    if arm.budget is None and arm.protocol == "single":
        low, high = low * _UNCAPPED[0], high * _UNCAPPED[1]
    about = f"by the paper's 80M tokens and $55 for {_PAPER_TASKS} tasks with {MODEL} at {BUDGET:,} tokens"
    return Estimate(arm, count, done, tokens, cost * low, cost * high, about)


def _ratios(ours: Prices, paper: Prices) -> tuple[float, float]:
    """Return the least and the largest ratio of two models' prices: the paper does not say how tokens were billed."""
    kinds = ((CacheUse(0, 0, 1_000), 0), (CacheUse(1_000, 0, 0), 0), (CacheUse(0, 0, 0), 1_000))
    ratios = [ours.cost(use, output).total / paper.cost(use, output).total for use, output in kinds]
    return min(ratios), max(ratios)
