"""What providers and servers say of a prompt that is too long for the model's window, and the budget that fits it.

Their counts calibrate: `n_prompt_tokens` and `n_ctx` of llama.cpp on all its endpoints, and the sentences of Anthropic,
OpenAI, Google, xAI, Mistral, OpenRouter, LiteLLM, vLLM, SGLang, LM Studio, Ollama, Text Generation Inference, DeepSeek,
Kimi and GitHub Copilot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

TOO_LONG: Final = re.compile(
    "(context|prompt|model|token) (length|window|size|limit)|context_(length|window|size)|context_limit|n_ctx"
    "|(prompt|input) is too long|input token count|prompt token count|input length|`inputs` "
    "|tokens exceed|reduce the length",
    re.IGNORECASE,
)
"""Words of a refusal of a prompt that is too long, with HTTP status 400, 413 or 422, or in the middle of a stream."""

_SUM: Final = re.compile(r"(\d+) \+ (\d+) > (\d+)")
_REST: Final = re.compile(r"(\d+) > (\d+) - (\d+)")
_INPUT: Final = re.compile(r"(\d+) (?:tokens )?(?:in the messages|in your prompt|from the input|input tokens)")
_OUTPUT: Final = re.compile(r"(\d+) (?:tokens )?(?:in the completion|for the completion|output tokens)")
_LIMIT: Final = re.compile(r"(?:maximum|limit|context|allowed)\D{1,40}(\d{3,})|> (\d{3,})", re.IGNORECASE)
_TOKENS: Final = re.compile(r"\b\d{3,}\b(?! characters)")
_BOUND: Final = re.compile("at least|characters", re.IGNORECASE)

FAR_BELOW: Final = 4
"""By how much a provider's count may exceed Wane's. Beyond it, what fills the provider's window is not in the view."""

SHRINKS: Final = 4
"""How often a budget is lowered for one turn. A server that says no figures may need several steps."""


def fitting_budget(message: str, tokens: int) -> int | None:
    """Return a budget under which a view fits that the provider called too long; `tokens` is the view's size.

    If the provider's message gives its count and its limit, they calibrate the budget. Otherwise the budget is four
    fifths of the view, or less if the limit is known and that is not enough. None if no smaller view would help: the
    provider counted more than `FAR_BELOW` times the view, or the answer alone is to fill the window.
    """
    message = message.replace(",", "")
    counted, limit = _counts(message)
    if counted and limit <= 0:
        return None
    if counted > FAR_BELOW * tokens:
        return None
    # vLLM counts no further than to the first token that is too many, and not at all where the characters say enough.
    if limit < counted and not _BOUND.search(message):
        return int(tokens * 0.9 * limit / counted)
    step = int(tokens * 0.8)
    return min(step, int(limit * 0.9)) if limit else step


def _counts(message: str) -> tuple[int, int]:
    """The tokens that a provider counted, and its limit for them; 0 for both if it does not say."""
    if match := _SUM.search(message):  # input and the longest answer together
        return int(match[1]), int(match[3]) - int(match[2])
    if match := _REST.search(message):  # the longest answer, and what the input leaves of the limit
        return int(match[3]), int(match[2]) - int(match[1])
    numbers = [int(number) for number in _TOKENS.findall(message)]
    limits = [int(after or above) for after, above in _LIMIT.findall(message)]
    if limits:
        limit = min(limits)
        held, longest = _INPUT.search(message), _OUTPUT.search(message)
        if held and longest:
            return int(held[1]), limit - int(longest[1])
        return max(numbers, default=limit), limit
    return (max(numbers), min(numbers)) if len(set(numbers)) == 2 else (0, 0)


def provider_message(body: object) -> str:
    """Return the message in a provider's error body, with that of the provider behind a gateway.

    OpenAI has it at the top, Anthropic one level down, and Google in a list.
    """
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping) and isinstance(inner.get("message"), str):
            body = inner["message"]
            behind = inner.get("metadata")  # OpenRouter's
            if isinstance(behind, Mapping) and isinstance(behind.get("raw"), str):
                body = f"{body}: {behind['raw']}"
            text = str(body)
            counted, window = inner.get("n_prompt_tokens"), inner.get("n_ctx")  # llama.cpp's
            if isinstance(counted, int) and isinstance(window, int) and str(counted) not in text:
                body = f"{text}: {counted} tokens > {window}"
    return " ".join(str(body or "no reason was given").split())[:500]


def message_of(error: object) -> str:
    """Return a provider's message in what a client raised, or in an error as data, bytes or text.

    Args:
        error: an exception of the provider's SDK, whose body is read if it has one, or the body.
    """
    body: Any = getattr(error, "body", None) or getattr(error, "details", None) or error
    if isinstance(body, bytes | str):
        try:
            body = json.loads(body)
        except ValueError:
            body = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    return provider_message(body)
