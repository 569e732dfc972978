"""The messages of a client: how they are recognised, and the proxy's notes about them in a session's journal.

A message is identified by a digest of its exact content, and by a shape that survives a client's edits.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Any, Final

from wane.conversation.calls import normalised
from wane.core import Kind
from wane.core.errors import JournalError
from wane.formats.base import Part, is_answer
from wane.journal import FORK_NOTE, ConfigRecord, MessageRecord, NoteRecord, Record
from wane.proxy import jsons
from wane.proxy.sessions.keys import ASSISTANT, Chain, pair
from wane.proxy.store.marks import SessionDigests
from wane.proxy.wire.base import AnsweredRound, Message, Wire

RESULTS: Final = b"r"
OTHER: Final = b"o"

# Such as `call_0`, `functions.read:0` and `read#0`.
_NUMBERED: Final = re.compile(r"[A-Za-z_.-]*[:_-]?\d{0,5}|[^#]*#\d{1,5}")
_TURNS: Final = (Kind.USER, Kind.NOTICE)
_ROOT_LENGTH: Final = 24
# What a request must share with a session to continue it under another beginning.
_LEAST_ANSWERS: Final = 2
_LEAST_TOKENS: Final = 100

CLIENT: Final = "client"
"""Topic of the note on the client's messages. Their records follow it."""

EDITS: Final = "edits"
"""Topic of the note on messages that the client has edited since they were last seen."""

REPLY: Final = "reply"
"""Topic of the note on a reply, with its hidden rounds."""


class Arrival:
    """A message of a request, which may be new or known.

    Args:
        wire: the request's protocol.
        message: the message as the client sent it.

    Attributes:
        digest: digest of its exact content, without `cache_control`.
    """

    __slots__ = ("__dict__", "_wire", "digest", "message")

    def __init__(self, wire: Wire, message: Message) -> None:
        self._wire = wire
        self.message = message
        self.digest = blake2b(jsons.dumps(wire.canonical(message), canonical=True), digest_size=16).digest()

    @cached_property
    def parts(self) -> list[Part]:
        """The message's parts."""
        return self._wire.format.parts(self.message)

    @cached_property
    def shape(self) -> bytes:
        """See `shape_of`."""
        return shape_of(self._wire.shaped(self.message))


def shape_of(parts: Sequence[Part]) -> bytes:
    """Return a digest that stays the same if a client drops or edits some of a message's content.

    For an assistant's message it covers the ids of its calls or, without calls, its text except spaces; for a message
    with results, the ids of the calls that they answer; for all others, only the kind of the first part. Where a server
    numbers the calls of each session alike, it covers the calls too.
    """
    if is_answer(parts):
        ids = [_identity(part) for part in parts if part.kind is Kind.CALL]
        text = " ".join(word for part in parts if part.kind is Kind.TEXT for word in part.text.split())
        return ASSISTANT + (_hash(map(_bytes, ["calls", *ids]), 8) if ids else _hash([b"text", _bytes(text)], 8))
    if ids := sorted(part.call_id or "" for part in parts if part.kind is Kind.RESULT):
        return RESULTS + _hash(map(_bytes, ids), 8)
    return OTHER + _hash((_bytes(part.kind) for part in parts[:1]), 8)


def _identity(call: Part) -> str:
    call_id = call.call_id or ""
    return f"{call_id} {call.tool} {normalised(call.arguments or '{}')}" if _NUMBERED.fullmatch(call_id) else call_id


def root_of(wire: Wire, arrivals: Sequence[Arrival], owner: str = "") -> str:
    """Return the root by which a session is found: 24 hexadecimal digits for its owner and the user's first turn."""
    # After a compaction a session may begin with notices only. It stays the same session once the user speaks.
    opening = list(takewhile(lambda arrival: arrival.shape[:1] != ASSISTANT, arrivals))
    holding = (arrival for kind in _TURNS for arrival in opening if any(part.kind is kind for part in arrival.parts))
    first = next(holding, arrivals[0])
    owned = [_bytes(owner)] if owner else []
    return _hash([_bytes(wire.name), first.digest, *owned], _ROOT_LENGTH // 2).hex()


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of the client.

    Attributes:
        digest: digest of its exact content when it was last seen.
        shape: its shape, which survives edits (`shape_of`).
        messages: number of messages of the history that it stands for: one, unless rounds are inserted.
        tokens: its tokens when it was last seen, by our own count.
    """

    digest: bytes
    shape: bytes
    messages: int = 1
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Alignment:
    """How far a request agrees with the known messages.

    Attributes:
        common: number of messages at the beginning that are the same, apart from small edits.
        edited: positions of messages that the client has changed since they were last seen.
        answered: number of messages up to the session's last answer in the request, which other sessions hardly share
            by chance; 0 if the request has none of its answers.
    """

    common: int
    edited: tuple[int, ...] = ()
    answered: int = 0


@dataclass(frozen=True, slots=True)
class Overlap:
    """Messages in a row that a request or a session shares with another session.

    Attributes:
        start: position of the first of them here.
        other_start: its position in the other session.
        count: number of them.
    """

    start: int
    other_start: int
    count: int


class Entries:
    """The known messages of a client, in order; each takes some 100 bytes.

    Args:
        root: root of their session.

    Attributes:
        chain: their keys for the store.
        fresh_pairs: keys of neighbouring messages for the memory, which nobody has taken yet.
    """

    def __init__(self, root: str) -> None:
        self.chain = Chain(root)
        self.fresh_pairs: list[int] = []
        self._digests: list[bytes] = []
        self._shapes: list[bytes] = []
        self._answers: set[bytes] = set()  # shapes of the assistant's messages
        self._messages = array("L")
        self._tokens = array("Q")

    def __len__(self) -> int:
        return len(self._digests)

    def __getitem__(self, number: int) -> Entry:
        return Entry(self._digests[number], self._shapes[number], self._messages[number], self._tokens[number])

    def overlap(self, arrivals: Sequence[Arrival], replied: Container[tuple[int, bytes]] = ()) -> Overlap | None:
        """Return the longest row of messages that a request shares exactly, at the same positions or at others.

        None if the row is so short that another session may hold the same by chance. Ids of calls prove nothing: some
        servers number the calls of each session alike.

        Args:
            arrivals: the request's messages.
            replied: as for `align`; a reply after the row counts as an answer.
        """
        if self._answers.isdisjoint(arrival.shape for arrival in arrivals):
            return None
        matcher = SequenceMatcher(None, self._digests, [arrival.digest for arrival in arrivals], autojunk=False)
        other_start, start, count = matcher.find_longest_match()
        row = range(other_start, other_start + count)
        answers = sum(self._shapes[number][:1] == ASSISTANT for number in row)
        coming = arrivals[start + count : start + count + 1]
        answers += any((row.stop, arrival.shape) in replied for arrival in coming)
        tokens = sum(self._tokens[number] for number in row)
        enough = answers >= _LEAST_ANSWERS and tokens >= _LEAST_TOKENS
        return Overlap(start, other_start, count) if enough else None

    def messages(self, number: int) -> int:
        """Return the number of messages of the history that a message stands for."""
        return self._messages[number]

    def append(self, entry: Entry) -> None:
        """Take in the next message."""
        self.chain.append(entry.digest, entry.shape)
        self._digests.append(entry.digest)
        self._shapes.append(entry.shape)
        self._pair(len(self) - 2)
        if entry.shape[:1] == ASSISTANT:
            self._answers.add(entry.shape)
        self._messages.append(entry.messages)
        self._tokens.append(entry.tokens)

    def renew(self, number: int, digest: bytes, tokens: int) -> None:
        """Take in a message that its client has edited."""
        self._digests[number] = digest
        self._tokens[number] = tokens
        self._pair(number - 1)
        self._pair(number)

    def _pair(self, number: int) -> None:
        if 0 <= number < len(self) - 1 and self._shapes[number][:1] == ASSISTANT:
            self.fresh_pairs.append(pair(self._digests[number], self._digests[number + 1]))

    def align(self, arrivals: Sequence[Arrival], replied: Container[tuple[int, bytes]] = ()) -> Alignment:
        """Return how far a request agrees with the known messages.

        An edited message with the same shape counts as the same if a later assistant's message is the same, because
        clients clear old results and remove reminders. Otherwise the user may have said something else.

        Args:
            arrivals: the request's messages.
            replied: replies that the client has received, each by its position and shape.
        """
        changed, reached = [], 0
        # Up to the last assistant's message that agrees: the number of messages, and of edits.
        sure, edits = 0, 0
        for number, (arrival, digest) in enumerate(zip(arrivals, self._digests, strict=False)):
            same = arrival.digest == digest
            if not same and arrival.shape != self._shapes[number]:
                break
            if not same:
                changed.append(number)
            reached = number + 1
            if self._shapes[number][:1] == ASSISTANT:
                sure, edits = reached, len(changed)
        answered = sure
        if reached < len(arrivals) and (reached, arrivals[reached].shape) in replied:
            edits, answered = len(changed), reached + 1
        first = next(islice(changed, edits, None), None)
        common = reached if first is None else max(sure, first)
        return Alignment(common, tuple(changed[:edits]), answered)


@dataclass(frozen=True, slots=True)
class GivenReply:
    """A reply that the client received.

    Attributes:
        shape: shape of the client's message for it.
        position: position of that message.
        rounds: its rounds, if any of them has own calls; else empty.
        inherited: whether it belongs to another session, which this one forks or rewrites.
    """

    shape: bytes
    position: int
    rounds: tuple[AnsweredRound, ...] = ()
    inherited: bool = False


def infers(records: Iterable[Record]) -> bool:
    """Whether a session's episodes are inferred."""
    return any(isinstance(record, ConfigRecord) and record.annotate == "infer" for record in records)


def client_note(entries: Sequence[Entry]) -> NoteRecord:
    """Return the note on the client's messages of one request."""
    rows = [[entry.digest.hex(), entry.shape.hex(), entry.messages, entry.tokens] for entry in entries]
    return NoteRecord(CLIENT, {"entries": rows})


def entries_of(note: NoteRecord) -> list[Entry]:
    """Return the messages in a note.

    Raises:
        JournalError: if `client_note` did not make it.
    """
    with _readable("the client's messages"):
        rows = note.data["entries"]
        return [Entry(bytes.fromhex(row[0]), bytes.fromhex(row[1]), int(row[2]), int(row[3])) for row in rows]


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
    with _readable("edits of the client"):
        return [Edit(int(row[0]), bytes.fromhex(row[1]), int(row[2])) for row in note.data["entries"]]


def reply_note(replied: GivenReply) -> NoteRecord:
    """Return the note on a reply."""
    rounds = [{"message": round_.message, "results": list(round_.results)} for round_ in replied.rounds]
    data: dict[str, Any] = {"shape": replied.shape.hex(), "place": replied.position}
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
    data = note.data
    with _readable("a reply"):
        rounds = tuple(AnsweredRound(row["message"], tuple(row["results"])) for row in data.get("rounds", ()))
        shape, position = bytes.fromhex(data["shape"]), int(data["place"])
        return GivenReply(shape, position, rounds, data.get("inherited") is True)


def marks_of(root: str, records: Iterable[Record]) -> SessionDigests:
    """Return the marks of a stored session, by its notes.

    Args:
        root: its root.
        records: its records.

    Raises:
        JournalError: if a note cannot be read.
    """
    chain = Chain(root)
    for record in records:
        if isinstance(record, NoteRecord) and record.topic == CLIENT:
            for entry in entries_of(record):
                chain.append(entry.digest, entry.shape)
        elif isinstance(record, NoteRecord) and record.topic == REPLY:
            reply = reply_of(record)
            if not reply.inherited:
                chain.replied(reply.position, reply.shape)
    return SessionDigests(chain.head, chain.fresh)


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise JournalError(f"a note on {what} cannot be read: {error!r}") from error


def prefix(records: Sequence[Record], count: int) -> list[Record]:
    """Return the first records of a fork: those of a session about the client's first messages, and a note.

    Args:
        records: the session's records.
        count: number of the client's messages to keep.
    """
    return [*_first(records, count), NoteRecord(FORK_NOTE)]


def _first(records: Sequence[Record], count: int) -> list[Record]:
    copied: list[Record] = []
    total, remaining = count, 0  # `remaining`: messages of the history still to keep
    for number, record in enumerate(records):
        if isinstance(record, NoteRecord) and record.topic == CLIENT:
            entries = entries_of(record)[:count]
            if not entries:
                return [*copied, *_later(records[number:], total)]
            count -= len(entries)
            remaining = sum(entry.messages for entry in entries)
            copied.append(replace(client_note(entries), at=record.at))
        elif isinstance(record, MessageRecord):
            if not remaining:
                return [*copied, *_later(records[number:], total)]
            remaining -= 1
            copied.append(record)
        else:
            copied.append(record)
    return copied


def _later(records: Iterable[Record], count: int) -> Iterator[Record]:
    """Later edits of the client's first messages, which apply to every fork, and later replies to them."""
    for record in records:
        if isinstance(record, NoteRecord) and record.topic == REPLY and reply_of(record).position == count:
            yield record
        if isinstance(record, NoteRecord) and record.topic == EDITS:
            edits = [edit for edit in edits_of(record) if edit.number < count]
            if edits:
                yield replace(edits_note(edits), at=record.at)


def _hash(chunks: Iterable[bytes], size: int) -> bytes:
    digest = blake2b(digest_size=size)
    for chunk in chunks:
        digest.update(b"%d:" % len(chunk))
        digest.update(chunk)
    return digest.digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
