"""The model calls of a session, by its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from wane.journal.codec import SchemaError, decode
from wane.journal.records import NoteRecord, Record, UsageRecord

SPENT_NOTE: Final = "spent"
"""Topic of the note that says what a model call took which anchors nothing, so that it is no usage record."""


def model_calls(records: Iterable[Record]) -> Iterator[UsageRecord]:
    """Yield what each model call took, in order; of one that is only noted, such as one for a summary, with 0 items."""
    for record in records:
        if isinstance(record, UsageRecord):
            yield record
        elif isinstance(record, NoteRecord) and record.topic == SPENT_NOTE:
            with suppress(SchemaError):  # anybody may write a note
                yield decode(UsageRecord, {**record.data, "items": 0})
