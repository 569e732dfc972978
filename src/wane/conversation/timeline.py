"""A history as taken in: its messages, its engine, and what was done before each of its requests."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic

from wane.conversation.engine import Engine, Reminder, compatible
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
from wane.core import Added, Counter, FitReport, Item, Kind, Mark
from wane.core.errors import ConfigError, HistoryError
from wane.formats.base import Format, MessageT, Part, Transcript
from wane.formats.writing import WritingFormat
from wane.recall import Archive
from wane.strategies.base import ANNOTATED, Done, Fitted, Settings, Slot, SummaryNeeded

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

    Raises:
        ConfigError: for a share or a time that cannot be.
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

    def __post_init__(self) -> None:
        Reminder(self.remind_at)  # not every engine has one, but a wrong share is refused in any case
        if not self.cache_lifetime >= 0:
            raise ConfigError(f"cache_lifetime is {self.cache_lifetime!r}; it must be a number of seconds, at least 0")

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
        engine.window.budget = self.settings.budget
        return engine


@dataclass(frozen=True, slots=True)
class Prepared(Generic[MessageT]):
    """A message that can be taken in.

    Attributes:
        message: the message.
        parts: its parts.
        answers: whether a model made it.
        begins: whether it begins a new answer; an answer may be several messages.
    """

    message: MessageT
    parts: list[Part]
    answers: bool
    begins: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """The view of a request.

    Attributes:
        view: its items, in order; valid until the next call of the engine.
        tokens: tokens that it holds, without the reminder.
        report: report of the pass; None if the strategy has no passes.
        reminder: note to the model at the end of the request.
    """

    view: Sequence[Slot]
    tokens: int
    report: FitReport | None = None
    reminder: str | None = None


@dataclass(slots=True)
class Sent:
    """A request of the past.

    Attributes:
        messages: number of messages in the history at the time.
        overhead: tokens that it carried besides them.
        strategy: name of the strategy that decided its view.
        done: what was done before it; None for nothing.
        overflowed: whether a pass had to take unfinished work (R16).
        managed: whether anything could leave the view, and the model be reminded.
        tokens: its tokens by the provider's count; 0 if not known.
    """

    messages: int
    overhead: int
    strategy: str
    done: Done | None
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
        setup: see above.
        transcript: its messages.
        view: the messages of its requests.
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
        self.setup = setup
        self.engine = setup.engine(limits)
        self.transcript: Transcript[MessageT] = Transcript(setup.format, setup.counter)
        self.view = ViewMessages(self.transcript, self.engine)
        self.requests: list[Sent] = []
        self.shown: Shown | None = None
        self.base = 0
        self.origin: Callable[[Setup[MessageT]], Timeline[MessageT]] | None = None
        self.ended = False
        self.host_overhead = self.message_overhead = 0
        self._fixed: str | None = None  # the text of the latter
        self.asked: float | None = None
        self.answered: float | None = None
        self._parts: list[Part] = []  # the content of each item
        self._marks: dict[int, tuple[Mark, ...]] = {}  # by item, the inferred marks ahead of it
        self._group: Hashable | None = None
        self._ordinal = 0  # of the latest answer

    # State

    @property
    def archive(self) -> Archive:
        """The whole history, for recalls."""
        engine = self.engine
        seen = (lambda: places(engine.view)) if not engine.evicts else None
        return Archive.of(engine.window, self.transcript, self._parts, engine.episodes, seen)

    def is_cold(self) -> bool:
        """Whether the provider's cache has expired, by the times in the history."""
        if self.answered is None or self.asked is None:
            return False
        return self.asked - self.answered > self.setup.cache_lifetime

    # Messages and requests

    def prepare(self, messages: Iterable[MessageT]) -> list[Prepared[MessageT] | None]:
        """Check that messages can be taken in, one after the other; nothing changes.

        Returns:
            Each message as it will be taken in; None for one that is left out.

        Raises:
            FormatError: for a message that is not in the format.
            HistoryError: for a result that answers no open call.
        """
        adapter, format_, group = self.setup.adapter, self.setup.format, self._group
        open_calls: Tally[str | None] = Tally(self.engine.window.open_calls)
        prepared: list[Prepared[MessageT] | None] = []
        for given in messages:
            message, parts = given, format_.parts(given)
            kept = [place for place, part in enumerate(parts) if _pairs(part, open_calls)]
            if len(kept) < len(parts):
                if not adapter.drops_orphans:
                    orphan = next(part.call_id for place, part in enumerate(parts) if place not in kept)
                    raise HistoryError(
                        f"a result answers the call {orphan!r}, but no open call before it has that id: it is an "
                        "orphan, or the call was answered already"
                    )
                if not kept:
                    prepared.append(None)
                    continue
                message = format_.keep(given, kept)
                parts = format_.parts(message)
            answers, begins = adapter.answers(message, parts), False
            if answers:
                before, group = group, adapter.group(message)
                begins = group is None or group != before
            prepared.append(Prepared(message, parts, answers, begins))
        return prepared

    def take(self, prepared: Prepared[MessageT], *, tokens: int = 0, at: float | None = None) -> list[Added]:
        """Take in the next message of the history, and the usage that it reports.

        Args:
            prepared: the message.
            tokens: tokens of its request, if it is an answer and the host knows them; else 0.
            at: its time, if the host knows it.
        """
        message = prepared.message
        if prepared.begins:
            self._receive(message, tokens or self.setup.adapter.usage(message))
        first, events = self.transcript.item_count, self.setup.events
        taken = self.enter(prepared, at=at)
        added = [outcome for _, outcome in taken]
        events.append(MessageTaken(message, first, tuple(item for item, _ in taken), tuple(added)))
        for outcome in added:
            if outcome.closed:
                events.append(EpisodeClosed(outcome.closed, outcome.index))
            if outcome.opened:
                events.append(EpisodeOpened(outcome.opened, outcome.index))
        return added

    def follow(self, prepared: Prepared[MessageT], marks: Mapping[int, tuple[Mark, ...]]) -> list[Added]:
        """Take in a message of a recorded history, with its recorded marks and without events.

        Args:
            prepared: the message.
            marks: by index of the item that follows them.
        """
        if prepared.begins and self.shown is None:
            # Its request was sent, though there is no record of it.
            self.redo(None, self.engine.name, self.engine.overhead)
        return [added for _, added in self.enter(prepared, marks)]

    def enter(
        self,
        prepared: Prepared[MessageT],
        marks: Mapping[int, tuple[Mark, ...]] | None = None,
        *,
        at: float | None = None,
    ) -> list[tuple[Item, Added]]:
        """Take in a message by itself: no request is repeated for it, and there are no events.

        Args:
            prepared: the message.
            marks: by index of the item that follows them, if they are known; None to infer them.
            at: its time, if the host knows it.
        """
        adapter, message, engine = self.setup.adapter, prepared.message, self.engine
        at = adapter.time(message) if at is None else at
        if prepared.answers:
            if prepared.begins:
                self._ordinal = len(self.transcript.messages)
            self._group = adapter.group(message)
            self.answered = self.answered if at is None else at
        else:
            self.asked = self.asked if at is None else at
            fixed = adapter.fixed(message)
            if fixed is not None and fixed != self._fixed:
                self._fixed, self.message_overhead = fixed, self.setup.counter(fixed)
        first, ordinal = self.transcript.item_count, self._ordinal if prepared.answers else None
        taken: list[tuple[Item, Added]] = []
        for index, (item, part) in enumerate(self.transcript.take(message, prepared.parts, ordinal), first):
            added = engine.add(item, part, None if marks is None else marks.get(index, ()))
            if added.marks:
                self._marks[index] = added.marks
            self._parts.append(part)
            taken.append((item, added))
        self.ended = prepared.answers and not any(part.kind is Kind.CALL for part in prepared.parts)
        self.shown = None
        return taken

    def redo(
        self, done: Done | None, strategy: str, overhead: int, *, overflowed: bool = False, tokens: int = 0
    ) -> None:
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
            sent = Sent(len(self.transcript.messages), overhead, strategy, done, overflowed, self.setup.manage)
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
            self.setup.events.append(OverheadChanged(overhead))
        before = engine.tokens
        if not self.setup.manage:
            return self._show(engine.hold(), before)
        outcome = engine.fit(cold=self.is_cold() if cold is None else cold)
        return outcome if isinstance(outcome, SummaryNeeded) else self._show(outcome, before)

    def summarised(self, text: str) -> None:
        """Take in the summary that `request` asked for; the view is then ready, unless another summary is needed."""
        before, outcome = self.engine.tokens, self.engine.summarised(text)
        if not isinstance(outcome, SummaryNeeded):
            self._show(outcome, before)

    def observe(self, input_tokens: int, message: MessageT | None = None) -> None:
        """Take in the provider's count of the latest request.

        Args:
            input_tokens: all its input tokens.
            message: the answer that reports it, if one does.
        """
        if self.requests and self.engine.observe(input_tokens):
            sent = self.requests[-1]
            sent.tokens = input_tokens
            count, transcript = sent.messages, self.transcript
            items = transcript.first(count) if count < len(transcript.messages) else transcript.item_count
            self.setup.events.append(UsageObserved(input_tokens, items, message))

    def renew(self, number: int, message: MessageT) -> None:
        """Replace a message with another object of the same content, unless only a part of it was taken in."""
        if len(self.setup.format.parts(message)) == self.transcript.size(number):
            self.transcript.messages[number] = message
            self.view.changed()

    # Repeating the past

    def answer_within(self, count: int) -> bool:
        """Whether a model made one of the first messages."""
        adapter, take = self.setup.adapter, self.setup.format.parts
        return any(adapter.answers(message, take(message)) for message in self.transcript.messages[:count])

    def back_to(self, count: int, setup: Setup[MessageT] | None = None) -> tuple[Timeline[MessageT], int]:
        """Return the timeline of the first messages and their number; it is empty if no answer is among them.

        What was done for them is repeated. If that is no longer known, their requests are made again.

        Args:
            count: number of messages.
            setup: its settings; None for the same.
        """
        setup = setup or self.setup
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
        line.setup = setup
        return line

    def _redone(self, prepared: Sequence[Prepared[MessageT]], setup: Setup[MessageT]) -> Timeline[MessageT]:
        restorable = setup.strategy == self.setup.strategy
        line = self.origin(setup) if self.origin is not None and restorable else self._afresh(setup)
        line.host_overhead = self.host_overhead
        due = [sent for sent in self.requests[len(line.requests) :] if sent.messages <= len(prepared)]
        for number, each in enumerate(prepared[line.base :], line.base):
            while due and due[0].messages == number:
                line._redo(due.pop(0))
            line.enter(each, self._marks)
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
        self.shown = Shown(engine.view, tokens, None, reminder)

    # Internals

    def _show(self, fitted: Fitted, before: int) -> Shown:
        """Record the view of a request that would have held `before` tokens."""
        engine, events, managed = self.engine, self.setup.events, self.setup.manage
        report, after = fitted.report, engine.tokens
        overflowed = report is not None and report.overflowed
        reminder = self._remind(overflowed=overflowed) if managed else None
        if fitted.ran:
            self.view.changed()
        count = len(self.transcript.messages)
        self.requests.append(Sent(count, engine.overhead, engine.name, fitted.done, overflowed, managed))
        if report is not None and report.ran:
            events.append(PassRan(report, engine.item_count))
        if report is not None and not report.satisfied:
            events.append(BudgetUnmet(report))
        if report is None and fitted.ran:
            done: Any = fitted.done
            events.append(StrategyActed(engine.name, engine.item_count, done, before, after))
        if reminder is not None:
            events.append(Reminded(reminder))
        self.shown = Shown(fitted.view, after, report, reminder)
        return self.shown

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
            self._show(self.engine.hold(), self.engine.tokens)
        if tokens > 0:
            self.observe(tokens, message)


def _pairs(part: Part, open_calls: Tally[str | None]) -> bool:
    """Note a call or a result; return False for a result that answers no open call."""
    if part.kind is Kind.RESULT and not open_calls[part.call_id]:
        return False
    open_calls[part.call_id] += (part.kind is Kind.CALL) - (part.kind is Kind.RESULT)
    return True
