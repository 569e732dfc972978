"""Wane's own journals, of its agent and its proxy: messages, the usage of each call, and the passes that ran.

A damaged journal cannot be resumed, because its view would be in doubt, but it can be studied: damaged lines are named,
and read if possible.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from wane.core import DELIMITER, Kind, Mark, chars
from wane.core.errors import ConfigError, CorruptJournalError, FormatError, HistoryError, JournalVersionError
from wane.core.policy import MAX_BUDGET
from wane.formats import StoredFormat, get_format
from wane.formats.message_format import Part, in_history, is_answer
from wane.journal.codec import SchemaError
from wane.journal.lines import checksum_of, decode_line, read_record
from wane.journal.reader import open_session, read_header_of
from wane.journal.records import (
    CLIENT_NOTE,
    FORK_NOTE,
    RECORDS,
    REPLY_NOTE,
    ChoiceRecord,
    ConfigRecord,
    Header,
    MessageRecord,
    NoteRecord,
    PassRecord,
    PersonsRecord,
    Record,
    StateRecord,
    StrategyRecord,
    UsageRecord,
    spent_call,
)
from wane.journal.titles import title_of
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.json_lines import Problems
from wane.lab.readers.building.values import text, usage_of
from wane.lab.readers.documents import is_model_message
from wane.lab.recorded_session import (
    CallUsage,
    EvictionStep,
    ModelCall,
    PersonsChoice,
    RecordedEviction,
    RecordedSession,
)
from wane.prices import split_tier
from wane.rewrites import CACHE_NOTE, Explanation
from wane.strategies.registry import STRATEGY_NAMES, get_strategy, traits
from wane.strategies.strategy import Resumable, StrategySettings, Substitute


@dataclass(frozen=True, slots=True)
class StrategyAction:
    """What one action of a strategy changed; items are indexes in the journal.

    Attributes:
        removed: items no longer shown unchanged, in order.
        before: tokens of the view before it, by our own count and without the overhead.
        after: tokens of the view after it, counted alike.
        summary: the summary in place of all that was removed; None if there is none.
        first_kept: the first item shown after that summary; None if there is none.
    """

    removed: tuple[int, ...]
    before: int
    after: int
    summary: str | None = None
    first_kept: int | None = None


class StrategyActions:
    """Follows a history with the strategy that managed it."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Part]] = []  # with the number of the message
        self._messages = 0
        self._answered = False
        self._strategy: Resumable | None = None
        self._tokens: list[int] = []  # of the items given to the strategy
        self._shown: set[int] = set()
        self._substitutes = 0  # tokens of the substitutes in the view

    def add(self, parts: Sequence[Part]) -> None:
        """Take in the parts of the next message."""
        # A notice in the system's place at the start of a session became a system item (R15).
        strategy_parts = in_history(list(parts), answered=self._answered)
        self._answered = self._answered or is_answer(parts)
        self._parts += [(self._messages, part) for part in strategy_parts]
        self._messages += 1

    def redo(self, name: str, done: Mapping[str, Any]) -> StrategyAction:
        """Repeat an action of a strategy.

        Raises:
            FormatError: if the strategy is unknown, or cannot have done this at this point.
        """
        try:
            strategy = self._following(name)
            strategy.redo(done)
        except (ConfigError, HistoryError, LookupError, TypeError, ValueError) as error:
            raise FormatError(f"what the strategy {name} did cannot be repeated here: {error}") from error
        earlier, before = self._shown, self._view_tokens()
        slots = list(strategy.current())
        self._shown = {slot for slot in slots if isinstance(slot, int)}
        self._substitutes = sum(slot.tokens for slot in slots if isinstance(slot, Substitute))
        action = StrategyAction(tuple(sorted(earlier - self._shown)), before, self._view_tokens())
        for position, slot in enumerate(slots):
            if isinstance(slot, Substitute) and slot.index is None:
                later = [other for other in slots[position:] if isinstance(other, int)]
                return replace(action, summary=slot.text, first_kept=later[0] if later else None)
        return action

    def count(self, items: Iterable[int]) -> int:
        """Return the tokens of some items."""
        return sum(part.item(chars, message).tokens for message, part in map(self._parts.__getitem__, items))

    def _following(self, name: str) -> Resumable:
        """Return the strategy of that name, with the whole history added."""
        if self._strategy is None or self._strategy.name != name:
            strategy = get_strategy(name, StrategySettings(budget=MAX_BUDGET))
            if not isinstance(strategy, Resumable):
                raise FormatError(f"the strategy {name} records no actions")
            self._strategy = strategy
            self._tokens = []
            self._shown = set()
            self._substitutes = 0
        for message, part in self._parts[len(self._tokens) :]:
            item = part.item(chars, message)
            self._strategy.add(item, part)
            self._shown.add(len(self._tokens))
            self._tokens.append(item.tokens)
        return self._strategy

    def _view_tokens(self) -> int:
        return self._substitutes + sum(self._tokens[index] for index in self._shown)


NAME: Final = "journal"
TITLE: Final = "Wane"


def recognises(head: Sequence[object]) -> bool:
    """Return whether the first JSON value of a file is the header of a journal."""
    first = head[0] if head else None
    return isinstance(first, dict) and first.get("kind") == "session" and isinstance(first.get("version"), int)


def read(path: Path) -> list[RecordedSession]:
    """Return the session of a journal.

    Raises:
        JournalError: if it cannot be read, its first line is damaged, or another version of Wane began it.
        FormatError: if its messages are in an unknown format.
        MissingExtraError: if their format needs an extra that is not installed.
    """
    problems = Problems()
    with open_session(path) as stream:
        header, checksum = read_header_of(stream, path)
        return [_session(path.stem, header, _records(stream, checksum, problems), problems)]


def session_of(header: Header, records: Sequence[Record]) -> RecordedSession:
    """Return the session of a journal whose records were read; see `read` for errors of its format."""
    return _session(header.id, header, enumerate(records, start=2), Problems())


def _session(name: str, header: Header, records: Iterable[tuple[int, Record]], problems: Problems) -> RecordedSession:
    # What Wane changed of a cost follows from the calls of its own tools, and from what they held.
    fold = _Fold(SessionBuilder(name, NAME, problems, whole=True), get_format(header.format))
    for number, record in records:
        fold.take(record, number)
    fold.finish()
    fold.builder.cwd = header.cwd
    session = fold.builder.build()
    session.evictions = fold.evictions
    session.choices = fold.choices
    session.marks = fold.marks
    session.budget = fold.budget
    session.id, session.parent, session.agent = header.id, header.parent, fold.agent
    return session


def _records(stream: Iterable[bytes], checksum: int, problems: Problems) -> Iterator[tuple[int, Record]]:
    for number, line in enumerate(stream, start=2):
        try:
            yield number, read_record(line, checksum)
        except JournalVersionError as error:
            problems.add(number, str(error), "a record of another version of Wane", unread=True)
        except CorruptJournalError as error:
            record = _read_unchecked(line)
            what = f"{error}{'; it was read anyway' if record else ''}"
            problems.add(number, what, "a damaged line", unread=not record)
            if record:
                yield number, record
        try:
            checksum = checksum_of(line)
        except ValueError:
            continue  # the next line is named too, and read without its checksum


def _read_unchecked(line: bytes) -> Record | None:
    """Return the record of a line with a wrong checksum, if it holds one: only the line before may be damaged."""
    try:
        data = json.loads(line)
        return decode_line(RECORDS[data["kind"]], data)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, SchemaError):
        return None


@dataclass(frozen=True, slots=True)
class _Call:
    """A model call: its usage, why it paid again for cached content, and whether it is a further round of a reply."""

    record: UsageRecord
    rewritten: Explanation | None = None
    further: bool = False

    @property
    def at(self) -> float | None:
        return _time(self.record)

    @property
    def usage(self) -> CallUsage | None:
        usage = _usage(self.record)
        return None if usage is None else replace(usage, rewritten=self.rewritten)


class _PendingUsage:
    """Usage records whose answers have not been read yet, oldest first.

    A journal records the usage of a call before the message that answers it: right before it in an agent's journal. A
    proxy's has a usage record for each round of a reply, a note when the reply is complete, and the messages of the
    rounds once the client has sent them back; if the client dropped the reply, they never come.

    Attributes:
        rounds: whether several calls may follow each other, as the rounds of one reply.
    """

    def __init__(self) -> None:
        self.rounds = False
        self._waiting: deque[_Call] = deque()
        self._complete = False

    def add(self, call: _Call) -> Iterator[_Call]:
        """Add the usage of a call, and yield earlier calls whose answers will not come."""
        if self._complete or not self.rounds:
            yield from self.take_unanswered()
        self._waiting.append(replace(call, further=bool(self._waiting)))

    def complete(self) -> None:
        """Note that the reply is complete: the next call belongs to another one."""
        self._complete = True

    def take_answered(self) -> _Call | None:
        """Return the usage of the call whose answer comes next; None if none was reported."""
        return self._waiting.popleft() if self._waiting else None

    def __len__(self) -> int:
        """Return the number of calls whose answers may still come."""
        return len(self._waiting)

    def take_unanswered(self) -> Iterator[_Call]:
        """Yield the calls whose answers will not come, and forget them."""
        while self._waiting:
            yield self._waiting.popleft()
        self._complete = False


class _Fold:
    def __init__(self, builder: SessionBuilder, message_format: StoredFormat[Any]) -> None:
        self.builder = builder
        self.evictions: list[RecordedEviction] = []
        self.choices: list[PersonsChoice] = []
        self.agent = ""  # whose requests the proxy recorded
        self.budget: int | None = None  # None where the strategy keeps none
        self._format = message_format
        self._usages = _PendingUsage()
        self._rewritten: Explanation | None = None  # of the call whose usage comes next
        self._actions = StrategyActions()
        self._delimiters: set[str | None] = set()  # ids of `delimiter` calls
        self._part_of: list[int | None] = []  # by item of the journal; None if it was left out
        self._marks: dict[int, tuple[Mark, ...]] = {}  # of the host, by item

    @property
    def marks(self) -> dict[int, tuple[Mark, ...]]:
        """The host's marks; none unless all items are here, because marks build on each other and refer to items."""
        whole = not self.builder.problems.unread and self._part_of == list(range(self.builder.position))
        return self._marks if whole else {}

    def take(self, record: Record, line: int) -> None:
        if isinstance(record, MessageRecord):
            self._take_message(record, line)
        elif isinstance(record, UsageRecord):
            self._lost(self._usages.add(_Call(record, self._rewritten)), line)
            self._rewritten = None
        elif isinstance(record, NoteRecord) and record.topic == CACHE_NOTE:
            self._rewritten = Explanation.read(record.data)
        elif isinstance(record, ChoiceRecord):
            self.choices.append(PersonsChoice(self.builder.position, record.episode, record.choice))
        elif isinstance(record, PassRecord):
            self._take_pass(record, line)
        elif isinstance(record, StrategyRecord):
            self._take_strategy(record, line)
        elif isinstance(record, StateRecord):
            self._take_state(record, line)
        elif isinstance(record, PersonsRecord):
            self.builder.note_persons(record.calls)
        elif isinstance(record, ConfigRecord):
            # The tokens of instructions and tools are known at the first request; then the settings are recorded again.
            self.builder.system_tokens = record.overhead or self.builder.system_tokens
            bounded = record.strategy in STRATEGY_NAMES and traits(record.strategy).bounded
            self.budget = record.budget if bounded else None
        elif isinstance(record, NoteRecord) and record.topic == CLIENT_NOTE:
            self._usages.rounds = True
            self.agent = text(record.data.get("agent")) or self.agent
        elif isinstance(record, NoteRecord) and record.topic == REPLY_NOTE:
            self._usages.complete()
        elif isinstance(record, NoteRecord) and record.topic == FORK_NOTE:
            self.builder.note_branch(len(self._usages))
        elif isinstance(record, NoteRecord) and (call := spent_call(record)) is not None:
            model, provider = _model(call)
            aside = ModelCall(0, 0, _usage(call), _time(record), model, provider, cost=call.cost)
            self.builder.aside(replace(aside, assumed=call.assumed))

    def finish(self) -> None:
        self._lost(self._usages.take_unanswered(), None)

    def _take_message(self, record: MessageRecord, line: int) -> None:
        try:
            messages = self._format.load([dict(record.message)])
            parts = [part for message in messages for part in self._format.parts(message)]
        except FormatError as error:
            what = str(error).removeprefix("message 0: ")
            self.builder.problems.add(line, what, "a message that cannot be read", unread=True)
            return
        for message in messages:
            self.builder.name_unknown(message, self._format, line)
        self.builder.entitle(title_of(record.message) or "")
        answer = is_model_message(record.message)
        if answer:
            marks = [part.call_id for part in parts if part.kind is Kind.CALL and part.tool == DELIMITER]
            self._delimiters.update(marks)
        elif not all(part.kind is Kind.RESULT and part.call_id in self._delimiters for part in parts):
            # Only results of the proxy's own tool come between the rounds of a reply.
            self._lost(self._usages.take_unanswered(), line)
        self._actions.add(parts)
        if answer:
            self.builder.settle(line=line)
            first = self.builder.position
            call = self._usages.take_answered()
            # A proxy records an answer when its client sends it back, which may be hours later.
            at = call.at if call is not None and call.at is not None else _time(record)
            self._add_answer(parts, call, at, line)
        else:
            first = self.builder.message(parts, line=line)
        self._marks |= record.hosts_marks
        complete = self.builder.position - first == len(parts)
        self._part_of += range(first, self.builder.position) if complete else [None] * len(parts)

    def _lost(self, calls: Iterable[_Call], line: int | None) -> None:
        """Add calls whose answer is not recorded."""
        for call in calls:
            self._add_answer((), call, call.at, line)

    def _add_answer(self, parts: Sequence[Part], call: _Call | None, at: float | None, line: int | None) -> None:
        if call is None:
            self.builder.answer(parts, at=at, line=line)
            return
        model, provider = _model(call.record)
        self.builder.answer(
            parts,
            usage=call.usage,
            at=at,
            model=model,
            line=line,
            provider=provider,
            cost=call.record.cost,
            assumed=call.record.assumed,
            further=call.further,
        )

    def _take_strategy(self, record: StrategyRecord, line: int) -> None:
        try:
            act = self._actions.redo(record.strategy, record.done)
        except FormatError as error:
            self.builder.problems.add(line, f"{error}; it is unknown what left the view", "what a strategy did")
            return
        if act.summary is not None:
            self.builder.compaction(
                act.summary,
                first_kept=None if act.first_kept is None else self._part_of[act.first_kept],
                tokens_before=act.before,
                tokens_after=act.after,
                at=_time(record),
            )
            return
        removed = self._parts_of(act.removed)
        self.evictions.append(RecordedEviction(self.builder.position, removed, act.before, act.after, _time(record)))

    def _take_state(self, record: StateRecord, line: int) -> None:
        """Note all that had left the view when the conversation was restored from a state, as one eviction."""
        try:
            engine = record.state["engine"]
            if engine["window"] is None:
                if (done := engine["standing"]) is not None:
                    act = StrategyRecord(len(self._part_of), record.strategy, done, at=record.at)
                    self._take_strategy(act, line)
                return
            visible = dict(engine["window"]["view"]["tokens"])
            after = engine["accounting"]["overhead"] + sum(visible.values())
        except (LookupError, TypeError, ValueError) as error:
            self.builder.problems.add(line, f"a state that cannot be read: {error!r}", "a state")
            return
        gone = [item for item in range(len(self._part_of)) if item not in visible]
        if gone:
            before = after + self._actions.count(gone)
            removed = self._parts_of(gone)
            self.evictions.append(RecordedEviction(self.builder.position, removed, before, after, _time(record)))

    def _parts_of(self, items: Iterable[int]) -> tuple[int, ...]:
        parts = [self._part_of[index] for index in items]
        return tuple(part for part in parts if part is not None)

    def _take_pass(self, record: PassRecord, line: int) -> None:
        steps: list[EvictionStep] = []
        chosen = {one.episode: one.choice for one in self.choices}
        if record.items == len(self._part_of):
            for step in record.steps:
                freed = step.tokens_before - step.tokens_after
                removed = self._parts_of(step.removed)
                steps.append(EvictionStep(step.level.value, removed, freed, chosen.get(step.number) == "drop"))
        else:
            self.builder.problems.add(line, "a pass over items that are not all here; what it removed is unknown")
        index = record.index
        if index is not None:
            # It comes before the part of its item, or else before the next part.
            later = (part for part in self._part_of[index.before :] if part is not None)
            index = replace(index, before=next(later, self.builder.position))
        eviction = RecordedEviction(
            position=self.builder.position,
            removed=tuple(part for step in steps for part in step.removed),
            tokens_before=record.tokens_before,
            tokens_after=record.tokens_after,
            at=_time(record),
            steps=tuple(steps),
            budget=record.budget,
            overflowed=record.overflowed,
            index=index,
        )
        self.evictions.append(eviction)


def _model(call: UsageRecord) -> tuple[str | None, str]:
    provider, colon, model = split_tier(call.model)[0].partition(":")
    return (model, provider) if colon else (provider or None, "")


def _usage(call: UsageRecord) -> CallUsage | None:
    """Return the usage of the sampling that read the request, with all output."""
    first = call if call.parts is None or call.parts.first is None else call.parts.first
    usage = usage_of(
        first.input_tokens,
        read=first.cache_read_tokens,
        written=first.cache_write_tokens,
        hour=first.cache_write_hour_tokens,
        output=call.output_tokens or None,
    )
    if usage is None:
        return None
    bound = call.cost is None and call.parts is not None and call.parts.further_fees
    return replace(usage, tier=split_tier(call.model)[1], further_fees=bound)


def _time(record: Record) -> float | None:
    return None if record.at is None else record.at.timestamp()
