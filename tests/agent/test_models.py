from __future__ import annotations

from decimal import Decimal

import pytest
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from wane.agent.models import DEFAULT_MODELS, ModelError, default_model, resolve_model
from wane.agent.recorder import usage_record


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


@pytest.mark.parametrize("address", ["", "localhost:8000/v1"])
def test_an_address_that_is_none_is_refused_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(ModelError, match=f"OPENAI_BASE_URL is '{address}', but must begin with http://"):
        resolve_model("openai-chat:x")


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


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("opnai:gpt-x", "openai:gpt-x"),
        ("antropic:claude-x", "anthropic:claude-x"),
        ("gpt-x", "openai:gpt-x"),
        ("claude-x", "anthropic:claude-x"),
    ],
)
def test_an_unknown_model_is_answered_with_the_likely_one(spec: str, meant: str) -> None:
    with pytest.raises(ModelError, match=f"the model '{spec}' is unknown; did you mean {meant}\\?"):
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


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("openai:gpt-4.1", 2.0),
        ("bedrock:anthropic.claude-sonnet-4-20250514-v1:0", 3.0),
        ("gpt-4.1", 2.0),
        ("nosuch:model", None),
        ("function:scripted", None),
    ],
)
def test_a_call_is_recorded_with_its_price(model: str, cost: float | None) -> None:
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=0)
    assert usage_record(usage, model, items=1, input_tokens=1_000_000).cost == cost


def test_what_the_provider_says_a_call_cost_counts() -> None:
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=0, cost=Decimal("0.25"))
    assert usage_record(usage, "openai:gpt-4.1", items=1, input_tokens=1_000_000).cost == 0.25
