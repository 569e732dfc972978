from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from tests.marks import first_quick
from wane.core.errors import ConfigError
from wane.prices import (
    Bill,
    CacheUse,
    Cost,
    Prices,
    TokenUsage,
    assumed_prices,
    at_tier,
    bill_of,
    billed_at,
    cost_of,
    known_models,
    tier_in,
)

genai_prices = pytest.importorskip("genai_prices", reason="needs the lab extra")
MODELS = [
    "anthropic:claude-sonnet-4-5",
    "anthropic:claude-opus-4-6",
    "anthropic:claude-haiku-5-5",
    "openai:gpt-5.2",
    "openai:gpt-5.5",
    "openai:gpt-5.6-sol",
    "google:gemini-3.1-pro-preview",
    "deepseek:deepseek-v4-flash",
]
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scale", [100, 10_000, 100_000])
def test_a_call_costs_what_genai_prices_says(name: str, scale: int) -> None:
    use, output = CacheUse(read=scale, written=scale // 2, fresh=scale + 7), 321
    prices = Prices.of(name)
    provider, _, model = name.partition(":")
    cached = {"cache_read_tokens": use.read}
    if prices.rates(1, NOW).write != prices.rates(1, NOW).input:
        cached["cache_write_tokens"] = use.written
    usage = genai_prices.Usage(input_tokens=use.total, output_tokens=output, **cached)
    told = genai_prices.calc_price(usage, model, provider_id=provider, genai_request_timestamp=NOW)
    cost = prices.cost(use, output, at=NOW)
    assert cost.total == pytest.approx(float(told.total_price))
    assert cost.output == pytest.approx(float(told.output_price))


def test_a_long_request_costs_more_by_the_token() -> None:
    prices = Prices.of("anthropic:claude-sonnet-4-5")
    assert [tier.above for tier in prices.tiers] == [0, 200_000]
    assert prices.rates(200_000).input == pytest.approx(3e-6)
    assert prices.rates(200_001).input == pytest.approx(6e-6)
    assert prices.cost(CacheUse(200_000, 1, 0)).read == pytest.approx(0.12)
    assert prices.cost(CacheUse(199_999, 1, 0)).read == pytest.approx(0.06, rel=1e-4)


def test_writes_for_an_hour_cost_twice_the_input() -> None:
    prices = Prices.of("anthropic:claude-sonnet-4-5")
    for hour in (0, 400, 1000):
        written = (1000 - hour) * 3.75e-6 + hour * 6e-6
        assert prices.cost(CacheUse(0, 1000, 0, hour)).written == pytest.approx(written)
        assert cost_of(TokenUsage(1000, 0, 0, 1000, hour), prices.name) == pytest.approx(written)


@pytest.mark.parametrize(
    ("reported", "tier"),
    [
        ({"speed": "standard", "service_tier": "standard", "inference_geo": "not_available"}, ""),
        ({"speed": "fast", "service_tier": "standard", "inference_geo": "us"}, "fast, us"),
        ({"service_tier": "priority"}, "priority"),
        ({"service_tier": "default"}, ""),
        ({"speed": ["fast"], "service_tier": None}, ""),
    ],
)
def test_the_tier_is_what_the_provider_reports(reported: dict[str, object], tier: str) -> None:
    assert tier_in(reported) == tier


@pytest.mark.parametrize(
    ("model", "tier", "factor"),
    [
        ("anthropic:claude-opus-4-6", "fast", 6),
        ("anthropic:claude-opus-5-5", "fast", 2),
        ("anthropic:claude-opus-5-5", "fast, us", 2.2),
        ("openai:gpt-6-sol", "flex", 0.5),
        ("openai:gpt-6-sol", "priority", None),
        ("anthropic:claude-sonnet-5", "fast", None),
    ],
)
def test_a_tier_multiplies_the_listed_price_or_has_no_known_one(model: str, tier: str, factor: float | None) -> None:
    usage = TokenUsage(10_000, 700, 4_000, 2_000, 500)
    usual, served = cost_of(usage, model), cost_of(replace(usage, tier=tier), model)
    assert usual
    assert served == (None if factor is None else pytest.approx(factor * usual))
    if factor is None:
        with pytest.raises(ConfigError, match="has no known price at the tier"):
            Prices.of(at_tier(model, tier))
    else:
        assert Prices.of(at_tier(model, tier)).model == Prices.of(model).model


@pytest.mark.parametrize(
    ("address", "model", "factor"),
    [
        ("api.openai.com", "gpt-5.5", 1.0),
        ("eu.api.openai.com:443", "gpt-5.5", 1.1),
        ("US.api.openai.com", "gpt-5.3-codex", 1.0),  # released before March 2026
        ("us-east5-aiplatform.googleapis.com", "claude-opus-4-5", 1.1),
        ("aiplatform.eu.rep.googleapis.com", "claude-sonnet-5", 1.1),
        ("us-east5-aiplatform.googleapis.com", "claude-opus-4-1", 1.0),
        ("aiplatform.googleapis.com", "claude-opus-4-5", 1.0),
        ("us-central1-aiplatform.googleapis.com", "gemini-3.1-pro-preview", None),
        ("mine.openai.azure.com", "gpt-5.5", None),
        ("mine.services.ai.azure.com", "claude-opus-4-5", None),
        ("api.openai.com.example.org", "gpt-5.5", 1.0),
    ],
)
def test_where_a_request_is_served_is_in_its_price_or_makes_that_a_bound(
    address: str, model: str, factor: float | None
) -> None:
    usage = TokenUsage(1_000, 100, 500)
    listed = bill_of(usage, model, NOW)
    billed = bill_of(billed_at(usage, model, address), model, NOW)
    assert billed.complete == (factor is not None)
    assert billed.at_least == pytest.approx(listed.at_least * (factor or 1.0))
    advised = replace(usage, samplings=(("", usage), ("", usage)))
    twice = bill_of(billed_at(advised, model, address), model, NOW)
    assert twice.at_least == pytest.approx(2 * billed.at_least)


def test_what_a_provider_says_that_it_charges_counts() -> None:
    assert bill_of(TokenUsage(1_000, 100, charged=0.25), "nobody-lists-this") == Bill(0.25, complete=True)
    with assumed_prices("openai:gpt-5.2"):
        assert bill_of(TokenUsage(1_000, 100), "nobody-lists-this").assumed == "openai:gpt-5.2"
        assert bill_of(TokenUsage(1_000, 100), "gpt-5.5").assumed == ""


@pytest.mark.parametrize(
    "name", ["claude-opus-5 (fast", "claude-opus-5)", "claude-opus-5 ()", "claude-opus-5 (fast, fast)"]
)
def test_a_name_that_ends_in_no_tier_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"no prices are known|at the tier"):
        Prices.of(name)


def test_without_a_write_price_a_write_costs_what_input_costs() -> None:
    rates = Prices.of("openai:gpt-5.2").rates(1)
    assert rates.write == rates.input > rates.read > 0


def test_the_model_that_was_understood_is_told() -> None:
    prices = Prices.of("anthropic:claude-opus-4-5-20251101")
    assert (prices.name, prices.provider, prices.model) == (
        "anthropic:claude-opus-4-5-20251101",
        "anthropic",
        "claude-opus-4-5",
    )
    assert Prices.of("claude-opus-4-5").tiers == prices.tiers


def test_a_model_whose_name_has_a_colon() -> None:
    assert Prices.of("aws:us.anthropic.claude-sonnet-4-5-20250929-v1:0").provider == "aws"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("anthropic:claude-sonet-4-5", "anthropic:claude-sonnet-4-5"),
        ("opnai:gpt-5.2", "openai:gpt-5.2"),
        ("sonnet", "provider:model"),
        ("", "provider:model"),
        ("openai:whisper-1", "name another model"),
    ],
)
def test_an_unknown_model_is_told_with_what_comes_close(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint) as error:
        Prices.of(name)
    assert repr(name) in str(error.value)


USAGES = [
    TokenUsage(1_000, 100),
    TokenUsage(300_000, 1_000),
    TokenUsage(50_000, 500, cache_read=40_000),
    TokenUsage(250_000, 500, cache_read=200_000, cache_write=10_000),
]
TIMES = [datetime(2026, 11, 20, hour, 30, tzinfo=UTC) for hour in (0, 2, 7, 12, 18)] + [
    datetime(2026, 2, 1, tzinfo=UTC)
]


def listed_price(usage: TokenUsage, provider: str, model: str, at: datetime) -> float | None:
    """What the list's own package calculates; None for the few names under which it does not find them itself."""
    tokens = genai_prices.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        price = genai_prices.calc_price(tokens, model, provider_id=provider, genai_request_timestamp=at)
    except LookupError:
        return None
    return float(price.total_price)


@pytest.mark.full
@pytest.mark.parametrize("step", first_quick(10, 1))
def test_every_model_costs_what_the_price_list_says_at_every_time(step: int) -> None:
    """Free models, prices by the hour, prices that changed and fees per request among them; all in `make test-all`."""
    differing, unknown = [], []
    for name in sorted(known_models())[::step]:
        provider, _, model = name.partition(":")
        for at, usage in product(TIMES, USAGES):
            cost, listed = cost_of(usage, name, at), listed_price(usage, provider, model, at)
            if cost is None:
                unknown.append((name, listed))
            elif cost != pytest.approx(listed):
                differing.append((name, at, usage, cost, listed))
    assert differing == []
    # Models for speech, documents and the like have no price for tokens: what they cost is not known, and not nothing.
    assert {price for _, price in unknown} <= {0, None}
    assert len({name for name, price in unknown if price == 0}) < 40


def test_a_free_model_costs_nothing_and_a_fee_is_part_of_the_cost() -> None:
    free, charged = Prices.of("google:gemma-3"), Prices.of("perplexity:sonar")
    assert (free.free, charged.free) == (True, False)
    assert cost_of(TokenUsage(1_000, 100), "google:gemma-3") == 0
    cost = charged.cost(CacheUse(0, 0, 1_000), 100)
    assert cost.fee == pytest.approx(0.012)
    assert cost.total == pytest.approx(cost.fresh + cost.output + cost.fee)


def test_prices_by_the_hour_are_those_of_the_request() -> None:
    night, day = (TIMES[1], TIMES[3])
    usage = TokenUsage(1_000, 100)
    assert cost_of(usage, "deepseek:deepseek-v4-flash", night) == pytest.approx(
        2 * (cost_of(usage, "deepseek:deepseek-v4-flash", day) or 0)
    )


def test_a_script_costs_what_the_model_in_whose_place_it_is_costs() -> None:
    usage = TokenUsage(1_000, 100, 500, 100)
    assert cost_of(usage, "scripted:anthropic:claude-sonnet-5") == cost_of(usage, "anthropic:claude-sonnet-5")
    assert cost_of(usage, "scripted:nothing") is None


def test_costs_add_up() -> None:
    total = Cost(1, 2, 3, 4, 5) + Cost(0.5, 0.5, 0.5, 0.5, 0.5)
    assert (total, total.total) == (Cost(1.5, 2.5, 3.5, 4.5, 5.5), 17.5)


def test_models_come_with_their_provider() -> None:
    models = known_models()
    assert models[0].startswith("anthropic:")
    assert "openai:gpt-5.2" in models


def test_prices_that_are_kept_are_those_that_were_looked_up(tmp_path: Path) -> None:
    """In processes of their own, which do not import the price list if all that they need is kept."""
    code = (
        "import sys\n"
        "from datetime import UTC, datetime\n"
        "from pathlib import Path\n"
        "from wane.prices import Prices, kept_prices, prices_of\n"
        f"kept_prices.use(Path({str(tmp_path / 'kept.json')!r}))\n"
        f"for name in {[*MODELS, 'no-such-model', 'anthropic:claude-opus-4-6@fast']!r}:\n"
        "    print(prices_of(name), name)\n"
        "print('genai_prices' in sys.modules, file=sys.stderr)\n"
    )
    runs = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        runs.append((done.stdout, done.stderr.strip()))
    assert runs[0][0] == runs[1][0]
    assert [imported for _, imported in runs] == ["True", "False"]
    (tmp_path / "kept.json").write_text('{"key": "1"}')
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr.strip()) == runs[0]


@pytest.mark.parametrize("name", ["anthropic:claude-haiku-5-5", "deepseek:deepseek-reasoner", "openai:gpt-5.5"])
def test_rates_apply_when_the_price_list_says_so(name: str) -> None:
    """Each hour of a year, against the list's own conditions."""
    provider, _, model = name.partition(":")
    listed = genai_prices.data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)[1].prices
    prices = Prices.of(name)
    if not isinstance(listed, list):
        assert len(prices.periods) == 1
        return
    for hour in range(0, 366 * 24, 5):
        at = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(hours=hour, minutes=hour % 60)
        for period, listing in zip(prices.periods, listed, strict=True):
            constraint = listing.constraint
            assert period.applies(at) == (constraint is None or constraint.active(at))
