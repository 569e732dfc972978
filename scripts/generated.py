"""Pages in docs/ that are generated: written by `make docs`, and checked by `make check`."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(path: Path, text: str, args: list[str]) -> int:
    """Write a page, or with `--check` compare it; return the exit code."""
    if "--check" not in args:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"{path} is out of date: run `make docs`", file=sys.stderr)
    return 1
