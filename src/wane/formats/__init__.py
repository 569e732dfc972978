"""Message formats: messages to items and back, one file a format."""

from __future__ import annotations

from typing import Any

from wane.core.errors import FormatError
from wane.formats.base import Format, Part, Transcript
from wane.formats.openai import OpenAIFormat

__all__ = ["FORMAT_NAMES", "Format", "Part", "Transcript", "detect_format", "get_format"]

FORMAT_NAMES = ("openai", "pydantic_ai")
"""Names that `get_format` takes."""


def get_format(name: str) -> Format[Any]:
    """Return a format by name.

    Raises:
        FormatError: if there is none of that name.
        MissingExtraError: if it needs an extra that is not installed.
    """
    if name == "openai":
        return OpenAIFormat()
    if name == "pydantic_ai":
        # Needs an extra, and is not wanted by most.
        from wane.formats.pydantic_ai import PydanticAIFormat

        return PydanticAIFormat()
    raise FormatError(f"format {name!r} is unknown; known: {', '.join(FORMAT_NAMES)}")


def detect_format(data: object) -> Format[Any]:
    """Return the format of JSON data.

    Raises:
        FormatError: if no format recognises it.
        MissingExtraError: if its format needs an extra that is not installed.
    """
    # One message tells the format: of the others its `load` says which of them is wrong, and why.
    messages = data if isinstance(data, list) else []
    if any(map(_looks_pydantic_ai, messages)):
        return get_format("pydantic_ai")
    if OpenAIFormat().recognises(data) or any(OpenAIFormat().recognises([message]) for message in messages):
        return OpenAIFormat()
    raise FormatError(
        "no known message format: expected a JSON list of OpenAI chat messages (objects with a role), "
        "a request body that holds one, or a list of Pydantic AI messages (objects with kind and parts)"
    )


def _looks_pydantic_ai(message: object) -> bool:
    # Told without the library, so that a missing extra can be named.
    return isinstance(message, dict) and "parts" in message and "kind" in message
