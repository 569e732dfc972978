"""The interface that a message format implements, and the transcript that keeps messages by item.

A format knows messages and nothing about eviction: it takes a message apart into parts (R1) and puts
the kept ones back together.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from enum import Enum
from itertools import groupby
from operator import is_
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from wane.core import OWN_TOOLS, Counter, Item, Kind, ToolClass, chars
from wane.core.errors import ConfigError
from wane.core.items import ASSISTANT, DEFAULT_TOOL_CLASSES
from wane.core.light import light_dataclass
from wane.formats.fields import check_each, expect_list
from wane.formats.notices import (
    INDEX_CLOSING,
    INDEX_OPENING,
    is_notice,
    is_persons_result,
    stated_in,
    withdrawn_in,
)
from wane.formats.roles import CALLING, RESULTS, NeighbourJoiner, Order

MessageT = TypeVar("MessageT")
LocationT = TypeVar("LocationT")


_CALL: Final = Kind.CALL
"""Python 3.11 takes five times as long to look up a member of an enumeration as a name."""


@light_dataclass(frozen=True, slots=True)
class Part:
    """One part of a message, which becomes one item.

    Attributes:
        kind: kind of the item.
        text: its text; for a call, see `arguments`.
        call_id: for a call and its result, the id that pairs them.
        tool: for a call, the tool's name.
        arguments: for a call, its raw JSON arguments.
        needs: parts that must stay as long as this one does, as offsets from it (R12).
        extra_tokens: tokens of content that is not text, such as an image.
        system: for a notice, whether it stands in the system's place, not in a person's.
        person: for a result, whether a person gave it (R21).
        loads: for a result, names of the tools that it brought into the model's view (R15).
        withdraws: names of the tools that are no longer offered, as the part says (R15).
        shows_nothing: for a result, whether the recording says that it shows nothing of what was asked for: the call
            failed, or the client left out a file that had not changed.
    """

    kind: Kind
    text: str = ""
    call_id: str | None = None
    tool: str | None = None
    arguments: str | None = None
    needs: tuple[int, ...] = ()
    extra_tokens: int = 0
    system: bool = False
    person: bool = False
    loads: tuple[str, ...] = ()
    withdraws: tuple[str, ...] = ()
    shows_nothing: bool = False

    def tokens(self, counter: Counter) -> int:
        """Return the tokens of this part. A call's text is its name followed by its raw arguments."""
        text = f"{self.tool or ''}{self.arguments or ''}" if self.kind is _CALL else self.text
        return counter(text) + self.extra_tokens

    def item(self, counter: Counter, message: int) -> Item:
        """Return the item of this part."""
        tokens = self.tokens(counter)
        implied: ToolClass | None = None
        if self.tool:
            # Here, because reading a recording for its figures makes no items, and the tables of programs take long.
            from wane.tools import class_of_call

            implied = class_of_call(self.tool, self.arguments)
        stated = stated_in(self.text, system=self.system) if self.kind is Kind.NOTICE else ()
        return Item(
            self.kind,
            tokens,
            self.call_id,
            self.tool,
            self.arguments,
            message,
            self.needs,
            implied,
            stated,
            self.person,
            self.loads,
            self.withdraws,
        )


Located: TypeAlias = tuple[LocationT, Part]
"""A part, behind its location in its message: by the format, such as the index of a block, or -1 for all of it."""


def turn_part(text: str, extra_tokens: int = 0, *, system: bool = False) -> Part:
    """Return the part of a turn: a notice if all of it is the harness's (R15), else the user's or the system's.

    Args:
        text: the turn's text.
        extra_tokens: tokens of its content that is not text.
        system: whether it stands in the system's place, not in a person's.
    """
    if not extra_tokens and is_notice(text, system=system):
        return Part(Kind.NOTICE, text, system=system, withdraws=withdrawn_in(text))
    return Part(Kind.SYSTEM if system else Kind.USER, text, extra_tokens=extra_tokens)


def in_history(parts: list[Part], *, answered: bool) -> list[Part]:
    """Return the parts of a message with the kinds that they have at their place in a history (R15).

    Args:
        parts: the parts, as a format gives them.
        answered: whether an assistant's message stands before them. If not, notices in the system's place count as the
            system's.
    """
    if answered or not any(part.system for part in parts):
        return parts
    return [replace(part, kind=Kind.SYSTEM, system=False) if part.system else part for part in parts]


def is_answer(parts: Iterable[Part]) -> bool:
    """Return whether the parts of a message are an assistant's."""
    return not ASSISTANT.isdisjoint([part.kind for part in parts])


def repeated_call(parts: Iterable[Part]) -> str | None:
    """Return an id that several calls of an answer have, which providers refuse; None if there is none."""
    seen: set[str | None] = set()
    for part in parts:
        if part.kind is Kind.CALL:
            if part.call_id in seen:
                return part.call_id
            seen.add(part.call_id)
    return None


class Lone(Enum):
    """What a message of reasoning alone is."""

    PIECE = "piece"
    """A piece of the answer that comes behind it."""
    ANSWER = "answer"
    """An answer without words."""
    EITHER = "either"
    """A piece, or an answer without words if the user's turn comes behind it: neighbouring answers are one."""


def speaker_of(parts: Sequence[Part], *, lone: Lone = Lone.PIECE) -> str | None:
    """Return whose turn a message with these parts is, by its role; see `WritingFormat.speaker`.

    Args:
        parts: its parts.
        lone: what a message of reasoning alone is.
    """
    kinds = {part.kind for part in parts}
    if lone is not Lone.ANSWER and kinds == {Kind.REASONING}:
        return None
    if not ASSISTANT.isdisjoint(kinds):
        return CALLING if Kind.CALL in kinds else "assistant"
    if Kind.USER in kinds or any(part.kind is Kind.NOTICE and not part.system for part in parts):
        return "user"
    return RESULTS if Kind.RESULT in kinds else None


class Format(Protocol[MessageT]):
    """One message format."""

    name: str

    @abstractmethod
    def parts(self, message: MessageT) -> list[Part]:
        """Take a message apart, in order; empty parts of an assistant message are left out (R1).

        System and user turns and results always give an item, even an empty one: what a person or a tool
        said is part of the history, even if it is nothing. Text that a harness put in a person's or the system's
        place is a notice, told by marks alone (`wane.formats.notices`).

        Raises:
            FormatError: if it is not in this format.
        """
        ...

    @abstractmethod
    def keep(self, message: MessageT, positions: Sequence[int]) -> MessageT:
        """Return the message with only some of its parts, their contents unchanged.

        Args:
            message: a message with more parts than there are positions.
            positions: positions in `parts(message)`, at least one, ascending.
        """
        ...


@runtime_checkable
class StoredFormat(Format[MessageT], Protocol[MessageT]):
    """A format whose messages Wane reads from JSON data and writes as such: those of files, journals and plans."""

    def load(self, data: object) -> list[MessageT]:
        """Return the messages of JSON data.

        Raises:
            FormatError: if a message is not in this format; it names the message.
        """
        ...

    def dump(self, messages: Sequence[MessageT]) -> list[Any]:
        """Return messages as JSON-able data, the inverse of `load`."""
        ...


@runtime_checkable
class WritingFormat(Format[MessageT], Protocol[MessageT]):
    """A format in which Wane can answer calls, define tools and add messages of its own."""

    def read(self, data: Sequence[Any]) -> Sequence[MessageT]:
        """Return the messages of a host's data, without checking them; messages stay the same objects.

        Args:
            data: messages; or a flat list of items, if requests have that.
        """
        ...

    def wire(self, messages: Sequence[MessageT]) -> list[Any]:
        """Return messages in the form of the provider's requests, with unchanged contents."""
        ...

    def speaker(self, message: MessageT) -> str | None:
        """Return whose turn a message is: `user`, `assistant`, or `CALLING` (`wane.formats.roles`) for one with calls.

        `RESULTS` for results alone, and None for the system's.
        """
        ...

    def join_roles(self, messages: Sequence[MessageT], order: Order) -> list[MessageT]:
        """Return a request's messages with turns of one role joined, so that they keep an order (R12b)."""
        ...

    def with_note(self, messages: Sequence[MessageT], text: str, *, order: Order) -> list[MessageT]:
        """Return a request's messages with a note to the model at their end.

        Args:
            messages: the messages.
            text: the note.
            order: the order of roles that the whole history kept, as some servers demand (R12b).
        """
        ...

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Any:
        """Return the definition of a tool.

        Args:
            name: its name.
            description: what the model reads about it.
            schema: JSON schema of its arguments.
        """
        ...

    def turn(self, text: str) -> MessageT:
        """Return a message in the user's place."""
        ...

    def awaits(self, message: MessageT, position: int) -> bool:
        """Whether the application answers a call, and not the provider itself.

        Args:
            message: an assistant message.
            position: which of its parts (`parts`) is the call.
        """
        ...

    def read_contents(self, output: object) -> list[Any] | None:
        """Return a tool's output as the contents of a result, if it is a list of nothing else; None for other data."""
        ...

    def result(self, message: MessageT, position: int, output: str | list[Any]) -> MessageT:
        """Return a message that answers a call.

        Args:
            message: the assistant message.
            position: which of its parts (`parts`) is the call.
            output: the result: text, or contents (`read_contents`).
        """
        ...

    def clear_result(self, message: MessageT, position: int, text: str) -> MessageT:
        """Return a message with one result's content replaced by a text.

        Args:
            message: a message with results.
            position: which of its parts (`parts`) is the result.
            text: the text.
        """
        ...


def writing(format: Format[MessageT], what: str) -> WritingFormat[MessageT]:  # noqa: A002 - the field's word
    """Return a format that writes messages.

    Args:
        format: the format.
        what: what needs it, for the error.

    Raises:
        ConfigError: if the format cannot write messages.
    """
    if writes(format):
        return format
    raise ConfigError(f"{what} needs messages of Wane's own, and the format {format.name!r} writes none")


# Python looks through a protocol anew each time: a third of a turn.
_WRITES: Final[dict[type, bool]] = {}
_NATIVE: Final[dict[type, bool]] = {}


def writes(format: Format[MessageT]) -> TypeGuard[WritingFormat[MessageT]]:  # noqa: A002 - the field's word
    """Whether a format writes messages."""
    cached = _WRITES.get(type(format))
    if cached is None:
        cached = _WRITES[type(format)] = isinstance(format, WritingFormat)
    return cached


def is_native(format: Format[MessageT]) -> TypeGuard[NativeFormat[MessageT]]:  # noqa: A002 - the field's word
    """Whether a format is one whose messages requests take unchanged."""
    cached = _NATIVE.get(type(format))
    if cached is None:
        cached = _NATIVE[type(format)] = isinstance(format, NativeFormat)
    return cached


class NativeFormat(Format[MessageT]):
    """A format whose messages hosts keep and requests take unchanged. Subclasses override what differs.

    Attributes:
        reads_each: whether `read` returns a message for each entry, whatever stands beside it, and the same object if
            the entry is a message that it has returned before.
        results_first: whether the provider refuses other turns between a call and its result.
        lone_reasoning: what a message of reasoning alone is.
        joins_answers: whether a server makes one answer of neighbouring ones, so that reasoning may belong to the next.
        joins_turns: whether requests hold turns of the user in a row as one message.
        sends_empty: whether an answer that says nothing may be sent.
        notes_behind_results: whether a note may stand behind a result as the user's, if roles kept no order anyway.
    """

    reads_each = False
    results_first = True
    lone_reasoning = Lone.ANSWER
    joins_answers = True
    joins_turns = False
    sends_empty = True
    notes_behind_results = False

    @abstractmethod
    def locate_parts(self, message: MessageT) -> Sequence[Located[Any]]:
        """Return the parts of a message (`parts`), each with its location in the message.

        Raises:
            FormatError: if it is not in this format.
        """

    def parts(self, message: MessageT) -> list[Part]:
        """Take a message apart.

        Raises:
            FormatError: if it is not in this format.
        """
        return [part for _, part in self.locate_parts(message)]

    def read(self, data: Sequence[Any]) -> Sequence[MessageT]:
        return data

    def check(self, message: MessageT, *, adds_fields: bool = False) -> None:
        """Check that nothing in a message is unknown, as far as the format can tell.

        Args:
            message: a message that can be taken apart.
            adds_fields: whether it may have fields that no format knows.

        Raises:
            FormatError: for content that the format does not know.
        """

    def answering(
        self,
        messages: Sequence[MessageT],
        calls: Sequence[tuple[str | None, str | None]],  # noqa: ARG002 - for formats that need it
    ) -> Sequence[MessageT]:
        """Return the next messages of a history with results that name their calls; unchanged in most formats.

        Args:
            messages: the messages.
            calls: the open calls before them, each with its id and its tool's name.
        """
        return messages

    def sendable(self, message: MessageT) -> MessageT | None:
        """Return a message as the provider takes it in a request, the same object if it fits; None if it takes none.

        An answer that says nothing is left out (`is_sent`), but a format may return it: see `wane.formats.roles`.
        """
        return message if self.is_sent(message) else None

    def arrange(self, messages: Sequence[MessageT]) -> list[Any]:
        """Return messages that are `sendable` in the form of the provider's requests."""
        return list(messages)

    def wire(self, messages: Sequence[MessageT]) -> list[Any]:
        sendable = map(self.sendable, filter(self.is_sent, messages))
        return self.arrange([message for message in sendable if message is not None])

    def speaker(self, message: MessageT) -> str | None:
        return speaker_of(self.parts(message))

    def is_sent(self, message: MessageT) -> bool:  # noqa: ARG002 - for formats that leave some out
        """Whether requests hold a message: some formats leave out answers that say nothing."""
        return True

    def merge(self, first: MessageT, second: MessageT) -> MessageT | None:  # noqa: ARG002 - for formats that can
        """Return two turns of one role as one message, contents unchanged; None if the format cannot."""
        return None

    def is_index(self, message: MessageT) -> bool:
        """Whether a message is an index of evicted content (R20)."""
        text = "".join(part.text for part in self.parts(message))
        # A turn of the user may have joined it.
        return text.startswith(INDEX_OPENING) and text.partition(INDEX_CLOSING)[2] == ""

    def divide(self, message: MessageT, *, thoughts: bool = False) -> tuple[MessageT, MessageT | None] | None:
        """Return an answer with own calls alone as two; see `Joining`.

        Args:
            message: the answer.
            thoughts: whether reasoning counts as what it says, if it has no text. DeepSeek takes none alone.
        """
        parts = self.parts(message)
        words = words_beside_own(parts, thoughts=thoughts)
        if not words:
            return None if words is None else (message, None)
        if not self.may_divide(message, [parts[n] for n in words]):
            return message, message
        # What a server may demand beside the text stands beside the calls, too.
        demanded = {n + offset for n in words for offset in parts[n].needs if parts[n + offset].kind is Kind.REASONING}
        remaining = [n for n, part in enumerate(parts) if n not in words or part.kind is Kind.REASONING]
        return self.keep(message, remaining), self.keep(message, sorted(demanded.union(words)))

    def may_divide(self, message: MessageT, words: Sequence[Part]) -> bool:  # noqa: ARG002 - for formats that differ
        """Return whether what an answer says may stand apart from its calls: not reasoning that is sealed."""
        return not any(part.kind is Kind.REASONING and part.needs for part in words)

    def note_result(self, message: MessageT, text: str) -> MessageT | None:  # noqa: ARG002 - for formats that can
        """Return a message with a note in its last result; None if it has none that can hold one."""
        return None

    def join_roles(self, messages: Sequence[MessageT], order: Order) -> list[MessageT]:
        joiner = NeighbourJoiner(self, order)
        for message in messages:
            (joiner.add if self.is_sent(message) else joiner.leave_out)(message)
        return joiner.joined

    def with_note(self, messages: Sequence[MessageT], text: str, *, order: Order) -> list[MessageT]:
        turn, noted = writing(self, "a reminder").turn(text), None
        last = messages[-1] if messages else None
        if last is not None and self.speaker(last) == "user":
            noted = self.merge(last, turn)
        elif last is not None and (order or not self.notes_behind_results):
            # Behind a result it would be a turn of the user that has no answer before it.
            noted = self.note_result(last, text)
        return [*messages, turn] if noted is None else [*messages[:-1], noted]

    def read_contents(self, output: object) -> list[Any] | None:  # noqa: ARG002 - for formats that have some
        return None

    def awaits(self, message: MessageT, position: int) -> bool:  # noqa: ARG002 - for formats that know others
        """Whether the application answers a call: always, because what a provider runs by itself is text here."""
        return True


class PlainFormat(NativeFormat[dict[str, Any]]):
    """A format whose messages are JSON data as they are.

    Attributes:
        holds: the key of a request's body under which they stand.
        called: what they are called.
    """

    holds = "messages"
    called: str

    def load(self, data: object) -> list[dict[str, Any]]:
        """Return the messages of a list, or of a request's body.

        Raises:
            FormatError: if a message is not in this format; it names the first such message.
        """
        listed = data[self.holds] if isinstance(data, dict) and self.holds in data else data
        messages = self.complete(expect_list(listed, self.called))
        check_each(messages, self.parts)
        return messages

    def complete(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return messages with what they leave out; the same in most formats."""
        return messages

    def dump(self, messages: Sequence[dict[str, Any]]) -> list[Any]:
        return list(messages)


class PersonCalls:
    """The open calls of tools that ask a person (R21).

    Attributes:
        told: ids of calls whose results a person gave, as the host says.
        noted: those of them whose results have come.
    """

    def __init__(self) -> None:
        self.told: set[str] = set()
        self.noted: set[str] = set()
        self._classes: dict[str, ToolClass | str] = {}
        self._ids: set[str] = set()

    def set_tool_classes(self, classes: Mapping[str, ToolClass | str] | None) -> None:
        """Set the user's own tool classes, by name; those before are forgotten."""
        self._classes = {name.lower(): tool_class for name, tool_class in (classes or {}).items()}

    def told_of(self, parts: Sequence[Part]) -> tuple[str, ...]:
        """Return the ids of a message's results that a person gave, as the host says."""
        if not self.told:
            return ()
        return tuple(part.call_id for part in parts if part.kind is Kind.RESULT and part.call_id in self.told)

    def mark(self, parts: list[Part]) -> list[Part]:
        """Take in the parts of the next message, and return them with a person's results marked."""
        marked: dict[int, Part] = {}
        for position, part in enumerate(parts):
            if part.kind is Kind.CALL and part.call_id is not None:
                name = (part.tool or "").lower()
                asks = (self._classes.get(name) or DEFAULT_TOOL_CLASSES.get(name)) == ToolClass.PERSON
                (self._ids.add if asks else self._ids.discard)(part.call_id)
            elif part.kind is Kind.RESULT and part.call_id is not None and not part.person:
                if part.call_id in self.told:
                    self.noted.add(part.call_id)
                if part.call_id in self._ids or part.call_id in self.told or is_persons_result(part.text):
                    marked[position] = replace(part, person=True)
                self._ids.discard(part.call_id)
        if not marked:
            return parts
        return [marked.get(position, part) for position, part in enumerate(parts)]


def words_beside_own(parts: Sequence[Part | Item], *, thoughts: bool = False) -> list[int] | None:
    """Return the positions of what an answer says whose calls are all Wane's own; None if there are others, or none.

    Args:
        parts: the parts of the answer.
        thoughts: whether reasoning counts, if there is no text.
    """
    if {part.tool in OWN_TOOLS for part in parts if part.kind is Kind.CALL} != {True}:
        return None
    texts = [n for n, part in enumerate(parts) if part.kind is Kind.TEXT]
    return texts or [n for n, part in enumerate(parts) if thoughts and part.kind is Kind.REASONING]


class OrderReader:
    """Reads the order of roles that messages keep, one by one."""

    def __init__(self) -> None:
        self._alternating = self._answered = True
        self._before: str | None = None  # whose turn the latest message was
        self._turn: str | None = None  # the latest of the user and of answers without calls

    def read(self, speaker: str | None) -> None:
        """Take in whose turn the next message is (`WritingFormat.speaker`)."""
        if speaker == "user" and self._before in (CALLING, RESULTS):
            self._answered = False
        self._before = speaker
        if speaker in ("user", "assistant"):
            self._alternating &= speaker != self._turn
            self._turn = speaker

    def part(self) -> None:
        """Take in what parts turns where no answer does."""
        self._before = self._turn = "assistant"

    @property
    def order(self) -> Order:
        """The order so far."""
        if self._alternating:
            return Order.BOTH if self._answered else Order.ALTERNATING
        return Order.ANSWERED if self._answered else Order.FREE


class OwnWords:
    """What came with the latest calls of Wane's own: it parts turns if no answer follows (`wane.formats.roles`).

    Attributes:
        items: the indexes of its items; none if an answer has followed.
    """

    def __init__(self) -> None:
        self.items: list[int] = []

    def read(self, speaker: str | None, items: Sequence[Item], first: int) -> None:
        """Take in the next message; see `TurnReader.couple`."""
        words = words_beside_own(items) if speaker == CALLING else None
        if words:
            self.items = [first + position for position in words]
        elif (speaker == CALLING and words is None) or any(item.kind is Kind.TEXT for item in items):
            self.items = []


class TurnReader(OrderReader):
    """Reads a history's order of roles, and couples items of different messages.

    Calls and results need the answer that ends their turn (R12b). It is all that keeps the user's next turn from
    joining the one before, ahead of them, or from standing right behind a result. It is the next answer without calls,
    or, where turns alternate, the one before them if the turn ends without another.

    Reasoning that ends its message needs the item that follows it, and is needed by that one and by later calls of the
    same answer (R12): hosts may append an answer of OpenAI's Responses item by item.

    Args:
        demands: whether a server may demand anything beside calls. If not, only a person's answers need the end of
            their turn.
        joins: whether a server makes one answer of neighbouring ones.
        either: whether messages may be pieces of one answer (`Lone.EITHER`). Then an answer right ahead of another one
            is no turn of its own, but one of reasoning alone is where the user's turn follows. That turn then needs it,
            if calls came before.
        joins_turns: whether turns of the user in a row are one in a request. Those beside results are not.
    """

    def __init__(
        self, *, demands: bool = True, joins: bool = True, either: bool = False, joins_turns: bool = False
    ) -> None:
        super().__init__()
        self._unsent = False  # whether the latest answer says nothing and cannot be sent
        self._ahead: tuple[bool, str | None] = True, None  # what was read ahead of the latest answer without calls
        self._demands, self._joins, self._either, self._joins_turns = demands, joins, either, joins_turns
        self._exchanged: list[int] = []  # calls and results since the latest turn of the user or answer without calls
        self._parting: list[int] = []  # the items of the turn's latest answer without calls that keep it one
        self._thoughts: list[int] = []  # reasoning of the latest answer that ended its message
        self._open_thoughts: list[int] = []  # of these, what no other item has followed yet
        self._alone: list[int] = []  # the latest answer, if it is reasoning alone
        self._may_join = False  # whether a turn of the user that comes next joins the latest one
        self._own = OwnWords()
        self._own_calls: set[str | None] = set()  # the ids of the latest calls of Wane's own that came alone

    def read(self, speaker: str | None) -> None:
        """Take in whose turn the next message is; an answer that goes on in this one was no turn."""
        goes_on = self._either and self._before == "assistant" and speaker in ("assistant", CALLING)
        if goes_on or (self._unsent and speaker == "assistant"):
            self._alternating, self._turn = self._ahead
        if speaker in ("user", "assistant"):
            self._ahead, self._unsent = (self._alternating, self._turn), False
        super().read(speaker)

    def read_unsent(self) -> None:
        """Take in an answer that says nothing and cannot be sent: it parts turns if no other does."""
        if self._turn != "assistant":
            self._ahead, self._unsent = (self._alternating, self._turn), True
            self._turn = "assistant"

    def couple(self, speaker: str | None, items: list[Item], first: int) -> list[Item]:
        """Take in the next message; return its items with what they need, and what needs them.

        Args:
            speaker: whose turn it is.
            items: its items.
            first: the index of the first one.
        """
        alone = self._alone if speaker == "user" and self._either else []
        own_words = self._own.items if self._demands and speaker == "user" and not alone else []
        if alone:
            self.read("assistant")
        elif own_words and self._before in (CALLING, RESULTS):
            self.part()
        # A piece of an answer, which ends none, and what cannot be sent leave the turn as it is.
        counts = speaker is not None or any(item.kind is not Kind.REASONING for item in items)
        # Nor does a message that is nothing but calls of Wane's own, or their results: without Wane there is none.
        if items and all(item.tool in OWN_TOOLS for item in items):
            counts, self._own_calls = False, {item.call_id for item in items}
        elif items and all(item.kind is Kind.RESULT and item.call_id in self._own_calls for item in items):
            counts = False
        if counts:
            is_turn = speaker == "user" and all(item.kind is not Kind.RESULT for item in items)
            if not (is_turn and self._may_join):
                self.read(speaker)
            self._may_join = is_turn and self._joins_turns
        if self._joins:
            self._couple_thoughts(items, first)
        order, parting = self.order, self._parting
        if speaker == "user":
            needed = alone if self._exchanged and alone else own_words
            if needed and order:
                items[0] = _needing(items[0], first, needed)
            self._exchanged, self._parting, self._own = [], [], OwnWords()
            return items
        self._own.read(speaker, items, first)
        if not order or not items:
            return items
        if speaker == "assistant":
            texts = [position for position, item in enumerate(items) if item.kind is Kind.TEXT]
            # Without a text it holds results of the provider's tools.
            anchors = texts[-1:] or range(len(items))
            self._parting = [first + position for position in anchors]
            for position in anchors:
                items[position] = _needed_by(items[position], first + position, self._exchanged)
            self._exchanged = []
            return items
        for position, item in enumerate(items):
            if not item.person and not (self._demands and item.kind in (Kind.CALL, Kind.RESULT)):
                continue
            index = first + position
            self._exchanged.append(index)
            if Order.ALTERNATING in order:
                items[position] = _needing(item, index, parting)
        return items

    def _couple_thoughts(self, items: list[Item], first: int) -> None:
        kinds = {item.kind for item in items}
        self._alone = [*self._alone, *range(first, first + len(items))] if kinds == {Kind.REASONING} else []
        if ASSISTANT.isdisjoint(kinds):
            self._thoughts, self._open_thoughts = [], []
            return
        for position, item in enumerate(items if self._thoughts else ()):
            index, thoughts = first + position, self._open_thoughts
            if thoughts:
                items[position] = _needed_by(_needing(item, index, thoughts), index, thoughts)
                self._open_thoughts = []
            elif item.kind in (Kind.CALL, Kind.REASONING):
                items[position] = _needing(item, index, self._thoughts)
        ending = len(items)
        while ending and items[ending - 1].kind is Kind.REASONING:
            ending -= 1
        self._open_thoughts += range(first + ending, first + len(items))
        self._thoughts += range(first + ending, first + len(items))


def _needing(item: Item, index: int, others: Iterable[int]) -> Item:
    """Return an item that needs others, too."""
    needs = tuple(target - index for target in others)
    return replace(item, needs=(*item.needs, *needs)) if needs else item


def _needed_by(item: Item, index: int, others: Iterable[int]) -> Item:
    """Return an item that earlier ones need, too."""
    needed_by = tuple(needer - index for needer in others)
    return replace(item, needed_by=(*item.needed_by, *needed_by)) if needed_by else item


def order_of(messages: Iterable[MessageT], speaker_of: Callable[[MessageT], str | None]) -> Order:
    """Return the order of roles that messages keep.

    Args:
        messages: the messages.
        speaker_of: says whose turn a message is (`WritingFormat.speaker`).
    """
    reader = OrderReader()
    for message in messages:
        reader.read(speaker_of(message))
        if not reader.order:
            break  # for good
    return reader.order


class GrowingOrder(Generic[MessageT]):
    """The order of roles in a list that grows from one request to the next: only what is new of it is read.

    Args:
        speaker_of: says whose turn a message is (`WritingFormat.speaker`).
    """

    def __init__(self, speaker_of: Callable[[MessageT], str | None]) -> None:
        self._speaker_of = speaker_of
        self._messages: list[MessageT] = []  # what was read, without the last message, which may still change
        self._reader = OrderReader()

    def of(self, messages: Sequence[MessageT]) -> Order:
        """Return the order of roles that messages keep."""
        if len(self._messages) >= len(messages) or not all(map(is_, self._messages, messages)):
            self._messages, self._reader = [], OrderReader()
        for message in messages[len(self._messages) : -1]:
            self._reader.read(self._speaker_of(message))
            self._messages.append(message)
        reader = copy(self._reader)
        for message in messages[-1:]:
            reader.read(self._speaker_of(message))
        return reader.order


class Outline:
    """The items of each message of a history, by index. It keeps no content.

    Args:
        counter: counts tokens.
        format: the messages' format, of which it reads what answers are.

    Attributes:
        person_calls: tells results that a person gave (R21).
    """

    def __init__(self, counter: Counter = chars, format: Format[Any] | None = None) -> None:  # noqa: A002 - as above
        self.person_calls = PersonCalls()
        self._lone: Lone = getattr(format, "lone_reasoning", Lone.PIECE)
        self._turns = TurnReader(
            demands=getattr(format, "demands_reasoning", True),
            joins=getattr(format, "joins_answers", True),
            either=self._lone is Lone.EITHER,
            joins_turns=getattr(format, "joins_turns", False),
        )
        self._sends_empty: bool = getattr(format, "sends_empty", True)
        self._counter = counter
        self._first = array("Q")  # a message's first item
        self._owner = array("Q")  # an item's message
        self._answered: int | None = None  # the first message of an assistant
        self._turn_starts = array("Q")  # the messages with which the user's turns begin
        self._empty = array("Q")  # the answers without items

    @property
    def item_count(self) -> int:
        """Number of items so far."""
        return len(self._owner)

    @property
    def order(self) -> Order:
        """The order of roles so far (R12b)."""
        return self._turns.order

    def number(self, parts: list[Part]) -> list[tuple[Item, Part]]:
        """Take in the next message and return its items with their content."""
        number = len(self._first)
        if self._answered is None and is_answer(parts):
            self._answered = number
        # A server may count an empty answer as a turn.
        speaker = speaker_of(parts, lone=self._lone) if parts else "assistant"
        if speaker == "user":
            self._turn_starts.append(number)
        if not parts:
            self._empty.append(number)
            if not self._sends_empty:
                self._turns.read_unsent()
                speaker = None
        parts = self.person_calls.mark(in_history(parts, answered=self._answered is not None))
        first = len(self._owner)
        items = self._turns.couple(speaker, [part.item(self._counter, number) for part in parts], first)
        self._first.append(first)
        self._owner.extend([number] * len(items))
        return list(zip(items, parts, strict=True))

    def first(self, number: int) -> int:
        """Index of the first item of a message; if it has none, of the next item."""
        return self._first[number]

    def size(self, number: int) -> int:
        """Number of items of a message."""
        stop = self._first[number + 1] if number + 1 < len(self._first) else len(self._owner)
        return stop - self._first[number]

    def empty_between(self, before: int, number: int) -> list[int]:
        """Return the empty answers between two neighbours of a view that belong to the turn of either.

        An empty answer may part two turns of the user (R12b), so it stays as long as anything of its turn. At the end
        of the history it belongs to what is still to come.

        Args:
            before: number of a message; -1 for none.
            number: number of the next one that is visible; that of the next to come for none.
        """
        first, stop = (bisect_left(self._empty, bound) for bound in (before + 1, number))
        if first == stop:
            return []
        turns = {bisect_right(self._turn_starts, neighbour) for neighbour in (before, number)}
        return [empty for empty in self._empty[first:stop] if bisect_right(self._turn_starts, empty) in turns]

    def locate(self, index: int) -> tuple[int, int]:
        """Return the number of the message that an item came from, and its position there."""
        number = self._owner[index]
        return number, index - self._first[number]

    def message_of(self, index: int) -> int:
        """Position of the message that an item came from."""
        return self._owner[index]


class Transcript(Outline, Generic[MessageT]):
    """Messages in order, addressed by item: it turns a window's indexes back into messages."""

    def __init__(self, format: Format[MessageT], counter: Counter = chars) -> None:  # noqa: A002 - the field's word
        super().__init__(counter, format)
        self.format = format
        self.messages: list[MessageT] = []

    def append(self, message: MessageT) -> list[Item]:
        """Take in a message and return its items, to be added to a window in this order.

        Raises:
            FormatError: if it is not in the format; the transcript is then unchanged.
        """
        return [item for item, _ in self.take(message)]

    def take(self, message: MessageT, parts: list[Part] | None = None) -> list[tuple[Item, Part]]:
        """Take in a message and return its items with their content.

        Raises:
            FormatError: if it is not in the format; the transcript is then unchanged.
        """
        items = self.number(self.format.parts(message) if parts is None else parts)
        self.messages.append(message)
        return items

    def parts(self, number: int) -> list[Part]:
        """Return the parts of a message as they stand in the history (R15)."""
        answered = self._answered is not None and self._answered <= number
        return in_history(self.format.parts(self.messages[number]), answered=answered)

    def view(self, visible: Sequence[int]) -> list[MessageT]:
        """Return the messages of some items, in order; a message that is kept whole is the same object.

        A message without items, such as an empty reply, is returned only if every item is visible.

        Args:
            visible: item indexes, ascending.
        """
        return [message for _, message in self.numbered_view(visible)]

    def numbered_view(self, visible: Sequence[int]) -> Iterator[tuple[int, MessageT]]:
        """Yield the messages of some items as `view` returns them, each with its number."""
        if len(visible) == len(self._owner):
            yield from enumerate(self.messages)
            return
        for number, group in groupby(visible, self._owner.__getitem__):
            first = self._first[number]
            positions = [index - first for index in group]
            message: MessageT | None = self.messages[number]
            if len(positions) < self.size(number):
                message = keep_some(self.format, self.messages[number], positions)
            if message is not None:
                yield number, message

    def text(self, indexes: Iterable[int]) -> str:
        """Return items as readable text, exact and in order, for a recall."""
        blocks = []
        for number, group in groupby(indexes, self._owner.__getitem__):
            parts = self.parts(number)
            blocks += [readable(parts[index - self._first[number]]) for index in group]
        return "\n\n".join(blocks)


def keep_some(format: Format[MessageT], message: MessageT, positions: Sequence[int]) -> MessageT | None:  # noqa: A002
    """Return a message with only some of its parts; None if they are all reasoning, which providers refuse (R9).

    Args:
        format: the message's format.
        message: a message with more parts than there are positions.
        positions: positions in its parts, at least one, ascending.
    """
    parts = format.parts(message)
    if all(parts[position].kind is Kind.REASONING for position in positions):
        return None
    return format.keep(message, positions)


def readable(part: Part) -> str:
    """Return a part as readable text with its exact content, for a recall."""
    if part.kind is Kind.CALL:
        return f"[call {part.tool}] {part.arguments or ''}"
    return f"[{part.kind.value}]\n{part.text}"
