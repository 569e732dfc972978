"""What model calls cost, by the price list of the package `genai-prices` (extras `agent`, `lab` and `proxy`).

All of Wane prices a call here: what a provider reported, with `cost_of`, and what a simulation estimates, with
`Prices.cost`. Both count the same: input read from the cache, input written to it, all other input, output with its
reasoning, and the provider's fee for the request if it has one. `wane.account` says which calls count.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wane.core.errors import ConfigError, MissingExtraError
from wane.core.light import light_dataclass
from wane.replacing import replace_file

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

_MILLION: Final = 1_000_000
_USUAL: Final = ("anthropic", "openai", "google", "deepseek")


@light_dataclass(frozen=True, slots=True)
class TokenUsage:
    """The usage that a provider reported for one request, in tokens.

    Attributes:
        input: all input tokens, including those read from or written to a cache.
        output: tokens of the reply, including its reasoning.
        cache_read: how many of `input` were read from the provider's cache.
        cache_write: how many of `input` were written to it.
        cache_write_hour: how many of those are to live for an hour, which Anthropic charges more for.
        tier: how the request was served, if that changes its price: see `at_tier`; empty for the usual way.
        samplings: the usages that it sums up, each with the model that sampled (empty for the one that was asked), if
            the provider tells them apart: the passes of a loop over the provider's own tools, an advisor, a compaction.
        first: where it is a sum, the usage of the sampling that read the request as it was sent; without input if the
            provider does not tell it apart. None if the whole usage is that of one sampling.
        fees: dollars for what the provider charges besides tokens, such as searches.
        further_fees: whether there may be more such fees, of unknown amount.
        charged: dollars that the provider says the whole request costs, as OpenRouter does; None if it does not say.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0
    tier: str = ""
    samplings: tuple[tuple[str, TokenUsage], ...] = ()
    first: TokenUsage | None = None
    fees: float = 0.0
    further_fees: bool = False
    charged: float | None = None

    @classmethod
    def total(cls, samplings: Sequence[tuple[str, TokenUsage]], first: TokenUsage) -> TokenUsage:
        """Return the usage of a request that took several samplings, each at the price of its model.

        Args:
            samplings: their usages, each with its model; empty for the one that was asked.
            first: the usage of the one that read the request as it was sent.
        """
        summed = sum((usage for _, usage in samplings), start=cls(0, 0))
        return replace(summed, tier=first.tier, samplings=tuple(samplings), first=first)

    @property
    def of_request(self) -> TokenUsage:
        """The usage of the sampling that read the request as it was sent; without input if that is not known.

        Only it tells the size of the window, and what was read from the cache of the request before.
        """
        return self if self.first is None else self.first

    @property
    def use(self) -> CacheUse:
        """Where its input came from."""
        fresh = max(self.input - self.cache_read - self.cache_write, 0)
        return CacheUse(self.cache_read, self.cache_write, fresh, self.cache_write_hour)

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """Return the tokens of both requests."""
        return TokenUsage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.cache_write_hour + other.cache_write_hour,
            fees=self.fees + other.fees,
            further_fees=self.further_fees or other.further_fees,
        )


NO_USAGE: Final = TokenUsage(0, 0)
"""No usage at all."""


@light_dataclass(frozen=True, slots=True)
class CacheUse:
    """Where the input tokens of one request came from.

    Attributes:
        read: tokens read from the cache.
        written: tokens written to it, if the provider charges for that.
        fresh: all others.
        hour: how many of `written` are to live for an hour.
    """

    read: int
    written: int
    fresh: int
    hour: int = 0

    @property
    def total(self) -> int:
        """All input tokens of the request."""
        return self.read + self.written + self.fresh


@light_dataclass(frozen=True, slots=True)
class Cost:
    """Dollars for a model call, by purpose.

    Attributes:
        read: input read from the cache.
        written: input written to it.
        fresh: all other input.
        output: output, reasoning included.
        fee: the provider's fee for the request itself.
    """

    read: float = 0.0
    written: float = 0.0
    fresh: float = 0.0
    output: float = 0.0
    fee: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.read + self.written + self.fresh + self.output + self.fee

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.read + other.read,
            self.written + other.written,
            self.fresh + other.fresh,
            self.output + other.output,
            self.fee + other.fee,
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
        fee: dollars for the request itself.
    """

    above: int
    input: float
    read: float
    write: float
    write_hour: float
    output: float
    fee: float = 0.0


@dataclass(frozen=True, slots=True)
class Period:
    """When some rates apply, and the rates.

    Attributes:
        tiers: rates by size of the request, smallest first.
        since: the first day, in UTC; None if the list names none.
        hours: the times of day between which they apply, in UTC, past midnight if the first is later; None for all day.
    """

    tiers: tuple[Rates, ...]
    since: date | None = None
    hours: tuple[time, time] | None = None

    def applies(self, at: datetime) -> bool:
        """Return whether the rates apply at a time, given with its time zone."""
        utc = at.astimezone(UTC)
        if self.since is not None and utc.date() < self.since:
            return False
        if self.hours is None:
            return True
        start, end = self.hours
        if end < start:
            return utc.time() >= start or utc.time() < end
        return start <= utc.time() < end

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        tiers = [astuple(rates) for rates in self.tiers]
        hours = [hour.isoformat() for hour in self.hours or ()]
        return {"tiers": tiers, "since": self.since and self.since.isoformat(), "hours": hours}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Period:
        """Return the period that `to_dict` wrote."""
        hours = [time.fromisoformat(hour) for hour in data["hours"]]
        since = date.fromisoformat(data["since"]) if data["since"] else None
        return cls(tuple(Rates(*rates) for rates in data["tiers"]), since, (hours[0], hours[1]) if hours else None)


@dataclass(frozen=True, slots=True)
class Prices:
    """What one model costs.

    Attributes:
        name: `provider:model`, as asked for.
        provider: the provider in `genai-prices`.
        model: the model that the name was resolved to.
        periods: rates by time; of those that apply to a request, the last counts.
        window: tokens that a request may hold, by the price list; None if it does not say.
    """

    name: str
    provider: str
    model: str
    periods: tuple[Period, ...]
    window: int | None = None

    @classmethod
    def of(cls, name: str) -> Prices:
        """Return the prices of a model.

        Cache reads and writes cost what input costs where the provider has no price for them. A model that the list
        names without any price is free.

        Args:
            name: `provider:model`, such as `anthropic:claude-sonnet-5-5`; the provider may be left out if the model's
                name implies it. After `scripted:`, the model whose place a script takes. It may end in a tier, as
                `at_tier` writes it.

        Raises:
            ConfigError: if the model or provider has no prices for tokens; it suggests similar names.
            MissingExtraError: without `genai-prices`.
        """
        if (known := listed_prices(name)) is not None:
            return known
        try:
            prices = _look_up(name)
        except LookupError:
            # Only here, as the search for similar names takes some milliseconds.
            raise ConfigError(_unknown(name)) from None
        if prices is None:
            tier = split_tier(name)[1]
            what = f"at the tier {tier!r}" if tier else "for input tokens"
            raise ConfigError(f"{name!r} has no known price {what}; name another model{' or tier' if tier else ''}")
        return prices

    @property
    def free(self) -> bool:
        """Whether nothing has a price."""
        return all(rates.input == rates.output == rates.fee == 0 for period in self.periods for rates in period.tiers)

    def rates(self, total_input: int, at: datetime | None = None) -> Rates:
        """Return the rates of a request.

        Args:
            total_input: its input tokens, cached ones included.
            at: its time, with a time zone; None for noon (UTC) of today, so that prices by the hour do not make two
                runs of a day differ.
        """
        return _tier(self.tiers if at is None else self._tiers(at), total_input)

    @property
    def step(self) -> int | None:
        """Input tokens above which the price of a whole request rises; None if it never does."""
        lowest, *_ = self.tiers
        return min((rates.above for rates in self.tiers if rates.input > lowest.input), default=None)

    @property
    def tiers(self) -> tuple[Rates, ...]:
        """The rates at noon (UTC) of today, by size of the request, smallest first."""
        return self._tiers(datetime.combine(datetime.now(UTC), time(12), UTC))

    def _tiers(self, at: datetime) -> tuple[Rates, ...]:
        if len(self.periods) == 1:
            return self.periods[0].tiers
        active = (period for period in reversed(self.periods) if period.applies(at))
        return next(active, self.periods[0]).tiers

    def cost(self, use: CacheUse, output: int = 0, *, at: datetime | None = None) -> Cost:
        """Return what a call costs.

        Args:
            use: its input.
            output: its output tokens.
            at: its time; see `rates`.
        """
        return _cost(self.rates(use.total, at), use, output)

    def least(self, use: CacheUse, output: int) -> Cost:
        """Return the least that a call costs, whenever it was made; see `cost`."""
        costs = [_cost(_tier(period.tiers, use.total), use, output) for period in self.periods]
        return min(costs, key=lambda cost: cost.total)

    def least_of_sum(self, use: CacheUse, output: int, at: float | None) -> Cost:
        """Return the least that several calls cost, given the sums of their tokens; `at` is a time in seconds."""
        tiers = self.tiers if at is None else self._tiers(datetime.fromtimestamp(at, UTC))
        return _cost(tiers[0], use, output)

    def repeated_cost(self, tokens: int, use: CacheUse, at: datetime | None) -> float:
        """Return what a request paid for tokens above the price of reading them from the cache, in dollars.

        As many of them as the request wrote to the cache were written; it paid the others as other input.

        Args:
            tokens: the tokens.
            use: all of the request's input.
            at: its time; see `rates`.
        """
        rates = self.rates(use.total, at)
        written = min(tokens, use.written)
        write = rates.write_hour if 2 * use.hour > use.written else rates.write
        return written * max(0.0, write - rates.read) + (tokens - written) * max(0.0, rates.input - rates.read)


def _tier(tiers: tuple[Rates, ...], total_input: int) -> Rates:
    if len(tiers) == 1:
        return tiers[0]
    return next((tier for tier in reversed(tiers) if total_input > tier.above), tiers[0])


def _cost(rates: Rates, use: CacheUse, output: int) -> Cost:
    written = (use.written - use.hour) * rates.write + use.hour * rates.write_hour
    return Cost(use.read * rates.read, written, use.fresh * rates.input, output * rates.output, rates.fee)


SCRIPTED: Final = "scripted:"
"""What the name of a script begins with; the model whose prices count follows."""

_FACTORS: Final = (
    ("fast", re.compile(r"opus-4[-.][67]"), 6.0),
    ("fast", re.compile(r"opus-(4[-.]8|5)"), 2.0),
    ("us", re.compile("claude"), 1.1),
    ("regional", re.compile(r"claude-(opus|sonnet|haiku)-(4[-.][5-9]|[5-9])|claude-(fable|mythos)"), 1.1),
    ("regional", re.compile(r"gpt-(5\.[4-9]|[6-9])"), 1.1),
    ("regional", re.compile(r"claude|gpt-[345]|^o\d"), 1.0),
    ("flex", re.compile(""), 0.5),
    ("batch", re.compile(""), 0.5),
)
"""By how much a tier multiplies the listed prices of a model, by its name: Anthropic's fast mode and inference in the
United States (https://platform.claude.com/docs/en/about-claude/pricing), OpenAI's flex processing, and batches
(https://developers.openai.com/api/docs/guides/flex-processing). Regional endpoints cost more for Claude from 4.5 on, at
Google (https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai), and for OpenAI's models since March
2026 (https://developers.openai.com/api/docs/guides/data-residency). Of other tiers, such as `priority`, no price is
known.
"""

_REGIONAL: Final = re.compile(
    r"[a-z]{2}\.api\.openai\.com|[a-z]+-[a-z]+\d+-aiplatform\.googleapis\.com|aiplatform\.[a-z]+\.rep\.googleapis\.com"
)
"""Hosts whose requests stay in a region: OpenAI's, and Google's for one region and for several."""

_BY_DEPLOYMENT: Final = re.compile(r".+\.(openai|cognitiveservices|services\.ai)\.azure\.com")
"""Hosts whose price goes by how a model was deployed, globally or in a region, which no request says."""

_VARYING: Final = re.compile(r"azure|vertex")
_REGION: Final = "regional"

_USUAL_TIERS: Final = ("", "auto", "default", "standard", "standard_only")


def tier_in(reported: Mapping[str, Any]) -> str:
    """Return the tier in what a provider reports of a request; empty for the usual one.

    Args:
        reported: Anthropic's usage, or a response or chunk of OpenAI's, as JSON data.
    """
    words = ["fast"] if reported.get("speed") == "fast" else []
    words += ["us"] if reported.get("inference_geo") == "us" else []
    tier = reported.get("service_tier")
    words += [tier] if isinstance(tier, str) and tier not in _USUAL_TIERS else []
    return ", ".join(words)


def billed_at(usage: TokenUsage, model: str, address: str) -> TokenUsage:
    """Return a usage with what the address of the provider says of its price.

    A regional endpoint is a tier. Where it may cost more and nobody says how much, the price of the list is a lower
    bound: for Gemini at a regional endpoint, and at Azure, whose data zones and regions cost 10 to 20 % more.

    Args:
        usage: the usage, as the provider reported it.
        model: the model that was asked.
        address: the provider's host, with or without a port.
    """
    host = address.partition(":")[0].lower()
    if _BY_DEPLOYMENT.fullmatch(host):
        return replace(usage, further_fees=True)
    if not _REGIONAL.fullmatch(host):
        return usage
    if _factor(model, _REGION) is None:
        return replace(usage, further_fees=True)
    samplings = []
    for name, sampled in usage.samplings:
        samplings.append((name, replace(sampled, tier=_with_word(sampled.tier, _REGION))))
    return replace(usage, tier=_with_word(usage.tier, _REGION), samplings=tuple(samplings))


@lru_cache(maxsize=64)
def varies_by_region(provider: str) -> bool:
    """Return whether a provider, as a client names it, charges by a region or a deployment that it does not name."""
    return _VARYING.search(provider.lower()) is not None


def _with_word(tier: str, word: str) -> str:
    return ", ".join(filter(None, (tier, word)))


def split_tier(name: str) -> tuple[str, str]:
    """Return the model and the tier in a name that `at_tier` wrote."""
    parts = re.fullmatch(r"(.+) \(([^()]+)\)", name)
    return (parts[1], parts[2]) if parts else (name, "")


def at_tier(model: str, tier: str) -> str:
    """Return the name of a model that is served at a tier, such as `claude-opus-5-5 (fast)`.

    Args:
        model: the model, as for `Prices.of`.
        tier: the provider's words for the tier, separated by commas; empty for the usual one.
    """
    return f"{model} ({tier})" if tier else model


@dataclass(frozen=True, slots=True)
class Bill:
    """Dollars for a request.

    Attributes:
        at_least: what is known of them.
        complete: whether that is all: every sampling has a known price, and there are no fees of unknown amount.
        assumed: the model whose prices stand in, because none are known for the one that was asked (`assumed_prices`);
            empty if none do.
    """

    at_least: float
    complete: bool
    assumed: str = ""

    @property
    def cost(self) -> float | None:
        """All of it; None if a part is unknown."""
        return self.at_least if self.complete else None


def bill_of(usage: TokenUsage, model: str, at: datetime | None = None) -> Bill:
    """Return what a request costs, with each sampling at the price of its own model.

    Args:
        usage: its usage, as the provider reported it.
        model: the model that was asked, as for `Prices.of`.
        at: its time, with a time zone; None for now.
    """
    if usage.charged is not None:
        return Bill(usage.charged, complete=True)
    at_least, complete, assumed = usage.fees, not usage.further_fees, ""
    provider = model.rpartition(":")[0]
    for own, sampled in usage.samplings or (("", usage),):
        name = f"{provider}:{own}" if own and provider else own or model
        served = at_tier(name, sampled.tier)
        prices = prices_of(served)
        if prices is None:
            complete = False
        else:
            assumed = assumed if listed_prices(served) else prices.name
            at_least += prices.cost(sampled.use, sampled.output, at=at or datetime.now(UTC)).total
    return Bill(at_least, complete, assumed)


def cost_of(usage: TokenUsage, model: str, at: datetime | None = None) -> float | None:
    """Return the cost of a request in dollars; None if a part of it is unknown. Takes what `bill_of` takes."""
    return bill_of(usage, model, at).cost


SEARCH_FEE: Final = 0.01
"""Dollars for a web search that Anthropic or OpenAI runs: $10 for 1,000, by their lists of prices in 2026. OpenAI's
previews cost more with some models."""


class PriceKeeper:
    """Keeps the prices of models in a file, until the price list or Wane is another version.

    Importing the price list takes a fifth of a second, which most commands would spend for two or three models. A file
    that cannot be used is as if it were empty.
    """

    def __init__(self) -> None:
        self._file: Path | None = None
        self._key = ""
        self._prices: dict[str, Prices | None] = {}

    def use(self, file: Path) -> None:
        """Take prices from a file from here on, and keep in it those that are looked up."""
        if file == self._file:
            return
        self._file, self._prices = file, {}
        self._key = f"{_KEPT_FORM} {list_version()}"
        with suppress(OSError, ValueError, LookupError, TypeError):
            data = json.loads(file.read_bytes())
            if data["key"] == self._key:
                self._prices = {name: _read_prices(name, known) for name, known in data["prices"].items()}

    def prices_of(self, model: str) -> Prices | None:
        """Return the prices of a model; None if it has none.

        Raises:
            LookupError: if they are not kept, or are kept for no model.
        """
        if "genai_prices" in sys.modules:
            raise LookupError(model)  # whoever has imported the list may have changed it
        return self._prices[model]

    def keep(self, name: str, prices: Prices | None) -> None:
        """Keep the prices of a model; None if it has none."""
        if self._file is None:
            return
        self._prices[name] = prices
        kept: dict[str, Any] = {}
        for model, known in self._prices.items():
            kept[model] = None
            if known is not None:
                periods = [period.to_dict() for period in known.periods]
                kept[model] = [known.provider, known.model, known.window, periods]
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._file, json.dumps({"key": self._key, "prices": kept}).encode())


_KEPT_FORM: Final = "1"
"""Change it when prices are kept in another form, or `_look_up` finds others."""

kept_prices: Final = PriceKeeper()
"""Where `prices_of` keeps what it looks up: nowhere, until a command gives it a file."""


_assumed: Final[list[Prices]] = []


@contextmanager
def assumed_prices(name: str | None) -> Iterator[None]:
    """Take the prices of a model for every one whose own are unknown, as long as the context lasts; None takes none.

    They hold in the whole process: a proxy prices calls in threads of its own.

    Raises:
        ConfigError: if they are unknown themselves.
        MissingExtraError: without `genai-prices`.
    """
    if name is None:
        yield
        return
    _assumed.append(Prices.of(name))
    try:
        yield
    finally:
        _assumed.pop()


def prices_of(model: str) -> Prices | None:
    """Return the prices of a model, or those that are assumed in their place; None if they are unknown."""
    listed = listed_prices(model)
    return _assumed[-1] if listed is None and _assumed else listed


@lru_cache(maxsize=256)
def listed_prices(model: str) -> Prices | None:
    """Return the prices of a model; None if the price list does not have them."""
    with suppress(LookupError):
        return kept_prices.prices_of(model)
    try:
        prices = _look_up(model)
    except LookupError:
        prices = None
    except MissingExtraError:
        return None
    kept_prices.keep(model, prices)
    return prices


def _read_prices(name: str, kept: Any) -> Prices | None:
    if kept is None:
        return None
    provider, model, window, periods = kept
    return Prices(name, provider, model, tuple(map(Period.read, periods)), window)


def list_version() -> str:
    """Return the versions of Wane and of the price list: in other ones, prices may be others."""
    spec = find_spec("genai_prices")
    if spec is None or spec.origin is None:
        return ""
    # By the names of their metadata's folders: `importlib.metadata` takes too long to import at each start.
    packages = Path(spec.origin).parents[1]
    return " ".join(sorted(folder.stem for folder in packages.glob("*.dist-info") if _IS_LISTED.match(folder.name)))


_IS_LISTED: Final = re.compile(r"(?:wane|genai_prices)-")


def window_of(model: str) -> int | None:
    """Return the tokens of a model's window, by the price list; None if it does not say."""
    prices = listed_prices(model)
    return None if prices is None else prices.window


def price_step(model: str) -> int | None:
    """Return the input tokens above which a model's price of a whole request rises; None if it never does."""
    prices = prices_of(model)
    return None if prices is None else prices.step


@lru_cache(maxsize=256)
def listed_name(provider: str, model: str) -> str:
    """Return the name by which the price list has a model, as for `Prices.of`; `provider:model` if it has none.

    A client may name a provider that the list does not have, such as a gateway of its own. Then the vendor in the
    model's name counts (`anthropic/claude-sonnet-4-5`), or else whoever makes a model of this name.

    Args:
        provider: the provider, as a client names it; empty if it is unknown.
        model: the model, as a client names it.
    """
    vendor, _, bare = model.partition("/")
    names = [f"{provider}:{model}"] if provider else [model]
    if bare:
        names.append(f"{vendor}:{bare}")
    names.append(model.rpartition("/")[2])
    return next((name for name in names if listed_prices(name)), names[0])


@lru_cache(maxsize=256)
def name_at_tier(provider: str, model: str, tier: str) -> str:
    """Return what `listed_name` returns, as it is served at a tier (`at_tier`); for each of thousands of calls."""
    return at_tier(listed_name(provider, model), tier)


def known_models() -> list[str]:
    """Return every model that has prices, as `provider:model`; those of the usual providers first.

    Raises:
        MissingExtraError: without `genai-prices`.
    """
    providers = sorted(_snapshot().providers, key=lambda provider: (provider.id not in _USUAL, provider.id))
    return [f"{provider.id}:{model.id}" for provider in providers for model in provider.models]


def _look_up(name: str) -> Prices | None:
    """Return the prices of a model; None if tokens have none, or its tier has no known one.

    Raises:
        LookupError: if the price list does not have it.
        MissingExtraError: without `genai-prices`.
    """
    listed, tier = split_tier(name.removeprefix(SCRIPTED))
    provider_name, _, reference = listed.partition(":") if ":" in listed else ("", "", listed)
    provider, model = _snapshot().find_provider_model(reference, None, provider_name or None, None)
    listed_prices = model.prices if isinstance(model.prices, list) else [model]
    factor = _factor(model.id, tier)
    if factor is None:
        return None
    periods = tuple(
        _period(_tiers(listing.prices, factor), getattr(listing, "constraint", None)) for listing in listed_prices
    )
    if not all(period.tiers for period in periods):
        return None
    return Prices(name, provider.id, model.id, periods, model.context_window)


def _period(tiers: tuple[Rates, ...], constraint: Any) -> Period:
    """Return some rates with the price list's condition on a request's time."""
    start = getattr(constraint, "start_time", None)
    if start is None:
        return Period(tiers, getattr(constraint, "start_date", None))
    return Period(tiers, hours=(_in_utc(start), _in_utc(constraint.end_time)))


def _in_utc(moment: time) -> time:
    """Return a time of day in UTC, without its zone; without a zone it is in UTC already."""
    return moment if moment.tzinfo is None else datetime.combine(date(1970, 1, 1), moment).astimezone(UTC).time()


def _factor(model: str, tier: str) -> float | None:
    """By how much a tier multiplies a model's prices; None if that is not known."""
    product, words = 1.0, tier.split(", ") if tier else []
    if len({*words}) < len(words):
        return None
    for word in words:
        factor = next((times for name, models, times in _FACTORS if name == word and models.search(model)), None)
        if factor is None:
            return None
        product *= factor
    return product


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
        bare = {model.rpartition(":")[2]: model for model in reversed(names)}
        close = [bare[model] for model in get_close_matches(name.lower().rpartition(":")[2], bare, n=4, cutoff=0.6)]
    hint = f"did you mean {', '.join(close)}?" if close else "give it as provider:model, such as openai:gpt-6.1-sol"
    return f"no prices are known for {name!r}; {hint}"


_PRICED: Final = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok", "output_mtok")


def _tiers(prices: ModelPrice, factor: float) -> tuple[Rates, ...]:
    """Return rates by size of the request, multiplied by `factor`; none if the price is not by tokens."""
    if prices.input_mtok is None and any(value is not None for value in vars(prices).values()):
        return ()
    starts = {tier.start for key in _PRICED for tier in getattr(getattr(prices, key), "tiers", ())}
    return tuple(_rates(prices, above, factor) for above in [0, *sorted(starts - {0})])


def _rates(prices: ModelPrice, above: int, factor: float) -> Rates:
    fresh, read, write, hour, output = (_at(getattr(prices, key), above, factor=factor) for key in _PRICED)
    fee = _at(prices.requests_kcount, above, 1_000) or 0.0
    # What the provider does not price separately costs what input costs.
    fresh = fresh or 0.0
    read = fresh if read is None else read
    write = fresh if write is None else write
    return Rates(above, fresh, read, write, write if hour is None else hour, output or 0.0, fee)


def _at(price: object, above: int, per: int = _MILLION, factor: float = 1.0) -> float | None:
    """Return dollars per token, or other unit, of a request just above a threshold, multiplied by `factor`."""
    if price is None:
        return None
    tiers = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= above]
    amount = tiers[-1] if tiers else getattr(price, "base", price)
    assert isinstance(amount, Decimal)
    return float(amount / per) * factor
