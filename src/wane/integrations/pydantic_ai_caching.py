"""Cache breakpoints in Pydantic AI's requests: its own at the end, and one behind what no pass may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic_ai.messages import CachePoint, ModelMessage, UserPromptPart

CACHING: Final = ("anthropic_cache", "anthropic_cache_messages", "bedrock_cache_messages", "openrouter_cache_messages")
"""Settings of single providers with which Pydantic AI sets breakpoints in the messages, as `cache` does for all."""


def cache_point(settings: Mapping[str, Any]) -> CachePoint | None:
    """Return a cache point that lives as long as the one that Pydantic AI sets at the end; None if it sets none there.

    One that lives longer may not follow one that lives shorter.

    Args:
        settings: the settings of a request to a model of Anthropic's.
    """
    # Settings of a provider, whatever they say, replace the one for all of them.
    if any("_cache" in name for name in settings):
        lifetime: Any = next(filter(None, map(settings.get, CACHING)), None)
    else:
        lifetime = settings.get("cache")
    if isinstance(lifetime, dict):
        lifetime = lifetime.get("messages", True) and lifetime.get("retention", True)
    if not lifetime:
        return None
    return CachePoint(ttl="1h" if lifetime in ("1h", "12h") else "5m")


def with_cache_point(
    messages: list[ModelMessage], fixed: Sequence[ModelMessage], point: CachePoint
) -> list[ModelMessage]:
    """Return messages with a cache point behind the last words of the user in some of them."""
    prompts = [part for message in fixed for part in message.parts if isinstance(part, UserPromptPart) and part.content]
    if not prompts:
        return messages
    prompt = prompts[-1]
    content = [prompt.content] if isinstance(prompt.content, str) else prompt.content
    if any(isinstance(piece, CachePoint) for piece in content):
        return messages
    marked = replace(prompt, content=[*content, point])
    result: list[ModelMessage] = []
    for message in messages:
        if any(part is prompt for part in message.parts):
            parts: Any = [marked if part is prompt else part for part in message.parts]
            result.append(replace(message, parts=parts))
        else:
            result.append(message)
    return result
