from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wane.core.errors import ConfigError
from wane.prices import CacheUse, Cost, Prices, known_models

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
    prices = Prices.of(name, NOW)
    provider, _, model = name.partition(":")
    cached = {"cache_read_tokens": use.read}
    if prices.tiers[0].write != prices.tiers[0].input:
        cached["cache_write_tokens"] = use.written
    usage = genai_prices.Usage(input_tokens=use.total, output_tokens=output, **cached)
    told = genai_prices.calc_price(usage, model, provider_id=provider, genai_request_timestamp=NOW)
    cost = prices.cost(use, output)
    assert cost.total == pytest.approx(float(told.total_price))
    assert cost.output == pytest.approx(float(told.output_price))


def test_a_long_request_costs_more_by_the_token() -> None:
    prices = Prices.of("anthropic:claude-sonnet-4-5", NOW)
    assert [tier.above for tier in prices.tiers] == [0, 200_000]
    assert prices.rates(200_000).input == pytest.approx(3e-6)
    assert prices.rates(200_001).input == pytest.approx(6e-6)
    assert prices.cost(CacheUse(200_000, 1, 0)).read == pytest.approx(0.12)
    assert prices.cost(CacheUse(199_999, 1, 0)).read == pytest.approx(0.06, rel=1e-4)


def test_writes_for_an_hour_cost_twice_the_input() -> None:
    prices, use = Prices.of("anthropic:claude-sonnet-4-5", NOW), CacheUse(0, 1000, 0)
    assert prices.cost(use).written == pytest.approx(1000 * 3.75e-6)
    assert prices.cost(use, hour=True).written == pytest.approx(1000 * 6e-6)


def test_without_a_write_price_a_write_costs_what_input_costs() -> None:
    rates = Prices.of("openai:gpt-5.2", NOW).rates(1)
    assert rates.write == rates.input > rates.read > 0


def test_the_model_that_was_understood_is_told() -> None:
    prices = Prices.of("anthropic:claude-opus-4-5-20251101", NOW)
    assert (prices.name, prices.provider, prices.model) == (
        "anthropic:claude-opus-4-5-20251101",
        "anthropic",
        "claude-opus-4-5",
    )
    assert Prices.of("claude-opus-4-5", NOW).tiers == prices.tiers


def test_a_model_whose_name_has_a_colon() -> None:
    assert Prices.of("aws:us.anthropic.claude-sonnet-4-5-20250929-v1:0", NOW).provider == "aws"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("anthropic:claude-sonet-4-5", "anthropic:claude-sonnet-4-5"),
        ("opnai:gpt-5.2", "openai:gpt-5.2"),
        ("sonnet", "provider:model"),
        ("", "provider:model"),
        ("google:gemma-3", "name another model"),
    ],
)
def test_an_unknown_model_is_told_with_what_comes_close(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint) as error:
        Prices.of(name, NOW)
    assert repr(name) in str(error.value)


def test_costs_add_up() -> None:
    total = Cost(1, 2, 3, 4) + Cost(0.5, 0.5, 0.5, 0.5)
    assert (total, total.total) == (Cost(1.5, 2.5, 3.5, 4.5), 12)


def test_models_come_with_their_provider() -> None:
    models = known_models()
    assert models[0].startswith("anthropic:")
    assert "openai:gpt-5.2" in models
