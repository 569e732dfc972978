"""Message formats: messages to items and back, one file a format."""

from __future__ import annotations

from typing import Any

from wane.core.errors import FormatError
from wane.formats.anthropic import AnthropicFormat
from wane.formats.base import Format, Part, Transcript
from wane.formats.detection import telling_format
from wane.formats.openai import OpenAIFormat
from wane.formats.openai_responses import OpenAIResponsesFormat

__all__ = ["FORMAT_NAMES", "Format", "Part", "Transcript", "detect_format", "get_format"]

FORMAT_NAMES = ("openai", "anthropic", "openai_responses", "pydantic_ai")
"""Names that `get_format` takes."""


def get_format(name: str) -> Format[Any]:
    """Return a format by name.

    Raises:
        FormatError: if there is none of that name.
        MissingExtraError: if it needs an extra that is not installed.
    """
    if name == "openai":
        return OpenAIFormat()
    if name == "anthropic":
        return AnthropicFormat()
    if name == "openai_responses":
        return OpenAIResponsesFormat()
    if name == "pydantic_ai":
        # Needs an extra, and is not wanted by most.
        from wane.formats.pydantic_ai import PydanticAIFormat

        return PydanticAIFormat()
    raise FormatError(f"format {name!r} is unknown; known: {', '.join(FORMAT_NAMES)}")


def detect_format(data: object) -> Format[Any]:
    """Return the format of JSON data. What could be of several, such as plain turns of text, is OpenAI chat.

    Raises:
        FormatError: if no format recognises it.
        MissingExtraError: if its format needs an extra that is not installed.
    """
    if (name := telling_format(data)) is not None:
        return get_format(name)
    messages = data if isinstance(data, list) else []
    if OpenAIFormat().recognises(data) or any(OpenAIFormat().recognises([message]) for message in messages):
        return OpenAIFormat()
    raise FormatError(
        "no known message format: expected a JSON list of messages (OpenAI chat, Anthropic, items of OpenAI Responses, "
        "Pydantic AI), or a request body that holds one"
    )
