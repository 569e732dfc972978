"""The account of a session's model calls: which calls and tokens count, and what they cost.

The same rules hold for `wane demo`, `show`, `view`, `replay`, `tune`, the agent's footer and the proxy:

- Every model call of the session counts once: those of the agent, those that wrote a summary, and the rounds that Wane
  made for its own tools. The calls of a session that it branches off from count there.
- All tokens of a call count: input read from the provider's cache, input written to it, all other input, and output
  with its reasoning, at the prices of the model that was called and of the time of the call (`wane.prices`).
- Fetching evicted content again is a call like any other once it has happened. A replay can only estimate it, so it
  names that part.
- A call without usage or without a price makes the cost a lower bound, which is written with the number of calls that
  it covers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final

from wane.journal.records import Record, UsageRecord, model_calls
from wane.money import dollars
from wane.prices import TokenUsage


@dataclass(frozen=True, slots=True)
class Account:
    """The calls, tokens and dollars of some model calls.

    Attributes:
        calls: number of calls.
        priced: number of calls that `at_least` covers.
        estimated: number of calls that reported no output, so that their output was counted by its text.
        input_tokens: input tokens, including those read from or written to a cache.
        output_tokens: output tokens.
        cache_read_tokens: input tokens read from the provider's cache.
        cache_write_tokens: input tokens written to it.
        at_least: dollars for the calls whose usage and price are known.
    """

    calls: int = 0
    priced: int = 0
    estimated: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    at_least: float = 0.0

    @classmethod
    def of(cls, records: Iterable[Record]) -> Account:
        """Return the account of a saved session."""
        account = cls()
        for call in model_calls(list(records)):
            account = account.plus(usage_of(call), call.cost)
        return account

    def plus(self, usage: TokenUsage | None, cost: float | None, *, estimated: bool = False) -> Account:
        """Return the account with one more call.

        Args:
            usage: what the provider reported; None if unknown.
            cost: dollars; None if the price is unknown.
            estimated: whether the output was not reported.
        """
        used = usage or TokenUsage(0, 0)
        return Account(
            self.calls + 1,
            self.priced + (cost is not None),
            self.estimated + estimated,
            self.input_tokens + used.input,
            self.output_tokens + used.output,
            self.cache_read_tokens + used.cache_read,
            self.cache_write_tokens + used.cache_write,
            self.at_least + (cost or 0.0),
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
    def complete(self) -> bool:
        """Whether the cost covers every call."""
        return self.priced == self.calls

    @property
    def cost(self) -> float | None:
        """Dollars for all calls; None if the cost of any call is unknown."""
        return self.at_least if self.complete else None

    @property
    def estimate(self) -> float:
        """Dollars for all calls, with the mean cost for calls of unknown cost; 0 if no cost is known."""
        return self.at_least * self.calls / self.priced if self.priced else 0.0

    def describe(self) -> str:
        """Return the cost in words: `$0.42`, `at least $20.32 (213 of 214 calls)` or `cost unknown`."""
        if self.complete:
            return dollars(self.at_least)
        if not self.priced:
            return "cost unknown"
        return f"at least {dollars(self.at_least)} ({self.priced:,} of {self.calls:,} calls)"

    @property
    def brief(self) -> str:
        """The cost in one word: `$0.42`, `≥$20.32` if it does not cover every call, `$?` if it covers none."""
        if self.complete:
            return dollars(self.at_least)
        return f"≥{dollars(self.at_least)}" if self.priced else dollars(None)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data, with the keys that every command uses.

        `cost_usd` is null unless it covers every call; `cost_at_least_usd` covers `priced_calls` of them.
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
        }


NOTHING: Final = Account()
"""The account of no calls."""


def usage_of(call: UsageRecord) -> TokenUsage:
    """Return the usage in a record."""
    return TokenUsage(
        call.input_tokens,
        call.output_tokens,
        call.cache_read_tokens,
        call.cache_write_tokens,
        call.cache_write_hour_tokens,
    )
