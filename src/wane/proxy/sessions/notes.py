"""The proxy's notes in a session's journal, and the first records of a fork."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wane.core.errors import JournalError
from wane.journal import MessageRecord, NoteRecord, Record
from wane.proxy.sessions.entries import Entry
from wane.proxy.wire.base import WovenRound

SETUP: Final = "proxy"
"""Topic of the note on the session's settings from here on."""

CLIENT: Final = "client"
"""Topic of the note on the client's messages. Their records follow it."""

EDITS: Final = "edits"
"""Topic of the note on messages that the client has edited since they were last seen."""

REPLY: Final = "reply"
"""Topic of the note on a reply, with its hidden rounds."""


@dataclass(frozen=True, slots=True)
class GivenReply:
    """A reply that the client received.

    Attributes:
        shape: shape of the client's message for it.
        rounds: its rounds, if any of them has own calls; else empty.
        inherited: whether it belongs to another session, which this one forks or rewrites.
    """

    shape: bytes
    rounds: tuple[WovenRound, ...] = ()
    inherited: bool = False


def setup_note(api: str, strategy: str, *, infer: bool, required: int = 0) -> NoteRecord:
    """Return the note on a session's settings.

    Args:
        api: name of its wire.
        strategy: name of its strategy.
        infer: whether its episodes are inferred.
        required: tokens of evicted content that requests show because the provider demands it.
    """
    more = {"required": required} if required else {}
    return NoteRecord(SETUP, {"api": api, "strategy": strategy, "infer": infer, **more})


def infers(records: Iterable[Record]) -> bool:
    """Whether a session's episodes are inferred, by its notes."""
    return any(r.data.get("infer") is True for r in records if isinstance(r, NoteRecord) and r.topic == SETUP)


def client_note(entries: Sequence[Entry], *, more: bool = False) -> NoteRecord:
    """Return the note on the client's messages.

    Args:
        entries: the messages.
        more: whether they belong to the same request as those of the previous note.
    """
    rows = [[entry.digest.hex(), entry.shape.hex(), entry.messages, entry.tokens] for entry in entries]
    return NoteRecord(CLIENT, {"entries": rows, "more": True} if more else {"entries": rows})


def continues(note: NoteRecord) -> bool:
    """Return whether a note on the client's messages continues the request of the previous note."""
    return note.data.get("more") is True


def entries_of(note: NoteRecord) -> list[Entry]:
    """Return the messages in a note.

    Raises:
        JournalError: if `client_note` did not make it.
    """
    try:
        rows = note.data["entries"]
        return [Entry(bytes.fromhex(row[0]), bytes.fromhex(row[1]), int(row[2]), int(row[3])) for row in rows]
    except (LookupError, TypeError, ValueError) as error:
        raise JournalError(f"a note on the client's messages cannot be read: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Edit:
    """A message that the client has edited.

    Attributes:
        number: its position among the client's messages.
        digest: digest of its new content.
        tokens: its tokens now, by our own count.
    """

    number: int
    digest: bytes
    tokens: int


def edits_note(edits: Sequence[Edit]) -> NoteRecord:
    """Return the note on edited messages."""
    return NoteRecord(EDITS, {"entries": [[edit.number, edit.digest.hex(), edit.tokens] for edit in edits]})


def edits_of(note: NoteRecord) -> list[Edit]:
    """Return the edits in a note.

    Raises:
        JournalError: if `edits_note` did not make it.
    """
    try:
        return [Edit(int(row[0]), bytes.fromhex(row[1]), int(row[2])) for row in note.data["entries"]]
    except (LookupError, TypeError, ValueError) as error:
        raise JournalError(f"a note on edits of the client cannot be read: {error!r}") from error


def reply_note(replied: GivenReply) -> NoteRecord:
    """Return the note on a reply."""
    rounds = [{"message": round_.message, "results": list(round_.results)} for round_ in replied.rounds]
    data: dict[str, Any] = {"shape": replied.shape.hex()}
    if rounds:
        data["rounds"] = rounds
    if replied.inherited:
        data["inherited"] = True
    return NoteRecord(REPLY, data)


def reply_of(note: NoteRecord) -> GivenReply:
    """Return the reply in a note.

    Raises:
        JournalError: if `reply_note` did not make it.
    """
    data: Mapping[str, Any] = note.data
    try:
        rounds = tuple(WovenRound(row["message"], tuple(row["results"])) for row in data.get("rounds", ()))
        return GivenReply(bytes.fromhex(data["shape"]), rounds, data.get("inherited") is True)
    except (LookupError, TypeError, ValueError) as error:
        raise JournalError(f"a note on a reply cannot be read: {error!r}") from error


def prefix(records: Sequence[Record], count: int) -> list[Record]:
    """Return the records of a session about the client's first messages.

    Args:
        records: the session's records.
        count: number of the client's messages to keep.
    """
    kept: list[Record] = []
    whole, left = count, 0  # `left`: messages of the history still to keep
    for number, record in enumerate(records):
        if isinstance(record, NoteRecord) and record.topic == CLIENT:
            entries = entries_of(record)[:count]
            if not entries:
                return [*kept, *_edits(records[number:], whole)]
            count -= len(entries)
            left = sum(entry.messages for entry in entries)
            kept.append(replace(client_note(entries, more=continues(record)), at=record.at))
        elif isinstance(record, MessageRecord):
            if not left:
                return [*kept, *_edits(records[number:], whole)]
            left -= 1
            kept.append(record)
        else:
            kept.append(record)
    return kept


def _edits(records: Iterable[Record], count: int) -> Iterator[Record]:
    """Later edits of the client's first messages, which apply to every fork."""
    for record in records:
        if isinstance(record, NoteRecord) and record.topic == EDITS:
            edits = [edit for edit in edits_of(record) if edit.number < count]
            if edits:
                yield replace(edits_note(edits), at=record.at)
