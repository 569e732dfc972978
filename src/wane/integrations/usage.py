"""What a response says of its request."""

from __future__ import annotations

from typing import Final

from pydantic_ai.messages import ModelResponse

# Set by Pydantic AI on responses whose usage sums several model requests; the second key is that of older versions.
_NAMESPACE: Final = "__pydantic_ai__"
_CONTEXT_KEYS: Final = ("context_input_tokens", "initial_input_tokens")


def context_tokens(response: ModelResponse) -> int:
    """Return what the request held, in tokens, those read from a cache included; 0 if that was not reported."""
    marks = (response.metadata or {}).get(_NAMESPACE)
    if isinstance(marks, dict):
        for key in _CONTEXT_KEYS:
            if isinstance(tokens := marks.get(key), int):
                return tokens
    return response.usage.input_tokens


def model_of(response: ModelResponse) -> str:
    """Return the model that answered, as `provider:model`."""
    return ":".join(filter(None, (response.provider_name, response.model_name)))
