"""What eviction would have saved: one comparison, in the same words, for `wane view`, `replay` and `tune`.

A simulated cost, with fetching evicted content again, is compared with the lowest cost of the same calls without Wane:
the recorded one, or that of never evicting, simulated. Never evicting counts only if the model's window could have held
all. The cost of a recording that is not complete is a lower bound, and is called that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from wane.lab.counting import Material
from wane.lab.figures import Totals
from wane.lab.replaying.replay import Pricing, Replay
from wane.lab.replaying.spent import RECORDED, Recorded, calls_of, unknown_prices
from wane.lab.session import RecordedSession
from wane.money import dollars, share

OURS: Final = "cwl"
"""The strategy that a verdict is about."""

NOTABLE: Final = 0.99
"""Share of the cost below which there is a saving to speak of."""


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
    """

    recorded: Recorded = field(default_factory=Recorded)
    unevicted: float = 0.0
    sessions: int = 0
    unfit: int = 0
    largest: int = 0
    window: int = 0
    managed: int = 0

    @classmethod
    def of(cls, material: Material, pricing: Pricing, unevicted: Replay) -> Baselines:
        """Return the baselines of one session, by its replay under `none` at the budget of the comparison."""
        # The agent knows its window best: a price list names the largest that a model offers.
        window, peak = material.session.window or pricing.prices.window, unevicted.totals.peak
        baselines = cls(
            recorded=Recorded.of(material, pricing, unevicted.budget),
            unevicted=unevicted.totals.dollars,
            sessions=1,
            managed=int(material.session.managed),
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
        where = "the session was" if self.sessions == 1 else f"{self.managed:,} of {self.sessions:,} sessions were"
        counted = f"some fetching again counts twice, because {where} recorded with Wane at work"
        exact = self.managed == self.sessions and self.recorded.complete
        return f"{counted} (for {self.recorded.account.brief})" if exact else counted

    def lowest(self) -> Baseline | None:
        """Return the lowest cost without Wane; None if there is none to compare with."""
        baselines = []
        recorded = self.recorded
        # Replays take other prices for models without known ones, so the two costs cannot be compared.
        if recorded.account.priced and not recorded.unpriced and not self.managed:
            baselines.append(Baseline(recorded.account.at_least, RECORDED, not recorded.complete, recorded.covers))
        if self.possible:
            baselines.append(Baseline(self.unevicted, "if nothing is evicted, simulated"))
        return min(baselines, key=lambda baseline: baseline.cost, default=None)

    def describe(self) -> str:
        """Return both costs, each with what it leaves out."""
        recorded = self.recorded
        parts = []
        notes = f" ({recorded.bounds})" if recorded.bounds else ""
        if recorded.account.priced:
            at_least = "" if recorded.complete else "at least "
            with_wane = " with Wane" if self.managed else ""
            parts.append(f"{at_least}{dollars(recorded.paid)} {RECORDED}{with_wane}{notes}")
        else:
            parts.append(f"the recorded cost is not known{notes}")
        simulated = "simulated without these either" if recorded.left_out else "simulated"
        impossible = f", {self.impossible}" if self.impossible else ""
        parts.append(f"{dollars(self.unevicted)} if nothing is evicted, {simulated}{impossible}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A cost without Wane in dollars, its label, and whether it is a lower bound and covers every replayed call."""

    cost: float
    label: str
    bound: bool = False
    covers: bool = True

    def __str__(self) -> str:
        return f"{'at least ' if self.bound else ''}{dollars(self.cost)} {self.label}"


def verdict(baselines: Baselines, totals: Totals, who: str) -> str:
    """Return a sentence, without its period, that compares a strategy with the lowest cost without Wane.

    `who` is the strategy with its budget, such as `cwl at 80,000 tokens`.
    """
    twice = f"; {baselines.twice}" if baselines.managed and totals.reread_cost else ""
    return f"{capital(_compared(baselines, totals, who))}{twice}"


def prices_used(sessions: Iterable[tuple[RecordedSession, Pricing]]) -> str:
    """Return the models whose prices the replays of sessions take, to follow the words "prices of"."""
    used, unknown = Counter[str](), Counter[str]()
    assumed: dict[str, None] = {}
    for session, pricing in sessions:
        for call in session.own_calls or session.calls:
            prices = pricing.prices_for(call)
            used[pricing.whose(prices or pricing.prices)] += 1
            if prices is None:
                unknown[call.priced_as or ""] += 1
                assumed[pricing.prices.name] = None
    counts = ", ".join(f"{name} ({calls_of(number)})" for name, number in used.most_common())
    models = counts if len(used) > 1 else next(iter(used))
    return f"{models}; {unknown_prices(unknown)}, so those of {', '.join(assumed)} are used" if unknown else models


def capital(text: str) -> str:
    """Return a text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def _compared(baselines: Baselines, totals: Totals, who: str) -> str:
    after, before = totals.full_cost, baselines.lowest()
    if before is None:
        return f"{dollars(after)} with {who}, simulated; there is no cost without Wane to compare it with"
    again = " with fetching again" if totals.reread_cost else ""
    same = " over the calls that were replayed" if baselines.recorded.left_out else ""
    sides = f"{before} → {dollars(after)} with {who}, simulated{again}{same}"
    if not before.cost and not after:
        return f"{sides}: these prices are zero"
    if after < NOTABLE * before.cost:
        return f"{sides}: {'' if before.covers else 'at least '}{share(1 - after / before.cost)} less"
    return f"No saving {'here' if before.covers else 'can be shown'}: {sides}"


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
    return {
        "recorded": baselines.recorded.to_dict(unevicted),
        "none_possible": baselines.possible,
        "lowest": None if lowest is None else {"cost_usd": lowest.cost, "what": lowest.label, "bound": lowest.bound},
    }
