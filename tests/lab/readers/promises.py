"""What every recorded session promises, and the recorded sessions that stand beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from wane import ContextWindow, Kind, chars
from wane.lab.readers import head
from wane.lab.readers.reading import line_reader_of
from wane.lab.recorded_session import RecordedSession

SESSIONS = Path(__file__).resolve().parents[4] / "shared" / "sessions"
OUTPUT = {Kind.TEXT, Kind.REASONING, Kind.CALL}

needs_sessions = pytest.mark.skipif(
    not SESSIONS.is_dir(), reason="no recorded sessions: ../shared/sessions (relative to the repository) is not there"
)


def check(session: RecordedSession) -> RecordedSession:
    """Assert what `RecordedSession` says of itself, in the session and its sidechains; return it."""
    parts, calls = session.parts, session.calls
    assert len(session.messages) == len(parts)
    assert session.messages == sorted(session.messages)
    owners = [0] * len(parts)
    end = 0
    for call in calls:
        assert end <= call.first <= call.stop <= len(parts)
        end = call.stop
        assert len(set(session.messages[call.first : call.stop])) <= 1
        for index in range(call.first, call.stop):
            owners[index] += 1
    assert all(owners[index] == 1 for index, part in enumerate(parts) if part.kind in OUTPUT)
    ids = [part.call_id for part in parts if part.kind is Kind.CALL]
    assert len(ids) == len(set(ids))
    window = ContextWindow()  # refuses a result without its call, or a second one
    for part, message in zip(parts, session.messages, strict=True):
        window.add(part.item(chars, message))
    for compaction in session.compactions:
        assert 0 <= compaction.first_kept <= compaction.position <= len(parts)
    for sidechain in session.sidechains:
        check(sidechain)
    return session


def title_of(path: Path) -> str | None:
    """How messages call the agent whose records a file has on its lines; None if none is known to write them."""
    reader = line_reader_of(head(path))
    return None if reader is None else reader.TITLE


def kinds(session: RecordedSession) -> list[str]:
    """The kinds of its parts, in order."""
    return [part.kind.value for part in session.parts]


def texts(session: RecordedSession) -> list[str]:
    """The texts of its parts; of a call, its tool and arguments."""
    return [part.text or f"{part.tool or ''}{part.arguments or ''}" for part in session.parts]


def problems(session: RecordedSession) -> list[str]:
    """Its problems, each with its line."""
    return [f"{problem.line}: {problem.what}" for problem in session.problems]
