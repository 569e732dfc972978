"""The history of a session: messages go in, records and the views of requests come out.

`History` knows parts and no content: the proxy receives its messages again with each request. `MessageHistory` keeps
them, and belongs to a `Conversation`. Each step is a record. `follow` repeats a record, and nothing else repeats a
session: after a restart, a fork, or a switch of the strategy.
"""

# When was a request made, and what was known then?
#
# A history grows by messages. Between two of them the model may be asked: a request shows the history as it stands, and
# its answer is the next message. `requested` says whether that has happened, and only three things end it: a message
# comes in, the overhead changes, or the budget falls below what the request held.
#
# No record says "a request was made". It follows from what was recorded about one:
#
#     record               says that a request was made             and repeats of it
#     answer               right ahead of it                        nothing
#     pass, strategy       at its number of items                   what left the view, if this strategy can
#     usage                at its number of items, if that is the   the provider's count
#                          present one; a late report of the
#                          latest request says nothing new
#     reminder             at its number of items                   the note at its end
#     message, no answer   nothing                                  -
#     settings, note       nothing                                  -
#
# So `follow` first makes the request that a record implies, unless it was made already, and then repeats the rest. It
# must come first: strategies act when they are asked, and a report is about the view that was sent. What a record says
# was done replaces what the engine would do now; without such a record nothing was done, and the request shows the view
# as it stood. Nothing is decided anew (R14).
#
# `ended` says whether the model's turn is over. A message without parts is an answer that said nothing, and ends it;
# so does an answer without open calls. An episode settles by the items alone (`core/episodes.py`), not by requests.

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from wane.budgets import AutoBudget, choose_budget
from wane.conversation.adapter import Adapter, Prepared
from wane.conversation.alignment import are_equal
from wane.conversation.context import CACHE_LIFETIME, ContextSettings
from wane.conversation.engine import Engine
from wane.conversation.engine_state import export_engine, restore_engine
from wane.conversation.events import (
    BudgetChosen,
    BudgetUnmet,
    EpisodeClosed,
    EpisodeOpened,
    Event,
    MessageTaken,
    OverheadChanged,
    PassRan,
    Reminded,
    StrategyActed,
    ThrashingBegan,
    UsageObserved,
)
from wane.conversation.views import ViewMessages, visible_items
from wane.core import Added, Episode, FitReport, Item, Kind, Mark
from wane.core.episodes import Choice
from wane.core.errors import ConfigError, FormatError, HistoryError, JournalError
from wane.core.light import light_dataclass
from wane.formats.message_format import (
    Format,
    MessageT,
    Outline,
    Part,
    Transcript,
    is_answer,
    is_native,
    repeated_call,
    writes,
)
from wane.journal.records import (
    TIME_NOTE,
    TURN_NOTE,
    ChoiceRecord,
    ConfigRecord,
    MessageRecord,
    NoteRecord,
    PassRecord,
    PersonsRecord,
    PlacedMark,
    Record,
    ReminderRecord,
    RequestFact,
    StateRecord,
    StrategyRecord,
    UsageRecord,
)
from wane.recall import Archive
from wane.strategies.registry import repeats, traits
from wane.strategies.strategy import Fitted, Slot, SummaryNeeded

T = TypeVar("T")
R = TypeVar("R")

_NO_CONTENT: Final[Mapping[str, Any]] = MappingProxyType({})
_PLAIN: Final = MessageRecord(_NO_CONTENT)
_ADOPTED: Final = ("engine", "fixed", "told", "asked", "answered", "shown")


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
        log: a record of each step, in order.
        ended: whether the history ends with an answer after which the model's turn is over: no call of it is open, and
            its stop reason, if the host knows it, says no more is to come. It may be empty.
        requested: whether a request has shown the history as it stands.
        items_sent: number of items in the history at the latest request.
        marks: the host's marks, in order: they do not follow from the history.
    """

    records_content: ClassVar[bool] = True
    """Whether records of messages hold the messages, or only the place of each in the log."""

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
        self._asked: list[str | None] = []  # ids of the calls of the latest answer
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
        if settings == self.settings:
            return
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

    def take(self, prepared: Prepared[Any], *, marks: Mapping[int, tuple[Mark, ...]] | None = None) -> list[Taken]:
        """Take in the next message.

        Args:
            prepared: the message.
            marks: the marks right ahead of items, by index; None to infer them, or to make the host's marks.

        Raises:
            HistoryError: for an item that cannot stand here.
        """
        items = self._add(prepared, marks)
        placed = [PlacedMark(item.added.index, mark) for item in items for mark in item.added.marks]
        if persons := self.outline.person_calls.told_of(prepared.parts):
            self.log.append(PersonsRecord(persons))
        content = prepared.message if self.records_content else _NO_CONTENT
        self.log.append(MessageRecord(content, tuple(placed)) if content or placed else _PLAIN)
        return items

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        """Return the next request's view, after a pass if one is due, or ask for a summary first."""
        return self._record_done(self.engine.fit(cold=cold))

    def take_summary(self, text: str) -> Fitted | SummaryNeeded:
        """Take in the summary that was asked for, and return the next request's view, or ask for another one."""
        return self._record_done(self.engine.take_summary(text))

    def choose(self, number: int, choice: Choice) -> Episode:
        """Put a person's choice for an episode in force (R23); see `ContextWindow.choose`.

        Raises:
            ConfigError: as that does, and if the strategy does not evict by episode.
            UnknownEpisodeError: as that does.
        """
        if not self.engine.evicts:
            raise ConfigError(f"the strategy {self.engine.name} does not evict by episode, so nothing can be chosen")
        episode = self.engine.window.choose(number, choice)
        self.log.append(ChoiceRecord(number, choice))
        return episode

    def hold(self) -> Fitted:
        """Return the next request's view without evicting anything."""
        fitted = self.engine.hold()
        self.mark_requested()
        return fitted

    def remind(self, *, may: bool = True) -> str | None:
        """Return the note to the model at the end of the next request, once its view is ready; usually None.

        It stands only behind results. Behind a text it would have the last word over what a person or the client asks
        there: a client's prompt to summarise forbids calls, and the provider itself goes on with an answer. It does so
        behind results, too, where a call of its own waits: only results may come before that one's.

        Args:
            may: whether the request may have one.
        """
        waits = not self.engine.window.open_calls.keys().isdisjoint(self._asked)
        if not may or self._last is not Kind.RESULT or waits:
            self.engine.repeat_reminder()
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

    def set_ended(self, ended: bool) -> None:
        """Note whether the model's turn is over, where its latest message alone does not tell."""
        self.ended = ended
        self.log.append(NoteRecord(TURN_NOTE, {"ended": ended}))

    def mark_requested(self) -> None:
        """Note that a request shows the history as it stands."""
        self.requested, self.items_sent = True, self.engine.item_count

    # Repeating

    def follow(self, record: Record, prepared: Prepared[Any] | None = None) -> list[Taken]:
        """Repeat a step. No pass runs, nothing is inferred, and the present settings do not matter (R14).

        What another strategy did is not repeated, and the reports of its requests say nothing about this one's.

        Args:
            record: the record.
            prepared: its message, for the record of one.

        Raises:
            HistoryError: for a step that does not fit.
            ConfigError: for settings that cannot work.
        """
        engine, items = self.engine, list[Taken]()
        before = engine.item_count
        if self._implies_request(record, prepared):
            self._repeat_request(record)
        match record:
            case MessageRecord() if prepared is not None:
                marks = record.marks_at
                items = self._add(prepared, marks)
                if wrong := [index for index in marks if not before <= index < engine.item_count]:
                    raise HistoryError(f"it marks items {wrong}, which are not items of the message")
            case UsageRecord(request_tokens=tokens):
                if record.anchors and tokens > 0 and self._shows_as(self.settings.strategy):
                    engine.observe(tokens)
            case ChoiceRecord(episode=number, choice=choice):
                engine.window.choose(number, choice)
            case PersonsRecord(calls=calls):
                self.outline.person_calls.told.update(calls)
            case NoteRecord(topic=topic, data=data) if topic == TURN_NOTE:
                self.ended = data["ended"] is True
            case ReminderRecord(text=text):
                engine.repeat_reminder(text)
            case ConfigRecord():
                if len(self.log) == 1 and not before:  # the settings that the session began with
                    engine.inference_budget = record.budget
                self.configure(replace(record, at=None))
        if not isinstance(record, ConfigRecord):
            self.log.append(record)
        return items

    def _implies_request(self, record: Record, prepared: Prepared[Any] | None) -> bool:
        """Return whether a record says that a request was made; see the table at the head of this file."""
        if prepared is not None:
            return prepared.answers
        if not isinstance(record, RequestFact):
            return False
        present = self.engine.item_count
        is_late = isinstance(record, UsageRecord) and record.items == self.items_sent
        if record.items != present and not is_late:
            raise HistoryError(f"it was recorded after {record.items} items, but comes after {present}")
        return record.items == present

    def _repeat_request(self, record: Record) -> None:
        """Make the request that a record implies, unless it was made, with what the record says was done for it."""
        engine = self.engine
        match record:
            case PassRecord(trace=trace, index=index) if engine.evicts:
                engine.redo(trace, index)
            case StrategyRecord(strategy=engine.name, done=done):
                engine.redo(done)
            case _ if not self.requested:
                engine.redo(None)
        if self.requested:
            return
        self.mark_requested()
        if traits(self.settings.strategy).bounded:
            engine.repeat_reminder()

    def _shows_as(self, strategy: str) -> bool:
        """Whether requests under a strategy show what the engine shows; a strategy without a budget keeps the view."""
        return not strategy or not traits(strategy).bounded or repeats(strategy, self.engine.name)

    # Internals

    def _add(self, prepared: Prepared[Any], marks: Mapping[int, tuple[Mark, ...]] | None) -> list[Taken]:
        parts, engine = prepared.parts, self.engine
        items: list[Taken] = []
        calls: list[str | None] = []
        last: Kind | None = None
        for index, (item, part) in enumerate(self.outline.number(parts), engine.item_count):
            recorded = None if marks is None else marks.get(index, ())
            added = engine.add(item, part, recorded)
            items.append(Taken(item, part, added))
            for mark in added.marks:
                if mark.host:
                    self.marks.append(PlacedMark(index, mark))
            if item.kind is Kind.CALL:
                calls.append(part.call_id)
            if item.kind is not Kind.NOTICE:
                last = item.kind
        # A message without parts is an empty answer (`Format.parts`). A call whose result stands in the same answer was
        # run by the provider.
        answers = prepared.answers or not parts
        self.ended = answers and (not calls or engine.window.open_calls.keys().isdisjoint(calls))
        if answers:
            self._last, self._asked = Kind.TEXT, calls  # whatever its last part is
        elif last is not None:
            # A person's answer is theirs, too.
            self._last = Kind.USER if items[-1].item.person else last
        self.requested = False
        self._overflowed = False
        return items

    def _record_done(self, outcome: Fitted | SummaryNeeded) -> Fitted | SummaryNeeded:
        """Record what was done ahead of a request, once its view is ready."""
        if isinstance(outcome, SummaryNeeded):
            return outcome
        items, report = self.engine.item_count, outcome.report
        if report is not None and report.ran:
            self._overflowed = self._overflowed or report.overflowed
            self.log.append(PassRecord.of(report, items))
        elif isinstance(outcome.done, Mapping):
            self.log.append(StrategyRecord(items, self.engine.name, dict(outcome.done)))
        self.mark_requested()
        return outcome


@light_dataclass(frozen=True, slots=True)
class Shown:
    """The view of a request.

    Attributes:
        view: its slots, in order; valid until the next call of the engine.
        tokens: tokens that it holds, without the reminder.
        report: report of the pass; None if the strategy has no passes.
        reminder: note to the model at the end of the request; usually None.
    """

    view: Sequence[Slot]
    tokens: int
    report: FitReport | None = None
    reminder: str | None = None


class MessageHistory(History, Generic[MessageT]):
    """A history with its messages.

    If it takes in a whole history at once, it repeats the requests one by one, each with its pass, its usage and its
    answer, so that the view is the same as in the run that made the history (R14).

    Args:
        format: the messages' format.
        adapter: reads what the host's messages say about themselves.
        context: how the context is managed.
        events: where it puts what happens, for the listeners.
        persons: ids of calls whose results a person gave, as the host says (R21); histories may share the set.

    Attributes:
        transcript: its messages.
        context: how the context is managed.
        chosen: the budget `auto` that was chosen, with its reason; None if none was.
        view: the messages of its requests.
        requests: number of its requests.
        shown: view of the latest request; None if a message was taken in since.
        base: number of messages when it was restored from a state; what was done for each of them is unknown.
        host_overhead: tokens that every request carries besides its messages, as the host says.
        message_overhead: tokens that every request carries besides its messages, as the messages themselves say.
        asked_at: time of the latest message that is not an answer, in seconds; None if unknown.
        answered_at: time of the latest answer, likewise.
        times: by number of a message, its time if the host gave it.
    """

    records_content = False

    def __init__(
        self,
        format: Format[MessageT],  # noqa: A002 - the field's word
        adapter: Adapter[MessageT],
        context: ContextSettings,
        events: list[Event] | None = None,
        *,
        persons: set[str] | None = None,
    ) -> None:
        self.format = format
        self.adapter = adapter
        self.events: list[Event] = [] if events is None else events
        self.context = context = _without_unwritten_index(context, format)
        self.chosen: AutoBudget | None = None
        engine = Engine(context)
        self.transcript: Transcript[MessageT] = Transcript(format, context.counter)
        self.persons = set() if persons is None else persons
        super().__init__(engine, self.transcript, context.record())
        self.view = ViewMessages(self.transcript, engine)
        self.requests = 0
        self.shown: Shown | None = None
        self.base = 0
        self.host_overhead = 0
        self.message_overhead = 0
        self._fixed: str | None = None  # the text whose tokens `message_overhead` is
        self.asked_at: float | None = None
        self.answered_at: float | None = None
        self.times: dict[int, float] = {}
        self._cache_lifetime = CACHE_LIFETIME  # of the model that answered last
        self._parts: list[Part] = []  # the content of each item
        self._thrashing = False  # at the latest request

    def make_empty(
        self, context: ContextSettings | None = None, events: list[Event] | None = None
    ) -> MessageHistory[MessageT]:
        """Return an empty history of the same host, with the same events and settings unless others are given."""
        empty = MessageHistory(
            self.format,
            self.adapter,
            self.context if context is None else context,
            self.events if events is None else events,
            persons=self.persons,
        )
        empty.chosen = self.chosen
        return empty

    # State

    @property
    def persons(self) -> set[str]:
        """Ids of calls whose results a person gave, as the host says (R21)."""
        return self._persons

    @persons.setter
    def persons(self, call_ids: set[str]) -> None:
        self._persons = self.transcript.person_calls.told = call_ids

    @property
    def overhead(self) -> int:
        """Tokens that every request carries besides its messages."""
        return self.host_overhead + self.message_overhead

    @property
    def archive(self) -> Archive:
        """The whole history, for recalls."""
        engine, transcript = self.engine, self.transcript
        return Archive(
            engine.window,
            engine.counted_budget,
            self._parts,
            engine.episodes,
            transcript.message_of,
            len(transcript.messages),
            lambda: visible_items(engine.view),
        )

    def parts_of(self, number: int) -> list[Part]:
        """Return the parts of a message as they were taken in."""
        first = self.transcript.first(number)
        return self._parts[first : first + self.transcript.size(number)]

    def change_context(self, context: ContextSettings) -> None:
        """Put other settings in force."""
        self.context = _without_unwritten_index(context, self.format)
        self.apply_context()

    def apply_context(self) -> None:
        """Put the settings in force, such as after records of others were repeated."""
        self.configure(self.context.record(self.engine.overhead))
        if self.engine.tokens > self.engine.budget:
            self.shown = None  # a request that is made again must fit too

    # Messages to take in: they are all taken apart and checked before the first one changes anything

    def read(self, data: Sequence[Any]) -> Sequence[MessageT]:
        """Return the messages of what a host holds; see `Host.read`."""
        format_, messages = self.format, self.transcript.messages
        if not writes(format_):
            return data
        # A framework gives its whole history for each request. The last known message may have been added to in place.
        count = len(messages) - 1
        if is_native(format_) and format_.reads_each and 0 < count < len(data):
            beginning = messages[:count]
            if are_equal(beginning, data[:count]):
                return [*beginning, *format_.read(data[count:])]
        return format_.read(data)

    def prepare(
        self, messages: Iterable[MessageT], *, first: int | None = None, check: bool = True
    ) -> list[Prepared[MessageT]]:
        """Take messages apart, one after the other; nothing changes.

        Args:
            messages: the messages.
            first: the first one's number for errors, here and below; None if errors need not name the message.
            check: whether to refuse content that the format does not know. A recorded history is taken as it is.

        Raises:
            FormatError: for a message that is not in the format, and for content that the format does not know.
        """
        format_, adapter = self.format, self.adapter

        def take_apart(message: MessageT) -> Prepared[MessageT]:
            parts = format_.parts(message)
            if check and is_native(format_):
                format_.check(message, adds_fields=adapter.adds_fields)
            return Prepared(message, parts, adapter.answers(message, parts))

        return _apply_to_each(messages, take_apart, first)

    def pair_results(
        self,
        prepared: Iterable[Prepared[MessageT]],
        *,
        own: Collection[str] = (),
        waiting: Iterable[str | None] = (),
        first: int | None = None,
        in_order: bool = False,
    ) -> list[Prepared[MessageT] | None]:
        """Find the call of each result.

        Args:
            prepared: the messages.
            own: names of the tools whose calls are answered before the next message that is not a result.
            waiting: ids of such calls in the history without a result.
            first: see `prepare`.
            in_order: whether to refuse an order of calls and results that the provider refuses; a framework's history
                is its own matter.

        Returns:
            Each message as it will be taken in: without orphans, if the host drops them (`Adapter.drops_orphans`). None
            if nothing of it remains.

        Raises:
            HistoryError: for a result that answers no open call, if the host does not drop them; for two calls of one
                id in an answer; and for a turn of the user or the system that stands between a call and its result.
        """
        open_calls: Tally[str | None] = Tally(self.engine.window.open_calls)
        own_waiting = [*waiting]
        results_first = is_native(self.format) and self.format.results_first

        def pair(message: Prepared[MessageT]) -> Prepared[MessageT] | None:
            nonlocal own_waiting
            if own_waiting:
                given = {part.call_id for part in message.parts if part.kind is Kind.RESULT}
                own_waiting = [call_id for call_id in own_waiting if call_id not in given]
                if any(part.kind is not Kind.RESULT for part in message.parts):
                    for call_id in own_waiting:
                        _close_call(call_id, open_calls)
                    own_waiting = []
            paired = self._without_orphans(message, open_calls)
            if paired is None:
                return None
            if paired.answers:
                calls = [part.call_id for part in paired.parts if part.tool in own]
                own_waiting += [call_id for call_id in calls if open_calls[call_id]]
            if in_order:
                _check_order(paired, open_calls if results_first else ())
            return paired

        return _apply_to_each(prepared, pair, first)

    def _without_orphans(
        self, prepared: Prepared[MessageT], open_calls: Tally[str | None]
    ) -> Prepared[MessageT] | None:
        """Note a message's calls and results, and return it without the results that answer no open call."""
        paired: list[int] = []
        for position, part in enumerate(prepared.parts):
            if part.kind is Kind.CALL:
                open_calls[part.call_id] += 1
            elif part.kind is Kind.RESULT:
                if not open_calls[part.call_id]:
                    if self.adapter.drops_orphans:
                        continue
                    raise HistoryError(
                        f"a result answers the call {part.call_id!r}, but no open call before it has that id: it is an "
                        "orphan, or the call was answered already"
                    )
                _close_call(part.call_id, open_calls)
            paired.append(position)
        if len(paired) == len(prepared.parts):
            return prepared
        if not paired:
            return None
        (rest,) = self.prepare([self.format.keep(prepared.message, paired)], check=False)
        return rest

    # Messages in

    def append(self, prepared: Prepared[MessageT], *, tokens: int = 0, at: float | None = None) -> list[Added]:
        """Take in the next message, after the request and the usage that it implies if it is an answer.

        Args:
            prepared: the message, with its results paired.
            tokens: tokens of its request, if it is an answer and the host knows them; else 0.
            at: its time, if the host knows it.
        """
        message = prepared.message
        if prepared.answers:
            if self.shown is None and isinstance(self.request(), SummaryNeeded):
                # Its request was sent long ago, so nobody can write the summary.
                self._show(self.engine.hold(), self.engine.tokens)
            tokens = tokens or self.adapter.usage(message)
            if tokens > 0:
                self.observe_tokens(tokens, message)
        first = self.transcript.item_count
        items = self.take(prepared, at=at)
        if at is not None:
            self.log.append(NoteRecord(TIME_NOTE, {"at": at}))
        added = [item.added for item in items]
        events = self.events
        events.append(MessageTaken(message, first, tuple(item.item for item in items), tuple(added)))
        for outcome in added:
            for episode in (*outcome.marked.closed, outcome.closed):
                if episode is not None:
                    events.append(EpisodeClosed(episode, outcome.index))
            for episode in (*outcome.marked.opened, outcome.opened):
                if episode is not None:
                    events.append(EpisodeOpened(episode, outcome.index))
        return added

    def take(
        self,
        prepared: Prepared[MessageT],
        *,
        marks: Mapping[int, tuple[Mark, ...]] | None = None,
        at: float | None = None,
    ) -> list[Taken]:
        """Take in the next message by itself: no request is repeated for it, and there are no events.

        Args:
            prepared: the message, with its results paired.
            marks: the marks right ahead of items, by index; None to infer them, or to make the host's marks.
            at: its time, if the host knows it.
        """
        items = super().take(prepared, marks=marks)
        self._keep_message(prepared, items, at)
        return items

    def follow(
        self, record: Record, prepared: Prepared[MessageT] | None = None, *, at: float | None = None
    ) -> list[Taken]:
        """Repeat a recorded step, without events; see `History.follow`."""
        if isinstance(record, StateRecord) and repeats(record.strategy, self.engine.name):
            self.adopt(record.state)
            return []
        items = super().follow(record, prepared)
        self.view.forget()
        if prepared is not None:
            self._keep_message(prepared, items, at)
            return items
        if isinstance(record, NoteRecord) and record.topic == TIME_NOTE:
            number, told = len(self.transcript.messages) - 1, float(record.data["at"])
            self._note_time(number, told, answers=is_answer(self.transcript.parts(number)))
        if isinstance(record, ConfigRecord):
            if self.context.auto:
                self.context = replace(self.context, budget=record.budget)
            self.host_overhead = max(0, record.overhead - self.message_overhead)
        if not self.requested:
            self.shown = None
            return items
        if self.shown is None:
            self.requests += 1
        self._show_again(self.engine.reminder)
        return items

    def export(self) -> dict[str, Any]:
        """Return what was done for the messages, as JSON data."""
        return {
            "engine": export_engine(self.engine),
            "fixed": self.host_overhead,
            "told": self.message_overhead,
            "asked": self.asked_at,
            "answered": self.answered_at,
            "shown": None if self.shown is None else {"reminder": self.shown.reminder},
        }

    def adopt(self, state: Mapping[str, Any]) -> None:
        """Go on from what `export` returned of a history with the same messages; the log says so.

        Raises:
            HistoryError: if it does not fit the messages.
        """
        restore_engine(self.engine, state["engine"])
        self.host_overhead, self.message_overhead = int(state["fixed"]), int(state["told"])
        self.asked_at, self.answered_at = state["asked"], state["answered"]
        self.base = len(self.transcript.messages)
        self.view.forget()
        if state["shown"] is not None:
            self.requests += 1
            self.mark_requested()
            self._show_again(state["shown"]["reminder"])
        self.log.append(StateRecord(self.context.strategy, {key: state[key] for key in _ADOPTED}))

    def _show_again(self, reminder: str | None) -> None:
        """Note that the latest request showed the view as it stands."""
        self.shown = Shown(self.engine.view, self.engine.tokens, reminder=reminder)
        self._thrashing = self.context.manage and self.engine.thrashing is not None

    def _keep_message(self, prepared: Prepared[MessageT], items: list[Taken], at: float | None) -> None:
        """Keep a message that was taken in, with what it says about itself."""
        adapter, message = self.adapter, prepared.message
        if at is None:
            told = adapter.time(message)
            if told is not None and prepared.answers:
                self.answered_at = told
            elif told is not None:
                self.asked_at = told
        else:
            self._note_time(len(self.transcript.messages), at, answers=prepared.answers)
        if prepared.answers:
            self._cache_lifetime = adapter.cache_lifetime(message) or CACHE_LIFETIME
        else:
            fixed = adapter.fixed_text(message)
            if fixed is not None and fixed != self._fixed:
                self._fixed = fixed
                self.message_overhead = self.context.counter(fixed)
        self.transcript.messages.append(message)
        self._parts += [item.part for item in items]
        self.shown = None

    def _note_time(self, number: int, at: float, *, answers: bool) -> None:
        """Note when a message came, as the host told."""
        self.times[number] = at
        if answers:
            self.answered_at = at
        else:
            self.asked_at = at

    def renew(self, number: int, message: MessageT) -> None:
        """Replace a message by another object of the same content, unless only a part of it was taken in."""
        if len(self.format.parts(message)) == self.transcript.size(number):
            self.transcript.messages[number] = message
            self.view.forget()

    # Requests out

    def request(self, *, cold: bool | None = None) -> Shown | SummaryNeeded:
        """Return the view for a request, after a pass if one is due. A second call before a new message is free.

        Args:
            cold: whether the provider's cache has expired; None to go by the times of messages.
        """
        if self.shown is not None:
            return self.shown
        engine, overhead = self.engine, self.overhead
        if overhead != engine.overhead:
            self.configure(replace(self.settings, overhead=overhead))
            self.events.append(OverheadChanged(overhead))
        if self.context.auto and not self.requests and not self.base:
            self._choose_budget()
        before = engine.tokens
        if not self.context.manage:
            return self._show(self.hold(), before)
        outcome = self.fit(cold=self._is_cold() if cold is None else cold)
        return outcome if isinstance(outcome, SummaryNeeded) else self._show(outcome, before)

    def take_summary(self, text: str) -> Fitted | SummaryNeeded:
        """Take in the summary that `request` asked for; the view is then ready, unless another summary is needed."""
        before = self.engine.tokens
        outcome = super().take_summary(text)
        if isinstance(outcome, Fitted):
            self._show(outcome, before)
        return outcome

    def observe_tokens(self, input_tokens: int, message: MessageT | None = None) -> None:
        """Take in the provider's count of the latest request."""
        if self.requests and self.observe(UsageRecord(self.items_sent, input_tokens, 0)):
            self.events.append(UsageObserved(input_tokens, self.items_sent, message))

    def _choose_budget(self) -> None:
        """Choose the budget `auto` by what never leaves the first request."""
        room, context = self.engine.room, self.context
        fixed = 0 if room is None else room.fixed
        self.chosen = chosen = choose_budget(
            window=context.window, step=context.price_step, fixed=fixed, tuned=context.tuned
        )
        self.context = replace(context, budget=chosen.tokens)
        self.configure(replace(self.settings, budget=chosen.tokens))
        self.events.append(BudgetChosen(chosen))

    def _is_cold(self) -> bool:
        """Whether the provider's cache has expired, by the times of messages."""
        lifetime = self.context.cache_lifetime
        if lifetime is None:
            lifetime = self._cache_lifetime
        if self.asked_at is None or self.answered_at is None:
            return False
        return self.asked_at - self.answered_at > lifetime

    def _show(self, fitted: Fitted, before: int) -> Shown:
        """Take in the view of a request that would have held `before` tokens."""
        engine, events, manages = self.engine, self.events, self.context.manage
        report, after = fitted.report, engine.tokens
        reminder = self.remind() if manages else None
        self.requests += 1
        if fitted.ran:
            self.view.forget()
        if report is None:
            if fitted.ran:
                done: Any = fitted.done
                events.append(StrategyActed(engine.name, engine.item_count, done, before, after))
        else:
            if report.ran:
                events.append(PassRan(report, engine.item_count))
            if not report.satisfied:
                events.append(BudgetUnmet(report))
        if reminder is not None:
            events.append(Reminded(reminder, engine.item_count))
        thrashing = engine.thrashing if manages else None
        if thrashing is not None and not self._thrashing:
            events.append(ThrashingBegan(thrashing))
        self._thrashing = thrashing is not None
        self.shown = Shown(fitted.view, after, report, reminder)
        return self.shown


def _without_unwritten_index(
    context: ContextSettings,
    format: Format[Any],  # noqa: A002 - the field's word
) -> ContextSettings:
    """Return settings whose policy has no index of evicted content, if the format cannot write it (R20)."""
    if not context.policy.index_share or writes(format):
        return context
    return replace(context, policy=replace(context.policy, index_share=0.0))


def _check_order(message: Prepared[Any], unanswered: Collection[str | None]) -> None:
    """Refuse a message that the provider refuses for its calls.

    Args:
        message: the message.
        unanswered: ids of the calls that have no result when it has come, if the provider wants these first.

    Raises:
        HistoryError: for an answer with two calls of one id, whose results could not be told apart, and for a turn of
            the user or the system ahead of a call's result. It names the calls.
    """
    if (call_id := repeated_call(message.parts)) is not None:
        raise HistoryError(
            f"several calls of one answer have the id {call_id!r}, and providers refuse that: give each call an"
            " id of its own"
        )
    if not unanswered or is_answer(message.parts):
        return
    if any(part.kind is not Kind.RESULT for part in message.parts):
        raise HistoryError(
            f"the calls {', '.join(map(str, unanswered))} have no result yet, and the provider refuses a turn before"
            " it. Append `call.result(output)` for each first"
        )


def _close_call(call_id: str | None, open_calls: Tally[str | None]) -> None:
    """Take one call of an id from the open ones."""
    if open_calls[call_id] > 1:
        open_calls[call_id] -= 1
    else:
        open_calls.pop(call_id, None)


def _apply_to_each(values: Iterable[T], step: Callable[[T], R], first: int | None) -> list[R]:
    """Return what a step makes of each message; its error names the message, unless `first` is None."""
    results: list[R] = []
    for number, value in enumerate(values, first or 0):
        try:
            results.append(step(value))
        except (FormatError, HistoryError) as error:
            if first is None:
                raise
            raise type(error)(f"message {number}: {error}") from None
    return results


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
