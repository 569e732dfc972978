"""What Wane would have done in sessions that it only watched: a replay of them, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wane.core.errors import SessionNotFoundError
from wane.lab.readers import gather
from wane.lab.replaying.compare import BASELINE, Comparison, compare
from wane.lab.replaying.engine import get_engine
from wane.lab.replaying.replay import Pricing
from wane.lab.replaying.studying import study
from wane.lab.verdict import in_view, needs, verdict
from wane.strategies.base import AnnotateChoice, Settings


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a strategy would have done in some sessions.

    Attributes:
        strategy: its name.
        comparison: the replay under it, and under `none`.
        unread: sessions that could not be read, or hold no model call.
    """

    strategy: str
    comparison: Comparison
    unread: int

    @property
    def lines(self) -> list[str]:
        """Sentences: what would have been evicted, what that saves, and what the agent then needed of it."""
        totals = self.comparison.totals(self.strategy)
        before = self.comparison.totals(BASELINE)
        who = f"{self.strategy} at {self.comparison.budget:,} tokens"
        passes = f"{totals.passes:,} pass{'' if totals.passes == 1 else 'es'}"
        peaks = f"{totals.peak:,} tokens in the largest request instead of {before.peak:,}"
        lines = [
            f"With {who} there would have been {passes}, and {peaks}.",
            f"{verdict(self.comparison.baselines(), totals, who)}.",
            f"{in_view(totals)} {needs(totals)}",
        ]
        if self.unread:
            lines.append(f"Left out: {self.unread:,} that could not be read, or hold no answer.")
        return lines


def predict(
    paths: Sequence[Path], strategy: str, settings: Settings, price: str, annotate: AnnotateChoice = "auto"
) -> Prediction | None:
    """Replay sessions as `wane replay` does; None if no model answered in any.

    Args:
        paths: their files.
        strategy: the strategy.
        settings: its settings; overhead and annotation come from each session.
        price: the model whose prices count for calls of models without known prices, as for `Pricing.of`.
        annotate: who marks episodes.

    Raises:
        WaneError: for a strategy or settings that cannot work.
    """
    try:
        gathered = gather(paths, sidechains=True)
    except SessionNotFoundError:
        return None
    recordings = [entry for entry in gathered.recordings if entry.session.answered]
    if not recordings:
        return None
    studied = study(recordings, Pricing.of(price), annotate=annotate, own_prices=True)
    comparison = compare(studied, [strategy], settings, get_engine("processes", 1))
    return Prediction(strategy, comparison, len(paths) - len(recordings))
