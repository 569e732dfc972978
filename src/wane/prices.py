"""What tokens cost, from the `genai-prices` package (extras `agent`, `lab` and `proxy`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from wane.core.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

_MILLION: Final = 1_000_000
_USUAL: Final = ("anthropic", "openai", "google", "deepseek")


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
class CacheUse:
    """Where the input tokens of one request came from.

    Attributes:
        read: tokens read from the cache.
        written: tokens written to it, if the provider charges for that.
        fresh: all others.
    """

    read: int
    written: int
    fresh: int

    @property
    def total(self) -> int:
        """All input tokens of the request."""
        return self.read + self.written + self.fresh


@dataclass(frozen=True, slots=True)
class Cost:
    """Dollars for a model call, by purpose.

    Attributes:
        read: input read from the cache.
        written: input written to it.
        fresh: all other input.
        output: output, reasoning included.
    """

    read: float = 0.0
    written: float = 0.0
    fresh: float = 0.0
    output: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.read + self.written + self.fresh + self.output

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.read + other.read,
            self.written + other.written,
            self.fresh + other.fresh,
            self.output + other.output,
        )


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars per token for requests of more than `above` input tokens.

    Attributes:
        above: input tokens above which these rates apply to all tokens of a request.
        input: input neither read from the cache nor written to it.
        read: input read from the cache.
        write: input written to the cache for the provider's shortest lifetime.
        write_hour: input written to it for an hour.
        output: output.
    """

    above: int
    input: float
    read: float
    write: float
    write_hour: float
    output: float


@dataclass(frozen=True, slots=True)
class Prices:
    """What one model costs.

    Attributes:
        name: `provider:model`, as asked for.
        provider: the provider in `genai-prices`.
        model: the model that the name was resolved to.
        tiers: rates by size of the request, smallest first.
    """

    name: str
    provider: str
    model: str
    tiers: tuple[Rates, ...]

    @classmethod
    def of(cls, name: str, on: datetime | None = None) -> Prices:
        """Return the prices of a model.

        Cache reads and writes cost what input costs where the provider has no price for them.

        Args:
            name: `provider:model`, such as `anthropic:claude-sonnet-5-5`; the provider may be left out if the model's
                name implies it.
            on: the time, where prices changed; noon (UTC) of today by default, so that prices by the hour do not
                make two runs of a day differ.

        Raises:
            ConfigError: if the model or provider has no prices; it suggests similar names.
            MissingExtraError: without `genai-prices`.
        """
        snapshot = _snapshot()
        given, _, reference = name.partition(":") if ":" in name else ("", "", name)
        try:
            provider, model = snapshot.find_provider_model(reference, None, given or None, None)
        except LookupError:
            raise ConfigError(_unknown(name)) from None
        prices = model.get_prices(on or datetime.combine(datetime.now(UTC), time(12), UTC))
        starts = {tier.start for price in _priced(prices) for tier in getattr(price, "tiers", ())}
        tiers = tuple(_rates(prices, above) for above in [0, *sorted(starts - {0})])
        if not tiers[0].input:
            raise ConfigError(f"{name!r} has no known price for input tokens; name another model")
        return cls(name, provider.id, model.id, tiers)

    def rates(self, total_input: int) -> Rates:
        """Return the rates of a request of `total_input` tokens, cached ones included."""
        return next((tier for tier in reversed(self.tiers) if total_input > tier.above), self.tiers[0])

    def cost(self, use: CacheUse, output: int = 0, *, hour: bool = False) -> Cost:
        """Return what a call cost.

        Args:
            use: its input.
            output: its output tokens.
            hour: whether the cache keeps what was written for an hour.
        """
        rates = self.rates(use.total)
        write = rates.write_hour if hour else rates.write
        return Cost(use.read * rates.read, use.written * write, use.fresh * rates.input, output * rates.output)


def cost_of(usage: TokenUsage, model: str) -> float | None:
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


def known_models() -> list[str]:
    """Return every model that has prices, as `provider:model`; those of the usual providers first.

    Raises:
        MissingExtraError: without `genai-prices`.
    """
    providers = sorted(_snapshot().providers, key=lambda it: (it.id not in _USUAL, it.id))
    return [f"{provider.id}:{model.id}" for provider in providers for model in provider.models]


def _snapshot() -> Any:
    try:
        from genai_prices import data_snapshot
    except ImportError:
        # `agent` and `proxy` bring it too, but this is the smallest.
        raise MissingExtraError("Pricing", "lab") from None
    return data_snapshot.get_snapshot()


def _unknown(name: str) -> str:
    names = known_models()
    close = get_close_matches(name.lower(), names, n=4, cutoff=0.6)
    if not close:
        bare = {known.rpartition(":")[2]: known for known in reversed(names)}
        close = [bare[model] for model in get_close_matches(name.lower().rpartition(":")[2], bare, n=4, cutoff=0.6)]
    hint = f"did you mean {', '.join(close)}?" if close else "give it as provider:model, such as openai:gpt-6.1-sol"
    return f"no prices are known for {name!r}; {hint}"


def _priced(prices: ModelPrice) -> Iterator[object]:
    for key in ("input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok", "output_mtok"):
        yield getattr(prices, key)


def _rates(prices: ModelPrice, above: int) -> Rates:
    fresh, read, write, hour, output = (_at(price, above) for price in _priced(prices))
    # What the provider does not price separately costs what input costs.
    fresh = fresh or 0.0
    write = fresh if write is None else write
    return Rates(above, fresh, fresh if read is None else read, write, write if hour is None else hour, output or 0.0)


def _at(price: object, above: int) -> float | None:
    """Return dollars per token of a request just above a threshold."""
    if price is None:
        return None
    tiers = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= above]
    amount = tiers[-1] if tiers else getattr(price, "base", price)
    assert isinstance(amount, Decimal)
    return float(amount / _MILLION)
