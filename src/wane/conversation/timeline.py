"""A history with its messages, its engine and its requests."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from wane.budgets import AutoBudget, choose_budget
from wane.conversation.alignment import Adapter
from wane.conversation.context import CACHE_LIFETIME, ContextSettings
from wane.conversation.engine import Engine
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
from wane.conversation.history import History, Taken
from wane.conversation.views import ViewMessages, visible_items
from wane.core import Added, FitReport, Kind, Mark
from wane.core.errors import FormatError, HistoryError
from wane.formats.base import Format, MessageT, NativeFormat, Part, Transcript, check_message, is_answer, writes
from wane.journal.records import ConfigRecord, Record, UsageRecord
from wane.recall import Archive
from wane.strategies.base import Fitted, Slot, SummaryNeeded


@dataclass(slots=True)
class Setup(Generic[MessageT]):
    """The settings of a timeline, which the timelines that replace it share.

    Attributes:
        format: the messages' format.
        adapter: reads what the host's messages say about themselves.
        settings: how the context is managed.
        events: events that the listeners have not received yet.
        chosen: the budget `auto` that was chosen, with its reason; None if none was.
        persons: ids of calls whose results a person gave, as the host says (R21).
    """

    format: Format[MessageT]
    adapter: Adapter[MessageT]
    settings: ContextSettings
    events: list[Event]
    chosen: AutoBudget | None = None
    persons: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.change(policy=self.settings.policy)

    def change(self, **changes: Any) -> None:
        """Change settings by name. The policy gets no index of evicted content if the format cannot write it (R20)."""
        settings = replace(self.settings, **changes)
        if settings.policy.index_share and not writes(self.format):
            settings = replace(settings, policy=replace(settings.policy, index_share=0.0))
        self.settings = settings

    def read(self, data: Sequence[Any]) -> Sequence[MessageT]:
        """Return the messages of what a host holds; see `Host.read`."""
        return self.format.read(data) if writes(self.format) else data

    def engine(self, limits: int | None = None) -> Engine:
        """Return an engine for an empty history.

        Args:
            limits: the budget by which episodes are inferred; None for the present one.
        """
        if limits is None:
            return Engine(self.settings)
        engine = Engine(replace(self.settings, budget=limits))
        engine.window.budget = self.settings.budget
        return engine


@dataclass(frozen=True, slots=True)
class Prepared(Generic[MessageT]):
    """A message that can be taken in, with its parts, and whether a model made it."""

    message: MessageT
    parts: list[Part]
    answers: bool


@dataclass(frozen=True, slots=True)
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


class Timeline(Generic[MessageT]):
    """A history with its messages.

    If it takes in a whole history at once, it repeats the requests one by one, each with its pass, its usage and its
    answer, so that the view is the same as in the run that made the history (R14).

    Args:
        setup: its settings.
        limits: the budget by which episodes are inferred; None for the present one.

    Attributes:
        transcript: its messages.
        history: the history without the messages.
        view: the messages of its requests.
        requests: number of its requests.
        shown: view of the latest request; None if a message was taken in since.
        base: number of messages when it was restored from a state; what was done for them is unknown.
        origin: restores it again from that state; None if it was not restored.
        host_overhead: tokens that every request carries besides its messages, as the host says.
        message_overhead: tokens that every request carries besides its messages, as the messages themselves say.
        asked_at: time of the latest message that is not an answer, in seconds; None if unknown.
        answered_at: time of the latest answer, likewise.
        times: by number of a message, its time if the host gave it.
    """

    def __init__(self, setup: Setup[MessageT], limits: int | None = None) -> None:
        self.setup = setup
        engine = setup.engine(limits)
        self.transcript: Transcript[MessageT] = Transcript(setup.format, setup.settings.counter)
        self.transcript.person_calls.told = setup.persons
        self.history = History(engine, self.transcript, setup.settings.record())
        self.view = ViewMessages(self.transcript, engine)
        self.requests = 0
        self.shown: Shown | None = None
        self.base = 0
        self.origin: Callable[[Setup[MessageT]], Timeline[MessageT]] | None = None
        self.host_overhead = 0
        self.message_overhead = 0
        self._fixed: str | None = None  # the text whose tokens `message_overhead` is
        self.asked_at: float | None = None
        self.answered_at: float | None = None
        self.times: dict[int, float] = {}
        self._cache_lifetime = CACHE_LIFETIME  # of the model that answered last
        self._parts: list[Part] = []  # the content of each item
        self._thrashing = False  # at the latest request

    # State

    @property
    def engine(self) -> Engine:
        """The engine, which decides the view."""
        return self.history.engine

    @property
    def overhead(self) -> int:
        """Tokens that every request carries besides its messages; the engine learns it with the next request."""
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

    # Messages and requests

    def prepare(
        self,
        messages: Iterable[MessageT],
        *,
        own: Collection[str] = (),
        waiting: Iterable[str | None] = (),
        check: bool = False,
        following: bool = False,
        first: int | None = None,
    ) -> list[Prepared[MessageT] | None]:
        """Check that messages can be taken in, one after the other; nothing changes.

        Args:
            messages: the messages.
            own: names of the tools whose calls are answered before the next message that is not a result.
            waiting: ids of such calls in the history without a result.
            check: whether to refuse content that the format does not know. A recorded history is taken as it is.
            following: whether to refuse a turn after calls without results, where the provider refuses it.
            first: the first message's number for errors; None if errors need not name the message.

        Returns:
            Each message as it will be taken in; None for a message that is left out.

        Raises:
            FormatError: for a message that is not in the format.
            HistoryError: for a result that answers no open call, and for a turn ahead of a result.
        """
        open_calls: Tally[str | None] = Tally(self.engine.window.open_calls)
        prepared: list[Prepared[MessageT] | None] = []
        waiting = [*waiting]
        for number, message in enumerate(messages):
            try:
                parts = self.setup.format.parts(message)
                if check:
                    check_message(self.setup.format, message, adds_fields=self.setup.adapter.adds_fields)
                waiting = _answered_before(parts, waiting, open_calls)
                ready = self._paired(message, parts, open_calls)
                if check and following:
                    _check_ids(parts)
                    _check_answered(self.setup.format, parts, open_calls)
            except (FormatError, HistoryError) as error:
                if first is None:
                    raise
                raise type(error)(f"message {first + number}: {error}") from None
            if ready is not None and ready.answers:
                waiting += [part.call_id for part in ready.parts if part.tool in own and open_calls[part.call_id]]
            prepared.append(ready)
        return prepared

    def _paired(self, message: MessageT, parts: list[Part], open_calls: Tally[str | None]) -> Prepared[MessageT] | None:
        """Return a message without orphans, if the host drops them; None if nothing of the message remains.

        Raises:
            HistoryError: for a result that answers no open call, if the host does not drop them.
        """
        adapter = self.setup.adapter
        paired: list[int] = []
        for position, part in enumerate(parts):
            if _pairs(part, open_calls):
                paired.append(position)
            elif not adapter.drops_orphans:
                raise HistoryError(
                    f"a result answers the call {part.call_id!r}, but no open call before it has that id: it is an "
                    "orphan, or the call was answered already"
                )
        if len(paired) < len(parts):
            if not paired:
                return None
            message = self.setup.format.keep(message, paired)
            parts = self.setup.format.parts(message)
        return Prepared(message, parts, adapter.answers(message, parts))

    def take(self, prepared: Prepared[MessageT], *, tokens: int = 0, at: float | None = None) -> list[Added]:
        """Take in the next message of the history, and the usage that it reports.

        Args:
            prepared: the message.
            tokens: tokens of its request, if it is an answer and the host knows them; else 0.
            at: its time, if the host knows it.
        """
        message, events = prepared.message, self.setup.events
        if prepared.answers:
            if self.shown is None and isinstance(self.request(), SummaryNeeded):
                # Its request was sent long ago, so nobody can write the summary.
                self._show(self.engine.hold(), self.engine.tokens)
            tokens = tokens or self.setup.adapter.usage(message)
            if tokens > 0:
                self.observe(tokens, message)
        first = self.transcript.item_count
        items = self.enter(prepared, at=at)
        added = [item.added for item in items]
        events.append(MessageTaken(message, first, tuple(item.item for item in items), tuple(added)))
        for outcome in added:
            closed, opened = outcome.marked.closed, outcome.marked.opened
            events += [EpisodeClosed(episode, outcome.index) for episode in (*closed, outcome.closed) if episode]
            events += [EpisodeOpened(episode, outcome.index) for episode in (*opened, outcome.opened) if episode]
        return added

    def follow(
        self, record: Record, prepared: Prepared[MessageT] | None = None, *, at: float | None = None
    ) -> list[Taken]:
        """Repeat a recorded step, without events; see `History.follow`."""
        if prepared is not None:
            self.view.changed()
            items = self.history.follow(record, prepared.parts, answers=prepared.answers)
            return self._entered(prepared, items, at)
        self.history.follow(record)
        self.view.changed()
        if isinstance(record, ConfigRecord):
            if self.setup.settings.auto:
                self.setup.change(budget=record.budget)
            self.host_overhead = max(0, record.overhead - self.message_overhead)
        engine = self.engine
        if not self.history.requested:
            self.shown = None
            return []
        if self.shown is None:
            self.requests += 1
        self.shown = Shown(engine.view, engine.tokens, reminder=engine.reminder)
        return []

    def enter(
        self,
        prepared: Prepared[MessageT],
        *,
        at: float | None = None,
        marks: Mapping[int, tuple[Mark, ...]] | None = None,
    ) -> list[Taken]:
        """Take in a message by itself: no request is repeated for it, and there are no events.

        Args:
            prepared: the message.
            at: its time, if the host knows it.
            marks: the marks right ahead of items, by index; None to infer them, or to make the host's marks.
        """
        items = self.history.take(prepared.parts, answers=prepared.answers, marks=marks)
        return self._entered(prepared, items, at)

    def configure(self) -> None:
        """Put the setup's settings in force."""
        self.history.configure(self.setup.settings.record(self.engine.overhead))
        if self.engine.tokens > self.engine.budget:
            self.shown = None  # a request that is made again must fit too

    def _entered(self, prepared: Prepared[MessageT], items: list[Taken], at: float | None) -> list[Taken]:
        """Note a message that was taken in."""
        adapter, message = self.setup.adapter, prepared.message
        if at is not None:
            self.times[len(self.transcript.messages)] = at
        else:
            at = adapter.time(message)
        if prepared.answers:
            if at is not None:
                self.answered_at = at
            self._cache_lifetime = adapter.cache_lifetime(message) or CACHE_LIFETIME
        else:
            if at is not None:
                self.asked_at = at
            fixed = adapter.fixed(message)
            if fixed is not None and fixed != self._fixed:
                self._fixed = fixed
                self.message_overhead = self.setup.settings.counter(fixed)
        self.transcript.messages.append(message)
        self._parts += [item.part for item in items]
        self.shown = None
        return items

    def request(self, *, cold: bool | None = None) -> Shown | SummaryNeeded:
        """Return the view for a request, after a pass if one is due. A second call before a new message is free.

        Args:
            cold: whether the provider's cache has expired; None to go by the times of messages.
        """
        if self.shown is not None:
            return self.shown
        engine, history, overhead = self.engine, self.history, self.overhead
        if overhead != engine.overhead:
            history.configure(replace(history.settings, overhead=overhead))
            self.setup.events.append(OverheadChanged(overhead))
        if self.setup.settings.auto and not self.requests and not self.base:
            self._choose_budget()
        before = engine.tokens
        if not self.setup.settings.manage:
            return self._show(history.hold(), before)
        outcome = history.fit(cold=self._is_cold() if cold is None else cold)
        return outcome if isinstance(outcome, SummaryNeeded) else self._show(outcome, before)

    def summarised(self, text: str) -> None:
        """Take in the summary that `request` asked for; the view is then ready, unless another summary is needed."""
        before = self.engine.tokens
        outcome = self.history.summarised(text)
        if not isinstance(outcome, SummaryNeeded):
            self._show(outcome, before)

    def observe(self, input_tokens: int, message: MessageT | None = None) -> None:
        """Take in the provider's count of the latest request."""
        items = self.history.items_sent
        if self.requests and self.history.observe(UsageRecord(items, input_tokens, 0)):
            self.setup.events.append(UsageObserved(input_tokens, items, message))

    def renew(self, number: int, message: MessageT) -> None:
        """Replace a message by another object of the same content, unless only a part of it was taken in."""
        if len(self.setup.format.parts(message)) == self.transcript.size(number):
            self.transcript.messages[number] = message
            self.view.changed()

    # Internals

    def _choose_budget(self) -> None:
        """Choose the budget `auto` by what never leaves the first request."""
        setup, history = self.setup, self.history
        room = self.engine.room
        fixed = 0 if room is None else room.fixed
        settings = setup.settings
        setup.chosen = choose_budget(
            window=settings.window, step=settings.price_step, fixed=fixed, tuned=settings.tuned
        )
        setup.change(budget=setup.chosen.tokens)
        history.configure(replace(history.settings, budget=setup.chosen.tokens))
        setup.events.append(BudgetChosen(setup.chosen))

    def _is_cold(self) -> bool:
        """Whether the provider's cache has expired, by the times of messages."""
        lifetime = self.setup.settings.cache_lifetime
        if lifetime is None:
            lifetime = self._cache_lifetime
        if self.asked_at is None or self.answered_at is None:
            return False
        return self.asked_at - self.answered_at > lifetime

    def _show(self, fitted: Fitted, before: int) -> Shown:
        """Take in the view of a request that would have held `before` tokens."""
        engine, events, managed = self.engine, self.setup.events, self.setup.settings.manage
        report, after = fitted.report, engine.tokens
        reminder = self.history.remind() if managed else None
        self.requests += 1
        if fitted.ran:
            self.view.changed()
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
        thrashing = engine.thrashing if managed else None
        if thrashing is not None and not self._thrashing:
            events.append(ThrashingBegan(thrashing))
        self._thrashing = thrashing is not None
        self.shown = Shown(fitted.view, after, report, reminder)
        return self.shown


def _answered_before(
    parts: Sequence[Part], waiting: Sequence[str | None], open_calls: Tally[str | None]
) -> list[str | None]:
    """Note the results of own calls that come before a message; return the ids of the calls that still wait."""
    answered_ids = {part.call_id for part in parts if part.kind is Kind.RESULT}
    unanswered = [call_id for call_id in waiting if call_id not in answered_ids]
    if all(part.kind is Kind.RESULT for part in parts):
        return unanswered
    for call_id in unanswered:
        open_calls[call_id] = max(0, open_calls[call_id] - 1)
    return []


def _check_ids(parts: Sequence[Part]) -> None:
    """Refuse an answer with two calls of one id: their results could not be told apart.

    Raises:
        HistoryError: for such an answer; it names the id.
    """
    ids = Tally(part.call_id for part in parts if part.kind is Kind.CALL)
    for call_id, count in ids.items():
        if count > 1:
            raise HistoryError(
                f"{count} calls of one answer have the id {call_id!r}, and providers refuse that: give each call an id"
                " of its own"
            )


def _check_answered(format: Format[Any], parts: Sequence[Part], open_calls: Tally[str | None]) -> None:  # noqa: A002
    """Refuse a turn of the user or the system that stands between a call and its result.

    Raises:
        HistoryError: for such a turn; it names the calls.
    """
    if not isinstance(format, NativeFormat) or not format.results_first or is_answer(parts):
        return
    unanswered = [str(call_id) for call_id, count in open_calls.items() if count > 0]
    if unanswered and any(part.kind is not Kind.RESULT for part in parts):
        raise HistoryError(
            f"the calls {', '.join(unanswered)} have no result yet, and the provider refuses a turn before it. Append"
            " `call.result(output)` for each first"
        )


def _pairs(part: Part, open_calls: Tally[str | None]) -> bool:
    """Note a call or a result; return False for a result that answers no open call."""
    if part.kind is Kind.CALL:
        open_calls[part.call_id] += 1
    elif part.kind is Kind.RESULT:
        if not open_calls[part.call_id]:
            return False
        open_calls[part.call_id] -= 1
    return True
