"""A round with the provider: its message, own calls, and the usage that it reports, which is summed and priced here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from wane.core.errors import ConfigError, MissingExtraError
from wane.prices import CacheUse, Prices

Message = dict[str, Any]
"""A message of the wire's format."""

Tally: TypeAlias = Callable[[Any, Any], Any]
"""Combines the usage of earlier rounds with that of a later one; each is JSON data, or None if not reported."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The usage that a provider reported for one request, in tokens.

    Attributes:
        input: all input tokens, including those read from or written to a cache.
        output: tokens of the reply, including its reasoning.
        cache_read: how many of `input` were read from the provider's cache.
        cache_write: how many of `input` were written to it.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """Return the usage of both requests."""
        return TokenUsage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


NO_USAGE: Final = TokenUsage(0, 0)
"""No usage at all."""


@dataclass(frozen=True, slots=True)
class OwnCall:
    """A call of one of the proxy's own tools.

    Attributes:
        id: the provider's id, which its result repeats.
        tool: the tool's name.
        arguments: the raw JSON arguments, as the model wrote them.
    """

    id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one request to the provider.

    Attributes:
        message: the assistant's message in the format, including own calls, as the provider accepts it in later
            requests: with unchanged signatures, encrypted reasoning and ids.
        own: complete calls of the proxy's own tools, in order.
        calls: number of calls that the client must answer.
        complete: whether the model ended by itself, and was not cut off by a limit, a pause or a refusal.
        usage: its usage; None if the provider did not report it.
    """

    message: Message
    own: tuple[OwnCall, ...] = ()
    calls: int = 0
    complete: bool = True
    usage: TokenUsage | None = None

    @property
    def alone(self) -> bool:
        """Whether the model made only own calls, so that it must be asked again."""
        return bool(self.own) and not self.calls and self.complete


class Rounds:
    """The completed rounds of one reply for the client.

    Args:
        own: names of the proxy's own tools.
        tally: combines the usage of several rounds.
        head: keys of a reply, such as its id, that the client gets from the first round.

    Attributes:
        own: see above.
        done: the rounds.
        usage: their combined usage, as the provider reports it; None if it reported none.
    """

    def __init__(self, own: frozenset[str], tally: Tally, head: tuple[str, ...]) -> None:
        self.own = own
        self.done: list[Round] = []
        self.usage: Any = None
        self._tally, self._keys = tally, head
        self._head: dict[str, Any] = {}

    @property
    def id(self) -> object:
        """The reply's id, which is that of the first round; None if it is unknown."""
        return self._head.get("id")

    def identify(self, said: dict[str, Any]) -> None:
        """Take the head from the beginning of a reply; the very first may have an empty one."""
        if not self._head and said.get("id"):
            self._head = {key: said[key] for key in self._keys if key in said}

    def under_head(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return part of a later round's reply with the head of the first."""
        return {**said, **{key: value for key, value in self._head.items() if key in said}}

    def usage_with(self, usage: Any) -> Any:
        """Return the usage of the completed rounds and of one more."""
        return self._tally(self.usage, usage)

    def add(self, round_: Round, usage: Any) -> Round:
        """Complete a round with the usage that the provider reported for it, and return it."""
        self.done.append(round_)
        self.usage = self.usage_with(usage)
        return round_


@dataclass(frozen=True, slots=True)
class WovenRound:
    """One round in the history that the provider sees.

    Attributes:
        message: the assistant's message of the round.
        results: messages with the results of its own calls, right after it; empty if it made none.
    """

    message: Message
    results: tuple[Message, ...] = ()


def summed(before: Any, more: Any) -> Any:
    """Return the sum of two usages, field by field; other values are those of the later one.

    Args:
        before: usage of earlier rounds, as JSON data; None if none was reported.
        more: usage of a later round.
    """
    if before is None or more is None:
        return before if more is None else more
    if isinstance(before, Mapping) and isinstance(more, Mapping):
        keys = [*before, *(key for key in more if key not in before)]
        return {key: summed(before.get(key), more.get(key)) for key in keys}
    if _is_number(before) and _is_number(more):
        return before + more
    return more


def latest(before: Any, more: Any) -> Any:
    """Return the usage of the latest round that reported one: the size of the model's context, not the total usage."""
    return before if more is None else more


def count(usage: object, *path: str) -> int:
    """Return one count of a usage, in tokens; 0 if it is missing or not a count.

    Args:
        usage: the usage, as JSON data.
        path: the keys that lead to the count.
    """
    for key in path:
        usage = usage.get(key) if isinstance(usage, Mapping) else None
    return max(0, usage) if isinstance(usage, int) and not isinstance(usage, bool) else 0


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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
