"""Writes small session files for the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Line = dict[str, Any] | str | bytes


def write_lines(path: Path, *lines: Line) -> Path:
    """Write JSON Lines; text and bytes go in as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for line in lines:
            text = line if isinstance(line, str | bytes) else json.dumps(line)
            file.write(text.encode() if isinstance(text, str) else text)
            file.write(b"\n")
    return path
