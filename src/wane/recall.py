"""The tool `recall`: what a model is told of it, what its calls ask for, and pages of an episode's exact content."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from wane.core.errors import UnknownEpisodeError

RECALL: Final = "recall"
"""Name of the tool that brings back an episode."""

RECALL_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Name of the episode."},
        "offset": {"type": "integer", "minimum": 0, "description": "Where to begin, in characters; 0 if left out."},
    },
    "required": ["name"],
    "additionalProperties": False,
}
"""JSON schema of the arguments of `recall`."""

RECALL_DESCRIPTION: Final = (
    "Read again, exactly, what one of your episodes held, after it has left your context window. "
    "Long episodes come in pages; the end of a page says how to get the next."
)
"""What the model reads about `recall`."""

PAGE_SHARE: Final = 0.1
"""Share of the budget that one page of a recall may take."""

_MIN_PAGE: Final = 400
_CHARS_PER_TOKEN: Final = 4


def page_size(budget: int) -> int:
    """Return how many characters one page holds under a budget in tokens."""
    return max(_MIN_PAGE, int(budget * PAGE_SHARE) * _CHARS_PER_TOKEN)


def page(name: str, text: str, offset: int, budget: int) -> str:
    """Return a page of an episode's content, headed by what it is, and ended by how to go on.

    Args:
        name: name of the episode.
        text: all of its content.
        offset: where the page begins, in characters.
        budget: tokens that the view may hold.
    """
    quoted = json.dumps(name, ensure_ascii=False)
    if not 0 <= offset < max(1, len(text)):
        return f"Episode {quoted} has {len(text)} characters; offset {offset} is outside of it. Begin with offset 0."
    stop = min(len(text), offset + page_size(budget))
    if offset == 0 and stop == len(text):
        return f"Episode {quoted}, whole:\n\n{text}"
    head = f"Episode {quoted}, characters {offset} to {stop} of {len(text)}:"
    if stop == len(text):
        return f"{head}\n\n{text[offset:stop]}\n\n[End of the episode.]"
    call = json.dumps({"name": name, "offset": stop}, ensure_ascii=False)
    return f"{head}\n\n{text[offset:stop]}\n\n[There is more. Go on with: {call}]"


def answer(arguments: str, read: Callable[[str, int], str]) -> str:
    """Return the result of a call of `recall`; arguments that are wrong in any way get one that says what is right.

    Args:
        arguments: the raw JSON arguments, as the model wrote them.
        read: gives the page of the episode of a name that begins at an offset, or raises `UnknownEpisodeError`.
    """
    try:
        asked = json.loads(arguments)
    except (ValueError, RecursionError):
        asked = None
    name = asked.get("name") if isinstance(asked, dict) else None
    if not isinstance(name, str) or not name.strip():
        return 'Error: `recall` needs the name of an episode. A right call: {"name": "my-episode"}'
    offset = asked.get("offset")
    if offset is not None and (isinstance(offset, bool) or not isinstance(offset, int)):
        return f'Error: "offset" must be a whole number. A right call: {json.dumps({"name": name, "offset": 0})}'
    try:
        return read(name.strip(), offset or 0)
    except UnknownEpisodeError as error:
        return f"Error: {error}"
