"""What eviction would have saved: one comparison, in the same words, for `wane view`, `replay`, `tune` and `report`.

Like stands beside like. A simulated cost, with fetching evicted content again, is compared with the lowest cost of the
same calls without Wane: that of their recorded usage by the same price list, or that of never evicting, simulated.

- A recording counts only for the calls whose usage and price are known, and only if it shows what the cache did. Then
  both sides are those calls, and the sentence says which share of all calls they are.
- A recording holds cache misses that no strategy causes, such as a pause or another machine of the provider; a
  simulation has none but pauses. So the saving is a range: with these misses under Wane as well, and without any.
- Never evicting counts only if the model's window could have held all.
- "At least" stands only where the recording lacks calls that Wane would not make: those that wrote summaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from wane.lab.cache.paid_again import examine
from wane.lab.counting import Material
from wane.lab.recorded_session import RecordedSession
from wane.lab.replaying.managed import money_by_call
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.spent import RECORDED, Recorded, calls_of, unknown_prices
from wane.lab.replaying.strategy_replay import Pricing, Replay, comparable_costs, moment
from wane.money import dollars, share
from wane.rewrites import Cause

OURS: Final = "cwl"
"""The strategy that a verdict is about."""

WITHOUT_WANE: Final = "without Wane, estimated from the recorded calls"
"""The name of what `wane.savings` estimates for sessions in which Wane was at work."""

NOTABLE: Final = 0.99
"""Share of the cost below which there is a saving to speak of."""

AVOIDED: Final = frozenset({Cause.COMPACTION, Cause.EVICTION})
"""Causes of cache misses that a strategy brings about; all others come whatever the strategy does."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """What sessions cost without Wane; those of several sessions add up with `+`.

    Attributes:
        recorded: the sessions as recorded.
        unevicted: dollars if nothing is evicted, simulated.
        sessions: number of sessions.
        unfit: number of sessions with requests that their model's window cannot hold unless something is evicted.
        largest: tokens of the largest such request.
        window: the window that it exceeds.
        managed: number of sessions that were recorded with Wane at work, whose recorded cost is not one without it.
        evicted: number of those of them in which it evicted anything.
        calls: number of calls that were replayed.
        beside: dollars of the recorded usage of the calls whose cost can stand beside a simulated one; without Wane, as
            `wane.savings` estimates it, where it was at work.
        stated: the same where the client stated a cost, which then counts.
        beside_calls: their number.
        missed: dollars among them for cache misses that no strategy causes.
        unevicted_beside: dollars for these calls if nothing is evicted, simulated.
    """

    recorded: Recorded = field(default_factory=Recorded)
    unevicted: float = 0.0
    sessions: int = 0
    unfit: int = 0
    largest: int = 0
    window: int = 0
    managed: int = 0
    evicted: int = 0
    calls: int = 0
    beside: float = 0.0
    stated: float = 0.0
    beside_calls: int = 0
    missed: float = 0.0
    unevicted_beside: float = 0.0

    @classmethod
    def of(cls, material: Material, pricing: Pricing, unevicted: Replay) -> Baselines:
        """Return the baselines of one session, by its replay under `none` at the budget of the comparison."""
        # The agent knows its window best: a price list names the largest that a model offers.
        window, peak = material.session.window or pricing.prices.window, unevicted.totals.peak
        costs = comparable_costs(material, pricing)
        stated = 0.0
        if material.session.managed:
            without = [money.unmanaged for money in money_by_call(material, pricing)]
            costs = [None if cost is None else amount for cost, amount in zip(costs, without, strict=True)]
            stated = sum(filter(None, costs))
        else:
            for call, cost in zip(material.session.calls, costs, strict=True):
                if cost is not None:
                    stated += cost if call.cost is None or pricing.models is None else call.cost
        baselines = cls(
            recorded=Recorded.of(material, pricing, unevicted.budget),
            unevicted=unevicted.totals.dollars,
            sessions=1,
            managed=int(material.session.managed),
            evicted=int(material.session.evicted),
            calls=unevicted.totals.calls,
            beside=sum(filter(None, costs)),
            stated=stated,
            beside_calls=unevicted.totals.beside_calls,
            missed=_sum_misses(material, pricing, costs),
            unevicted_beside=unevicted.totals.beside,
        )
        if window is None or peak <= window:
            return baselines
        return replace(baselines, unfit=1, largest=peak, window=window)

    def __add__(self, other: Baselines) -> Baselines:
        larger = other if other.largest > self.largest else self
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return Baselines(**{**sums, "largest": larger.largest, "window": larger.window})

    @property
    def possible(self) -> bool:
        """Whether never evicting was possible in every session."""
        return not self.unfit

    @property
    def impossible(self) -> str:
        """Why never evicting was impossible, as the end of a sentence; empty if it was possible."""
        if self.possible:
            return ""
        where = "" if self.sessions == 1 else f" in {self.unfit:,} of {self.sessions:,} sessions"
        return f"which was not possible{where}: {self.largest:,} tokens, and the window holds {self.window:,}"

    @property
    def twice(self) -> str:
        """Why some fetching again counts twice in a simulation, as the end of a sentence."""
        where = "the session was" if self.sessions == 1 else f"{self.evicted:,} of {self.sessions:,} sessions were"
        counted = f"some fetching again counts twice, because {where} recorded with Wane at work"
        exact = self.managed == self.sessions and self.recorded.complete
        return f"{counted} (for {self.recorded.account.brief})" if exact else counted

    def lowest(self) -> Baseline | None:
        """Return the lowest cost without Wane; None if there is none to compare with."""
        simulated = Baseline(self.unevicted, self._unevicted_label) if self.possible else None
        if not self.beside_calls:
            return simulated
        if simulated and self.unevicted_beside < self.beside and not self._all_managed:
            return simulated
        guessed = bool(self.recorded.account.estimated)
        return Baseline(
            self.beside,
            f"{self._beside_label}, with output counted from its text" if guessed else self._beside_label,
            # Output by a count of its text may be too high: then the cost is no bound, whatever it lacks.
            bool(self.recorded.summaries) and not guessed,
            self.missed,
            self.beside_calls / self.calls,
            recorded=True,
            guessed=guessed,
        )

    @property
    def _all_managed(self) -> bool:
        return self.managed == self.sessions > 0

    @property
    def _unevicted_label(self) -> str:
        return f"if nothing is evicted, {'with the marks, ' if self._all_managed else ''}simulated"

    @property
    def _beside_label(self) -> str:
        if self._all_managed:
            return WITHOUT_WANE
        # A client may state other costs than the list has: of a subscription, a region, with a gateway's fee, or for
        # the output of an answer that broke off. No two figures may bear one name.
        label = RECORDED if dollars(self.stated) == dollars(self.beside) else f"{RECORDED}, at list prices"
        return f"{label}, and estimated without Wane where it was at work" if self.managed else label

    def describe(self) -> str:
        """Return these costs, each with what it leaves out."""
        recorded = self.recorded
        parts = []
        notes = f" ({recorded.bounds})" if recorded.bounds else ""
        if recorded.account.known:
            at_least = "" if recorded.complete else "at least "
            with_wane = " with Wane" if self.managed else ""
            parts.append(f"{at_least}{dollars(recorded.paid)} {RECORDED}{with_wane}{notes}")
        else:
            parts.append(f"the recorded cost is not known{notes}")
        if self._all_managed and self.beside_calls:
            parts.append(f"{self.lowest()}")
        either = " without these either" if recorded.left_out else ""
        impossible = f", {self.impossible}" if self.impossible else ""
        parts.append(f"{dollars(self.unevicted)} {self._unevicted_label}{either}{impossible}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A cost without Wane.

    Attributes:
        cost: dollars.
        label: where it is from.
        bound: whether it is a lower bound.
        missed: dollars of it for cache misses that Wane may have had as well.
        share: the share of the calls that it covers.
        recorded: whether it is the recorded cost.
        guessed: whether it holds output that was not recorded, by a count of its text.
    """

    cost: float
    label: str
    bound: bool = False
    missed: float = 0.0
    share: float = 1.0
    recorded: bool = False
    guessed: bool = False

    def __str__(self) -> str:
        return f"{self.sign}{dollars(self.cost)} {self.label}"

    @property
    def sign(self) -> str:
        """What stands before its dollars: whether they are a lower bound, or hold a guess."""
        if self.guessed:
            return "about "
        return "at least " if self.bound else ""

    def with_wane(self, totals: Totals) -> tuple[float, float]:
        """Return the cost of the same calls under a strategy: without any further cache misses, and with them."""
        low = totals.beside if self.recorded else totals.full_cost
        return low, low + self.missed

    def saving(self, totals: Totals) -> tuple[float, float]:
        """Return the share of the cost that a strategy saves, at worst and at best; negative if it costs more."""
        low, high = self.with_wane(totals)
        return (1 - high / self.cost, 1 - low / self.cost) if self.cost else (0.0, 0.0)


def with_room(budget: str, raised_to: int) -> str:
    """Return a budget in words with the largest one that Wane worked with; 0 tokens for no larger one (R22)."""
    return f"{budget} (up to {raised_to:,} where that leaves too little room)" if raised_to else budget


def verdict(baselines: Baselines, totals: Totals, who: str) -> str:
    """Return a sentence, without its period, that compares a strategy with the lowest cost without Wane.

    `who` is the strategy with its budget, such as `Wane at 80,000 tokens`.
    """
    twice = f"; {baselines.twice}" if baselines.evicted and totals.reread_cost else ""
    return f"{capital(_compare_totals(baselines, totals, who))}{twice}"


def prices_used(sessions: Iterable[tuple[RecordedSession, Pricing]]) -> str:
    """Return the models whose prices the replays of sessions take, to follow the words "prices of"."""
    used, unknown = Counter[str](), Counter[str]()
    assumed: dict[str, None] = {}
    for session, pricing in sessions:
        every = not session.own_calls
        for call, own in zip(session.calls, pricing.by_call(session), strict=True):
            if call.inherited and not every:
                continue
            prices = own.prices_for(call)
            used[own.whose(prices or own.prices)] += 1
            if prices is None:
                unknown[call.priced_as or ""] += 1
                assumed[pricing.prices.name] = None
    counts = ", ".join(f"{name} ({calls_of(number)})" for name, number in used.most_common())
    models = counts if len(used) > 1 else next(iter(used))
    return f"{models}; {unknown_prices(unknown)}, so those of {', '.join(assumed)} are used" if unknown else models


def capital(text: str) -> str:
    """Return a text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def _compare_totals(baselines: Baselines, totals: Totals, who: str) -> str:
    before = baselines.lowest()
    if before is None:
        return f"{dollars(totals.full_cost)} with {who}, simulated; there is no cost without Wane to compare it with"
    again = " with fetching again" if totals.reread_cost else ""
    # A percent that is not there is never said to be.
    over = "" if before.share == 1 else f"over {share(min(before.share, 0.999))} of the calls: "
    sides = f"{before} → {amounts(*before.with_wane(totals))} with {who}, simulated{again}"
    if not before.cost and not before.with_wane(totals)[1]:
        return f"{over}{sides}: these prices are zero"
    worst, best = before.saving(totals)
    missed = ""
    if best - worst >= 1 - NOTABLE:
        missed = f" ({dollars(before.missed)} of the recorded cost are for cache misses that no strategy causes)"
    if best <= 1 - NOTABLE:
        return f"no saving {'can be shown' if before.bound else 'here'}: {over}{sides}{missed}"
    return f"{over}{sides}: {savings(worst, best, bound=before.bound)}{missed}"


def amounts(low: float, high: float) -> str:
    """Return dollars as a range, or as one figure if both ends are nearly the same."""
    if high - low < (1 - NOTABLE) * low or dollars(low) == dollars(high):
        return dollars(low)
    return f"{dollars(low)} to {dollars(high)}"


def savings(worst: float, best: float, *, bound: bool = False) -> str:
    """Return the share that is saved, in words: as a range, or as one figure if both ends are nearly the same.

    `bound` says that the worst case is a lower bound, as the recorded cost lacks calls.
    """
    if best - worst < 1 - NOTABLE:
        return f"{'at least ' if bound else ''}{share(best)} less"
    if worst < 0:
        return f"from {share(-worst)} more to {share(best)} less"
    return f"at least {share(worst)} less" if bound else f"{share(worst)} to {share(best)} less"


def _sum_misses(material: Material, pricing: Pricing, costs: list[float | None]) -> float:
    """Return what the recording paid for cache misses that no strategy causes, where `costs` are known, in dollars."""
    total = 0.0
    for rewrite in examine(material.session).rewrites:
        call = material.session.calls[rewrite.call]
        prices = pricing.prices_for(call)
        if costs[rewrite.call] is None or prices is None or call.usage is None or rewrite.explanation.cause in AVOIDED:
            continue
        total += prices.repeated_cost(rewrite.tokens, call.usage.use, moment(call))
    return total


def in_view(totals: Totals) -> str:
    """Return how much of what later calls used was still in view, and the cost of fetching the rest again."""
    loss, low, high = totals.loss, totals.loss.reference_recall, totals.loss.reference_recall_at_best
    if not loss.uses:
        return "No later call used a name from before."
    recall = share(low) if share(low) == share(high) else f"{share(low)} to {share(high)}"
    again = f"; fetching again is {dollars(totals.reread_cost)} of the cost" if loss.reread.results else ""
    return f"{recall} of what later calls used was still in view{again}."


def needs(totals: Totals) -> str:
    """Return the figures behind `in_view`, and those of edits and of the user's turns."""
    loss = totals.loss
    parts = []
    if loss.uses:
        used = f"Calls used {loss.uses:,} earlier names, {loss.uses - loss.in_view:,} of them not in view"
        if fetches := loss.reread.results:
            used += f", for {fetches:,} {'fetch' if fetches == 1 else 'fetches'}"
        parts.append(f"{used}.")
    if loss.edits:
        parts.append(f"{loss.grounded:,} of {loss.edits:,} edits had their file's latest read in view.")
    if loss.user_turns and not loss.user_turns_lost:
        parts.append(f"Every view held all of the user's turns so far ({loss.user_turns:,}).")
    elif loss.user_turns:
        parts.append(f"{loss.user_turns_lost:,} of the user's {loss.user_turns:,} turns left the view.")
    return " ".join(parts)


def to_dict(baselines: Baselines, unevicted: Totals) -> dict[str, Any]:
    """Return what sessions cost without Wane as JSON-able data."""
    lowest = baselines.lowest()
    compared = None
    if lowest is not None:
        compared = {
            "cost_usd": lowest.cost,
            "what": lowest.label,
            "bound": lowest.bound,
            "output_estimated": lowest.guessed,
            "missed_usd": lowest.missed,
            "share_of_calls": lowest.share,
        }
    return {
        "recorded": baselines.recorded.to_dict(unevicted),
        "none_possible": baselines.possible,
        "lowest": compared,
    }
