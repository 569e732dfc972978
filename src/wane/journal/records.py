"""Contents of a session file: one header, then records in the order of events.

Each class is one kind of line. The fields are the file format: a change here needs a new `VERSION` and a line in
`docs/journal.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Final, Literal

from wane.core import DEFAULT_BUDGET, Added, EvictedIndex, FitReport, Mark, Policy, Room, Step
from wane.core.episodes import Choice
from wane.core.light import light_dataclass
from wane.journal.codec import SchemaError, decode, encode

VERSION: Final = 6
"""Version of the file format."""

Layer = Literal["http", "model"]
"""What the bytes of a request are; see `RequestRecord`."""


UNKNOWN_PARENT: Final = "?"
"""In a header in place of the id of the session that started a sub-agent's, if that is not known."""


@dataclass(frozen=True, slots=True)
class Header:
    """First line of a session file.

    Attributes:
        version: version of the file format.
        id: the session's id, as in its file's name.
        created: when it began, in UTC.
        cwd: absolute path of the directory that the agent works in.
        format: name of the format of its messages, such as `pydantic_ai`.
        wane: version of Wane that created it.
        owner: the name to which a session of a team's proxy belongs; empty, and not in the file, for any other.
        parent: for a sub-agent's session of the proxy, the id of the session that started it, or `UNKNOWN_PARENT`;
            empty, and not in the file, for any other.
    """

    kind: ClassVar[str] = "session"

    version: int
    id: str
    created: datetime
    cwd: str
    format: str
    wane: str
    owner: str = ""
    parent: str = ""


@light_dataclass(frozen=True, slots=True)
class Record:
    """Base of all lines after the header.

    Attributes:
        at: when it was appended, in UTC, to the millisecond; the journal sets it.
    """

    kind: ClassVar[str] = ""

    at: datetime | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class PlacedMark:
    """A mark, inferred or the host's, right ahead of the item with that index."""

    item: int
    mark: Mark


@light_dataclass(frozen=True, slots=True)
class MessageRecord(Record):
    """A message of the history with the marks that were inferred in it, or that the host made.

    They are one record, so that no crash can separate them. Who rebuilds the session uses the recorded marks, even if
    later versions would infer others.

    Attributes:
        message: the message as its format writes it in JSON; the journal does not look into it.
        marks: the marks, in order.
    """

    kind: ClassVar[str] = "message"

    message: Mapping[str, Any]
    marks: tuple[PlacedMark, ...] = ()

    @classmethod
    def of(cls, message: Mapping[str, Any], added: Iterable[Added]) -> MessageRecord:
        """Return the record of a message from the outcome of adding its items."""
        return cls(message, tuple(PlacedMark(entry.index, mark) for entry in added for mark in entry.marks))

    @property
    def hosts_marks(self) -> dict[int, tuple[Mark, ...]]:
        """Those of the program around the model (R18)."""
        return {item: marks for item, marks in self.marks_at.items() if marks[0].host}

    @property
    def marks_at(self) -> dict[int, tuple[Mark, ...]]:
        """The marks, by index of the item right after them."""
        by_item: dict[int, tuple[Mark, ...]] = {}
        for placed in self.marks:
            by_item[placed.item] = (*by_item.get(placed.item, ()), placed.mark)
        return by_item


@light_dataclass(frozen=True, slots=True)
class RequestFact(Record):
    """What is known of a request: a history that has such a record has made the request (`conversation/history.py`).

    Attributes:
        items: number of items in the history at the request.
    """

    items: int


@light_dataclass(frozen=True, slots=True)
class PassRecord(RequestFact):
    """A pass of the policy that evicted something, or tried to (R10, R13).

    Attributes:
        items: number of items in the history when it ran.
        budget: tokens that the view was allowed to hold, as set.
        tokens_before: tokens of the view before the pass.
        tokens_after: tokens of the view after it.
        satisfied: whether the budget was met.
        overflowed: whether it had to take unfinished work, or what such work needs (R16).
        trace: every level reached, in order; resuming repeats it exactly (R14).
        index: the index of evicted content that requests show from then on; None if there is none (R20).
        room: what was fixed, if the pass worked with a larger budget than was set (R22); else None.
    """

    kind: ClassVar[str] = "pass"

    budget: int
    tokens_before: int
    tokens_after: int
    satisfied: bool
    overflowed: bool
    trace: tuple[Step, ...]
    index: EvictedIndex | None = None
    room: Room | None = None

    @classmethod
    def of(cls, report: FitReport, items: int) -> PassRecord:
        """Return the record of a pass; `items` is the number of items in the history when it ran."""
        return cls(
            items=items,
            budget=report.budget,
            tokens_before=report.tokens_before,
            tokens_after=report.tokens_after,
            satisfied=report.satisfied,
            overflowed=report.overflowed,
            trace=report.trace,
            index=report.index,
            room=report.room,
        )

    @property
    def budget_used(self) -> int:
        """The budget that the pass worked with."""
        return self.budget if self.room is None else self.room.used

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that removed something, in order."""
        return tuple(step for step in self.trace if step.removed)


@light_dataclass(frozen=True, slots=True)
class StrategyRecord(RequestFact):
    """What a strategy that does not evict by episode did ahead of a request; resuming does it again (R14).

    Attributes:
        items: number of items in the history when it did.
        strategy: its name.
        done: what it did, as the strategy's `redo` takes it.
    """

    kind: ClassVar[str] = "strategy"

    strategy: str
    done: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SamplingUsage:
    """One of several samplings that a provider reports as one usage; its model is empty for the one that was asked."""

    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_hour_tokens: int = 0
    tier: str = ""


@dataclass(frozen=True, slots=True)
class UsageParts:
    """What a usage sums up, if it is more than that of one sampling.

    Attributes:
        first: the sampling that read the request as it was sent; None if the provider does not tell it apart.
        samplings: all samplings, if the provider tells them apart.
        fees: dollars for what the provider charges besides tokens.
        further_fees: whether there may be more such fees, of unknown amount.
        cost_at_least: dollars of the call that are known, where its cost is not.
    """

    first: SamplingUsage | None = None
    samplings: tuple[SamplingUsage, ...] = ()
    fees: float = 0.0
    further_fees: bool = False
    cost_at_least: float = 0.0


@light_dataclass(frozen=True, slots=True)
class UsageRecord(RequestFact):
    """The provider's report of one model call. Append it before the message that answered the call.

    Attributes:
        items: number of items in the history when the request was sent.
        input_tokens: tokens of the whole request, including those read from or written to a cache; 0 if there was no
            report.
        output_tokens: tokens of the answer.
        cache_read_tokens: input tokens that were read from the provider's cache.
        cache_write_tokens: input tokens that were written to it.
        cost: price of the call in dollars; None if it is not known.
        model: the model, as `provider:model`.
        anchors: whether the report tells the size of the view. A further one on the same history does not, such as that
            of a round of a reply whose earlier rounds are not in the history yet.
        cache_write_hour_tokens: those of `cache_write_tokens` that are to live for an hour.
        parts: what the figures sum up, and fees; None if they are those of one sampling, without fees.
        assumed: the model whose prices `cost` takes, because none are known for `model`; empty if none stand in.
    """

    kind: ClassVar[str] = "usage"

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    model: str = ""
    anchors: bool = True
    cache_write_hour_tokens: int = 0
    parts: UsageParts | None = None
    assumed: str = ""

    @property
    def request_tokens(self) -> int:
        """Input tokens of the sampling that read the request as it was sent; 0 if they are not known."""
        if self.parts is None:
            return self.input_tokens
        return 0 if self.parts.first is None else self.parts.first.input_tokens

    @property
    def cost_at_least(self) -> float:
        """Dollars of the call that are known."""
        if self.cost is not None:
            return self.cost
        return 0.0 if self.parts is None else self.parts.cost_at_least


@light_dataclass(frozen=True, slots=True)
class ConfigRecord(Record):
    """Settings in force from here on; appended before the first message and whenever a setting changes.

    Attributes:
        budget: tokens that the view may hold.
        policy: the policy's settings.
        tool_classes: the user's own tool classes, by tool name.
        overhead: tokens that every request carries besides the view.
        required: tokens of evicted content that requests show all the same because the provider demands it.
        strategy: name of the strategy that decides the view; `none` if nothing leaves it. Empty ahead of the first
            such record.
        annotate: who marks episodes: `model`, `infer` or `host`.
        tasks: whether the model may group episodes in tasks (R17).
        window: tokens of the model's window; None if unknown (R22).
    """

    kind: ClassVar[str] = "config"

    budget: int = DEFAULT_BUDGET
    policy: Policy = field(default_factory=Policy)
    tool_classes: Mapping[str, str] = field(default_factory=dict)
    overhead: int = 0
    required: int = 0
    strategy: str = "cwl"
    annotate: Literal["model", "infer", "host"] = "model"
    tasks: bool = False
    window: int | None = None


@light_dataclass(frozen=True, slots=True)
class ReminderRecord(RequestFact):
    """A note to the model at the end of one request. It is not in the history, which had `items` items then."""

    kind: ClassVar[str] = "reminder"

    text: str


@light_dataclass(frozen=True, slots=True)
class ChoiceRecord(Record):
    """A person's choice for an episode, by its number: to keep it in view, to let it go, or neither any more (R23)."""

    kind: ClassVar[str] = "choice"

    episode: int
    choice: Choice


@light_dataclass(frozen=True, slots=True)
class PersonsRecord(Record):
    """Calls whose results, in the next message, a person gave, as the host said (R21): the messages do not tell.

    Attributes:
        calls: the calls' ids.
    """

    kind: ClassVar[str] = "persons"

    calls: tuple[str, ...]


@light_dataclass(frozen=True, slots=True)
class StateRecord(Record):
    """What was done for the messages before it, by the state from which a conversation was restored.

    It stands for the records of each step, which a state does not have.

    Attributes:
        strategy: name of the strategy that did it.
        state: the state, without what follows from the records before it (`wane.conversation.engine_state`).
    """

    kind: ClassVar[str] = "state"

    strategy: str
    state: Mapping[str, Any]


@light_dataclass(frozen=True, slots=True)
class RequestRecord(Record):
    """A request that was sent: its digest, and its content as pieces (`wane.journal.receipts`).

    Attributes:
        url: where it went, without query, user name and password.
        layer: what the bytes are: `http` for the body that went to the provider; `model` for what Wane handed to a
            model whose client shows no body, as JSON.
        size: number of bytes.
        digest: SHA-256 of the salt and the bytes, in hex.
        salt: a random text, so that nobody can find out deleted content by trying; empty once content was deleted.
        chain: SHA-256 of the chain of the request before it and of its digest, in hex.
        pieces: its content: a text, a string in a list, the number of a piece that the journal has already, or a range
            of the pieces of the latest request before that has any. None if it was not kept.
        deleted: when content of it was deleted; None if nothing was.
    """

    kind: ClassVar[str] = "request"

    url: str
    layer: Layer
    size: int
    digest: str
    salt: str
    chain: str
    pieces: tuple[Any, ...] | None = None
    deleted: datetime | None = None


@light_dataclass(frozen=True, slots=True)
class NoteRecord(Record):
    """Anything that does not change the view: a title, a model switch, an error shown to the user."""

    kind: ClassVar[str] = "note"

    topic: str
    data: Mapping[str, Any] = field(default_factory=dict)


RECORDS: Final[Mapping[str, type[Record]]] = {
    record.kind: record
    for record in (
        MessageRecord,
        PassRecord,
        StrategyRecord,
        UsageRecord,
        ConfigRecord,
        ReminderRecord,
        ChoiceRecord,
        PersonsRecord,
        StateRecord,
        RequestRecord,
        NoteRecord,
    )
}
"""All records that this version knows, by kind."""

SPENT_NOTE: Final = "spent"
"""Topic of a note on the usage of a model call that is no usage record, because it must not anchor the accounting."""

CLIENT_NOTE: Final = "client"
"""Topic of a proxy's note on messages of its client, whose records follow it."""

REPLY_NOTE: Final = "reply"
"""Topic of a proxy's note on a reply that is complete, with its hidden rounds."""

FORK_NOTE: Final = "fork"
"""Topic of a note that ends the records that a session has copied from the one it branches off from."""

TURN_NOTE: Final = "turn"
"""Topic of a note on the model's turn where its latest message does not tell: whether it `ended` (a stop reason)."""

TIME_NOTE: Final = "time"
"""Topic of a note on when the message ahead of it came (`at`, in seconds), where the host told it."""

FILE_NOTE: Final = "file"
"""Topic of a note on a change by the agent's file tools: the path, what the file held before, and a digest of the rest.

`before` is None if there was no file; without `known`, what it held was not kept. A later change of a file in the same
turn has only the digest (`wane.agent.rewind`).
"""


LEFT_NOTE: Final = "left"
"""Topic of a note on what was spent in the sessions that the user went back or forward from to come here.

`sessions` has an account by a session's id (`wane.agent.rewind`).
"""


def settings_after(records: Iterable[Record]) -> ConfigRecord:
    """Return the settings in force at the end of a session; without a strategy if no record tells them."""
    settings = ConfigRecord(strategy="")
    for record in records:
        if isinstance(record, ConfigRecord):
            settings = record
    return replace(settings, at=None)


def spent_note(call: UsageRecord) -> NoteRecord:
    """Return the note on a model call that must not anchor the accounting."""
    data = encode(call)
    return NoteRecord(SPENT_NOTE, {name: data[name] for name in data if name not in ("at", "items")})


def spent_call(note: NoteRecord) -> UsageRecord | None:
    """Return the model call of a note, with 0 items; None if it is on something else, or cannot be read."""
    if note.topic == SPENT_NOTE:
        with suppress(SchemaError):  # anybody may write a note
            return decode(UsageRecord, {**note.data, "items": 0})
    return None


def model_calls(records: Sequence[Record]) -> Iterator[UsageRecord]:
    """Yield the usage of each model call of a session, in order, without those of a session that it branches off from.

    Calls that are only noted, such as for a summary, have 0 items.
    """
    forks = [at for at, record in enumerate(records) if isinstance(record, NoteRecord) and record.topic == FORK_NOTE]
    for record in records[forks[-1] if forks else 0 :]:
        if isinstance(record, UsageRecord):
            yield record
        elif isinstance(record, NoteRecord) and (call := spent_call(record)) is not None:
            yield call
