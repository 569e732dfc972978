"""What a recorded session cost by its recorded usage, and how large its requests were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from wane.account import Account
from wane.lab.counting import Material
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.strategy_replay import Pricing, own_cost
from wane.money import dollars
from wane.prices import Cost, TokenUsage, varies_by_region

RECORDED: Final = "as recorded"
"""The name of the recording in a comparison."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded sessions, for comparison with replays; several add up with `+`.

    Attributes:
        account: the account of the model calls, by the recorded usage.
        summaries: summaries whose model calls were not recorded.
        calls: model calls, without those that wrote summaries.
        reported: those of `calls` with recorded input.
        viewed: their input tokens.
        peak: input tokens of the largest of them.
        over: those over the budget.
        unpriced: the number of calls without known prices by model; an empty name if no model was recorded.
        undated: calls without a time whose model has had several prices; they count at the lowest.
        open_ended: calls whose price goes by a region or a deployment that nobody recorded; they count at the lowest.
        asides: the account of those calls that were no part of the conversation, such as those that wrote summaries. No
            replay makes them, so that a verdict leaves them out.
        abandoned: the account of the calls on abandoned branches. They were paid, so that they are in `cost_usd`, but
            no replay makes them, so that there is no ratio then.
        unread: records that could not be read; if they held model calls, these are in neither.
    """

    account: Account = field(default_factory=Account)
    summaries: int = 0
    calls: int = 0
    reported: int = 0
    viewed: int = 0
    peak: int = 0
    over: int = 0
    unpriced: Counter[str] = field(default_factory=Counter)
    undated: int = 0
    open_ended: int = 0
    asides: Account = field(default_factory=Account)
    abandoned: Account = field(default_factory=Account)
    unread: int = 0

    @classmethod
    def of(cls, material: Material, pricing: Pricing, budget: int) -> Recorded:
        """Return the account of a session, with the requests over a budget."""
        session = material.session
        sizes = [call.usage.total_input for call in session.own_calls if call.usage and call.usage.total_input]
        counted = [*session.own_calls, *session.own_asides, *session.abandoned]
        priced = [(call, pricing.prices_for(call)) for call in counted if _to_price(call, pricing)]
        return cls(
            account=account_of(session, material.output_tokens, pricing),
            summaries=max(0, len(session.compactions) - len(session.asides)),
            calls=len(session.own_calls),
            reported=len(sizes),
            viewed=sum(sizes),
            peak=max(sizes, default=0),
            over=sum(size > budget for size in sizes),
            unpriced=Counter(call.priced_as or "" for call, prices in priced if prices is None),
            undated=sum(call.at is None and prices is not None and len(prices.periods) > 1 for call, prices in priced),
            open_ended=sum(prices is not None and is_open_ended(call) for call, prices in priced),
            asides=account_of_calls(session.own_asides, pricing),
            abandoned=account_of_calls(session.abandoned, pricing),
            unread=session.unread,
        )

    def __add__(self, other: Recorded) -> Recorded:
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return Recorded(**{**sums, "peak": max(self.peak, other.peak)})

    @property
    def complete(self) -> bool:
        """Whether the cost covers every model call that the recording agent made, as far as is known."""
        return self.covers and self.abandoned.complete and not self.left_out

    @property
    def covers(self) -> bool:
        """Whether the cost covers every model call that a replay makes, and those that wrote summaries."""
        return self.account.complete and not (self.summaries or self.undated)

    @property
    def spent(self) -> Account:
        """The account of all recorded calls, those on abandoned branches included."""
        return self.account + self.abandoned

    @property
    def left_out(self) -> str:
        """What is in neither the cost nor a replay, in words; empty if nothing."""
        return left_out(self.abandoned.calls - self.abandoned.priced, self.unread)

    @property
    def paid(self) -> float:
        """Dollars for all recorded calls whose usage and price are known, those on abandoned branches included."""
        return self.spent.at_least

    @property
    def bounded(self) -> list[str]:
        """Keys of the figures in its row that are lower bounds."""
        figures = {"cost_usd": self.complete, "total_usd": self.complete, "ratio": self.covers}
        return [key for key, exact in figures.items() if not exact]

    @property
    def bounds(self) -> str:
        """What the cost leaves out or estimates, in words; empty if nothing."""
        account = self.account
        notes: list[str] = []
        if 0 < account.priced < account.calls:
            notes.append(f"{account.priced:,} of {account.calls:,} calls")
        if self.unpriced:
            notes.append(unknown_prices(self.unpriced))
        if account.assumed:
            notes.append(f"{calls_of(account.assumed.total())} {account.assumption}")
        if self.open_ended:
            notes.append(f"{calls_of(self.open_ended)} at the lowest price of the provider")
        if account.known and self.summaries:
            notes.append(f"without {unrecorded_summaries(self.summaries)}")
        if self.asides.priced:
            aside = calls_of(self.asides.calls)
            notes.append(f"with {dollars(self.asides.at_least)} for {aside} beside the conversation")
        if self.abandoned.priced:
            notes.append(f"with {dollars(self.abandoned.at_least)} for abandoned branches")
        if self.left_out:
            notes.append(f"without {self.left_out}")
        if self.undated:
            notes.append(f"{calls_of(self.undated)} without a time at the lowest price of the model")
        if estimated := self.spent.estimated:
            notes.append(unrecorded_output(estimated, account.guessed))
        return ", ".join(notes)

    def row(self, baseline: Totals) -> dict[str, Any]:
        """Return the figures that a recording has, by column of a comparison.

        It has no recall or grounding, because the model could only use what it saw; fetching again is in its cost.
        Figures in `bounded` are lower bounds. The ratio is to `baseline`, the totals of `none` on the same sessions. It
        is missing where calls on abandoned branches were paid, which `none` does not make.
        """
        account = self.account
        paid = self.paid if self.spent.known else None
        alike = paid is not None and baseline.dollars and not self.abandoned.known
        return {
            "cost_usd": paid,
            "total_usd": paid,
            "ratio": self.paid / baseline.dollars if alike else None,
            "view_tokens": self.viewed / self.reported if self.reported else None,
            "peak_tokens": self.peak or None,
            "over": self.over if self.reported == self.calls else None,
            "cached": account.cache_read_tokens / account.input_tokens if account.input_tokens else None,
        }

    def to_dict(self, baseline: Totals) -> dict[str, Any]:
        """Return it as JSON-able data."""
        row = self.row(baseline)
        return {
            **self.spent.to_dict(),
            **row,
            "cost_usd": row["cost_usd"] if self.complete else None,
            "total_usd": row["total_usd"] if self.complete else None,
            "output_estimated_calls": self.spent.estimated,
            "output_estimated_usd": self.spent.guessed,
            "summaries_left_out": self.summaries,
            "unpriced_models": dict(self.unpriced),
            "undated_calls": self.undated,
            "abandoned_calls": self.abandoned.calls,
            "abandoned_calls_left_out": self.abandoned.calls - self.abandoned.priced,
            "abandoned_usd": self.abandoned.at_least,
            "unread_records": self.unread,
            "complete": self.complete,
        }


def account_of(session: RecordedSession, outputs: Sequence[int], pricing: Pricing) -> Account:
    """Return the account of a session's model calls, by the recorded usage; `outputs` are those of `Material`.

    A cost that the recording states counts as it is, unless the session is priced as another model.
    """
    account = Account()
    if session.totals:
        return _account_of_totals(session, pricing)
    for call, counted in zip(session.calls, outputs, strict=True):
        if not call.inherited:
            account = with_call(account, call, counted, pricing)
    return account + account_of_calls(session.own_asides, pricing)


def _account_of_totals(session: RecordedSession, pricing: Pricing) -> Account:
    """Return the account of a session that recorded the sums of its calls alone; the cost is a lower bound.

    The size of each request is unknown, so that the price of the smallest ones counts.
    """
    account = Account()
    exact = True
    for total, _ in session.totals:
        usage, prices = total.usage, pricing.prices_for(total)
        if usage is None or prices is None:
            account, exact = account.plus(None, None), False
            continue
        output = usage.output or 0
        tokens = TokenUsage(usage.total_input, output, usage.cache_read, usage.cache_write, usage.cache_write_hour)
        exact = exact and len(prices.periods) == len(prices.tiers) == 1
        account = account.plus(tokens, prices.least_of_sum(usage.use, output, total.at).total)
    calls = sum(number for _, number in session.totals)
    if not account.priced:
        return replace(account, calls=calls)
    return replace(account, calls=calls, priced=calls if exact else calls - 1)


def account_of_calls(calls: Iterable[ModelCall], pricing: Pricing) -> Account:
    """Return the account of calls that are not in a session's history, by the recorded usage; see `account_of`."""
    account = Account()
    for call in calls:
        account = with_call(account, call, 0, pricing)
    return account


def left_out(abandoned: int, unread: int) -> str:
    """Return in words that calls on abandoned branches, and unreadable records, are left out; empty for none."""
    parts = []
    if abandoned:
        parts.append(f"{calls_of(abandoned)} on abandoned branches")
    if unread:
        parts.append(f"what {unread:,} unreadable {'record' if unread == 1 else 'records'} held")
    return " and ".join(parts)


def unrecorded_summaries(number: int) -> str:
    """Return in words the calls that wrote summaries and were not recorded."""
    return f"the calls that wrote {'a summary' if number == 1 else f'{number:,} summaries'}"


def unrecorded_output(calls: int, amount: float) -> str:
    """Return in words that a cost is without the output of some calls, and what that costs by a count of its text."""
    about = f" (about {dollars(amount)} by its text)" if amount else ""
    return f"without the output of {calls_of(calls)}, which was not recorded{about}"


def calls_of(number: int) -> str:
    """Return a number of calls in words."""
    return f"{number:,} {'call' if number == 1 else 'calls'}"


def unknown_prices(models: Mapping[str, int]) -> str:
    """Return that no prices are known for calls of these models; an empty name if no model was recorded."""
    parts = []
    for model, number in models.items():
        calls = calls_of(number)
        parts.append(f"the {calls} of {model}" if model else f"{calls} without a recorded model")
    return f"no prices are known for {' and '.join(parts)}"


def _to_price(call: ModelCall, pricing: Pricing) -> bool:
    """Whether a call's recorded usage must be priced, because no cost is stated that counts."""
    return bool(call.usage and call.usage.total_input) and (call.cost is None or pricing.models is None)


def is_open_ended(call: ModelCall) -> bool:
    """Whether a call's price by the list is a lower bound, because it goes by what nobody recorded."""
    return varies_by_region(call.provider) or (call.usage is not None and call.usage.further_fees)


def with_call(account: Account, call: ModelCall, counted: int, pricing: Pricing) -> Account:
    """Return an account with one more recorded call; `counted` is its output by its text, if that was not reported."""
    usage, prices = call.usage, pricing.prices_for(call)
    if usage is None or not usage.total_input:
        stated = pricing.models is not None
        # Older versions of Copilot CLI record the output alone.
        reported = None if usage is None else TokenUsage(0, usage.output or 0)
        return account.plus(reported, call.cost if stated else None, assumed=call.assumed if stated else "")
    output = counted if usage.output is None else usage.output
    tokens = TokenUsage(usage.total_input, output, usage.cache_read, usage.cache_write, usage.cache_write_hour)
    for sampling in call.samplings:
        if (sampled := sampling.usage) is not None:
            tokens += TokenUsage(sampled.total_input, sampled.output or 0, sampled.cache_read, sampled.cache_write)
    if not _to_price(call, pricing):
        return account.plus(tokens, call.cost, assumed=call.assumed)
    if prices is None:
        return account.plus(tokens, None)
    # A count of its text may be more than the output was.
    least, guessed = own_cost(call, 0, prices), None
    if usage.output is None:
        guessed = own_cost(call, counted, prices) - least
    further = pricing.further(call)  # None if the price of an advisor's model is unknown
    if further is None or is_open_ended(call):
        return account.plus(tokens, None, at_least=least + (further or Cost()).total, guessed=guessed)
    return account.plus(tokens, least + further.total, guessed=guessed)
