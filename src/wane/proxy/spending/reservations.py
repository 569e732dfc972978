"""The most that a request may cost, told from its body before it is sent.

A limit can only be kept if this is never too low. So a number is read as lenient servers read it, and what no part of
the body bounds counts as the model's whole window, or is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from wane.prices import CacheUse, Prices, TokenUsage, at_tier, billed_at, prices_of, tier_in
from wane.proxy.head import RefusedError
from wane.proxy.wire.wire import Body

_MILLION: Final = 1_000_000
_CONFIGS: Final = ("generationConfig", "generation_config")  # Gemini's, which takes both spellings of each name
_OUTPUT: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_REPLIES: Final = ("n", "best_of", "candidateCount", "candidate_count")

BYTES_PER_TOKEN: Final = 2
"""The fewest bytes of a request's body that a token is assumed to take; text and code take three to five."""

_CHEAPER: Final = ("flex", "batch")
"""Tiers that a request may ask for without getting them; it then costs as much as in the usual tier."""

ASSUMED_OUTPUT: Final = 32_000
"""The most tokens that a reply is assumed to have if the client sets no limit."""

IMAGE_TOKENS: Final = 16_384
"""The most tokens of one image of any other model: Qwen2-VL's, by its card on Hugging Face; and 63 tiles of Gemini 2.5,
258 tokens each, of which no maximum is published."""

IMAGE_BOUNDS: Final = (
    # 2,833 tokens, and 5,667 for each of up to eight tiles of 512 pixels.
    # https://platform.openai.com/docs/guides/images-vision
    (re.compile(r"gpt-4o-mini"), 48_169),
    # Since GPT-5.4 up to 10,000 patches of 32 pixels at the detail "original", and 1,536 or 2,500 otherwise, times at
    # most 2.46 (GPT-4.1 nano). No model is known to have both. The same guide; 1.2 was measured for GPT-5.4:
    # https://community.openai.com/t/introducing-gpt-5-4-mini-and-nano-our-most-capable-small-models-yet/1377015
    (re.compile(r"gpt-|codex|computer-use|(?:^|/)o\d"), 24_600),
    # An edge of at most 2,576 pixels since Opus 4.7 (1,568 before) in patches of 28 pixels: at most 92 by 92.
    # https://platform.claude.com/docs/en/build-with-claude/vision
    (re.compile(r"claude"), 8_464),
    # The resolution "ultra high". https://ai.google.dev/gemini-api/docs/media-resolution
    (re.compile(r"gemini-[3-9]"), 2_240),
)
"""The most tokens of one image, however few bytes it has, by what is in the model's name; as the providers published it
when it was looked up in November 2026. The first that matches counts."""

_STORED: Final = {
    "previous_response_id": "an earlier response",
    "conversation": "a stored conversation",
    "prompt": "a stored prompt",
    "cachedContent": "a cached content",
    "cached_content": "a cached content",
}
"""Fields of a body whose content only the provider has, and what they name."""

_IMAGES: Final = frozenset({"image", "image_url", "input_image", "computer_screenshot"})
# What may hold anything, as tools define and use it: no content of the request.
_OPAQUE: Final = frozenset({"tools", "functions", "functionCall", "function_call", "args", "arguments", "metadata"})


def most(model: str, body: Body, size: int, limit: str = "--max-cost", address: str = "") -> int:
    """Return the most that a request is assumed to cost, in micro-dollars.

    The input is assumed to have one token for two bytes of the body, or for an image its bound if that is more, all at
    the price of writing the cache; the output, as many tokens as the client allows, or else `ASSUMED_OUTPUT`. If the
    request names content that it does not hold, such as a document by its URL, the input may fill the model's window.
    Of several models that it names, the dearest counts. `address` is the host of the provider.

    Raises:
        RefusedError: if a model's price is unknown, or what bounds the cost is not; it names the limit.
    """
    output = _most_output(body, limit)
    tokens = math.ceil(size / BYTES_PER_TOKEN)
    contents = list(_contents(body))
    images = [_bytes_of(block) // BYTES_PER_TOKEN for block in contents if _is_image(block)]
    reference = next(filter(None, map(_find_reference, contents)), None)
    reference = reference or next((what for name, what in _STORED.items() if body.get(name)), None)
    amounts: list[float] = []
    for name in _models(model, body):
        prices = _prices(name, body, limit, address)
        each = next((bound for model_name, bound in IMAGE_BOUNDS if model_name.search(name.lower())), IMAGE_TOKENS)
        read = tokens + sum(max(0, each - counted) for counted in images)
        if reference is not None and prices.window is None:
            why = f"the request names {reference}, and the window of the model {name!r:.80} is unknown"
            raise RefusedError(402, f"{why}, so {limit} cannot be kept. Send the content itself")
        if reference is not None and prices.window is not None:
            read = max(read, prices.window)
        uses = (CacheUse(0, read, 0), CacheUse(0, read, 0, read), CacheUse(0, 0, read))
        amounts.append(max(prices.cost(use, output).total for use in uses))
    return math.ceil(max(amounts) * _MILLION)


def _models(model: str, body: Body) -> list[str]:
    """The model, and those that a gateway or provider may ask in its place."""
    names = [model]
    for field in ("models", "fallbacks"):
        value = body.get(field)
        for entry in value if isinstance(value, list) else ():
            name = entry.get("model") if isinstance(entry, Mapping) else entry
            if isinstance(name, str) and name not in names:
                names.append(name)
    return names


def _prices(model: str, body: Body, limit: str, address: str) -> Prices:
    tiers = [tier for tier in tier_in(body).split(", ") if tier not in _CHEAPER]
    usage = billed_at(TokenUsage(0, 0, tier=", ".join(tiers)), model, address)
    served = at_tier(model, usage.tier)
    prices = prices_of(served)
    if prices is None:
        raise RefusedError(402, f"the price of the model {served!r:.80} is unknown, so {limit} cannot be kept")
    return prices


def _most_output(body: Body, limit: str) -> int:
    parts = [body, *(body[name] for name in _CONFIGS if isinstance(body.get(name), Mapping))]
    outputs = [_number(part.get(name), name, limit) for part in parts for name in _OUTPUT]
    replies = [_number(part.get(name), name, limit) for part in parts for name in _REPLIES]
    # 0 and less stand for no limit, or are refused by the provider.
    output = max((value for value in outputs if value > 0), default=ASSUMED_OUTPUT)
    return output * max(1, *replies)


def _number(value: object, name: str, limit: str) -> int:
    """A number as lenient servers read it, such as 8, 8.0 or "8", rounded up; 0 for null."""
    if value is None:
        return 0
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return math.ceil(float(value))
    except (ValueError, OverflowError):
        pass
    raise RefusedError(402, f"{name} is {value!r:.80}, which is no number, so {limit} cannot be kept")


def _contents(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects of a body, at any depth, without tools and what they are called with."""
    open_values = [value]
    while open_values:
        value = open_values.pop()
        if isinstance(value, list):
            open_values += value
        elif isinstance(value, Mapping):
            yield value
            called = value.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use")
            open_values += [
                entry
                for name, entry in value.items()
                if name not in _OPAQUE and not (called and name == "input") and isinstance(entry, list | Mapping)
            ]


def _is_image(block: Mapping[str, Any]) -> bool:
    if block.get("type") in _IMAGES:
        return True
    data = _media(block)
    kind = data.get("mimeType", data.get("mime_type", ""))
    return isinstance(kind, str) and kind.startswith("image/")


def _bytes_of(block: Mapping[str, Any]) -> int:
    """The bytes of an image in a body; 0 if it is elsewhere."""
    source, url = block.get("source"), block.get("image_url")
    url = url.get("url") if isinstance(url, Mapping) else url
    data = source.get("data") if isinstance(source, Mapping) else _media(block).get("data", url)
    return len(data) if isinstance(data, str) else 0


def _media(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """The media of a part of Gemini's, with their type, and with their data or where they are."""
    names = ("inlineData", "inline_data", "fileData", "file_data")
    return next((block[name] for name in names if isinstance(block.get(name), Mapping)), {})


def _find_reference(block: Mapping[str, Any]) -> str | None:
    """What a block names and does not hold, in the words of an error; None for nothing, or an image.

    An image takes a known number of tokens at most, wherever it is.
    """
    kind = block.get("type")
    if _is_image(block):
        return None
    source = block.get("source")
    if kind == "document" and isinstance(source, Mapping) and source.get("type") in ("url", "file"):
        return "a document that it does not hold"
    if kind == "container_upload":
        return "an uploaded file"
    file = block.get("file")
    names = {**block, **file} if isinstance(file, Mapping) else block
    if kind in ("input_file", "file") and (names.get("file_id") or names.get("file_url")):
        return "a file that it does not hold"
    for name in ("video_url", "audio_url", "document_url"):
        url = block.get(name)
        url = url.get("url") if isinstance(url, Mapping) else url
        if kind == name and isinstance(url, str) and not url.startswith("data:"):
            return "a file that it does not hold"
    if {"fileUri", "file_uri"} & _media(block).keys():
        return "a file by its URI"
    return "an item that only the provider has" if kind == "item_reference" else None
