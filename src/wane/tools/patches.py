"""The files that a patch changes."""

from __future__ import annotations

import re
from typing import Final

# Codex's own format, and unified diffs.
_HEADER: Final = re.compile(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?)([^\t\n]+)", re.MULTILINE
)


def patched_files(text: str) -> tuple[str, ...]:
    """Return the files that a patch names, in order, without repeats."""
    named = (match[1].strip() for match in _HEADER.finditer(text))
    return tuple(dict.fromkeys(path for path in named if path != "/dev/null"))
