"""The replay: runs one strategy over one recorded session, call by call, and prices and judges it.

It is open-loop: the agent's recorded output stays the same, whatever the strategy evicts. Nobody knows how the agent
would have worked otherwise; `wane.lab.loss` measures what it would have missed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median
from time import perf_counter
from typing import Final

from wane.caches import CacheRules, rules_for
from wane.core import Added, Kind, chars
from wane.lab.cache.prefix import PrefixCache, common_prefix
from wane.lab.counting import Material
from wane.lab.loss import CallLoss, Index, Loss
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane.lab.replaying.over import ROOM, Filling
from wane.lab.replaying.replay_figures import CallFigures, Totals
from wane.lab.replaying.trace import Trace
from wane.prices import CacheUse, Cost, Prices, at_tier, prices_of, split_tier
from wane.strategies.strategy import Slot, Strategy, Substitute, SummaryNeeded
from wane.strategies.summarised import SUMMARY_TOKENS
from wane.strategies.window_strategy import WindowStrategy

REREAD_OUTPUT: Final = 50
"""Output tokens of a tool call that fetches something again."""


@dataclass(frozen=True, slots=True)
class Pricing:
    """The prices of a replay.

    Attributes:
        prices: prices of tokens, of the model with the most calls.
        rules: rules of the provider's cache.
        hour: whether the cache is written for an hour, by most calls at least; see `by_call`.
        forced: whether all calls write it so, whatever was recorded.
        models: recorded models with their prices, the usual model first; None for unknown prices, for which replays
            take `prices`. None if `prices` are those of all calls.
    """

    prices: Prices
    rules: CacheRules
    hour: bool = False
    forced: bool = False
    models: tuple[tuple[str, Prices | None], ...] | None = None

    @classmethod
    def of(cls, model: str, *, hour: bool = False) -> Pricing:
        """Return the prices and cache rules of a `provider:model`, cached for an hour if the provider offers that.

        Raises:
            ConfigError: for a model without known prices.
            MissingExtraError: without the extra `lab`.
        """
        prices = Prices.of(model)
        return cls(prices, rules_for(prices.provider, prices.model)).cached_for(hour=hour)

    def cached_for(self, *, hour: bool) -> Pricing:
        """Return the same prices and rules with a cache that is written for an hour, if the provider offers that."""
        rules = rules_for(self.prices.provider, self.prices.model, hour=True)
        if not hour or self.hour or rules == rules_for(self.prices.provider, self.prices.model):
            return self
        return replace(self, rules=rules, hour=True)

    def by_call(self, session: RecordedSession) -> list[Pricing]:
        """Return the prices and rules of each call: its cache is written for as long as the recorded call asked for."""
        if self.forced or not any(call.usage and call.usage.cache_write for call in session.calls):
            return [self] * len(session.calls)
        other = self.cached_for(hour=True)
        if self.hour:
            other = replace(self, rules=rules_for(self.prices.provider, self.prices.model), hour=False)
        return [self if hour == self.hour else other for hour in session.hours]

    def __str__(self) -> str:
        return self.whose(self.prices)

    def whose(self, prices: Prices) -> str:
        """Return the name of prices, and for how long the cache is written if that is not the shortest time."""
        return f"{prices.name}{' with 1-hour cache writes' if self.hour else ''}"

    @classmethod
    def of_recording(cls, session: RecordedSession, otherwise: Pricing) -> Pricing:
        """Return the prices of the models that a session recorded; the usual one is the one with the most calls.

        If no model was recorded, or the prices of the usual one are not known, its prices are those of `otherwise`.
        """
        counted = [*session.calls, *session.asides, *session.abandoned, *(total for total, _ in session.totals)]
        for call in session.calls:
            counted += call.samplings
        calls = Counter(name for call in counted if (name := call.priced_as))
        models = tuple((model, _resolve_prices(model)) for model, _ in calls.most_common())
        name, prices = models[0] if models else ("", None)
        usual = replace(cls.of(name), prices=prices) if prices else otherwise
        return replace(usual, models=models)

    @property
    def own(self) -> bool:
        """Whether the prices are those of the model that the session recorded."""
        return bool(self.models and self.models[0][1])

    @property
    def own_window(self) -> int | None:
        """Tokens of the window of the model that the session recorded; None if it is not known."""
        return self.prices.window if self.own else None

    def prices_for(self, call: ModelCall) -> Prices | None:
        """Return the prices of the model that a recorded call had; None if they are not known."""
        if self.models is None:
            return self.prices
        name = call.priced_as or ""
        for model, prices in self.models:
            if model == name:
                return prices
        return None

    def cost(self, use: CacheUse, output: int, call: ModelCall | None = None) -> Cost:
        """Return the cost of a simulated call, by model and time of the recorded one; None for the usual model."""
        prices = self.prices if call is None else self.prices_for(call) or self.prices
        timed = replace(use, hour=use.written) if self.hour else use
        return prices.cost(timed, output, at=None if call is None else moment(call))

    def further(self, call: ModelCall) -> Cost | None:
        """Return the cost of what else was sampled for a recorded call, and of fees; None if a price is unknown.

        No strategy changes it: what an advisor read is not known but by its tokens.
        """
        total = Cost(fee=call.usage.fees if call.usage is not None else 0.0)
        for sampling in call.samplings:
            prices, usage = self.prices_for(sampling), sampling.usage
            if prices is None or usage is None:
                return None
            total += prices.cost(usage.use, usage.output or 0, at=moment(sampling))
        return total


def _resolve_prices(model: str) -> Prices | None:
    prices = prices_of(model)
    if prices is None:
        return None
    return replace(prices, name=at_tier(f"{prices.provider}:{prices.model}", split_tier(model)[1]))


def moment(call: ModelCall) -> datetime | None:
    """Return when a call was made; None if that was not recorded."""
    return None if call.at is None else datetime.fromtimestamp(call.at, UTC)


@dataclass(frozen=True, slots=True)
class Subject:
    """A session prepared for any number of replays.

    Attributes:
        material: the session, counted.
        index: the needs of its calls.
        summary_tokens: length of a summary that a strategy asks for.
    """

    material: Material
    index: Index
    summary_tokens: int

    @classmethod
    def of(cls, material: Material, summary_tokens: int | None = None) -> Subject:
        """Prepare a session; by default, summaries have the median length of recorded ones, or else SUMMARY_TOKENS."""
        if not summary_tokens:
            recorded = [chars(compaction.summary) for compaction in material.session.compactions if compaction.summary]
            summary_tokens = round(median(recorded)) if recorded else SUMMARY_TOKENS
        return cls(material, Index(material.session, [item.tokens for item in material.items]), summary_tokens)


@dataclass(frozen=True, slots=True)
class Replay:
    """The figures of one strategy on one session, in total and by model call; and a trace, if one was asked for."""

    session: str
    strategy: str
    budget: int
    totals: Totals
    calls: tuple[CallFigures, ...]
    trace: Trace | None = None


def replay(
    subject: Subject,
    strategy: Strategy,
    budget: int,
    pricing: Pricing,
    *,
    trace: bool = False,
) -> Replay:
    """Run a strategy over a session.

    Args:
        subject: the session.
        strategy: a new one, made with this budget and the session's overhead.
        budget: tokens that a view may hold.
        pricing: prices and cache rules.
        trace: whether to record what left the view, and when.
    """
    run = _Run(subject, strategy, budget, pricing, Trace(subject.material) if trace else None)
    for number in range(len(subject.material.session.calls)):
        run.call(number)
    return run.result()


class _Run:
    def __init__(
        self, subject: Subject, strategy: Strategy, budget: int, pricing: Pricing, trace: Trace | None
    ) -> None:
        material = subject.material
        self._subject = subject
        self._session = material.session
        self._material = material
        self._strategy = strategy
        self._budget = budget
        self._pricings = pricing.by_call(material.session)
        self._pricing = self._pricings[0] if self._pricings else pricing  # of the latest call
        self._usual = pricing
        self._trace = trace
        self._tokens = [item.tokens for item in material.items]
        self._cache = PrefixCache(pricing.rules, material.overhead, kinds=material.kinds, system=material.system)
        self._loss = Loss(subject.index)
        first = self._session.calls[0].first if self._session.calls else 0
        self._filling = Filling(material.items, material.overhead, first)
        self._view: list[Slot] = []
        self._added = 0
        self._at: float | None = None
        self._cost = Cost()
        self._own = Totals()
        self._breaks_before = 0  # in calls that count for another session
        self._over: Counter[str] = Counter()
        self._budget_used, self._raised = budget, 0
        self._seconds = 0.0
        self._calls: list[CallFigures] = []
        self._comparable = comparable_costs(material, pricing)

    def call(self, number: int) -> None:
        """Make one model call: add the parts before it, fit the view, and take the figures."""
        call = self._session.calls[number]
        started = perf_counter()
        self._feed(call.first, number)
        cold = call.at is not None and self._at is not None and call.at - self._at > self._pricing.rules.lifetime
        self._pricing = self._pricings[number]
        self._cache.rules = self._pricing.rules
        outcome = self._strategy.fit(cold=cold)
        seconds = perf_counter() - started
        own = Totals()
        while isinstance(outcome, SummaryNeeded):
            own += self._summary_call(outcome, call)
            started = perf_counter()
            # The text of the summary is unknown: it has only a length.
            outcome = self._strategy.take_summary("", self._expected_tokens(outcome))
            seconds += perf_counter() - started
        if self._trace:
            self._trace.observe(number, outcome)
        # Most views only grow, so the view is compared once for all below.
        same = common_prefix(self._view, outcome.view, outcome.same)
        removed, entered = self._view[same:], outcome.view[same:]
        self._view[same:] = entered
        head = self._strategy.fixed_head if isinstance(self._strategy, WindowStrategy) else 0
        use = self._cache.request(self._view, self._tokens, call.at, same=same, head=head)
        loss = self._loss.observe(number, self._view, same)
        cost = self._pricing.cost(use, self._material.output_tokens[number], call)
        cost += self._pricing.further(call) or Cost()
        self._filling.change(removed, entered)
        budget = outcome.report.budget_used if outcome.report else self._budget
        if not call.inherited:
            self._raised += budget > self._budget
            self._budget_used = max(self._budget_used, budget)
        if use.total > self._budget and not call.inherited:
            latest = self._session.calls[number - 1].first if number else 0
            pinned = outcome.report.pinned if outcome.report else None
            within = use.total <= budget
            self._over[ROOM if within else self._filling.why_over(budget, latest, call.first, pinned)] += 1
        if call.inherited:
            self._breaks_before = self._cache.prefix_breaks
        else:
            self._cost += cost
            self._seconds += seconds
        if own.own_calls and not call.inherited:
            self._own += own
        spent = cost.total + own.own_cost.total
        again = self._reread_cost(loss, use, call)
        figures = CallFigures(use.total, use.read, use.written, spent, outcome.ran, own.own_calls, loss, again)
        self._calls.append(figures)
        self._at = call.at if call.at is not None else self._at

    def result(self) -> Replay:
        # Inherited calls count for another session.
        since = sum(call.inherited for call in self._session.calls)
        calls = self._calls[since:]
        beside = [call for call, cost in zip(self._calls, self._comparable, strict=True) if cost is not None]
        totals = self._own + Totals(
            calls=len(calls),
            cost=self._cost,
            read=sum(call.read for call in calls),
            written=sum(call.written for call in calls),
            fresh=sum(call.tokens - call.read - call.written for call in calls),
            output=sum(self._material.output_tokens[since:]),
            viewed=sum(call.tokens for call in calls),
            peak=max((call.tokens for call in calls), default=0),
            over=self._over,
            budget_used=self._budget_used,
            raised=self._raised,
            passes=sum(call.ran for call in calls),
            prefix_breaks=self._cache.prefix_breaks - self._breaks_before,
            reread_cost=sum(call.again for call in calls),
            beside=sum(call.cost + call.again for call in beside),
            beside_calls=len(beside),
            floor=floor(self._material, self._usual),
            seconds=self._seconds,
            loss=self._loss.totals(),
        )
        name = self._strategy.name
        return Replay(self._session.name, name, self._budget, totals, tuple(self._calls), self._trace)

    def _feed(self, stop: int, call: int) -> None:
        strategy = self._strategy
        for index in range(self._added, stop):
            item, part = self._material.items[index], self._session.parts[index]
            if isinstance(strategy, WindowStrategy) and strategy.host is not None:
                added: Added | None = strategy.add(item, part, self._session.marks.get(index, ()))
            else:
                added = strategy.add(item, part)
            if self._trace and added:
                self._trace.note(call, index, added)
        self._added = max(self._added, stop)

    def _summary_call(self, needed: SummaryNeeded, call: ModelCall) -> Totals:
        """Make a model call of the strategy's own: it reads the current view and writes a summary."""
        instructions = Substitute(needed.instructions, chars(needed.instructions))
        use = self._cache.request([*needed.view, instructions], self._tokens, call.at, aside=True)
        output = self._expected_tokens(needed)
        return Totals(
            own_calls=1,
            own_cost=self._pricing.cost(use, output, call),
            read=use.read,
            written=use.written,
            fresh=use.fresh,
            output=output,
        )

    def _expected_tokens(self, needed: SummaryNeeded) -> int:
        """Return the tokens of an answer that is not written."""
        return self._subject.summary_tokens if needed.expected is None else needed.expected

    def _reread_cost(self, loss: CallLoss, use: CacheUse, call: ModelCall) -> float:
        """Return the dollars of fetches: each is a call over a view that is cached by then, and adds new input."""
        if not loss.reread.results:
            return 0.0
        fetch = self._pricing.cost(CacheUse(read=use.total, written=0, fresh=0), REREAD_OUTPUT, call).total
        new = new_input(loss.reread.tokens, self._pricing.rules)
        return loss.reread.results * fetch + self._pricing.cost(new, 0, call).total


def comparable_costs(material: Material, pricing: Pricing) -> list[float | None]:
    """Return, by model call, the cost of its recorded usage, where a simulated cost can stand beside it.

    It is by the price list, as the simulated one is, and None where the two would not be alike: a call that counts
    elsewhere, without usage or without a price; and a session that recorded nothing of the cache, which the simulation
    has.
    """
    session = material.session
    if not _shows_cache(session, pricing):
        return [None] * len(session.calls)
    costs = []
    for call, output in zip(session.calls, material.output_tokens, strict=True):
        costs.append(None if call.inherited else recorded_cost(call, output, pricing))
    return costs


def recorded_cost(call: ModelCall, output: int, pricing: Pricing) -> float | None:
    """Return the cost of a call's recorded usage by the price list; None if usage or price is not known.

    `output` is the call's output by its text, for a call whose usage has none.
    """
    prices, more = pricing.prices_for(call), pricing.further(call)
    if call.usage is None or not call.usage.total_input or prices is None or more is None:
        return None
    return own_cost(call, output, prices) + more.total


def own_cost(call: ModelCall, output: int, prices: Prices) -> float:
    """Return the cost of a call's usage, without further models that it asked; without a time, at the lowest price."""
    usage = call.usage
    assert usage is not None
    output = output if usage.output is None else usage.output
    # Nearly all prices never changed: then no call needs its time as a date.
    if call.at is None or len(prices.periods) == 1:
        return prices.least(usage.use, output).total
    return prices.cost(usage.use, output, at=moment(call)).total


def _shows_cache(session: RecordedSession, pricing: Pricing) -> bool:
    """Whether a session recorded what the cache did, or there was nothing that it could have done."""
    usages = [call.usage for call in session.calls if call.usage and call.usage.total_input]
    if any(usage.cache_read or usage.cache_write for usage in usages):
        return True
    return sum(usage.total_input >= pricing.rules.minimum for usage in usages) <= 1


def new_input(tokens: int, rules: CacheRules) -> CacheUse:
    """Return the use of input that is not in the cache yet."""
    return CacheUse(0, tokens, 0) if rules.charges_writes else CacheUse(0, 0, tokens)


def floor(material: Material, pricing: Pricing) -> float:
    """Return the dollars that no strategy can avoid.

    New input is paid once, output is paid, and every call reads from the cache the content that may never be evicted
    (the overhead, system items, user turns). A strategy that drops user turns can cost less.
    """
    grown, fixed_before = [0], [0]  # tokens before each item: of all items, and of those that may never be evicted
    for item in material.items:
        fixed = item.tokens if item.kind in (Kind.SYSTEM, Kind.USER) else 0
        grown.append(grown[-1] + item.tokens)
        fixed_before.append(fixed_before[-1] + fixed)
    total, previous, cached = 0.0, 0, 0
    pricings = pricing.by_call(material.session)
    for call, output, pricing in zip(material.session.calls, material.output_tokens, pricings, strict=True):
        new = grown[call.first] - grown[previous] + (0 if cached else material.overhead)
        # Too short for the cache: nothing is charged as written to it.
        short = cached + new < pricing.rules.minimum
        use = CacheUse(0, 0, new) if short else new_input(new, pricing.rules)
        if not call.inherited:
            cost = pricing.cost(CacheUse(cached, use.written, use.fresh), output, call)
            total += (cost + (pricing.further(call) or Cost())).total
        previous, cached = call.first, material.overhead + fixed_before[call.first]
    return total
