"""Sessions on disk: append-only, crash-safe, resumable. `docs/journal.md` has the file format."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wane.journal.heads import SessionInfo
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
    from wane.journal.receipts import Receipts, RecentRequests, SentRequest, sent_requests
    from wane.journal.records import (
        CLIENT_NOTE,
        FORK_NOTE,
        REPLY_NOTE,
        ChoiceRecord,
        ConfigRecord,
        Header,
        MessageRecord,
        NoteRecord,
        PassRecord,
        PersonsRecord,
        PlacedMark,
        Record,
        ReminderRecord,
        RequestRecord,
        StateRecord,
        StrategyRecord,
        UsageRecord,
        model_calls,
        settings_after,
        spent_call,
        spent_note,
    )
    from wane.journal.store import SESSION_DIR_VARIABLE, SessionStore, default_root
    from wane.journal.writer import Journal

__all__ = [
    "CLIENT_NOTE",
    "FORK_NOTE",
    "REPLY_NOTE",
    "SESSION_DIR_VARIABLE",
    "ChoiceRecord",
    "Clock",
    "ConfigRecord",
    "Header",
    "Journal",
    "MessageRecord",
    "NoteRecord",
    "PassRecord",
    "PersonsRecord",
    "PlacedMark",
    "Receipts",
    "RecentRequests",
    "Record",
    "ReminderRecord",
    "RequestRecord",
    "SentRequest",
    "SessionFile",
    "SessionInfo",
    "SessionStore",
    "StateRecord",
    "StrategyRecord",
    "UsageRecord",
    "checksum_of",
    "default_root",
    "model_calls",
    "new_header",
    "read",
    "read_header",
    "read_lines",
    "sent_requests",
    "settings_after",
    "spent_call",
    "spent_note",
    "utc_now",
    "write_line",
    "write_lines",
]

# Each is loaded when it is asked for: who only follows records, such as a conversation, loads nothing that reads files,
# and who only wants titles no records, whose classes take a quarter of the start of a short command.
_LATER: Final = {
    "heads": "SessionInfo",
    "lines": "Clock checksum_of new_header read_header read_lines utc_now write_line write_lines",
    "reader": "SessionFile read",
    "receipts": "Receipts RecentRequests SentRequest sent_requests",
    "records": (
        "CLIENT_NOTE FORK_NOTE REPLY_NOTE ChoiceRecord ConfigRecord Header MessageRecord NoteRecord "
        "PassRecord PersonsRecord PlacedMark Record ReminderRecord RequestRecord StateRecord StrategyRecord "
        "UsageRecord model_calls settings_after spent_call spent_note"
    ),
    "store": "SESSION_DIR_VARIABLE SessionStore default_root",
    "writer": "Journal",
}
_MODULE_OF: Final = {name: module for module, names in _LATER.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"wane.journal.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
