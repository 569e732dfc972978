from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from wane.agent.assembly import settings_for
from wane.agent.models import DEFAULT_MODELS, ModelError, default_model, explain, resolve_model
from wane.agent.recorder import usage_record
from wane.core.errors import MissingExtraError


def test_a_model_is_returned_as_it_is() -> None:
    model = TestModel()
    assert resolve_model(model) is model


@pytest.mark.parametrize("address", ["", "localhost:8000/v1"])
def test_an_address_that_is_none_is_refused_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(ModelError, match=f"OPENAI_BASE_URL is '{address}', but must begin with http://"):
        resolve_model("openai-chat:x")


@pytest.mark.parametrize("key", ["", None], ids=["empty", "missing"])
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
def test_a_key_that_is_missing_or_empty_is_named_by_its_variable(
    spec: str, variable: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip({"anthropic": "anthropic", "google": "google.genai"}.get(spec.partition(":")[0], "openai"))
    for name in ("GEMINI_API_KEY", variable):
        monkeypatch.delenv(name, raising=False)
    if key is not None:
        monkeypatch.setenv(variable, key)
    words = f"no key for the model {spec}: set the environment variable {variable}; it is missing or empty"
    with pytest.raises(ModelError, match=words):
        resolve_model(spec)


@pytest.mark.parametrize(
    ("spec", "environ", "words"),
    [
        (
            "openai-chat:x",
            {},
            "it is missing or empty. For a server of your own set OPENAI_BASE_URL, too; where it asks for no key, any",
        ),
        ("ollama:x", {}, "needs OLLAMA_BASE_URL. For example: export OLLAMA_BASE_URL=http://localhost:11434/v1"),
        ("vllm:x", {}, "needs VLLM_BASE_URL. For example: export VLLM_BASE_URL=http://localhost:8000/v1"),
        (
            "azure:x",
            {},
            "needs AZURE_OPENAI_ENDPOINT and OPENAI_API_VERSION and AZURE_OPENAI_API_KEY. For example: export AZURE",
        ),
        (
            "azure:x",
            {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com", "AZURE_OPENAI_API_KEY": "k"},
            "needs OPENAI_API_VERSION. For example: export OPENAI_API_VERSION=2026-08-01",
        ),
        (
            "azure:x",
            {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/openai/v1"},
            "no key for the model azure:x: set the environment variable AZURE_OPENAI_API_KEY; it is missing or empty",
        ),
        ("azure:x", {"AZURE_OPENAI_ENDPOINT": "r.azure.com"}, "AZURE_OPENAI_ENDPOINT is 'r.azure.com', but must begin"),
        ("bedrock:x", {}, "needs AWS_DEFAULT_REGION. For example: export AWS_DEFAULT_REGION=us-east-1"),
        ("google-cloud:x", {}, "no credentials for the model google-cloud:x: set GOOGLE_API_KEY, or "),
        ("huggingface:x", {}, "no key for the model huggingface:x: set the environment variable HF_TOKEN"),
    ],
)
def test_a_setting_that_a_client_lacks_is_named_with_an_example(
    spec: str, environ: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in os.environ:
        if name.startswith(("AZURE_", "AWS_", "GOOGLE_", "GEMINI_", "OPENAI_", "OLLAMA_", "VLLM_", "HF_")):
            monkeypatch.delenv(name)
    # Clients look for credentials below the home, and Google's on its machines.
    for name, value in {"HOME": str(tmp_path), "NO_GCE_CHECK": "true", **environ}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises((ModelError, MissingExtraError)) as raised:
        resolve_model(spec)
    if "Install it with: " in str(raised.value):
        pytest.skip(str(raised.value))
    assert words in str(raised.value)


@pytest.mark.filterwarnings("error")
def test_a_client_gets_no_setting_that_it_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    model = resolve_model("bedrock:anthropic.claude-x")
    model.prepare_request(settings_for(model), ModelRequestParameters())


def test_a_call_without_credentials_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    from botocore.exceptions import NoCredentialsError  # type: ignore[import-untyped, unused-ignore]

    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    model = resolve_model("bedrock:anthropic.claude-x")
    assert explain(NoCredentialsError(), model).startswith("no credentials for bedrock: set AWS_BEARER_TOKEN_BEDROCK")


def test_whatever_keeps_a_client_from_being_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://[::1")
    with pytest.raises(ModelError, match="openai-chat:x cannot be used: "):
        resolve_model("openai-chat:x")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        *((spec, "write provider:model") for spec in ("nosuch:x", "plain", "", "openai:")),
        ("ollma:x", "the model 'ollma:x' is unknown; did you mean ollama:x\\?"),
        ("anthropic", "the model 'anthropic' is unknown; did you mean anthropic:MODEL\\?"),
        ("opnai:gpt-x", "the model 'opnai:gpt-x' is unknown; did you mean openai:gpt-x\\?"),
        ("antropic:claude-x", "did you mean anthropic:claude-x\\?"),
        ("gpt-x", "did you mean openai:gpt-x\\?"),
        ("claude-x", "did you mean anthropic:claude-x\\?"),
    ],
)
def test_an_unknown_model_is_answered_with_the_likely_one_or_with_how_to_name_one(spec: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        resolve_model(spec)


def test_a_client_that_is_not_installed_is_named_with_its_command() -> None:
    try:
        import groq  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        with pytest.raises(ModelError, match=r'install .*"pydantic-ai-slim\[groq\]"$'):
            resolve_model("groq:llama")
    else:
        pytest.skip("groq is installed")


def test_the_default_model_is_the_first_that_has_a_key() -> None:
    assert default_model({"OPENAI_API_KEY": "k"}) == DEFAULT_MODELS["OPENAI_API_KEY"]
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as raised:
        default_model({"OPENAI_API_KEY": ""})
    assert "wane demo" in str(raised.value)


@pytest.mark.parametrize(
    ("model", "told", "cost"),
    [
        ("openai:gpt-4.1", None, 2.0),
        ("bedrock:anthropic.claude-sonnet-4-20250514-v1:0", None, 3.0),
        ("gpt-4.1", None, 2.0),
        ("nosuch:model", None, None),
        ("function:scripted", None, None),
        ("openai:gpt-4.1", Decimal("0.25"), 0.25),
    ],
)
def test_a_call_is_recorded_with_its_price(model: str, told: Decimal | None, cost: float | None) -> None:
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=0, cost=told)
    assert usage_record(usage, model, items=1, input_tokens=1_000_000).cost == cost
