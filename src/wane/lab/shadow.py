"""What Wane would have done in sessions that it only watched: their replay, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wane.lab.readers import Recording
from wane.lab.replaying.compare import BASELINE, Comparison, compare
from wane.lab.replaying.engine import get_engine
from wane.lab.replaying.replay import Pricing
from wane.lab.replaying.studying import study
from wane.lab.session import RecordedSession
from wane.lab.verdict import in_view, needs, verdict
from wane.strategies.base import AnnotateChoice, Settings


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a strategy would have done in some sessions: the replay under it, and under `none`."""

    strategy: str
    comparison: Comparison

    @property
    def lines(self) -> list[str]:
        """Sentences: what would have been evicted, what that saves, and what the agent would have needed of it."""
        totals = self.comparison.totals(self.strategy)
        before = self.comparison.totals(BASELINE)
        who = f"{self.strategy} at {self.comparison.budget:,} tokens"
        passes = f"{totals.passes:,} pass{'' if totals.passes == 1 else 'es'}"
        peaks = f"{totals.peak:,} tokens in the largest request instead of {before.peak:,}"
        return [
            f"With {who} there would have been {passes}, and {peaks}.",
            f"{verdict(self.comparison.baselines(), totals, who)}.",
            f"{in_view(totals)} {needs(totals)}",
        ]


def predict(
    sessions: Sequence[RecordedSession],
    strategy: str,
    settings: Settings,
    price: str,
    annotate: AnnotateChoice = "auto",
) -> Prediction | None:
    """Replay sessions as `wane replay` does; None if no model answered in any.

    Sessions without an answer are left out. Overhead and annotation come from each session, and so do prices if they
    are known; else they are those of `price`.

    Raises:
        WaneError: for a strategy or settings that cannot work.
    """
    recordings = [Recording(session, "") for session in sessions if session.answered]
    if not recordings:
        return None
    studied = study(recordings, Pricing.of(price), annotate=annotate, own_prices=True)
    return Prediction(strategy, compare(studied, [strategy], settings, get_engine("processes", 1)))
