"""What a user asked for, out of a message of any format: the title of a session in a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TITLE_LENGTH: Final = 120
"""Characters after which a title is cut."""


def title_of(message: Mapping[str, Any]) -> str | None:
    """Return the user's words in a message on one line, cut to `TITLE_LENGTH`; None if it has none.

    It knows the shapes that chat formats share, a `role` with `content` and typed `parts`, because a
    list of sessions must show those of any format, also where the format itself is not installed.
    """
    if message.get("role") == "user":
        return _one_line(message.get("content"))
    parts = message.get("parts")
    if isinstance(parts, list):
        prompts = [part for part in parts if isinstance(part, dict) and part.get("part_kind") == "user-prompt"]
        return next((title for part in prompts if (title := _one_line(part.get("content")))), None)
    return None


def _one_line(content: object) -> str | None:
    if isinstance(content, list):
        texts = [entry.get("text") if isinstance(entry, dict) else entry for entry in content]
        return next((title for text in texts if (title := _one_line(text))), None)
    if not isinstance(content, str):
        return None
    # A prompt may be a whole pasted file: only its beginning is looked at.
    line = " ".join(content.lstrip()[: 4 * TITLE_LENGTH].split())
    return (line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1]}…") or None
