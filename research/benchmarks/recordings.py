"""Chooses long recordings from checkouts of public branches, for research/benchmarks/room.py.

    python research/benchmarks/recordings.py CHECKOUTS CHOSEN

CHECKOUTS has a folder for each repository, CHOSEN gets copies, named after repository and path. Of several files of one
session the longest up to 4 MiB counts, and so it does of sessions that begin alike. They have at least 60 model calls
and 90,000 tokens. Of a repository with more than 16, as many are taken at equal distances, in order of their paths.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from frame import parser
from wane.core.errors import WaneError
from wane.lab.counting import count
from wane.lab.readers import read_session

SMALLEST = 300_000  # bytes; smaller files have no 90,000 tokens
LARGEST = 2**22
CALLS = 60
TOKENS = 90_000
MOST = 16  # recordings of a repository
BEGINNING = 12  # items that tell sessions apart

_SESSION = re.compile(rb'"(?:sessionId|id)": ?"([0-9a-f-]{36})"')


def longest_files(folder: Path) -> Iterator[Path]:
    """Yield the longest file of each session, in order of the paths."""
    longest: dict[bytes, Path] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        if not SMALLEST < path.stat().st_size < LARGEST:
            continue
        session = _SESSION.search(path.read_bytes())
        if session is None:
            continue
        known = longest.get(session[1])
        if known is None or known.stat().st_size < path.stat().st_size:
            longest[session[1]] = path
    yield from sorted(longest.values())


def long_sessions(folder: Path) -> list[Path]:
    """Return the files whose session is long enough, one of those that begin alike."""
    sizes: dict[str, tuple[int, Path]] = {}
    for path in longest_files(folder):
        try:
            [session] = read_session(path)
        except (WaneError, ValueError):
            continue  # it holds no session, or several
        material = count(session)
        tokens = material.overhead + sum(item.tokens for item in material.items)
        if len(session.calls) < CALLS or tokens < TOKENS:
            continue
        beginning = repr([(part.kind, part.text[:300]) for part in session.parts[:BEGINNING]])
        if beginning not in sizes or sizes[beginning][0] < tokens:
            sizes[beginning] = tokens, path
    return sorted(path for _, path in sizes.values())


def main() -> None:
    command = parser(__doc__)
    command.add_argument("checkouts", type=Path)
    command.add_argument("chosen", type=Path)
    arguments = command.parse_args()
    arguments.chosen.mkdir(parents=True, exist_ok=True)
    for folder in sorted(path for path in arguments.checkouts.iterdir() if path.is_dir()):
        paths = long_sessions(folder)
        taken = min(MOST, len(paths))
        for number in range(taken):
            path = paths[number * len(paths) // taken]
            name = "-".join((folder.name, *path.relative_to(folder).parts[:-1]))
            shutil.copyfile(path, arguments.chosen / f"{name}.jsonl")
        print(f"{folder.name}: {taken} of {len(paths)}")


if __name__ == "__main__":
    main()
