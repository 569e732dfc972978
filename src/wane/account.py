"""The account of a session's model calls: which calls and tokens count, and what they cost.

The same rules hold for `wane demo`, `show`, `view`, `replay`, `tune`, the agent's footer and the proxy:

- Every model call of the session counts once: those of the agent, those that wrote a summary, and the rounds that Wane
  made for its own tools. The calls of a session that it branches off from count there.
- All tokens of a call count: input read from the provider's cache, input written to it, all other input, and output
  with its reasoning, at the prices of the model that was called and of the time of the call (`wane.prices`).
- Fetching evicted content again is a call like any other once it has happened. A replay can only estimate it, so it
  names that part.
- A usage that sums up several samplings, such as those of an advisor, counts each at the price of its own model.
- A call without usage or without a price makes the cost a lower bound, which is written with the number of calls that
  it covers. So does one with fees of unknown amount, such as for some of the provider's own tools, and one whose output
  was not reported: what its text counts is said beside the bound, and is no part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field, fields, replace
from typing import Any, Final

from wane.core.light import light_dataclass
from wane.journal.records import Record, SamplingUsage, UsageParts, UsageRecord, model_calls
from wane.money import dollars
from wane.prices import NO_USAGE, TokenUsage


@light_dataclass(frozen=True, slots=True)
class Account:
    """The calls, tokens and dollars of some model calls.

    Attributes:
        calls: number of calls.
        priced: number of calls that `at_least` covers.
        estimated: number of calls that reported no output, so that their output was counted by its text.
        input_tokens: input tokens, including those read from or written to a cache.
        output_tokens: output tokens, those counted by their text included.
        cache_read_tokens: input tokens read from the provider's cache.
        cache_write_tokens: input tokens written to it.
        at_least: dollars for the calls whose usage and price are known, and the known part of what others cost; without
            output that was not reported.
        assumed: number of those that took the prices of another model, by that model.
        guessed: dollars for the output of `estimated` calls; they are in no other figure, as a count by text may be too
            high.
    """

    calls: int = 0
    priced: int = 0
    estimated: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    at_least: float = 0.0
    assumed: Counter[str] = field(default_factory=Counter)
    guessed: float = 0.0

    @classmethod
    def of(cls, records: Iterable[Record]) -> Account:
        """Return the account of a saved session."""
        account = cls()
        for call in model_calls(list(records)):
            account = account.plus(usage_of(call), call.cost, at_least=call.cost_at_least, assumed=call.assumed)
        return account

    def plus(
        self,
        usage: TokenUsage | None,
        cost: float | None,
        *,
        at_least: float = 0.0,
        guessed: float | None = None,
        assumed: str = "",
    ) -> Account:
        """Return the account with one more call.

        Args:
            usage: what the provider reported; None if unknown.
            cost: dollars; None if they, or a part of them, are unknown.
            at_least: the known part then.
            guessed: dollars for output that was not reported, by a count of its text, not in `cost`; None if it was.
            assumed: the model whose prices the cost takes, where none are known for the one that was called.
        """
        used = usage or TokenUsage(0, 0)
        return Account(
            self.calls + 1,
            self.priced + (cost is not None),
            self.estimated + (guessed is not None),
            self.input_tokens + used.input,
            self.output_tokens + used.output,
            self.cache_read_tokens + used.cache_read,
            self.cache_write_tokens + used.cache_write,
            self.at_least + (at_least if cost is None else cost),
            self.assumed + Counter([assumed]) if assumed else self.assumed,
            self.guessed + (guessed or 0.0),
        )

    def minus(self, earlier: Account) -> Account:
        """Return the account of the calls after `earlier`."""
        return Account(
            **{field.name: getattr(self, field.name) - getattr(earlier, field.name) for field in fields(self)}
        )

    def __add__(self, other: Account) -> Account:
        """Return the account of the calls of both."""
        return Account(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})

    @property
    def known(self) -> bool:
        """Whether the cost of any call is known, at least in part."""
        return bool(self.priced or self.at_least)

    @property
    def complete(self) -> bool:
        """Whether the cost covers every call, and all of its output."""
        return self.priced == self.calls and not self.estimated

    @property
    def cost(self) -> float | None:
        """Dollars for all calls; None if the cost of any call is unknown."""
        return self.at_least if self.complete else None

    @property
    def estimate(self) -> float:
        """Dollars for all calls, with the mean cost for calls of unknown cost; 0 if no cost is known."""
        return self.at_least * self.calls / self.priced if self.priced else 0.0

    def describe(self, verb: str = "") -> str:
        """Return the cost in words: `$0.42`, `at least $20.32 (213 of 214 calls)` or `cost unknown`.

        Where prices of another model stand in, it says whose: `$0.42 at the prices of openai:gpt-5.2`. A `verb` stands
        behind the dollars, as in `$0.42 spent`.
        """
        spent = " ".join(filter(None, (dollars(self.at_least), verb)))
        whose, assumed = self.assumption, self.assumed.total()
        if whose:
            whose = f" {whose}" if assumed == self.priced else f", {assumed:,} of its calls {whose}"
        if self.complete:
            return f"{spent}{whose}"
        if not self.known:
            return "cost unknown"
        notes = [f"{self.priced:,} of {self.calls:,} calls"] if 0 < self.priced < self.calls else []
        if self.estimated:
            notes.append(f"without the output of {self.estimated:,} {'call' if self.estimated == 1 else 'calls'}")
        covered = f" ({', '.join(notes)})" if notes else ""
        return f"at least {spent}{whose}{covered}"

    @property
    def assumption(self) -> str:
        """Whose prices stand in for unknown ones, in words, to stand beside the dollars; empty if none do."""
        return f"at the prices of {', '.join(sorted(self.assumed))}" if self.assumed else ""

    @property
    def brief(self) -> str:
        """The cost in a word or two: `$0.42`, `≥$20.32` if it does not cover every call, `cost unknown` for none."""
        if self.complete:
            return dollars(self.at_least)
        return f"≥{dollars(self.at_least)}" if self.known else dollars(None)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data, with the keys that every command uses.

        `cost_usd` is null unless it covers every call with its output; `cost_at_least_usd` covers `priced_calls` of
        them, without output that was not reported, and what is known of others. `assumed_prices` counts those that took
        the prices of another model, by that model.
        """
        return {
            "model_calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "cost_usd": None if self.cost is None else round(self.cost, 6),
            "cost_at_least_usd": round(self.at_least, 6),
            "priced_calls": self.priced,
            "assumed_prices": dict(self.assumed),
        }


NOTHING: Final = Account()
"""The account of no calls."""


def usage_of(call: UsageRecord) -> TokenUsage:
    """Return the usage in a record."""
    usage = _tokens(call)
    parts = call.parts
    if parts is None:
        return usage
    return replace(
        usage,
        samplings=tuple((sampling.model, _tokens(sampling)) for sampling in parts.samplings),
        first=NO_USAGE if parts.first is None else _tokens(parts.first),
        fees=parts.fees,
        further_fees=parts.further_fees,
    )


def parts_of(usage: TokenUsage, at_least: float = 0.0) -> UsageParts | None:
    """Return what a usage sums up, for its record; None if it is that of one sampling, without fees.

    Args:
        usage: the usage.
        at_least: dollars of the call that are known, where its cost is not.
    """
    if usage.first is None and not usage.fees and not usage.further_fees and not at_least:
        return None
    first = usage.of_request
    return UsageParts(
        _sampling("", first) if first.input else None,
        tuple(_sampling(model, sampled) for model, sampled in usage.samplings),
        usage.fees,
        usage.further_fees,
        at_least,
    )


def _tokens(call: UsageRecord | SamplingUsage) -> TokenUsage:
    return TokenUsage(
        call.input_tokens,
        call.output_tokens,
        call.cache_read_tokens,
        call.cache_write_tokens,
        call.cache_write_hour_tokens,
        call.tier if isinstance(call, SamplingUsage) else "",
    )


def _sampling(model: str, usage: TokenUsage) -> SamplingUsage:
    return SamplingUsage(
        model,
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        usage.cache_write_hour,
        usage.tier,
    )
