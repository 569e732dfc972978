"""One session of a file that holds several: `FILE#2` by its number, or `FILE#TITLE` by its title or name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wane.core.errors import SessionNotFoundError
from wane.lab.recorded_session import RecordedSession

_MARK: Final = "#"
_NAMED: Final = 10


def split_choice(path: str | Path) -> tuple[Path, str]:
    """Return the file that a path names, and the session of it that the path chooses; empty if it chooses none.

    A file whose own name holds the mark is that file.
    """
    target = Path(path)
    file, mark, choice = str(path).rpartition(_MARK)
    if mark and choice and not target.exists() and Path(file).is_file():
        return Path(file), choice
    return target, ""


def choose(sessions: Sequence[RecordedSession], choice: str, name: str) -> RecordedSession:
    """Return the session of a file, called `name`, that a choice means: a number from 1, or words of its title or name.

    Raises:
        SessionNotFoundError: if it means none, or several.
    """
    words = choice.casefold()
    matches = [session for session in sessions if words in (session.title.casefold(), session.name.casefold())]
    if choice.isdecimal() and not matches:
        matches = list(sessions[int(choice) - 1 : int(choice)]) if int(choice) else []
    elif not matches:
        matches = [session for session in sessions if words in f"{session.title}\n{session.name}".casefold()]
    if len(matches) == 1:
        return matches[0]
    what = f"{len(matches)} sessions with {choice!r} in their titles" if matches else f"no session {choice!r}"
    raise SessionNotFoundError(f"{name} holds {what}; it has {list_titles(sessions)}")


def list_titles(sessions: Sequence[RecordedSession]) -> str:
    """Return the numbers of sessions, each with its title."""
    named = [f"{_MARK}{number} {session.title or session.name}" for number, session in enumerate(sessions, start=1)]
    rest = len(named) - _NAMED
    return ", ".join([*named[:_NAMED], *([f"and {rest:,} more"] if rest > 0 else [])])
