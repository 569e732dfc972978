"""Telling notices: what a harness, not a person, put where a person's words would stand (R15)."""

from __future__ import annotations

import re
from typing import Final

TAGS: Final = ("system-reminder", "task-notification", "local-command-stdout", "local-command-stderr")
"""Tags that mark a notice in every format, if they enclose the whole text."""

# A section ends with the first closing tag, so that what a person wrote between two sections is found.
_SECTION: Final = re.compile(rf"\s*<({'|'.join(TAGS)})>.*?</\1>\s*", re.DOTALL)


def is_notice(text: str) -> bool:
    """Whether a text is wholly marked as the harness's: one marked section after another, and nothing else."""
    position = 0
    while match := _SECTION.match(text, position):
        position = match.end()
    return 0 < position == len(text)
