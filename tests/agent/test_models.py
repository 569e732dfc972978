from __future__ import annotations

import pytest
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from wane.agent.costs import Totals, budget_tokens, price
from wane.agent.models import DEFAULT_MODELS, ModelError, default_model, resolve_model
from wane.core.errors import ConfigError
from wane.journal import UsageRecord


def test_a_model_is_returned_as_it_is() -> None:
    model = TestModel()
    assert resolve_model(model) is model


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        ("openai:gpt-6.1-sol", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY"),
        ("google:gemini-4-argon", "GOOGLE_API_KEY"),
    ],
)
def test_a_missing_key_names_its_variable(spec: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic_ai.models." + spec.partition(":")[0])
    for name in (variable, "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelError, match=variable) as raised:
        resolve_model(spec)
    assert "no key for the model" in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        ("openai:gpt-6.1-sol", "OPENAI_API_KEY"),
        ("openai-chat:x", "OPENAI_API_KEY"),
        ("openai-responses:x", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY"),
        ("google:gemini-4-argon", "GOOGLE_API_KEY"),
        ("openrouter:x", "OPENROUTER_API_KEY"),
    ],
)
def test_an_empty_key_is_none(spec: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip({"anthropic": "anthropic", "google": "google.genai"}.get(spec.partition(":")[0], "openai"))
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.setenv(variable, "")
    with pytest.raises(ModelError, match=f"set the environment variable {variable}; it is missing or empty"):
        resolve_model(spec)


def test_whatever_keeps_a_client_from_being_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://[::1")
    with pytest.raises(ModelError, match="openai-chat:x cannot be used: "):
        resolve_model("openai-chat:x")


@pytest.mark.parametrize("spec", ["nosuch:x", "plain", "", "openai:"])
def test_an_unknown_model_shows_how_to_name_one(spec: str) -> None:
    with pytest.raises(ModelError, match="provider:model"):
        resolve_model(spec)


def test_a_client_that_is_not_installed_is_named_with_its_command() -> None:
    try:
        import groq  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        with pytest.raises(ModelError, match=r'pip install "pydantic-ai-slim\[groq\]"'):
            resolve_model("groq:llama")
    else:
        pytest.skip("groq is installed")


def test_the_default_model_is_the_first_that_has_a_key() -> None:
    assert default_model({"OPENAI_API_KEY": "k"}) == DEFAULT_MODELS["OPENAI_API_KEY"]
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as raised:
        default_model({"OPENAI_API_KEY": ""})
    assert "wane demo" in str(raised.value)


def test_prices() -> None:
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=0)
    assert price(usage, "openai:gpt-4.1") == 2.0
    assert price(usage, "bedrock:anthropic.claude-sonnet-4-20250514-v1:0") == 3.0
    assert price(usage, "gpt-4.1") == 2.0
    assert price(usage, "nosuch:model") is None
    assert price(usage, "function:scripted") is None


def test_totals_know_when_a_price_is_not_known() -> None:
    known = UsageRecord(items=1, input_tokens=10, output_tokens=2, cache_read_tokens=4, cost=0.5, model="a:b")
    unknown = UsageRecord(items=1, input_tokens=10, output_tokens=2, model="a:b")
    assert Totals().plus(known).plus(known) == Totals(2, 20, 4, 8, 0, 1.0)
    assert Totals().plus(known).plus(unknown).plus(known).cost is None
    assert Totals(2, 20, 4, 8, 0, 1.0).minus(Totals(1, 10, 2, 4, 0, 0.5)) == Totals(1, 10, 2, 4, 0, 0.5)


def test_a_share_of_an_unknown_window_is_refused() -> None:
    assert budget_tokens("80k", TestModel()) == 80_000
    with pytest.raises(ConfigError, match="window"):
        budget_tokens("50%", TestModel())
