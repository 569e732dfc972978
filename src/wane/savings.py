"""What Wane changed of a session's cost: one estimate for `wane run`, the proxy, the status line and `wane view`.

Three costs of one session stand side by side:

- spent: what its calls cost, by the provider's reports;
- unevicted: the same calls with all of the history in each request;
- without Wane: the calls that the client would have made itself, with a history that has no marks and no recalled
  content, and without Wane's tools and guidance.

So *marks cost* unevicted less without Wane, and *eviction saved* unevicted less spent; both together are what Wane
changed. Where nothing was evicted, unevicted is what was spent, to the digit. A history only grows, so that it is read
from the provider's cache up to the end of the request before, less what the request that was sent could not read
although nothing had been evicted: what broke the cache then would have broken it in any case.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final

from wane.account import NOTHING, Account
from wane.core import Policy, chars
from wane.core.delimiter import DESCRIPTION, SCHEMA
from wane.core.guidance import guidance
from wane.money import dollars, round_dollars
from wane.prices import Bill, CacheUse, Prices, TokenUsage, at_tier, bill_of, listed_prices, prices_of
from wane.recall import RECALL_DESCRIPTION, RECALL_SCHEMA

LEAST_SCALE: Final = 0.3
MOST_SCALE: Final = 4.0
"""How many of the provider's tokens one of Wane's own count can be: beyond that, a request grew by something else."""


@dataclass(frozen=True, slots=True)
class Money:
    """The cost of model requests, and what it would have been otherwise.

    Attributes:
        account: what was spent.
        unevicted: dollars for the same requests, of those with a known cost, if nothing had been evicted.
        unmanaged: dollars without Wane, of the same.
    """

    account: Account = NOTHING
    unevicted: float = 0.0
    unmanaged: float = 0.0

    @property
    def marks_cost(self) -> float:
        """Dollars for marks, recalled content, and Wane's tools and guidance."""
        return self.unevicted - self.unmanaged

    @property
    def eviction_saved(self) -> float:
        """Dollars that eviction saved; negative if it cost more."""
        return self.unevicted - self.account.at_least

    @property
    def saved(self) -> float:
        """Dollars that Wane saved in all; negative if it cost more."""
        return self.unmanaged - self.account.at_least

    def minus(self, earlier: Money) -> Money:
        """Return the cost of the requests after `earlier`."""
        return Money(
            self.account.minus(earlier.account), self.unevicted - earlier.unevicted, self.unmanaged - earlier.unmanaged
        )

    def to_dict(self) -> dict[str, Any] | None:
        """Return it as JSON-able data; None if no cost is known."""
        if not self.account.known:
            return None
        return {
            "spent": round(self.account.at_least, 6),
            "unevicted": round(self.unevicted, 6),
            "unmanaged": round(self.unmanaged, 6),
            "calls": self.account.calls,
            "priced_calls": self.account.priced,
        }

    def __add__(self, other: Money) -> Money:
        return Money(self.account + other.account, self.unevicted + other.unevicted, self.unmanaged + other.unmanaged)


@dataclass(frozen=True, slots=True)
class CostChange:
    """What Wane changed of a cost, in dollars that add up as they are written.

    Attributes:
        spent: what was spent.
        marks: what marks cost.
        saved: what eviction saved.
        net: both, with the words `less` or `more`; `the same` for nothing.
        without: the cost without Wane.
    """

    spent: str
    marks: str
    saved: str
    net: str
    without: str

    @classmethod
    def of(cls, money: Money) -> CostChange:
        """Return what Wane changed."""
        spent, without = round_dollars(money.account.at_least), round_dollars(money.unmanaged)
        net = without - spent  # exact, with as many digits as the finer of the two
        saved = Decimal(money.eviction_saved).quantize(net)
        change = "the same"
        if net:
            change = f"{_with_sign(abs(net))} {'less' if net > 0 else 'more'}"
        ends = dollars(money.account.at_least), dollars(money.unmanaged)
        return cls(ends[0], _with_sign(saved - net), _with_sign(saved), change, ends[1])


def _with_sign(amount: Decimal) -> str:
    """Return dollars with the digits that they have, and the sign ahead; nothing has two digits."""
    sign = "-" if amount < 0 else ""
    return f"{sign}${abs(amount):,f}" if amount else dollars(0)


def described_effect(money: Money) -> str:
    """Return what Wane changed of a cost, in words. Empty for under a cent."""
    if not round(money.marks_cost, 2) and not round(money.eviction_saved, 2):
        return ""
    effect = CostChange.of(money)
    verb = "cost" if effect.saved.startswith("-") else "saved"
    return (
        f"about: marks cost {effect.marks}, eviction {verb} {effect.saved.removeprefix('-')}, "
        f"in all {effect.net} than without Wane"
    )


@cache
def own_overhead(*, tasks: bool = False) -> int:
    """Return the tokens that Wane's guidance and tools add to each request of a model that marks its work."""
    tools = json.dumps([DESCRIPTION, SCHEMA, RECALL_DESCRIPTION, RECALL_SCHEMA])
    return chars(guidance(Policy(), recall=True, tasks=tasks)) + chars(tools)


class Scale:
    """The provider's tokens for one of Wane's own count, by how much requests grew from which nothing left."""

    def __init__(self) -> None:
        self._sent = self._history = self._evicted = 0  # of the latest request with more history
        self._reported = self._counted = 0

    def take(self, sent: int, history: int, evicted: int) -> float:
        """Take in a request with its reported tokens, and return the scale so far; 1 as long as it is unknown."""
        counted, reported = history - self._history, sent - self._sent
        if counted > 0:
            if self._sent and evicted == self._evicted and LEAST_SCALE * counted <= reported <= MOST_SCALE * counted:
                self._reported += reported
                self._counted += counted
            self._sent, self._history, self._evicted = sent, history, evicted
        return self._reported / self._counted if self._counted else 1.0


class SavingsMeter:
    """Adds up the three costs of one session, request by request.

    Attributes:
        money: the costs so far.
        followed: the part of them that was read from records: of earlier runs, and of other processes.
        unlisted: the models without known prices of which a cost is unknown, or at the prices of another model; not
            those of `followed`.
    """

    def __init__(self) -> None:
        self.money = self.followed = Money()
        self.unlisted: dict[str, None] = {}
        self._caches = False
        self._writes = False
        self._hour = False
        self._sent = 0  # tokens of the previous request
        self._whole = 0  # the same with the whole history
        self._own = 0  # tokens of it that are Wane's
        self._evicted = 0  # tokens that the previous request did not show
        self._scale = Scale()

    def add(
        self,
        usage: TokenUsage,
        model: str,
        evicted: int,
        *,
        own: int = 0,
        history: int = 0,
        replied: bool = True,
        at: datetime | None = None,
        prices: Prices | None = None,
        bill: Bill | None = None,
    ) -> None:
        """Take in a request.

        Args:
            usage: its usage, as the provider reported it; without input if it reported none.
            model: its model.
            evicted: tokens of the history that it did not show, by Wane's own count, like the next two.
            own: tokens of the history that are Wane's, evicted or not, and those of its tools and guidance.
            history: tokens of the whole history, evicted or not; 0 if unknown: then the provider counts as Wane does.
            replied: whether the client would have made it, as it does not make further rounds for Wane's own tools.
            at: when; None for now.
            prices: those of the model, if they are known; None to look them up.
            bill: what it costs, if that is known already; None to price the usage.
        """
        if usage.input <= 0:
            cost = None if bill is None else bill.cost
            self.money += Money(Account().plus(None, cost, assumed="" if bill is None else bill.assumed))
            return
        self._caches |= usage.cache_read + usage.cache_write > 0
        self._writes |= usage.cache_write > 0
        if usage.cache_write:
            self._hour = 2 * usage.cache_write_hour > usage.cache_write
        request = usage.of_request
        sent = request.input or usage.input
        ratio = self._scale.take(sent, history, evicted)
        whole = sent + round(evicted * ratio)
        plain = max(0, whole - round(own * ratio))
        bill = bill or bill_of(usage, model, at)
        spent = bill.cost
        served = at_tier(model, usage.tier)
        prices = prices or prices_of(served)
        read = self._read(usage, sent, evicted, whole)
        # Of a cost that is not known whole, the known part would have been otherwise.
        known = bill.at_least
        unevicted = unmanaged = known
        if prices is not None:
            own_cost = prices.cost(request.use, usage.output, at=at).total
            other = max(0.0, known - own_cost)  # such as an advisor: it would have cost the same
            # A provider may charge less than the list: then it would have charged less for more tokens, too.
            rebate = min(1.0, known / own_cost) if own_cost else 1.0
            if evicted:
                unevicted = rebate * prices.cost(self._use(whole, read), usage.output, at=at).total + other
            unmanaged = unevicted
            if own:
                # What is new of Wane's own would not have been there to be paid.
                fresh = min(plain, max(0, whole - read - round((own - self._own) * ratio)))
                cost_of_plain = prices.cost(self._use(plain, plain - fresh), usage.output, at=at).total
                unmanaged = rebate * cost_of_plain + other
        if not replied:
            unmanaged = 0.0
        if (spent is None or bill.assumed) and listed_prices(served) is None:
            self.unlisted[model] = None
        self.money += Money(Account().plus(usage, spent, at_least=known, assumed=bill.assumed), unevicted, unmanaged)
        self._sent, self._whole, self._own, self._evicted = sent, whole, own, evicted

    def _read(self, usage: TokenUsage, sent: int, evicted: int, whole: int) -> int:
        """Return the tokens that a request with the whole history would have read from the cache."""
        if not self._caches or not usage.cache_read:
            return 0
        if not evicted:
            return usage.cache_read
        missed = 0
        if evicted == self._evicted:
            missed = max(0, min(self._sent, sent) - usage.cache_read)
        return max(0, min(self._whole, whole) - missed)

    def _use(self, total: int, read: int) -> CacheUse:
        uncached = total - read
        written = uncached if self._writes else 0
        return CacheUse(read, written, uncached - written, written if self._hour else 0)
