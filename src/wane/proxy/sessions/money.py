"""The cost of a session, and an estimate of its cost without eviction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from wane.core.errors import ConfigError, MissingExtraError
from wane.prices import CacheUse, Prices
from wane.proxy.wire.base import TokenUsage


@dataclass(frozen=True, slots=True)
class Money:
    """The cost of requests, in dollars.

    Attributes:
        spent: their cost, by the provider's reports and the price list.
        unmanaged: an estimate of the cost of the same replies with the whole history in each request. It counts evicted
            tokens as further input, and assumes a perfect prefix cache: read up to the end of the previous request,
            unless the provider read nothing at all.
    """

    spent: float = 0.0
    unmanaged: float = 0.0

    def __add__(self, other: Money) -> Money:
        return Money(self.spent + other.spent, self.unmanaged + other.unmanaged)


class Ledger:
    """The cost of one session's requests.

    Attributes:
        money: the cost of all requests so far; None if the price of one of their models is unknown.
    """

    def __init__(self) -> None:
        self.money: Money | None = Money()
        self._caches = False
        self._writes = False
        self._before = 0

    def add(self, usage: TokenUsage, model: str, evicted: int, *, replied: bool = True) -> None:
        """Take in a request.

        Args:
            usage: its usage, as the provider reported it.
            model: its model.
            evicted: tokens of the history that it did not show.
            replied: whether it would have been made without Wane, unlike further rounds for own tools.
        """
        self._caches |= usage.cache_read + usage.cache_write > 0
        self._writes |= usage.cache_write > 0
        total = usage.input + evicted
        read = min(self._before, total) if self._caches and usage.cache_read else 0
        self._before = total
        prices, spent = prices_of(model), cost(usage, model)
        if self.money is None or prices is None or spent is None:
            self.money = None
            return
        rest = total - read
        whole = CacheUse(read, rest, 0) if self._writes else CacheUse(read, 0, rest)
        self.money += Money(spent, prices.cost(whole, usage.output).total if replied else 0.0)


def cost(usage: TokenUsage, model: str) -> float | None:
    """Return the cost of a request in dollars; None if the model's price is unknown."""
    prices = prices_of(model)
    if prices is None:
        return None
    fresh = max(usage.input - usage.cache_read - usage.cache_write, 0)
    return prices.cost(CacheUse(usage.cache_read, usage.cache_write, fresh), usage.output).total


@lru_cache(maxsize=256)
def prices_of(model: str) -> Prices | None:
    """Return the prices of a model; None if they are unknown."""
    try:
        return Prices.of(model)
    except (ConfigError, MissingExtraError):
        return None
