"""What Wane would have done in sessions that it only watched: their replay, in words."""

from __future__ import annotations

from collections.abc import Sequence

from wane.lab.readers import Recording
from wane.lab.recorded_session import RecordedSession
from wane.lab.replaying.compare import BASELINE, Comparison, compare
from wane.lab.replaying.jobs import get_engine
from wane.lab.replaying.strategy_replay import Pricing
from wane.lab.replaying.studying import study
from wane.lab.replaying.verdict import in_view, needs, prices_used, with_room
from wane.strategies.strategy import StrategySettings
from wane.words import name_strategy


def predict(
    sessions: Sequence[RecordedSession], strategy: str, settings: StrategySettings, price: str
) -> Comparison | None:
    """Replay sessions under a strategy as `wane replay` does; None if no model answered in any.

    Sessions without an answer are left out. Overhead and annotation come from each session, and so do prices if they
    are known; else they are those of `price`.

    Raises:
        WaneError: for a strategy or settings that cannot work.
    """
    recordings = [Recording(session, "") for session in sessions if session.answered]
    if not recordings:
        return None
    studied = study(recordings, Pricing.of(price), own_prices=True)
    return compare(studied, [strategy], settings, get_engine("processes", 1))


def sentences(prediction: Comparison) -> list[str]:
    """Return what would have been evicted, what that saves, by whose prices, and what the agent would have needed."""
    (strategy,) = prediction.names
    totals, before = prediction.totals(strategy), prediction.totals(BASELINE)
    who = f"{name_strategy(strategy)} at {with_room(f'{prediction.budget:,} tokens', totals.raised_to)}"
    passes = f"{totals.passes:,} {'pass' if totals.passes == 1 else 'passes'}"
    peaks = f"{totals.peak:,} tokens in the largest request instead of {before.peak:,}"
    return [
        f"With {who} there would have been {passes}, and {peaks}.",
        f"{prediction.verdict()}.",
        f"Prices of {prices_used((one.recording.session, one.pricing) for one in prediction.studied)}.",
        f"{in_view(totals)} {needs(totals)}",
    ]
