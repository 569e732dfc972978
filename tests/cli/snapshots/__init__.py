"""What people look at, kept as text. To take a new picture after a change that is meant to show:

UPDATE_SNAPSHOTS=1 make test ARGS=tests/cli
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def matches_snapshot(name: str, text: str) -> bool:
    """Whether text is as it was kept, trailing blanks aside; with UPDATE_SNAPSHOTS set, it is kept anew."""
    path = FOLDER / f"{name}.txt"
    shown = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")
    return True
