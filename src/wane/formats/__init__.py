"""Message formats: messages to items and back, one file per format."""

from __future__ import annotations

from typing import Any, Final

from wane.core.errors import FormatError
from wane.formats.anthropic import AnthropicFormat
from wane.formats.detection import is_recorded, shape, telling_format
from wane.formats.fields import messages_in
from wane.formats.gemini import GeminiFormat
from wane.formats.message_format import Format, Part, StoredFormat, Transcript
from wane.formats.openai import OpenAIFormat
from wane.formats.openai_responses import OpenAIResponsesFormat

__all__ = ["FORMAT_NAMES", "Format", "Part", "StoredFormat", "Transcript", "detect_format", "get_format"]

FORMAT_NAMES = ("openai", "anthropic", "openai_responses", "gemini", "pydantic_ai")
"""Names that `get_format` takes."""


_EXPECTED: Final = (
    "Expected a list of messages (OpenAI chat, Anthropic, items of OpenAI Responses, Gemini, Pydantic AI), or a "
    "request body that holds one; name the format if it is one of these"
)


def get_format(name: str) -> StoredFormat[Any]:
    """Return a format by name.

    Raises:
        FormatError: if no format has that name.
        MissingExtraError: if it needs an extra that is not installed.
    """
    if name == "openai":
        return OpenAIFormat()
    if name == "anthropic":
        return AnthropicFormat()
    if name == "openai_responses":
        return OpenAIResponsesFormat()
    if name == "gemini":
        return GeminiFormat()
    if name == "pydantic_ai":
        # It needs an extra, and most users do not need it.
        from wane.formats.pydantic_ai import PydanticAIFormat

        return PydanticAIFormat()
    raise FormatError(f"format {name!r} is unknown; known: {', '.join(FORMAT_NAMES)}")


def detect_format(data: object) -> StoredFormat[Any]:
    """Return the format of JSON data. Data that fits several formats, such as plain turns of text, is OpenAI chat.

    Raises:
        FormatError: if no format recognises it, such as the lines of a session file.
        MissingExtraError: if its format needs an extra that is not installed.
    """
    messages = data if isinstance(data, list) else []
    if is_recorded(messages):
        raise FormatError(
            f"these look like the lines of an agent's session file, not messages: {shape(messages)}; `wane plan FILE` "
            "reads such files"
        )
    if (name := telling_format(data)) is not None:
        return get_format(name)
    listed = messages_in(data)
    # In a list, one message tells the format, and `load` says what is wrong with the others.
    if any(map(_is_chat_message, messages)) or (isinstance(listed, list) and all(map(_is_chat_message, listed))):
        return OpenAIFormat()
    raise FormatError(f"no known message format: it is {shape(data)}. {_EXPECTED}")


def _is_chat_message(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("role"), str)
