"""Sessions on disk: append-only, crash-safe, resumable. `docs/journal.md` has the file format."""

from wane.journal.lines import (
    Clock,
    checksum_of,
    new_header,
    read_header,
    read_lines,
    utc_now,
    write_line,
    write_lines,
)
from wane.journal.reader import SessionFile, read
from wane.journal.records import (
    FORK_NOTE,
    ConfigRecord,
    Header,
    MessageRecord,
    NoteRecord,
    PassRecord,
    PlacedMark,
    Record,
    StrategyRecord,
    UsageRecord,
    model_calls,
    spent_call,
    spent_note,
)
from wane.journal.store import SESSION_DIR_VARIABLE, SessionInfo, SessionStore, default_root
from wane.journal.writer import Journal

__all__ = [
    "FORK_NOTE",
    "SESSION_DIR_VARIABLE",
    "Clock",
    "ConfigRecord",
    "Header",
    "Journal",
    "MessageRecord",
    "NoteRecord",
    "PassRecord",
    "PlacedMark",
    "Record",
    "SessionFile",
    "SessionInfo",
    "SessionStore",
    "StrategyRecord",
    "UsageRecord",
    "checksum_of",
    "default_root",
    "model_calls",
    "new_header",
    "read",
    "read_header",
    "read_lines",
    "spent_call",
    "spent_note",
    "utc_now",
    "write_line",
    "write_lines",
]
