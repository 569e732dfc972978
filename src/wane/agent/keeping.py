"""Which strategy keeps a session's context, and what the session file says of what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from wane.agent.costs import price
from wane.agent.options import BY_EPISODE
from wane.core.guidance import guidance
from wane.integrations.keeper import Keeper, unanchor
from wane.journal import NoteRecord, Record, UsageRecord
from wane.strategies.base import Resumable
from wane.strategies.base import Settings as StrategySettings
from wane.strategies.fold import FOLDING
from wane.strategies.registry import get_strategy

if TYPE_CHECKING:
    from wane.agent.config import Settings
    from wane.integrations.events import StrategyActed, SummaryWritten
    from wane.integrations.tracker import Tracker

STRATEGY_NOTE: Final = "strategy"
"""Topic of the note that says what a strategy changed ahead of a request."""

SUMMARY_NOTE: Final = "summary"
"""Topic of the note that says what a model call for a summary took. It anchors nothing, so it is no usage record."""

_UNKEPT: Final = BY_EPISODE | {"none"}


def guidance_for(settings: Settings) -> str | None:
    """Return what the model is told of the marks that it makes, where that does not follow from the policy."""
    return guidance(recall=settings.recall, leaving=FOLDING) if settings.strategy == "fold" else None


def keeper_for(settings: Settings, tracker: Tracker) -> Keeper | None:
    """Return what keeps the context, where the tracker does not do so itself."""
    if settings.strategy in _UNKEPT:
        return None
    wanted = StrategySettings(
        tool_classes=settings.tool_classes,
        annotate=settings.annotate,
        # Cutting to the budget itself would break the cached prefix at nearly every call.
        low_water=settings.policy.low_water if settings.strategy == "truncate" else None,
    )

    def make() -> Resumable:
        strategy = get_strategy(settings.strategy, wanted)
        assert isinstance(strategy, Resumable)
        return strategy

    tracker.evicts = False
    return Keeper(tracker, make)


def note_of(event: StrategyActed) -> Mapping[str, Any] | None:
    """Return what a session file keeps of an action; None if it need not be told to be done again."""
    return None if event.done is None else {"strategy": event.strategy, "items": event.items, "done": event.done}


def summary_data(event: SummaryWritten) -> dict[str, Any]:
    """Return what a session file keeps of the model call for a summary."""
    usage = event.usage
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost": price(usage, event.model),
        "model": event.model,
    }


def summary_record(data: Mapping[str, Any]) -> UsageRecord:
    """Return the same as a record that can be added to what was spent."""
    cost = data.get("cost")
    return UsageRecord(
        items=0,
        input_tokens=_count(data, "input_tokens"),
        output_tokens=_count(data, "output_tokens"),
        cache_read_tokens=_count(data, "cache_read_tokens"),
        cache_write_tokens=_count(data, "cache_write_tokens"),
        cost=float(cost) if isinstance(cost, (int, float)) else None,
        model=str(data.get("model", "")),
    )


def _count(data: Mapping[str, Any], name: str) -> int:
    count = data.get(name)
    return count if isinstance(count, int) else 0


def bring_back(keeper: Keeper | None, tracker: Tracker, records: Sequence[Record], before: str) -> None:
    """Have a session's context shown as it was, if the same strategy goes on.

    What a strategy left out stays out whenever it is chosen again. A strategy that is new to the session, or comes
    after another one, begins with all else that has happened; so does eviction by episode.

    Args:
        keeper: what keeps the context from here on; None if the tracker does.
        tracker: the tracker, with the history.
        records: the session's records.
        before: name of the strategy of its last request.

    Raises:
        HistoryError: if a record does not fit the history.
    """
    same = keeper is not None and keeper.name == before
    if before not in _UNKEPT and not same:
        unanchor(tracker.window)
    if keeper is not None:
        notes = (r.data for r in records if isinstance(r, NoteRecord) and r.topic == STRATEGY_NOTE)
        done = [note["done"] for note in notes if note.get("strategy") == keeper.name]
        keeper.resume(done, anchored=same and any(isinstance(record, UsageRecord) for record in records))
