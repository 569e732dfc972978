"""The messages of a client: how the proxy recognises them, and its notes about them in a session's journal.

A message is identified by a digest of its exact content, and by a shape that survives a client's edits. A session is
recognised in the store by keys of its messages, and in memory by pairs of messages.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from hashlib import blake2b
from itertools import takewhile
from operator import is_
from typing import Any, Final

from wane.conversation.tool_calls import normalise_arguments
from wane.core import Kind
from wane.core.errors import JournalError
from wane.core.items import INVALID_JSON
from wane.core.light import light_dataclass
from wane.formats.message_format import Part, is_answer
from wane.journal import CLIENT_NOTE, REPLY_NOTE, NoteRecord
from wane.proxy import jsons
from wane.proxy.sessions.caching import SentMessage
from wane.proxy.store.stores import Sought
from wane.proxy.wire.wire import AnsweredRound, Message, Wire

# First bytes of shapes.
ASSISTANT: Final = b"a"
_RESULTS: Final = b"r"
_OTHER: Final = b"o"

# Such as `call_0`, `functions.read:0` and `read#0`.
_NUMBERED: Final = re.compile(r"[A-Za-z_.-]*[:_-]?\d{0,5}|[^#]*#\d{1,5}")
_KEY: Final = 8  # bytes
# How objects begin in which clients send back arguments that were not JSON: by Anthropic's advice; Claude Code 2.1.332.
_UNREAD: Final = (f'{{"{INVALID_JSON}":', '{"__unparsedToolInput":')
# The least that a request must share with a session to continue it after another beginning.
_LEAST_ANSWERS: Final = 2
_LEAST_TOKENS: Final = 100

EDITS: Final = "edits"
"""Topic of the note on messages that the client has edited since they were last seen."""


class Arrival:
    """A message of a request, which may be new or known.

    What is computed of it is computed once, when it is first asked for: there are thousands, so they have no dict.

    Attributes:
        digest: see `digest_of`.
        sent: what the provider's cache depends on of it.
        parts: the message's parts.
        shape: see `shape_of`.
    """

    __slots__ = ("_wire", "digest", "message", "parts", "sent", "shape")

    digest: bytes
    sent: SentMessage
    parts: list[Part]
    shape: bytes

    def __init__(self, wire: Wire, message: Message) -> None:
        self._wire = wire
        self.message = message

    def __getattr__(self, name: str) -> Any:
        value: Any
        if name == "digest":
            value = digest_of(self._wire, self.message)
        elif name == "sent":
            value = SentMessage.of(self.message, self.digest)
        elif name == "parts":
            value = self._wire.format.parts(self.message)
        elif name == "shape":
            value = shape_of(self._wire.shape_parts(self.message, self.parts))
        else:
            raise AttributeError(name)
        setattr(self, name, value)
        return value

    def forget_parts(self) -> None:
        """Drop the parts of a message that a session has taken in: they take more memory than all else of it."""
        with suppress(AttributeError):
            del self.parts


def digest_of(wire: Wire, message: Message) -> bytes:
    """Return the digest of a message's exact content, without `cache_control`."""
    return blake2b(jsons.dumps(wire.canonical(message), canonical=True), digest_size=16).digest()


def sent_messages(wire: Wire, messages: Sequence[Message], arrivals: Sequence[Arrival]) -> list[SentMessage]:
    """Return what the provider's cache depends on of the messages of a body that is sent.

    Those that it has from the client's request unchanged, which are the same objects, are known.
    """

    def key_of(message: Message) -> int:
        return id(wire.entries(message)[0]) if wire.groups else id(message)

    if len(messages) == len(arrivals) and all(map(is_, messages, [arrival.message for arrival in arrivals])):
        return [arrival.sent for arrival in arrivals]
    unchanged = {key_of(arrival.message): arrival for arrival in arrivals}
    sent: list[SentMessage] = []
    for message in messages:
        arrival = unchanged.get(key_of(message))
        if arrival is not None and wire.groups:
            entries, own = wire.entries(message), wire.entries(arrival.message)
            if len(own) != len(entries) or not all(map(is_, own, entries)):
                arrival = None
        sent.append(SentMessage.of(message, digest_of(wire, message)) if arrival is None else arrival.sent)
    return sent


def shape_of(parts: Sequence[Part]) -> bytes:
    """Return a digest that stays the same if a client drops or edits some of a message's content.

    For an assistant's message it covers the ids of its calls, and of results in it, because a client may put what comes
    behind `pause_turn` into the same message; or, without either, its text except spaces. For a message with results it
    covers the ids of the calls that they answer; for all others, only whether a person speaks in it, or else the kind
    of its first part: clients put notices into a person's message, and leave them out of it later. Where a server
    numbers the calls of each session alike, it covers the calls too, but no arguments that were not JSON: clients send
    those back each in its own way.
    """
    if is_answer(parts):
        calls = []
        for part in parts:
            if part.kind is Kind.CALL:
                call_id = part.call_id or ""
                numbered = _NUMBERED.fullmatch(call_id)
                if numbered:
                    arguments = normalise_arguments(part.arguments or "{}")
                    is_read = arguments.startswith('{"') and not arguments.startswith(_UNREAD)
                    call_id = f"{call_id} {part.tool} {arguments if is_read else ''}"
                calls.append(call_id)
            elif part.kind is Kind.RESULT:
                calls.append(f"={part.call_id}")
        if calls:
            return ASSISTANT + _hash(["calls", *calls], 8)
        words: list[str] = []
        for part in parts:
            if part.kind is Kind.TEXT:
                words += part.text.split()
        return ASSISTANT + _hash(["text", " ".join(words)], 8)
    if ids := sorted(part.call_id or "" for part in parts if part.kind is Kind.RESULT):
        return _RESULTS + _hash(ids, 8)
    if any(part.kind is Kind.USER for part in parts):
        return _OTHER + _hash([Kind.USER], 8)
    return _OTHER + _hash([part.kind for part in parts[:1]], 8)


def root_of_request(wire: Wire, arrivals: Sequence[Arrival], owner: str = "") -> str:
    """Return the root of a request's session: 24 hexadecimal digits for its owner and the user's first turn.

    Notices in the same message do not count: a resumed client states its environment anew there.
    """
    first = _first_turn(arrivals)
    words = "".join(wire.spoken(first.message))
    # What is not text, such as an image, has no words.
    chunks: list[bytes | str] = [wire.name, words or first.digest]
    if owner:
        chunks.append(owner)
    return _hash(chunks, 12).hex()


def _first_turn(arrivals: Sequence[Arrival]) -> Arrival:
    """Return the user's first turn before the first answer, or else the first notice there, or else the first message.

    After a compaction a session may begin with notices only. It stays the same session once the user speaks.
    """
    notice: Arrival | None = None
    for arrival in arrivals:
        if arrival.shape[:1] == ASSISTANT:
            break
        kinds = {part.kind for part in arrival.parts}
        if Kind.USER in kinds:
            return arrival
        if Kind.NOTICE in kinds and notice is None:
            notice = arrival
    return notice or arrivals[0]


@light_dataclass(frozen=True, slots=True)
class Entry:
    """A message of the client as it was last seen.

    Attributes:
        messages: how many messages of the history it stands for: one, unless rounds are inserted.
        tokens: its tokens, by our own count.
    """

    digest: bytes
    shape: bytes
    messages: int = 1
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class RequestAlignment:
    """How far a request agrees with the known messages.

    Attributes:
        common: how many messages at the beginning are the same, apart from small edits.
        edited: numbers of the messages that the client has changed since they were last seen.
        answered: how many messages of the request go up to the last answer that it shares with the session; 0 if it
            shares none. Other sessions hardly share answers by chance.
    """

    common: int
    edited: tuple[int, ...] = ()
    answered: int = 0


@dataclass(frozen=True, slots=True)
class Overlap:
    """Messages in a row that a request or a session shares with another session, from a message of each."""

    start: int
    other_start: int
    count: int


class Chain:
    """The keys of a growing history, in order. A message's key covers the root, and the shapes of it and all before it.

    Attributes:
        fresh: keys of answers that are not indexed yet.
    """

    def __init__(self, root: str) -> None:
        self.fresh: list[str] = []
        self._start = self._tail = bytes.fromhex(root)[:_KEY]
        self._after: list[bytes] = []  # digests that the tail does not cover yet
        self._keys = bytearray()

    def append(self, digest: bytes, shape: bytes) -> None:
        """Take in the next message."""
        key = _link(self._key(len(self._keys) // _KEY), shape)
        self._keys += key
        if shape[:1] == ASSISTANT:
            self.fresh.append(key.hex())
            self._tail, self._after = key, []
        else:
            self._after.append(digest)

    def take_reply(self, number: int, shape: bytes) -> None:
        """Take in a reply with this number, which the client has not sent back yet."""
        if shape[:1] == ASSISTANT and number * _KEY <= len(self._keys):
            self.fresh.append(_link(self._key(number), shape).hex())

    def _key(self, count: int) -> bytes:
        """Return the key of the first `count` messages."""
        return bytes(self._keys[(count - 1) * _KEY : count * _KEY]) if count else self._start

    @property
    def head(self) -> str:
        """Digits for the present history: its shapes, and the exact content after its last answer."""
        for digest in self._after:
            self._tail = _link(self._tail, digest)
        self._after.clear()
        return (self._key(len(self._keys) // _KEY) + self._tail).hex()


class Trail(Sought):
    """The keys of a request's history, by which a store finds its session: computed once a session may have them."""

    def __init__(self, root: str, arrivals: Sequence[Arrival]) -> None:
        self._root, self._arrivals = root, arrivals

    @cached_property
    def _links(self) -> tuple[Sequence[str], Sequence[str]]:
        """The keys of the answers and the heads of all beginnings, from the first message on."""
        chain, heads = Chain(self._root), list[str]()
        for arrival in self._arrivals:
            chain.append(arrival.digest, arrival.shape)
            heads.append(chain.head)
        return chain.fresh, heads

    @property
    def answers(self) -> Sequence[str]:
        """Keys of its answers, the latest first."""
        return self._links[0][::-1]

    @property
    def openings(self) -> Sequence[str]:
        """Heads of the parts of the history that end before its first answer, the longest first."""
        ahead = takewhile(lambda arrival: arrival.shape[:1] != ASSISTANT, self._arrivals)
        return self._links[1][: len(list(ahead))][::-1]

    def distance(self, head: str) -> int:
        """Return 0 if the request has all of a session with this head, 1 if it has it with edits, else 2."""
        heads = self._links[1]
        if head in heads:
            return 0
        keys = [request_head[: 2 * _KEY] for request_head in heads]
        return 1 if head[: 2 * _KEY] in keys else 2


def _link(before: bytes, addition: bytes) -> bytes:
    return blake2b(before + addition, digest_size=_KEY).digest()


def pair(first: bytes, second: bytes) -> int:
    """Return the key of an answer and the message after it, by their exact digests; it is valid in this process."""
    return hash((first, second))


class Entries:
    """The known messages of a client, in order; each takes some 100 bytes.

    Attributes:
        chain: their keys for the store, which cover the root of their session.
        fresh_pairs: keys of pairs (`pair`) for the sessions in memory, which are not indexed yet.
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

    def overlap(self, arrivals: Sequence[Arrival], replied: Container[tuple[int, bytes]]) -> Overlap | None:
        """Return the longest row of messages that a request shares exactly, at the same numbers or at others.

        None if the row is so short that another session may have the same by chance. Ids of calls prove nothing: some
        servers number the calls of each session alike. A reply after the row counts as an answer; see `align`.
        """
        if self._answers.isdisjoint(arrival.shape for arrival in arrivals):
            return None
        matcher = SequenceMatcher(None, self._digests, [arrival.digest for arrival in arrivals], autojunk=False)
        other_start, start, count = matcher.find_longest_match()
        stop = start + count
        row = range(other_start, other_start + count)
        answers = sum(self._shapes[number][:1] == ASSISTANT for number in row)
        if stop < len(arrivals) and (row.stop, arrivals[stop].shape) in replied:
            answers += 1
        tokens = sum(self._tokens[number] for number in row)
        if answers < _LEAST_ANSWERS or tokens < _LEAST_TOKENS:
            return None
        return Overlap(start, other_start, count)

    def messages(self, number: int) -> int:
        """Return how many messages of the history a message stands for."""
        return self._messages[number]

    @property
    def plain(self) -> bool:
        """Whether each message stands for itself alone."""
        return self._messages.count(1) == len(self._messages)

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

    def align(self, arrivals: Sequence[Arrival], replied: Container[tuple[int, bytes]]) -> RequestAlignment:
        """Return how far a request agrees with the known messages.

        An edited message with the same shape counts as the same if a later assistant's message is the same, because
        clients clear old results and remove reminders. Otherwise the user may have said something else.

        Args:
            arrivals: the request's messages.
            replied: replies that the client has received, each by its number and shape.
        """
        changed: list[int] = []
        both = min(len(arrivals), len(self))
        digests = [arrival.digest for arrival in arrivals[:both]]
        start = both  # the first message that is not the same; most requests have all that is known
        if digests != self._digests[:both]:
            start = next(number for number in range(both) if digests[number] != self._digests[number])
        reached = start
        # Up to the last assistant's message that agrees, which confirms the edits before it.
        sure = start
        while sure and self._shapes[sure - 1][:1] != ASSISTANT:
            sure -= 1
        edits = 0
        for number in range(start, both):
            if digests[number] != self._digests[number]:
                if arrivals[number].shape != self._shapes[number]:
                    break
                changed.append(number)
            reached = number + 1
            if self._shapes[number][:1] == ASSISTANT:
                sure = reached
                edits = len(changed)
        answered = sure
        if reached < len(arrivals) and (reached, arrivals[reached].shape) in replied:
            edits = len(changed)
            answered = reached + 1
        common = reached
        if edits < len(changed):
            common = max(sure, changed[edits])
        return RequestAlignment(common, tuple(changed[:edits]), answered)


@dataclass(frozen=True, slots=True)
class GivenReply:
    """A reply that the client received.

    Attributes:
        shape: the shape of the client's message for it.
        number: the number of that message.
        rounds: its rounds, if any of them has own calls.
        inherited: whether it belongs to another session, which this one forks or rewrites.
    """

    shape: bytes
    number: int
    rounds: tuple[AnsweredRound, ...] = ()
    inherited: bool = False


def client_note(entries: Sequence[Entry], agent: str = "") -> NoteRecord:
    """Return the note on the client's messages of one request, with the agent that sent it if that is known."""
    rows = [[entry.digest.hex(), entry.shape.hex(), entry.messages, entry.tokens] for entry in entries]
    return NoteRecord(CLIENT_NOTE, {"entries": rows, **({"agent": agent} if agent else {})})


def entries_of(note: NoteRecord) -> list[Entry]:
    """Return the messages in a note; raise a JournalError, as `edits_of` and `reply_of` do, if it is malformed."""
    with _readable("the client's messages"):
        rows = note.data["entries"]
        return [Entry(bytes.fromhex(row[0]), bytes.fromhex(row[1]), int(row[2]), int(row[3])) for row in rows]


@dataclass(frozen=True, slots=True)
class Edit:
    """A message that the client has edited: its number, and the digest and tokens of its new content."""

    number: int
    digest: bytes
    tokens: int


def edits_note(edits: Sequence[Edit]) -> NoteRecord:
    """Return the note on edited messages."""
    return NoteRecord(EDITS, {"entries": [[edit.number, edit.digest.hex(), edit.tokens] for edit in edits]})


def edits_of(note: NoteRecord) -> list[Edit]:
    """Return the edits in a note."""
    with _readable("edits of the client"):
        return [Edit(int(row[0]), bytes.fromhex(row[1]), int(row[2])) for row in note.data["entries"]]


def reply_note(replied: GivenReply) -> NoteRecord:
    """Return the note on a reply."""
    rounds = [{"message": round_.message, "results": list(round_.results)} for round_ in replied.rounds]
    data: dict[str, Any] = {"shape": replied.shape.hex(), "place": replied.number}
    if rounds:
        data["rounds"] = rounds
    if replied.inherited:
        data["inherited"] = True
    return NoteRecord(REPLY_NOTE, data)


def reply_of(note: NoteRecord) -> GivenReply:
    """Return the reply in a note."""
    data = note.data
    with _readable("a reply"):
        rounds = tuple(AnsweredRound(row["message"], tuple(row["results"])) for row in data.get("rounds", ()))
        shape = bytes.fromhex(data["shape"])
        return GivenReply(shape, int(data["place"]), rounds, data.get("inherited") is True)


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise JournalError(f"a note on {what} cannot be read: {error!r}") from error


def _hash(chunks: Iterable[bytes | str], size: int) -> bytes:
    digest = blake2b(digest_size=size)
    for chunk in chunks:
        data = chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else chunk
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()
