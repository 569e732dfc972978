"""A history as taken in: its messages, its engine, and what was done before each of its requests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, Generic

from wane.conversation.calls import OpenCalls
from wane.conversation.engine import Done, Engine, Shown, compatible
from wane.conversation.events import (
    BudgetUnmet,
    EpisodeClosed,
    EpisodeOpened,
    Event,
    MessageTaken,
    OverheadChanged,
    PassRan,
    Reminded,
    StrategyActed,
    UsageObserved,
)
from wane.conversation.history import Adapter
from wane.conversation.view import ViewMessages, places
from wane.core import Added, Counter, Item, Kind, Mark
from wane.core.errors import HistoryError
from wane.formats.base import Format, MessageT, Part, Transcript
from wane.formats.writing import WritingFormat
from wane.recall import RECALL, Archive
from wane.strategies.base import ANNOTATED, Settings, SummaryNeeded

CACHE_LIFETIME: Final = 300.0
"""Seconds that a provider keeps an unused prompt cache: Anthropic's five minutes."""


@dataclass(slots=True)
class Setup(Generic[MessageT]):
    """Settings of a timeline and its successors.

    Attributes:
        format: the messages' format.
        adapter: what the host knows about its messages.
        counter: counts tokens.
        strategy: name of the strategy.
        settings: settings of the strategy.
        remind_at: share of the budget that unannotated work may fill before the model is reminded; None for never.
        cache_lifetime: seconds after which the provider's cache has expired.
        manage: whether anything may leave the view.
        events: what happened and the listeners have not been told yet.
    """

    format: Format[MessageT]
    adapter: Adapter[MessageT]
    counter: Counter
    strategy: str
    settings: Settings
    remind_at: float | None
    cache_lifetime: float
    manage: bool
    events: list[Event]

    def read(self, data: Sequence[Any]) -> Sequence[MessageT]:
        """Return the messages of what a host holds; see `Conversation.read`."""
        return self.format.read(data) if isinstance(self.format, WritingFormat) else data

    def engine(self, limits: int | None = None) -> Engine:
        """Return an engine for an empty history.

        Args:
            limits: the budget by which episodes are inferred; None for the present one.
        """
        settings = self.settings if limits is None else replace(self.settings, budget=limits)
        marks = settings.annotate == "model" and self.strategy in ANNOTATED
        engine = Engine(self.strategy, settings, remind_at=self.remind_at if marks else None, counter=self.counter)
        engine.budget = self.settings.budget
        return engine


@dataclass(frozen=True, slots=True)
class Prepared(Generic[MessageT]):
    """A message that can be taken in.

    Attributes:
        message: the message.
        parts: its parts.
        answers: whether a model made it.
    """

    message: MessageT
    parts: list[Part]
    answers: bool


@dataclass(slots=True)
class Sent:
    """A request of the past.

    Attributes:
        messages: number of messages in the history at the time.
        overhead: tokens that it carried besides them.
        strategy: name of the strategy that decided its view.
        done: what was done before it.
        overflowed: whether a pass had to take unfinished work (R16).
        managed: whether anything could leave the view, and the model be reminded.
        tokens: its tokens by the provider's count; 0 if not known.
    """

    messages: int
    overhead: int
    strategy: str
    done: Done
    overflowed: bool = False
    managed: bool = True
    tokens: int = 0


class Timeline(Generic[MessageT]):
    """A history as taken in.

    If a whole history is taken in at once, its requests are repeated one by one, each with its pass, its usage and its
    answer, so that the view is the same as in the run that made it (R14).

    Args:
        setup: its settings.
        limits: the budget by which episodes are inferred; None for the present one.

    Attributes:
        engine: its engine.
        transcript: its messages.
        view: the messages of its requests.
        open_calls: its calls without a result yet.
        requests: its requests, in order.
        shown: view of the latest request; None if a message was taken in since.
        base: number of messages when it was restored from a state; what was done for them is unknown.
        origin: restores it again from that state; None if it was not restored.
        ended: whether the history ends with an answer that calls no tool.
        host_overhead: tokens that every request carries besides its messages, by the host.
        message_overhead: tokens that every request carries besides its messages, by the messages themselves.
        asked: time of the latest message that is not an answer, in seconds; None if not known.
        answered: time of the latest answer.
    """

    def __init__(self, setup: Setup[MessageT], limits: int | None = None) -> None:
        self._setup = setup
        self.engine = setup.engine(limits)
        self.transcript: Transcript[MessageT] = Transcript(setup.format, setup.counter)
        self.view = ViewMessages(self.transcript, self.engine)
        self.open_calls = OpenCalls()
        self.requests: list[Sent] = []
        self.shown: Shown | None = None
        self.base = 0
        self.origin: Callable[[Setup[MessageT]], Timeline[MessageT]] | None = None
        self.ended = False
        self.host_overhead = self.message_overhead = 0
        self._fixed: str | None = None  # the text of the latter
        self.asked: float | None = None
        self.answered: float | None = None
        self._texts: list[str] = []  # by item, the text for searches
        self._marks: dict[int, tuple[Mark, ...]] = {}  # by item, the inferred marks ahead of it
        self._recalls: set[str] = set()  # ids of calls of `recall` without a result yet
        self._group: Hashable | None = None
        self._ordinal = 0  # of the latest answer

    # State

    @property
    def archive(self) -> Archive:
        """The whole history, for recalls."""
        engine = self.engine
        seen = (lambda: places(engine.view)) if not engine.evicts else None
        return Archive.of(engine.window, self.transcript, engine.episodes, lambda: self._texts, seen)

    def is_cold(self) -> bool:
        """Whether the provider's cache has expired, by the times in the history."""
        if self.answered is None or self.asked is None:
            return False
        return self.asked - self.answered > self._setup.cache_lifetime

    def begins(self, message: MessageT) -> bool:
        """Whether a message begins a new answer and does not continue one."""
        group = self._setup.adapter.group(message)
        return group is None or group != self._group

    # Messages and requests

    def prepare(self, messages: Iterable[MessageT]) -> list[Prepared[MessageT] | None]:
        """Check that messages can be taken in, one after the other; nothing changes.

        Returns:
            Each message as it will be taken in; None for one that is left out.

        Raises:
            FormatError: for a message that is not in the format.
            HistoryError: for a result that answers no open call.
        """
        left, adapter, format_ = self.open_calls.copy(), self._setup.adapter, self._setup.format
        prepared: list[Prepared[MessageT] | None] = []
        for given in messages:
            message, parts = given, format_.parts(given)
            if not adapter.drops_orphans:
                left.pair(parts)
            elif len(kept := left.answering(parts)) < len(parts):
                if not kept:
                    prepared.append(None)
                    continue
                message = format_.keep(given, kept)
                parts = format_.parts(message)
            prepared.append(Prepared(message, parts, adapter.answers(message, parts)))
        return prepared

    def take(self, prepared: Prepared[MessageT], *, tokens: int = 0, at: float | None = None) -> list[Added]:
        """Take in the next message of the history, and the usage that it reports.

        Args:
            prepared: the message.
            tokens: tokens of its request, if it is an answer and the host knows them; else 0.
            at: its time, if the host knows it.
        """
        adapter, message = self._setup.adapter, prepared.message
        if prepared.answers and self.begins(message):
            self._receive(message, tokens or adapter.usage(message))
        first = self.transcript.item_count
        taken = self._enter(prepared, at=at)
        added = [meaning for _, meaning in taken]
        items = tuple(item for item, _ in taken)
        event = MessageTaken(message, first, items, tuple(added))
        self._setup.events += [event, *chain.from_iterable(map(_episode_events, added))]
        return added

    def retake(self, prepared: Prepared[MessageT]) -> None:
        """Take in a message of a restored history: no request is repeated, and there are no events."""
        self._enter(prepared)

    def follow(self, prepared: Prepared[MessageT], marks: Mapping[int, tuple[Mark, ...]]) -> list[Added]:
        """Take in a message of a recorded history, with its recorded marks and without events.

        Args:
            prepared: the message.
            marks: by index of the item that follows them.
        """
        if prepared.answers and self.begins(prepared.message) and self.shown is None:
            # Its request was sent, though there is no record of it.
            self.redo(None, self.engine.name, self.engine.overhead)
        return [added for _, added in self._enter(prepared, marks)]

    def redo(self, done: Done, strategy: str, overhead: int, *, overflowed: bool = False, tokens: int = 0) -> None:
        """Repeat what was done before a recorded request, without events.

        Args:
            done: what was done; None for nothing, or nothing more.
            strategy: the strategy that did it.
            overhead: tokens that the request carried besides its messages.
            overflowed: whether a pass had to take unfinished work (R16).
            tokens: its tokens; 0 if not known.

        Raises:
            HistoryError: if it does not fit this history.
        """
        self.host_overhead = max(0, overhead - self.message_overhead)
        if self.shown is None or done is not None:
            sent = Sent(len(self.transcript.messages), overhead, strategy, done, overflowed, self._setup.manage)
            self._redo(sent)
        if tokens and compatible(strategy, self.engine.name) and self.engine.observe(tokens):
            self.requests[-1].tokens = tokens

    def request(self, *, cold: bool | None = None) -> Shown | SummaryNeeded:
        """Return the view for a request, after a pass if one is due. A second call before a new message is free.

        Args:
            cold: whether the provider's cache has expired; None to go by the times of messages.
        """
        if self.shown is not None:
            return self.shown
        engine, overhead = self.engine, self.host_overhead + self.message_overhead
        if overhead != engine.overhead:
            engine.overhead = overhead
            self._setup.events.append(OverheadChanged(overhead))
        if not self._setup.manage:
            return self.show(engine.hold())
        outcome = engine.fit(cold=self.is_cold() if cold is None else cold)
        return outcome if isinstance(outcome, SummaryNeeded) else self._ready(outcome)

    def summarised(self, text: str) -> None:
        """Take in the summary that `request` asked for; the view is then ready, unless another summary is needed."""
        outcome = self.engine.summarised(text)
        if not isinstance(outcome, SummaryNeeded):
            self._ready(outcome)

    def show(self, shown: Shown) -> Shown:
        """Record the view of a request."""
        self.shown = shown
        if shown.ran:
            self.view.changed()
        engine = self.engine
        overflowed, managed = shown.report is not None and shown.report.overflowed, self._setup.manage
        count = len(self.transcript.messages)
        self.requests.append(Sent(count, engine.overhead, engine.name, shown.done, overflowed, managed))
        self._setup.events += _request_events(shown, engine)
        return shown

    def observe(self, input_tokens: int, message: MessageT | None = None) -> None:
        """Take in the provider's count of the latest request.

        Args:
            input_tokens: all its input tokens.
            message: the answer that reports it, if one does.
        """
        if self.requests and self.engine.observe(input_tokens):
            sent = self.requests[-1]
            sent.tokens = input_tokens
            self._setup.events.append(UsageObserved(input_tokens, self._items_of(sent.messages), message))

    def renew(self, number: int, message: MessageT) -> None:
        """Replace a message with another object of the same content, unless only a part of it was taken in."""
        if len(self._setup.format.parts(message)) == self.transcript.size(number):
            self.transcript.messages[number] = message
            self.view.changed()

    # Repeating the past

    def answer_within(self, count: int) -> bool:
        """Whether a model made one of the first messages."""
        adapter, take = self._setup.adapter, self._setup.format.parts
        return any(adapter.answers(message, take(message)) for message in self.transcript.messages[:count])

    def back_to(self, count: int, setup: Setup[MessageT] | None = None) -> tuple[Timeline[MessageT], int]:
        """Return the timeline of the first messages and their number; it is empty if no answer is among them.

        What was done for them is repeated. If that is no longer known, their requests are made again.

        Args:
            count: number of messages.
            setup: its settings; None for the same.
        """
        setup = setup or self._setup
        if not self.answer_within(count):
            return self._afresh(setup), 0
        return self._again(count, setup), count

    def under(self, setup: Setup[MessageT]) -> Timeline[MessageT]:
        """Return the timeline of the same messages under another strategy.

        What that strategy did here before is repeated; what others did is not.
        """
        line = self._again(len(self.transcript.messages), setup)
        line.shown = None
        return line

    def _again(self, count: int, setup: Setup[MessageT]) -> Timeline[MessageT]:
        messages = self.transcript.messages[:count]
        prepared = [each for each in self._afresh(setup).prepare(messages) if each is not None]
        if count >= self.base:
            try:
                return self._redone(prepared, setup)
            except HistoryError:
                pass  # tool classes have changed, so other items would be evicted
        line = self._afresh(replace(setup, events=[]))
        for each in prepared:
            line.take(each)
        line._setup = setup
        return line

    def _redone(self, prepared: Sequence[Prepared[MessageT]], setup: Setup[MessageT]) -> Timeline[MessageT]:
        restorable = setup.strategy == self._setup.strategy
        line = self.origin(setup) if self.origin is not None and restorable else self._afresh(setup)
        line.host_overhead = self.host_overhead
        due = [sent for sent in self.requests[len(line.requests) :] if sent.messages <= len(prepared)]
        for number, each in enumerate(prepared[line.base :], line.base):
            while due and due[0].messages == number:
                line._redo(due.pop(0))
            line._enter(each, self._marks)
        for sent in due:
            # Its usage was in an answer that is not part of this history.
            line._redo(replace(sent, tokens=0))
        return line

    def _redo(self, sent: Sent) -> None:
        engine = self.engine
        engine.overhead = sent.overhead
        # What another strategy did is not repeated, and its usage says nothing about this one's requests.
        same = compatible(sent.strategy, engine.name)
        engine.redo(sent.done if same else None)
        reminder = self._remind(overflowed=sent.overflowed) if sent.managed else None
        tokens = engine.tokens
        if sent.tokens and same:
            engine.observe(sent.tokens)
        self.requests.append(replace(sent))
        self.view.changed()
        self.shown = Shown(engine.view, ran=False, done=sent.done, before=tokens, after=tokens, reminder=reminder)

    # Internals

    def _ready(self, shown: Shown) -> Shown:
        overflowed = shown.report is not None and shown.report.overflowed
        return self.show(replace(shown, reminder=self._remind(overflowed=overflowed)))

    def _remind(self, *, overflowed: bool) -> str | None:
        # If an answer is last, the provider continues it, so nothing may come after it.
        return None if self.ended else self.engine.remind(overflowed=overflowed)

    def _afresh(self, setup: Setup[MessageT]) -> Timeline[MessageT]:
        line = Timeline(setup)
        line.host_overhead = self.host_overhead
        return line

    def _receive(self, message: MessageT, tokens: int) -> None:
        """Note that the request of an answer was sent with `tokens` tokens."""
        if self.shown is None and isinstance(self.request(), SummaryNeeded):
            # The request was sent long ago, so nobody can write the summary.
            self.show(self.engine.hold())
        if tokens > 0:
            self.observe(tokens, message)

    def _enter(
        self,
        prepared: Prepared[MessageT],
        marks: Mapping[int, tuple[Mark, ...]] | None = None,
        *,
        at: float | None = None,
    ) -> list[tuple[Item, Added]]:
        engine, first = self.engine, self.transcript.item_count
        self._note(prepared, at)
        ordinal = self._ordinal if prepared.answers else None
        taken: list[tuple[Item, Added]] = []
        for index, (item, part) in enumerate(self.transcript.take(prepared.message, prepared.parts, ordinal), first):
            added = engine.add(item, part) if marks is None else engine.follow(item, part, marks.get(index, ()))
            if added.marks:
                self._marks[index] = added.marks
            self._texts.append(self._searched(part))
            taken.append((item, added))
        self.open_calls.pair(prepared.parts)
        self.ended = prepared.answers and not any(part.kind is Kind.CALL for part in prepared.parts)
        self.shown = None
        return taken

    def _note(self, prepared: Prepared[MessageT], at: float | None) -> None:
        """Note a message's answer, time and overhead."""
        adapter, message = self._setup.adapter, prepared.message
        at = adapter.time(message) if at is None else at
        if not prepared.answers:
            self.asked = self.asked if at is None else at
            fixed = adapter.fixed(message)
            if fixed is not None and fixed != self._fixed:
                self._fixed, self.message_overhead = fixed, self._setup.counter(fixed)
            return
        if self.begins(message):
            self._ordinal = len(self.transcript.messages)
        self._group = adapter.group(message)
        self.answered = self.answered if at is None else at

    def _searched(self, part: Part) -> str:
        """The text of an item for searches; empty for calls of `recall` and their results."""
        if part.kind is Kind.CALL and part.tool == RECALL and part.call_id is not None:
            self._recalls.add(part.call_id)
            return ""
        if part.kind is Kind.RESULT and part.call_id in self._recalls:
            self._recalls.remove(part.call_id)
            return ""
        return (part.arguments or "") if part.kind is Kind.CALL else part.text

    def _items_of(self, count: int) -> int:
        """Number of items in the first `count` messages."""
        return self.transcript.first(count) if count < len(self.transcript.messages) else self.engine.item_count


def _episode_events(added: Added) -> Iterable[Event]:
    if added.closed:
        yield EpisodeClosed(added.closed, added.index)
    if added.opened:
        yield EpisodeOpened(added.opened, added.index)


def _request_events(shown: Shown, engine: Engine) -> Iterable[Event]:
    report = shown.report
    if report is not None and report.ran:
        yield PassRan(report, engine.item_count)
    if report is not None and not report.satisfied:
        yield BudgetUnmet(report)
    if report is None and shown.ran:
        done: Any = shown.done
        yield StrategyActed(engine.name, engine.item_count, done, shown.before, shown.after)
    if shown.reminder is not None:
        yield Reminded(shown.reminder)
