"""Deletes the content of messages from a journal, wherever it is quoted. The chain of its requests stays valid."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from wane.core.errors import JournalError
from wane.journal.heads import forget_heads
from wane.journal.lines import checksum_of, write_line, write_lines
from wane.journal.receipts import Receipts, sent_requests
from wane.journal.records import (
    FILE_NOTE,
    MessageRecord,
    NoteRecord,
    PassRecord,
    PlacedMark,
    Record,
    ReminderRecord,
    RequestRecord,
    StateRecord,
    StrategyRecord,
)
from wane.journal.writer import Journal

DELETED: Final = "[deleted]"
"""Stands in place of each text that was deleted."""

_QUOTED: Final = 16  # characters of a text that is deleted from within other texts, too
_STRUCTURE: Final = frozenset({
    "role", "type", "kind", "part_kind", "name", "tool_name", "id", "call_id", "tool_call_id", "tool_use_id",
    "timestamp", "state", "status", "phase", "tool_kind", "finish_reason", "model_name", "provider_name", "media_type",
    "outcome",
})  # fmt: skip
"""Keys in messages whose strings stay: which result belongs to which call, and when."""
_MARK: Final = frozenset(("action", "type", "name", "dependencies", "abandoned"))
"""Keys in a call of `delimiter` that stay: without them the session would not replay."""
_NOTICE: Final = re.compile(r"<([a-z_-]+)>.*</\1>\s*\Z", re.DOTALL)
"""A text of the harness by its tags (R15), which stay: else it would be the user's, and be evicted otherwise."""
_FREE: Final = ("input", "args", "arguments", "response", "output", "content")
"""Keys of objects that tools and models fill."""


def without_messages(records: Sequence[Record], numbers: Collection[int], at: datetime) -> list[Record]:
    """Return the records of a session without the content of some messages.

    All texts of the messages go, and those of at least 16 characters wherever they are quoted. Shorter ones go from
    requests and notes where they are a whole string, which may be another message's. Requests that showed any of it
    keep their digest and their link of the chain, but can no longer be rebuilt. Roles, ids, times, and names of tools
    and episodes stay. Messages are numbered from 0; `at` is the time of the deletion.
    """
    messages = [record.message for record in records if isinstance(record, MessageRecord)]
    texts = set[str]()
    emptied = {number: _empty_texts(messages[number], texts) for number in numbers}
    redaction = _Redaction(texts)
    of_others = _Redaction([text for text in texts if len(text) >= _QUOTED])
    bodies = {request.line: request.body for request in sent_requests(records)}
    receipts, redacted, count = Receipts(), list[Record](), 0
    for line, record in enumerate(records, start=2):
        new = _blank_digests(record)
        if isinstance(new, RequestRecord):
            new = _request(new, bodies[line], redaction, receipts, at)
        elif isinstance(new, MessageRecord):
            new = of_others.message(new, emptied.get(count))
            count += 1
        else:
            new = redaction.record(new)
        receipts.follow([new])
        redacted.append(new)
    return redacted


def rewrite(journal: Journal, records: Iterable[Record]) -> None:
    """Replace the records of a journal, all or none, and close it.

    Raises:
        JournalError: if the file cannot be written.
    """
    path, first = journal.path, write_line(journal.header)
    aside = path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(b"".join([first, *write_lines(records, checksum_of(first))]))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, path)
        forget_heads(path)
        path.with_name(f"{path.name}.torn").unlink(missing_ok=True)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise JournalError(f"cannot rewrite the session {path}: {error.strerror or error}") from error
    finally:
        journal.close()


def _request(
    record: RequestRecord, body: bytes | None, redaction: _Redaction, receipts: Receipts, at: datetime
) -> RequestRecord:
    if body is None:
        return record
    try:
        data = json.loads(body)
    except ValueError:
        return replace(record, pieces=None, salt="", deleted=at)  # what is in it, nobody can tell
    redacted = redaction.of(data)
    if redacted == data:
        return replace(record, pieces=receipts.of(body, "").pieces)
    shorter = json.dumps(redacted, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return replace(record, pieces=receipts.of(shorter, "").pieces, salt="", deleted=at)


class _Redaction:
    """Takes texts out of records."""

    def __init__(self, texts: Collection[str]) -> None:
        self._texts = frozenset(texts)
        self._long = sorted((text for text in texts if len(text) >= _QUOTED), key=len, reverse=True)
        self._known: dict[str, str] = {}

    def message(self, record: MessageRecord, emptied: Mapping[str, Any] | None) -> MessageRecord:
        """Return a message's record, or that of a message that was emptied."""
        message = self.of(record.message) if emptied is None else emptied
        marks = tuple(self._mark(mark, every=emptied is not None) for mark in record.marks)
        return replace(record, message=message, marks=marks)

    def record(self, record: Record) -> Record:
        """Return any other record."""
        match record:
            case PassRecord(index=index) if index is not None:
                return replace(record, index=replace(index, text=self.of(index.text)))
            case StrategyRecord():
                return replace(record, done=self.of(record.done))
            case StateRecord():
                return replace(record, state=self.of(record.state))
            case NoteRecord(topic=topic, data=data) if topic == FILE_NOTE:
                # A whole file quotes what was read or written of it in many ways. Without it, it is not put back.
                kept = {key: data[key] for key in data if key != "before"}
                return replace(record, data={**self.of(kept), "known": False})
            case NoteRecord():
                return replace(record, data=self.of(record.data))
            case ReminderRecord():
                return replace(record, text=self.of(record.text))
        return record

    def of(self, value: Any) -> Any:
        """Return JSON data."""
        if isinstance(value, str):
            if value not in self._known:
                self._known[value] = self._without(value)
            return self._known[value]
        if isinstance(value, Mapping):
            return {key: self.of(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(entry) for entry in value]
        return value

    def _without(self, text: str) -> str:
        if text in self._texts:
            return DELETED
        if (inner := _object_in(text)) is not None and (redacted := self.of(inner)) != inner:
            text = json.dumps(redacted)
        for long in self._long:
            text = text.replace(long, DELETED)
        return text

    def _mark(self, placed: PlacedMark, *, every: bool) -> PlacedMark:
        description = placed.mark.description
        if description is None:
            return placed
        return replace(placed, mark=replace(placed.mark, description=DELETED if every else self.of(description)))


def _blank_digests(record: Record) -> Record:
    """Blank the digests in a proxy's notes on its client's messages, with which a guess could be confirmed.

    Without them the client gets a new session, as it must: this one lacks what the provider has seen.
    """
    if not isinstance(record, NoteRecord) or record.topic not in ("client", "edits", "reply"):
        return record
    data = dict(record.data)
    if record.topic == "client":
        data["entries"] = [["0" * len(row[0]), _blank(row[1]), *row[2:]] for row in data["entries"]]
    elif record.topic == "edits":
        data["entries"] = [[row[0], "0" * len(row[1]), *row[2:]] for row in data["entries"]]
    else:
        data["shape"] = _blank(data["shape"])
    return replace(record, data=data)


def _blank(shape: str) -> str:
    return shape[:2] + "0" * (len(shape) - 2)  # which says whose message it is


def _empty_texts(value: Any, texts: set[str], *, free: bool = False) -> Any:
    """JSON data of a message without its texts, which are added to `texts`."""
    if isinstance(value, str):
        if value:
            texts.add(value)
        if (inner := _object_in(value)) is not None:
            return json.dumps(_empty_texts(inner, texts, free=True))
        notice = _NOTICE.match(value)
        return DELETED if notice is None else f"<{notice[1]}>\n{DELETED}\n</{notice[1]}>"
    if isinstance(value, Mapping):
        stays = _staying(value, free=free)
        emptied = {}
        for key, entry in value.items():
            inner = free or (key in _FREE and isinstance(entry, Mapping))
            emptied[key] = entry if key in stays else _empty_texts(entry, texts, free=inner)
        return emptied
    if isinstance(value, list | tuple):
        return [_empty_texts(entry, texts, free=free) for entry in value]
    return value


def _staying(value: Mapping[str, Any], *, free: bool) -> Collection[str]:
    if not free:
        return ["usage", *(key for key in _STRUCTURE if not isinstance(value.get(key), Mapping | list))]
    return _MARK if value.get("action") in ("start", "end") else ()


def _object_in(text: str) -> Any:
    """The object that a text has as JSON, such as the arguments of a call; None if it has none."""
    if text[:1] == "{":
        with suppress(ValueError):
            return json.loads(text)
    return None
