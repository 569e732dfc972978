"""The history of a session without its content: parts go in, records and views come out.

The messages are kept elsewhere: a `Conversation` holds them, and the proxy receives them again with each request. Each
step is a record. `follow` repeats a record, and nothing else repeats a session: after a restart, a fork, or a switch of
the strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from wane.conversation.engine import Engine
from wane.core import Added, Item, Kind, Mark
from wane.core.errors import ConfigError, HistoryError, JournalError
from wane.formats.base import Outline, Part
from wane.journal.records import (
    ConfigRecord,
    MessageRecord,
    PassRecord,
    PlacedMark,
    Record,
    ReminderRecord,
    StrategyRecord,
    UsageRecord,
)
from wane.strategies.base import Fitted, SummaryNeeded, repeats, traits

T = TypeVar("T")

_NO_CONTENT: Final[Mapping[str, Any]] = MappingProxyType({})
_PLAIN: Final = MessageRecord(_NO_CONTENT)
_OF_REQUESTS: Final = (PassRecord, StrategyRecord, UsageRecord, ReminderRecord)


class Taken(NamedTuple):
    """An item that was taken in."""

    item: Item
    part: Part
    added: Added


class History:
    """The history of a session without its content.

    Args:
        engine: decides the view; it has taken in nothing yet.
        outline: gives messages their items.
        settings: the settings in force. The engine has them already.

    Attributes:
        settings: the settings in force.
        log: a record of each step, in order. Records of messages have no content, unless `take` was given it.
        ended: whether the history ends with an answer after which the model's turn is over: no call of it is open, and
            its stop reason, if the host knows it, says no more is to come. It may be empty.
        requested: whether a request has shown the history as it stands.
        items_sent: number of items in the history at the latest request.
        marks: the host's marks, in order: they do not follow from the history.
    """

    def __init__(self, engine: Engine, outline: Outline, settings: ConfigRecord) -> None:
        self.engine = engine
        self.outline = outline
        self.settings = settings
        outline.person_calls.set_tool_classes(settings.tool_classes)
        self.log: list[Record] = [settings]
        self.ended = self.requested = False
        self.items_sent = 0
        self.marks: list[PlacedMark] = []
        self._last: Kind | None = None  # kind of the last item that is no notice
        self._overflowed = False  # whether a pass since the last item took unfinished work (R16)

    @property
    def answered_last(self) -> bool:
        """Whether the history ends with an answer."""
        return self._last is Kind.TEXT

    def drain(self) -> list[Record]:
        """Return the log, and begin a new one."""
        log, self.log = self.log, []
        return log

    # Steps

    def configure(self, settings: ConfigRecord) -> None:
        """Put settings in force."""
        if settings != self.settings:
            self._apply(settings)

    def take(
        self,
        parts: list[Part],
        *,
        answers: bool,
        content: Mapping[str, Any] = _NO_CONTENT,
        marks: Mapping[int, tuple[Mark, ...]] | None = None,
    ) -> list[Taken]:
        """Take in the next message.

        Args:
            parts: its parts.
            answers: whether a model made it.
            content: the message itself, for its record.
            marks: the marks right ahead of items, by index; None to infer them, or to make the host's marks.

        Raises:
            HistoryError: for an item that cannot stand here.
        """
        items = self._add(parts, answers, marks)
        placed = [PlacedMark(item.added.index, mark) for item in items for mark in item.added.marks]
        record = MessageRecord(content, tuple(placed)) if content or placed else _PLAIN
        self.log.append(record)
        return items

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        """Return the next request's view, after a pass if one is due, or ask for a summary first."""
        return self._fitted(self.engine.fit(cold=cold))

    def summarised(self, text: str) -> Fitted | SummaryNeeded:
        """Take in the summary that was asked for, and return the next request's view, or ask for another one."""
        return self._fitted(self.engine.summarised(text))

    def hold(self) -> Fitted:
        """Return the next request's view without evicting anything."""
        fitted = self.engine.hold()
        self.sent()
        return fitted

    def remind(self, *, may: bool = True) -> str | None:
        """Return the note to the model at the end of the next request, once its view is ready; usually None.

        It stands only behind results. Behind a text it would have the last word over what a person or the client asks
        there: a client's prompt to summarise forbids calls, and the provider itself goes on with an answer.

        Args:
            may: whether the request may have one.
        """
        if not may or self._last is not Kind.RESULT:
            self.engine.reminded()
            return None
        before = self.engine.reminder
        text = self.engine.remind(overflowed=self._overflowed)
        if text is not None and text is not before:
            self.log.append(ReminderRecord(self.engine.item_count, text))
        return text

    def observe(self, usage: UsageRecord) -> bool:
        """Take in a provider's report of the latest request; return whether the engine took it as the view's size."""
        self.log.append(usage)
        return usage.anchors and self.engine.observe(usage.request_tokens)

    # Repeating

    def follow(self, record: Record, parts: list[Part] | None = None, *, answers: bool = False) -> list[Taken]:
        """Repeat a step. No pass runs, nothing is inferred, and the present settings do not matter (R14).

        What another strategy did is not repeated, and the reports of its requests say nothing about this one's.

        Raises:
            HistoryError: for a step that does not fit.
            ConfigError: for settings that cannot work.
        """
        engine, items = self.engine, list[Taken]()
        before = engine.item_count
        late = isinstance(record, UsageRecord) and record.items == self.items_sent
        if isinstance(record, _OF_REQUESTS) and record.items != before and not late:
            raise HistoryError(f"it was recorded after {record.items} items, but comes after {before}")
        match record:
            case MessageRecord():
                if answers:
                    self._request()
                marks = record.marks_at
                items = self._add(parts or [], answers, marks)
                if wrong := [index for index in marks if not before <= index < engine.item_count]:
                    raise HistoryError(f"it marks items {wrong}, which are not items of the message")
            case PassRecord(trace=trace, index=index) if engine.evicts:
                engine.redo(trace, index)
                self._request(done=True)
            case StrategyRecord(strategy=engine.name, done=done):
                engine.redo(done)
                self._request(done=True)
            case UsageRecord(request_tokens=tokens):
                if record.items == before:
                    self._request()
                if record.anchors and tokens > 0 and self._shows_as(self.settings.strategy):
                    engine.observe(tokens)
            case ReminderRecord(text=text):
                self._request()
                engine.reminded(text)
            case ConfigRecord():
                self.configure(replace(record, at=None))
        if not isinstance(record, ConfigRecord):
            self.log.append(record)
        return items

    def sent(self) -> None:
        """Note that a request shows the history as it stands."""
        self.requested, self.items_sent = True, self.engine.item_count

    # Internals

    def _add(self, parts: list[Part], answers: bool, marks: Mapping[int, tuple[Mark, ...]] | None) -> list[Taken]:
        items: list[Taken] = []
        for index, (item, part) in enumerate(self.outline.number(parts), self.engine.item_count):
            recorded = None if marks is None else marks.get(index, ())
            added = self.engine.add(item, part, recorded)
            items.append(Taken(item, part, added))
            for mark in added.marks:
                if mark.host:
                    self.marks.append(PlacedMark(index, mark))
        # A message without parts is an empty answer (`Format.parts`). A call whose result stands in the same answer was
        # run by the provider.
        open_calls = self.engine.window.open_calls if answers else {}
        calls = any(part.kind is Kind.CALL and part.call_id in open_calls for part in parts)
        self.ended = (answers or not parts) and not calls
        kinds = [item.kind for item, _, _ in items if item.kind is not Kind.NOTICE]
        if answers or not parts:
            self._last = Kind.TEXT  # whatever its last part is
        elif kinds:
            # A person's answer is theirs, too.
            self._last = Kind.USER if items[-1].item.person else kinds[-1]
        self.requested = False
        self._overflowed = False
        return items

    def _fitted(self, outcome: Fitted | SummaryNeeded) -> Fitted | SummaryNeeded:
        if isinstance(outcome, SummaryNeeded):
            return outcome
        items, report = self.engine.item_count, outcome.report
        if report is not None and report.ran:
            self._overflowed = self._overflowed or report.overflowed
            self.log.append(PassRecord.of(report, items))
        elif isinstance(outcome.done, Mapping):
            self.log.append(StrategyRecord(items, self.engine.name, dict(outcome.done)))
        self.sent()
        return outcome

    def _request(self, *, done: bool = False) -> None:
        """Repeat a request, unless one has shown the history as it stands.

        Args:
            done: whether the engine has already repeated what was done for it.
        """
        if self.requested:
            return
        if not done:
            self.engine.redo(None)
        self.sent()
        if traits(self.settings.strategy).bounded:
            self.engine.reminded()

    def _shows_as(self, strategy: str) -> bool:
        """Whether requests under a strategy show what the engine shows; a strategy without a budget keeps the view."""
        return not strategy or not traits(strategy).bounded or repeats(strategy, self.engine.name)

    def _apply(self, settings: ConfigRecord) -> None:
        engine, window = self.engine, self.engine.window
        overhead = settings.overhead + settings.required
        if overhead != engine.overhead:
            engine.overhead = overhead
            self.requested = False
        window.budget = settings.budget
        window.policy = settings.policy
        window.window = settings.window
        window.set_tool_classes(settings.tool_classes)
        self.outline.person_calls.set_tool_classes(settings.tool_classes)
        window.tasks = settings.tasks
        self.settings = settings
        self.log.append(settings)


def replay(records: Iterable[Record], step: Callable[[Record], T]) -> Iterator[tuple[Record, T]]:
    """Repeat the records of a session, and yield each with what its step returned.

    Raises:
        JournalError: if the records contradict each other: a record is in the wrong place, a message has a mark at an
            item that is not its own, a pass removes what is not there. They were then written under other rules, or in
            another order. The error names the line.
    """
    for line, record in enumerate(records, start=2):
        try:
            outcome = step(record)
        except (HistoryError, ConfigError, LookupError, TypeError, ValueError) as error:
            raise JournalError(f"the session does not replay: line {line} ({record.kind}): {error}") from error
        yield record, outcome
