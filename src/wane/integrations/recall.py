"""Pages of an episode's exact content."""

from __future__ import annotations

import json
from typing import Final

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
