"""What sessions come to, in three figures: their cost with and without Wane, what stayed in view, the user's messages.

Each figure comes with how it was computed, line by line. The sentence of `wane.lab.report.headline` says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from wane.lab.best_budget import GAIN
from wane.lab.counting import Material
from wane.lab.loss import LossTotals
from wane.lab.replaying.compare import BASELINE, Comparison, cheaper_clause
from wane.lab.replaying.managed import money_of
from wane.lab.replaying.recorded import RecordedViews
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.strategy_replay import Pricing
from wane.lab.replaying.studying import Studied, budgets_told
from wane.lab.replaying.verdict import NOTABLE, OURS, Baselines, amounts, capital, prices_used, savings, with_room
from wane.lab.report.headline import recorded_loss
from wane.lab.report.simulating import Simulated
from wane.lab.sweep import Sweep
from wane.lab.tuning import Tuning
from wane.money import dollars, share
from wane.savings import CostChange
from wane.words import name_strategy

UNKNOWN: Final = "not known"

_FETCHED_TOO: Final = (
    "Calls that fetched content again count on both sides, though most would not have been made without Wane: the "
    "saving is at most that."
)

Line = tuple[str, str, bool]
"""A label, its figure, and whether it is the sum of the lines above."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure.

    Attributes:
        what: what it is.
        value: the figure.
        beside: what follows it in small letters; may be empty.
        then: what follows from it.
        bound: what it holds for.
        lines: how it was computed.
        notes: sentences below these lines.
    """

    what: str
    value: str
    beside: str
    then: str
    bound: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


def tiles_of(material: Material, simulated: Simulated) -> tuple[Tile, Tile, Tile]:
    """Return the three figures of a session, with Wane as it was simulated or, if it was at work, as recorded."""
    if material.session.managed:
        loss = recorded_loss(material)
        return _managed_cost(material, simulated.pricing), _in_view(loss), _messages(loss, None)
    baselines, totals = Baselines.of(material, simulated.pricing, simulated.baseline), simulated.replay.totals
    prices = prices_used([(material.session, simulated.pricing)])
    cost = _cost(baselines, totals, f"{simulated.replay.budget:,} tokens", prices)
    return cost, _in_view(totals.loss), _messages(totals.loss, material)


def tiles_of_comparison(comparison: Comparison) -> tuple[Tile, ...]:
    """Return the three figures of compared sessions with Wane, and what would have cost less; none without Wane."""
    if OURS not in comparison.names:
        return ()
    totals = comparison.totals(OURS)
    budgets = budgets_told(comparison.budget, comparison.studied)
    cost = _cost(comparison.baselines(), totals, budgets, _prices(comparison.studied))
    if cheaper := comparison.cheaper():
        cost = replace(cost, bound=f"{cost.bound} {capital(cheaper)}.")
    return cost, _in_view(totals.loss), _messages(totals.loss, None)


def tiles_of_sweep(sweep: Sweep) -> tuple[Tile, ...]:
    """Return the recommended budget, its cost and what stays in view; none without Wane."""
    chosen = sweep.recommended
    if chosen is None or chosen.budget is None:
        return ()
    tried = {point.budget or 0: (point.totals.full_cost, point.totals.kept) for point in sweep.of(OURS)}
    rivals = [(point.strategy, point.budget, point.totals) for point in sweep.points]
    cost = _cost(sweep.baselines, chosen.totals, f"{chosen.budget:,} tokens", _prices(sweep.studied))
    cost = _with_cheaper(cost, sweep.baselines, chosen.totals, rivals)
    return _budget("Recommended budget", chosen.budget, tried, sweep.reason), cost, _in_view(chosen.totals.loss)


def tiles_of_tuning(tuning: Tuning) -> tuple[Tile, ...]:
    """Return the recommended budget, its cost and what stays in view."""
    chosen = tuning.chosen
    same = [candidate for candidate in tuning.candidates if candidate.policy == chosen.policy]
    tried = {candidate.budget: (candidate.cost, candidate.kept) for candidate in same}
    changes = [f"{name.replace('_', ' ')} {value}" for name, value in chosen.departures.items()]
    why = f"With {', '.join(changes) or 'the default policy'}."
    if tuning.unfilled:
        why = "These sessions fill none that was tried."
    elif edge := tuning.edges.get("budget"):
        why += f" It is the {edge} that was tried: a {'smaller' if edge == 'lowest' else 'larger'} one may be better."
    rivals = [(rival.value, chosen.budget, rival.totals) for rival in tuning.rivals]
    cost = _cost(tuning.baselines, chosen.totals, f"{chosen.budget:,} tokens", _prices(tuning.studied))
    cost = _with_cheaper(cost, tuning.baselines, chosen.totals, rivals)
    return _budget("Recommended budget", chosen.budget, tried, why), cost, kept_tile(tuning)


def kept_tile(tuning: Tuning) -> Tile:
    """Return the share that the chart of the page has: of names, and of edits with the file in view."""
    chosen, dear = tuning.chosen, tuning.frontier[-1]
    loss = chosen.totals.loss
    bound = f"The mean of {share(loss.reference_recall)} of names and {share(loss.edit_grounding)} of edits."
    if not loss.edits:
        bound = "Of the names that later calls used."
    if dear.kept > chosen.kept + GAIN:
        extra = dollars(dear.cost - chosen.cost)
        bound += f" Most is kept at {dear.budget:,} tokens: {share(dear.kept)}, for {extra} more."
    names = f"{loss.in_view:,} of {loss.uses:,}"
    lines: tuple[Line, ...] = (
        ("earlier names that calls used, in view", names, False),
        ("edits with the file's latest read in view", f"{loss.grounded:,} of {loss.edits:,}", False),
    )
    return Tile("Of what was needed later, still in view", share(chosen.kept), "", "with names and edits", bound, lines)


def _budget(what: str, chosen: int, tried: Mapping[int, tuple[float, float]], why: str) -> Tile:
    """Return the tile of a budget; `tried` has the cost and the kept share of each that was tried."""
    note = "Kept is the mean of two shares: of names that later calls used, and of edits with the file in view."
    lines = [
        (f"{budget:,} tokens", f"{dollars(cost)}, {share(rate)} kept", budget == chosen)
        for budget, (cost, rate) in sorted(tried.items())
    ]
    then = f"of {len(tried)} that were tried" if len(tried) > 1 else "the only one that was tried"
    return Tile(what, f"{chosen:,}", "tokens", then, why, tuple(lines), (note,))


Rival: TypeAlias = tuple[str, int | None, Totals]
"""A strategy, its budget, and its figures."""


def _with_cheaper(tile: Tile, baselines: Baselines, totals: Totals, rivals: Iterable[Rival]) -> Tile:
    """Return the tile of a cost, with the other strategy that would have cost least, if it is clearly cheaper."""
    before = baselines.lowest()

    def cost_of(figures: Totals) -> float:
        return before.with_wane(figures)[0] if before else figures.full_cost

    others = [rival for rival in rivals if rival[0] not in (OURS, BASELINE)]
    if not others:
        return tile
    name, budget, figures = min(others, key=lambda rival: cost_of(rival[2]))
    if cost_of(figures) >= NOTABLE * cost_of(totals):
        return tile
    cheaper = cheaper_clause(f"{capital(name_strategy(name))} at {budget:,}", cost_of(figures), figures)
    return replace(tile, bound=f"{tile.bound} {cheaper}.")


def _prices(studied: Iterable[Studied]) -> str:
    return prices_used((prepared.recording.session, prepared.pricing) for prepared in studied)


def _cost(baselines: Baselines, totals: Totals, budget: str, prices: str) -> Tile:
    what = "Cost, without and with Wane"
    twice = (f"{capital(baselines.twice)}.",) if baselines.evicted and totals.reread_cost else ()
    notes = (f"{capital(baselines.describe())}.", f"Prices of {prices}.", *twice)
    at_budget = f"at {with_room(budget, totals.raised_to)}"
    before = baselines.lowest()
    if not totals.passes:
        recorded = baselines.recorded
        who = "The session fits" if baselines.sessions == 1 else "The sessions fit"
        fits = f"{who}: nothing leaves the view {at_budget}."
        if not recorded.spent.known:
            return Tile(what, UNKNOWN, "", "", fits, (), notes)
        value = f"{'' if recorded.complete else '≥'}{dollars(recorded.paid)}"
        return Tile(what, value, "", "the same with Wane", fits, (), notes)
    again: tuple[Line, ...] = ()
    if totals.reread_cost:
        again = (("fetching again, a part of it", dollars(totals.reread_cost), False),)
    if before is None:
        alone: tuple[Line, ...] = (("with Wane, simulated", dollars(totals.full_cost), False), *again)
        unknown = "With Wane; the cost without it is not known."
        return Tile(what, dollars(totals.full_cost), "", "", unknown, alone, notes)
    low, high = before.with_wane(totals)
    worst, best = before.saving(totals)
    with_wane, _, up_to = amounts(low, high).partition(" to ")
    lines: list[Line] = [(before.label, dollars(before.cost), False)]
    if before.missed:
        lines.append(("of it for cache misses that no strategy causes", dollars(before.missed), False))
    lines += [("with Wane, simulated, with fetching again", dollars(low), False), *again]
    if before.missed:
        lines.append(("with Wane, had it met these cache misses as well", dollars(high), False))
    then = savings(worst, best, bound=before.bound)
    if best <= 1 - NOTABLE:
        then = "no saving" if not before.bound else "no saving can be shown"
    mark = "≥" if before.bound else ""
    if before.guessed:
        mark = "≈"
    over = "" if before.share == 1 else f", over {share(min(before.share, 0.999))} of the calls"
    return Tile(
        what,
        f"{mark}{dollars(before.cost)} → {with_wane}",
        up_to and f"to {up_to}",
        then,
        f"{capital(before.label)}; with Wane {at_budget}, simulated{over}.",
        tuple(lines),
        notes,
    )


def _managed_cost(material: Material, pricing: Pricing) -> Tile:
    what = "Cost, without and with Wane"
    money = money_of(material, pricing)
    account = money.account
    passes = len(material.session.evictions)
    ran = f"Wane set something aside {_times(passes)}." if passes else "Wane set nothing aside."
    if not account.known:
        return Tile(what, UNKNOWN, "", "", f"No call with a known price was recorded. {ran}", ())
    bound = "" if account.complete else "≥"
    effect = CostChange.of(money)
    lines: tuple[Line, ...] = (
        ("spent, as recorded", effect.spent, False),
        ("marks, recalled content and Wane's tools cost", effect.marks, False),
        ("eviction saved", effect.saved, False),
        ("without Wane, estimated", effect.without, True),
    )
    value = f"{effect.without} → {bound}{effect.spent}"
    return Tile(what, value, "", effect.net, f"Estimated from the recorded calls. {ran}", lines, (_FETCHED_TOO,))


def _in_view(loss: LossTotals) -> Tile:
    what = "Of what was needed later, still in view"
    note = "What counts are names, such as files and identifiers, that calls used and that had come up before."
    if not loss.uses:
        return Tile(what, "none", "", "nothing was needed", "No later call used a name from before.", (), (note,))
    low, high = share(loss.reference_recall), share(loss.reference_recall_at_best)
    missing, fetches = loss.uses - loss.in_view, loss.reread.results
    bound = "All of it was there."
    if missing:
        others = "The other one" if missing == 1 else f"The other {missing:,}"
        bound = f"{others} had left"
        bound += f": fetched again {_times(fetches)}, counted in the cost." if fetches else "."
    lines: list[Line] = [
        ("earlier names that calls used", f"{loss.uses:,}", False),
        ("of them in view", f"{loss.in_view:,}", False),
        ("results fetched again for the others", f"{fetches:,}", False),
    ]
    if loss.edits:
        lines.append(("edits with the file's latest read in view", f"{loss.grounded:,} of {loss.edits:,}", False))
    beside = "" if low == high else f"to {high}"
    return Tile(what, low, beside, f"{loss.in_view:,} of {loss.uses:,} times", bound, tuple(lines), (note,))


def _messages(loss: LossTotals, recorded: Material | None) -> Tile:
    """Return the user's messages with Wane, and beside them those that were kept as recorded."""
    what = "Your messages, word for word"
    turns = loss.user_turns
    if not turns:
        return Tile(what, "0", "", "none to keep", "Nobody wrote anything in this session.", ())
    kept = turns - loss.user_turns_lost
    bound = ""
    lines: list[Line] = [("your messages", f"{turns:,}", False), ("kept by Wane to the end", f"{kept:,}", False)]
    if recorded is not None:
        held, compactions = _held_at_last(recorded), len(recorded.session.compactions)
        lines.append(("held by the last call as recorded", f"{held:,}", False))
        bound = f"As recorded, the last call held {held:,}"
        if compactions and held < turns:
            others = "the others" if held else "them"
            summaries = "a summary" if compactions == 1 else f"{compactions:,} summaries"
            bound += f"; {summaries} had replaced {others}"
        bound += "."
    return Tile(what, f"{kept:,}", f"of {turns:,}", "kept by Wane", bound, tuple(lines))


def _held_at_last(material: Material) -> int:
    """Return how many of the user's messages the last call of the recording held."""
    session = material.session
    if not session.calls:
        return 0
    view = RecordedViews(session, material.kinds).of(session.calls[-1])
    users = set(session.user_turns)
    return sum(1 for slot in view if isinstance(slot, int) and slot in users)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"
