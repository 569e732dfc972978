"""Pydantic AI models connected to a scripted server. They need the extra `openai`, `anthropic` or `google`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wane.core.errors import MissingExtraError

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

_TIMEOUT: Final = 600.0  # seconds, as in Pydantic AI's own clients
_KEY: Final = "scripted"  # the clients insist on a key; the server ignores it


def _http() -> httpx2.AsyncClient:
    """A client for this machine: no proxy of the environment comes between, and no certificates are read for TLS."""
    import httpx2  # both SDKs bring it

    return httpx2.AsyncClient(trust_env=False, verify=False, timeout=_TIMEOUT)


def _openai_provider(url: str, max_retries: int) -> OpenAIProvider:
    try:
        from openai import AsyncOpenAI
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError as error:
        raise MissingExtraError("ScriptedServer.openai_model", "openai") from error
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=_KEY, max_retries=max_retries, http_client=_http())
    return OpenAIProvider(openai_client=client)


def openai_chat_model(url: str, name: str, max_retries: int) -> OpenAIChatModel:
    """Return a Chat Completions model of the server at `url`."""
    provider = _openai_provider(url, max_retries)
    from pydantic_ai.models.openai import OpenAIChatModel

    return OpenAIChatModel(name, provider=provider)


def openai_responses_model(url: str, name: str, max_retries: int) -> OpenAIResponsesModel:
    """Return a Responses model of the server at `url`."""
    provider = _openai_provider(url, max_retries)
    from pydantic_ai.models.openai import OpenAIResponsesModel

    return OpenAIResponsesModel(name, provider=provider)


def anthropic_model(url: str, name: str, max_retries: int) -> AnthropicModel:
    """Return a Messages model of the server at `url`."""
    try:
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider
    except ImportError as error:
        raise MissingExtraError("ScriptedServer.anthropic_model", "anthropic") from error
    client = AsyncAnthropic(base_url=url, api_key=_KEY, max_retries=max_retries, http_client=_http())
    return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))


def google_model(url: str, name: str, max_retries: int) -> GoogleModel:
    """Return a model of Gemini's protocol of the server at `url`."""
    try:
        from google.genai import Client
        from google.genai.types import HttpOptions, HttpRetryOptions
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider
    except ImportError as error:
        raise MissingExtraError("ScriptedServer.google_model", "google") from error
    options = HttpOptions(base_url=url, retry_options=HttpRetryOptions(attempts=max_retries + 1))
    return GoogleModel(name, provider=GoogleProvider(client=Client(api_key=_KEY, http_options=options)))
