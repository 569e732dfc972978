"""One session: digests of the client's messages, the history that they stand for, and the engine with its view.

Only hidden rounds keep their content. The client sends its whole history with every request, and views are made from
that: from a `FullHistory`, in which `UnseenRounds` have put back what the client does not see.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from wane.account import parts_of, usage_of
from wane.budgets import AutoBudget, choose_budget
from wane.conversation.adapter import Prepared
from wane.conversation.context import ContextSettings
from wane.conversation.engine import Engine
from wane.conversation.history import History
from wane.conversation.views import by_message, message_behind, visible_items, visible_message, with_items
from wane.core import FitReport, Item, Kind, Room, chars
from wane.core.episodes import Choice
from wane.core.errors import HistoryError, JournalError
from wane.formats.message_format import Format, Outline, Part, is_answer, writing
from wane.formats.turns import required_opening
from wane.journal import (
    CLIENT_NOTE,
    FORK_NOTE,
    REPLY_NOTE,
    ConfigRecord,
    MessageRecord,
    NoteRecord,
    PassRecord,
    Record,
    StrategyRecord,
    UsageRecord,
    spent_call,
    spent_note,
)
from wane.prices import NO_USAGE, Bill, TokenUsage, at_tier, bill_of, price_step, window_of
from wane.proxy import jsons
from wane.proxy.sessions.client_messages import (
    ASSISTANT,
    EDITS,
    Arrival,
    Edit,
    Entries,
    Entry,
    GivenReply,
    Overlap,
    RequestAlignment,
    edits_note,
    edits_of,
    entries_of,
    reply_note,
    reply_of,
    shape_of,
)
from wane.proxy.wire.wire import AnsweredRound, Body, Equipped, Message, OwnCall, Round, SentHistory, ViewMessage, Wire
from wane.recall import Archive, answer
from wane.savings import Money, SavingsMeter, own_overhead
from wane.strategies.strategy import Fitted, Slot, Substitute, item_of

_FITTING: Final = "fitting"
"""Topic of the note on a budget that was lowered because the provider refused a view as too long."""

_KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(Kind)}
_EVICTABLE: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.NOTICE})
_EMPTY: Final = shape_of([])
_GONE: Final = Part(Kind.TEXT)


class EditableOutline(Outline):
    """An outline that can match the parts of edited messages to items."""

    def __init__(self, format: Format[Message] | None = None) -> None:  # noqa: A002 - the field's word
        super().__init__(format=format)
        self._kinds = array("B")  # by item
        # The item of the latest call or result with an id.
        self._pairs: dict[Kind, dict[str, int]] = {Kind.CALL: {}, Kind.RESULT: {}}

    def number(self, parts: list[Part]) -> list[tuple[Item, Part]]:
        """Take in the next message and return its items with their content."""
        first = self.item_count
        numbered = super().number(parts)
        for index, (item, _) in enumerate(numbered, first):
            self._kinds.append(_KIND_NUMBERS[item.kind])
            if item.call_id is not None:
                self._pairs[item.kind][item.call_id] = index
        return numbered

    def match_parts(self, number: int, parts: Sequence[Part]) -> list[int | None]:
        """Return the item of each present part of an edited message; None for parts that always stay.

        Calls and results are matched by their ids, and text of the model or the harness by its order. Text of the user
        or the system is never evicted, so it needs no item.
        """
        items = range(self.first(number), self.first(number) + self.size(number))
        matched: list[int | None] = []
        for part in parts:
            if part.call_id is not None:
                matched.append(self._pairs[part.kind].get(part.call_id))
                continue
            if part.kind not in _EVICTABLE or not items:
                matched.append(None)
                continue
            same_kind = [item for item in items if self._kinds[item] == _KIND_NUMBERS[part.kind]]
            choices = same_kind or items
            before = sum(item in choices for item in matched)
            # Parts that were added go with the last item of their kind, or of the message.
            matched.append(choices[min(before, len(choices) - 1)])
        return matched


@dataclass(frozen=True, slots=True)
class FullHistory:
    """A whole history as a client has just sent it, with hidden rounds inserted.

    Attributes:
        strategy: name of the strategy that decides the view.
        outline: the items of each message; later requests may have added to it.
        items: number of its items.
        edited: numbers of messages that were edited since they were taken in.
        inserted: numbers of messages that the client did not send: those of hidden rounds.
    """

    format: Format[Message]
    strategy: str
    messages: Sequence[Message]
    outline: EditableOutline
    items: int
    edited: AbstractSet[int]
    inserted: AbstractSet[int]

    def render(self, slots: Sequence[Slot], head: int = 0) -> Sequence[ViewMessage]:
        """Return the messages of a view; whole messages are the same objects.

        Args:
            slots: the view.
            head: number of its leading slots that no pass may take.
        """
        outline = self.outline
        if len(slots) == outline.item_count and Substitute not in map(type, slots):
            return [*map(self._whole, range(len(self.messages)))] if self.inserted else SentHistory(self.messages)
        visible: dict[int, dict[int, Slot]] = {}
        rendered: list[ViewMessage] = []
        index: Message | None = None
        index_at = before = -1
        for number, positions in by_message(outline, slots):
            if number >= 0:
                visible[number] = positions
                if index is not None and index_at < 0:
                    index_at = number
            elif isinstance(text := positions[0], Substitute):
                index = writing(self.format, "an index of evicted content").turn(text.text)
        # An edited message may have new text of the user, even if all of its items were evicted.
        for number in sorted(visible.keys() | self.edited) if self.edited else visible:
            if index is not None and number == index_at:
                rendered.append(ViewMessage(index, number, ()))
            message = self.messages[number]
            remaining = visible.get(number, {})
            size = outline.size(number)
            if number in self.edited:
                items = outline.match_parts(number, self.format.parts(message))
                remaining = self._remaining(number, items, remaining)
                size = len(items)
            reduced = visible_message(self.format, message, remaining, size, self.strategy) if remaining else None
            if reduced is not None:
                rendered += map(self._whole, outline.empty_between(before, number))
                before = number
                whole = len(remaining) == size
                replaced = Substitute in map(type, remaining.values())
                sent = whole and number not in self.inserted and not replaced
                rendered.append(ViewMessage(reduced, number, None if whole else [*remaining], sent))
        if head:
            stop = message_behind(outline, slots, head, len(self.messages))
            # The index stands ahead of a message, as no part of it.
            leading = takewhile(lambda message: (message.number or 0) < stop and message.positions != (), rendered)
            if length := len(list(leading)):
                rendered[length - 1] = rendered[length - 1]._replace(ends_head=True)
        return rendered

    def _whole(self, number: int) -> ViewMessage:
        return ViewMessage(self.messages[number], number, None, number not in self.inserted)

    def _remaining(self, number: int, items: Sequence[int | None], visible: Mapping[int, Slot]) -> dict[int, Slot]:
        """Return the visible parts of an edited message by position, from those of the message before its edits."""
        first = self.outline.first(number)
        remaining: dict[int, Slot] = {}
        for position, item in enumerate(items):
            if item is None:
                remaining[position] = position
            elif item - first in visible:
                remaining[position] = visible[item - first]
        return remaining

    def open_turn(self, slots: Sequence[Slot], rendered: Sequence[ViewMessage]) -> tuple[list[Slot], int]:
        """Return a rendered view whose current turn begins with its reasoning, and how many tokens that adds."""
        parts_of = self.format.parts
        needed = required_opening(
            lambda number: parts_of(self.messages[number]),
            len(self.messages),
            ((shown.number or 0, parts_of(shown.message)) for shown in reversed(rendered)),
        )
        visible = {item_of(slot) for slot in slots}
        added: dict[int, int] = {}
        for number, positions in needed.items():
            parts = parts_of(self.messages[number])
            items = self._items_of(number, parts)
            for position in positions:
                item = items[position]
                if item is not None and item not in visible:
                    added[item] = parts[position].item(chars, number).tokens
        return with_items(slots, added), sum(added.values())

    def parts(self) -> list[Part]:
        """Return the items with their present content.

        The parts of an edited message are matched to its items. An item that has lost all of its content is an empty
        text.
        """
        by_item = [_GONE] * self.items
        for number, message in enumerate(self.messages):
            parts = self.format.parts(message)
            for part, item in zip(parts, self._items_of(number, parts), strict=True):
                if item is not None and item < self.items:
                    before = by_item[item]
                    by_item[item] = part if before is _GONE else replace(part, text=f"{before.text}\n\n{part.text}")
        return by_item

    def _items_of(self, number: int, parts: Sequence[Part]) -> Sequence[int | None]:
        """Return the item of each part of a message."""
        if number in self.edited:
            return self.outline.match_parts(number, parts)
        first = self.outline.first(number)
        return range(first, first + len(parts))


@dataclass(frozen=True, slots=True)
class Insertion:
    """Rounds that were inserted at a message of the client.

    Attributes:
        rounds: the rounds.
        ahead: whether they come before that message, because the client kept nothing of the reply, or replace it.
    """

    rounds: tuple[AnsweredRound, ...]
    ahead: bool = False


class UnseenRounds:
    """A session's hidden rounds: those inserted, and those whose reply the client has not sent back yet.

    Attributes:
        insertions: the inserted rounds, by number of the client's message.
        recent: the latest replies to the client by number and shape, to recognise requests that continue them.
    """

    def __init__(self, wire: Wire) -> None:
        self.insertions: dict[int, Insertion] = {}
        self.recent: deque[tuple[int, bytes]] = deque(maxlen=64)
        self._wire = wire
        self._waiting: list[GivenReply] = []  # with rounds, not inserted yet

    def take_reply(self, reply: GivenReply) -> None:
        """Take in a reply to the client, in this session or in one that it continues."""
        if not reply.inherited:
            self.recent.append((reply.number, reply.shape))
            # The client has kept the latest reply of a shape.
            self._waiting = [earlier for earlier in self._waiting if earlier.inherited or earlier.shape != reply.shape]
        if reply.rounds:
            self._waiting.append(reply)

    def settle(self, number: int, shape: bytes) -> None:
        """Assign waiting rounds to the client's next message, by its number and shape."""
        if not self._waiting:
            return
        is_reply = shape[:1] == ASSISTANT
        expected = shape if is_reply else _EMPTY
        matches = [reply for reply in self._waiting if reply.shape == expected]
        # A client that kept nothing of a reply goes on right there. Later, a result may be next.
        first = 0 if is_reply else number
        own = [reply for reply in matches if not reply.inherited and first <= reply.number <= number]
        inherited = [reply for reply in matches if reply.number == number and (number, expected) not in self.recent]
        if own or inherited:
            reply = own[0] if own else inherited[0]
            self._waiting = [waiting for waiting in self._waiting if waiting is not reply]
            self.insertions[number] = Insertion(reply.rounds, ahead=not is_reply)

    def expand(self, number: int, message: Message) -> list[Message]:
        """Return the messages of the history that a message of the client with this number stands for."""
        insertion = self.insertions.get(number)
        if insertion is None:
            return [message]
        if not insertion.ahead:
            return self._wire.expand(message, insertion.rounds)
        expanded: list[Message] = []
        for round_ in insertion.rounds:
            expanded += [hidden for hidden in (round_.message, *round_.results) if self._wire.format.parts(hidden)]
        return [*expanded, message]

    def behind(self, number: int, message: Message) -> tuple[AnsweredRound, ...]:
        """Return the rounds behind an answer of the client with this number: it alone, if none are inserted."""
        insertion = self.insertions.get(number)
        if insertion is not None and not insertion.ahead:
            return insertion.rounds
        return (*(insertion.rounds if insertion else ()), AnsweredRound(message, ()))

    def inherit_replies(self, entries: Entries, shared: Overlap) -> Iterator[GivenReply]:
        """Yield the replies for a session that forks or rewrites this one, by the entries that both share."""
        first = shared.other_start
        stop = first + shared.count
        shift = shared.start - first
        for number in sorted(self.insertions):
            insertion = self.insertions[number]
            if first <= number < stop or (number == stop and insertion.ahead):
                shape = _EMPTY if insertion.ahead else entries[number].shape
                yield GivenReply(shape, number + shift, insertion.rounds, inherited=True)
        for reply in self._waiting:
            if first <= reply.number <= stop:
                yield replace(reply, number=reply.number + shift, inherited=True)


@dataclass(frozen=True, slots=True)
class RequestView:
    """The view of a request.

    Attributes:
        messages: its messages.
        history: the messages that these come from; see `Wire.with_messages`.
        records: the records about it.
        report: the report of the pass; None if the strategy has no passes.
        evicted: tokens of the history that it does not show, by our own count.
        reminder: a note for the end of the request, if the model has `delimiter`; None for no note.
    """

    messages: Sequence[ViewMessage]
    history: Sequence[Message]
    records: Sequence[Record]
    report: FitReport | None
    evicted: int
    reminder: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the strategy changed the view ahead of this request."""
        return any(isinstance(record, PassRecord | StrategyRecord) for record in self.records)


class Session:
    """One session. Sans I/O: each step returns records of what happened, and `follow` redoes them.

    Attributes:
        infer: whether its episodes are inferred until the agent marks its own, even if the settings do not ask for it.
        entries: the client's messages so far.
        rounds: the rounds that the client does not see.
        history: the history that they stand for.
        used: usage of its rounds, as the provider reported it.
        costs: what they cost.
        chosen: the budget `auto` that was chosen in this process, with its reason; None if none was.
    """

    def __init__(self, wire: Wire, settings: ContextSettings, root: str, *, infer: bool) -> None:
        self.wire = wire
        self.root = root
        self.infer = infer or settings.annotate == "infer"
        self.entries = Entries(root)
        self.rounds = UnseenRounds(wire)
        self.engine = Engine(settings, infers=self.infer, partial_reports=True)
        self._outline = EditableOutline(format=wire.format)
        self.history = History(self.engine, self._outline, ConfigRecord(strategy=""))
        self.history.drain()
        self.used = NO_USAGE
        self.costs = SavingsMeter()
        self._settings = settings
        self._own_overhead = own_overhead(tasks=settings.tasks) if settings.delimits else 0
        self.chosen: AutoBudget | None = None
        self._fitting: int | None = None  # what the provider takes, once it has refused a view as too long
        self._edited: set[int] = set()  # entries
        self._anchored = -1  # number of items in the history at the last report
        self._replying = False  # whether a reply has had a round and is not complete
        self._config = replace(settings.record(), annotate="infer" if self.infer else "model")
        # While following records: entries whose messages are still missing, and how many the first of them has so far.
        self._due: deque[Entry] = deque()
        self._followed = 0

    @property
    def budget(self) -> int:
        """Tokens that the view may hold now; see `Engine.budget`."""
        return self.engine.budget

    @property
    def cut_short(self) -> bool:
        """Whether the followed records end within a request, such as after a crash of the process that wrote them."""
        return bool(self._due)

    # Requests

    def align(self, arrivals: Sequence[Arrival]) -> RequestAlignment:
        """Return how far a request agrees with this session."""
        return self.entries.align(arrivals, self.rounds.recent)

    def overlap(self, arrivals: Sequence[Arrival]) -> Overlap | None:
        """Return the messages that a request with another beginning shares with this session; see `Entries.overlap`."""
        return self.entries.overlap(arrivals, self.rounds.recent)

    def edits(self, arrivals: Sequence[Arrival], alignment: RequestAlignment) -> list[Edit]:
        """Return the messages that the client has changed."""
        edits = []
        for number in alignment.edited:
            arrival = arrivals[number]
            edits.append(Edit(number, arrival.digest, _tokens(arrival.parts)))
        return edits

    def drift(self, edits: Iterable[Edit]) -> int:
        """Return by how many tokens the edits change the history, apart from messages with inserted rounds."""
        plain = [edit for edit in edits if edit.number not in self.rounds.insertions]
        return sum(abs(edit.tokens - self.entries[edit.number].tokens) for edit in plain)

    def amend(self, edits: Sequence[Edit]) -> list[Record]:
        """Take in the client's edits; return the record of them."""
        for edit in edits:
            if edit.number < len(self.entries):
                self._edited.add(edit.number)
                self.entries.renew(edit.number, edit.digest, edit.tokens)
        return [edits_note(edits)] if edits else []

    def setup(self, equipped: Equipped, model: str) -> list[Record]:
        """Take in the tokens of a request besides its messages, own tools included; return records of the change.

        Args:
            equipped: the request.
            model: the model that it asks, whose window counts if the settings name none (R22).
        """
        settings = self.history.settings
        overhead = chars(jsons.dumps(self.wire.fixed_data(equipped)).decode("utf-8", "replace"))
        if settings.strategy and abs(overhead - settings.overhead) <= 0.02 * overhead:
            overhead = settings.overhead  # a small change is not worth a record
        window = self._settings.window or window_of(model)
        if self._fitting is not None:
            window = min(self._fitting, window or self._fitting)
        budget = self._config.budget if self._fitting is None else min(self._config.budget, self._fitting)
        self.history.configure(
            replace(self._config, budget=budget, overhead=overhead, required=settings.required, window=window)
        )
        return self.history.drain()

    def choose_budget(self, model: str) -> list[Record]:
        """Choose the budget `auto` by what never leaves the first request; return the record of it."""
        settings, room = self.history.settings, self.engine.room
        fixed = settings.overhead if room is None else room.fixed
        step, tuned = price_step(model), self._settings.tuned
        self.chosen = choose_budget(window=settings.window, step=step, fixed=fixed, tuned=tuned)
        self._config = replace(self._config, budget=self.chosen.tokens)
        self.history.configure(replace(settings, budget=self.chosen.tokens))
        return self.history.drain()

    @property
    def auto(self) -> bool:
        """Whether the budget is chosen with the first request."""
        return self._settings.auto

    def shrink(self, budget: int) -> list[Record]:
        """Lower the budget for good to what the provider takes, which is then the window, too; return records of it."""
        self._fitting = budget
        settings = self.history.settings
        self.history.configure(replace(settings, budget=min(settings.budget, budget), window=budget))
        return [NoteRecord(_FITTING, {"budget": budget}), *self.history.drain()]

    def choose(self, number: int, choice: Choice) -> list[Record]:
        """Put a person's choice for an episode in force (R23); return the record of it.

        Raises:
            ConfigError: see `History.choose`.
            UnknownEpisodeError: likewise.
        """
        self.history.choose(number, choice)
        return self.history.drain()

    def take(self, arrival: Arrival) -> tuple[Entry, list[Record]]:
        """Take in the next message of a request; return its entry for `client_note`, and its records.

        Raises:
            HistoryError: if it does not continue a valid history, such as a result without its call. The session must
                not be used any more then.
        """
        number = len(self.entries)
        before = self.engine.history
        self.rounds.settle(number, arrival.shape)
        messages = self.rounds.expand(number, arrival.message)
        for message in messages:
            parts = arrival.parts if message is arrival.message else self.wire.format.parts(message)
            self.history.take(Prepared(message, parts, is_answer(parts)))
        entry = Entry(arrival.digest, arrival.shape, len(messages), self.engine.history - before)
        self.entries.append(entry)
        return entry, self.history.drain()

    def fit(
        self,
        history: FullHistory,
        body: Body,
        *,
        extra_messages: Sequence[Message] = (),
        cold: bool = False,
        reminds: bool = True,
    ) -> RequestView:
        """Return the view for a request, after a pass if one is due.

        Args:
            history: the whole history.
            body: the request's body.
            extra_messages: rounds that follow the view and are not in the history yet.
            cold: whether the provider's cache has expired.
            reminds: whether the request may end with a reminder; one of a client's own compaction may not.
        """
        engine = self.engine
        required = self.history.settings.required
        extra = sum(_tokens(self.wire.format.parts(message)) for message in extra_messages)
        try:
            report, rendered = self._fit_history(history, body, extra, cold=cold)
            if self.history.settings.required > required and engine.tokens > self.budget:
                first = report
                report, rendered = self._fit_history(history, body, extra, cold=cold)
                if first is not None and report is not None:
                    report = _join_reports(first, report)
            reminder = self.history.remind(may=reminds)
            evicted = engine.evicted - self.history.settings.required
        finally:
            self._weigh(0)
        return RequestView(rendered, history.messages, self.history.drain(), report, evicted, reminder)

    def shortfall(self, report: FitReport | None) -> str:
        """Return how far a request with this report is over the budget and why, for any strategy; empty if it fits."""
        engine = self.engine
        budget = self.budget
        if engine.tokens <= budget or not engine.traits.bounded:
            return ""
        if report is not None and report.shortfall:
            return report.shortfall
        over = f"{engine.tokens:,} tokens stay, {engine.tokens - budget:,} over the budget of {budget:,}"
        return f"{over}, and the strategy {engine.name} takes no more."

    def room(self, model: str) -> Room | None:
        """Return the room that the budget leaves, with the size of the model's window if that is known."""
        room = self.engine.room
        if room is None or room.window is not None:
            return room
        return replace(room, window=window_of(model))

    def _fit_history(
        self, history: FullHistory, body: Body, extra: int, *, cold: bool
    ) -> tuple[FitReport | None, Sequence[ViewMessage]]:
        """Run a pass if one is due; return its report, and the messages of the view.

        They include evicted content that the provider requires, unless that would take much of the budget; a correction
        then makes the request valid.
        """
        self._weigh(extra)
        fitted = self.history.fit(cold=cold)
        assert isinstance(fitted, Fitted)  # none of the proxy's strategies needs summaries
        slots, head = fitted.view, self.engine.fixed_head
        rendered = history.render(slots, head)
        tokens = 0
        if self.engine.evicted and self.wire.must_open_with_reasoning(body):
            opened, added = history.open_turn(slots, rendered)
            if len(opened) > len(slots) and added <= self.budget * 0.1:
                rendered = history.render(opened, head)
                tokens = added
        self.history.configure(replace(self.history.settings, required=tokens))
        self._weigh(extra)
        return fitted.report, rendered

    def _weigh(self, extra: int) -> None:
        """Count further tokens as overhead, for rounds that are not in the history yet."""
        settings = self.history.settings
        self.engine.overhead = settings.overhead + settings.required + extra

    def full_history(self, arrivals: Sequence[Arrival]) -> FullHistory:
        """Return the whole history, from all messages of the client after they were taken in.

        Raises:
            HistoryError: if an edited message now stands for another number of messages.
        """
        history: list[Message] = []
        edited: set[int] = set()
        inserted: set[int] = set()
        if self.entries.plain and not (self._edited or self.rounds.insertions):
            history = [arrival.message for arrival in arrivals]
            arrivals = ()  # there is nothing to put back
        for number, arrival in enumerate(arrivals):
            insertion = self.rounds.insertions.get(number)
            messages = [arrival.message] if insertion is None else self.rounds.expand(number, arrival.message)
            recorded = self.entries.messages(number)
            if len(messages) != recorded:
                raise HistoryError(f"message {number} stood for {recorded} messages, and now for {len(messages)}")
            start = len(history)
            history += messages
            if number in self._edited:
                edited.update(range(start, len(history)))
            if insertion is not None:
                inserted.update(range(start, len(history)))
                if insertion.ahead:
                    inserted.discard(len(history) - 1)  # the client's own message
        return FullHistory(
            self.wire.format, self.engine.name, history, self._outline, self.engine.item_count, edited, inserted
        )

    # Replies

    def observe(self, usage: TokenUsage, model: str, bill: Bill | None = None) -> list[Record]:
        """Take in the usage of a request, which has no input if the provider reported none; return the record of it.

        Without a bill the usage is priced here.
        """
        anchors = self._take_usage(usage, model, bill)
        if anchors:
            self.engine.mark_sent()
        self.history.observe(_usage_record(usage, model, self.engine.item_count, anchors=anchors, bill=bill))
        return self.history.drain()

    def pay_late(self, usage: TokenUsage, model: str, bill: Bill | None = None) -> list[Record]:
        """Take in the usage of a request that is no longer the session's latest; return the record of it.

        This usage does not tell the size of the present view.
        """
        self._pay(usage, model, bill, replied=False)
        return [spent_note(_usage_record(usage, model, 0, bill=bill))]

    def recall(self, call: OwnCall, history: FullHistory) -> str:
        """Return the result of a call of `recall`, from the whole history at the request."""
        engine = self.engine
        archive = Archive(
            engine.window,
            engine.counted_budget,
            history.parts(),
            engine.episodes,
            self._outline.message_of,
            len(history.messages),
            lambda: visible_items(engine.view),
        )
        return answer(call.arguments, archive)

    def keep(
        self, rounds: Sequence[Round], answered: Sequence[AnsweredRound], number: int, before: Arrival
    ) -> list[Record]:
        """Take in a reply to the client; return the record of it.

        Args:
            rounds: its rounds.
            answered: its rounds with the results of own calls.
            number: the number of the client's message for it; another request may have continued the session since.
            before: the client's last message. The reply joins it where the protocol `groups`, if it is an answer.
        """
        wire = self.wire
        visible = wire.visible(rounds)
        shape, hidden = shape_of(wire.shape_parts(visible)), any(round_.own for round_ in rounds)
        if wire.groups and before.shape[:1] == ASSISTANT and wire.entries(visible):
            joined = shape_of(wire.shape_parts(wire.visible([Round(before.message), *rounds])))
            if joined != before.shape:
                number -= 1
                shape, hidden = joined, hidden or number in self.rounds.insertions
                answered = (*self.rounds.behind(number, before.message), *answered)
        reply = GivenReply(shape, number, tuple(answered) if hidden else ())
        self._take_reply(reply)
        return [reply_note(reply)]

    # Records

    def blank(self, root: str = "", settings: ContextSettings | None = None) -> Session:
        """Return an empty session, with the settings and root of this one unless others are given."""
        return Session(self.wire, settings or self._settings, root or self.root, infer=self.infer)

    def follow(self, records: Iterable[Record]) -> None:
        """Repeat records of this session, which this process or another has written.

        Raises:
            JournalError: if the records are inconsistent.
            HistoryError: likewise.
        """
        costs = self.costs
        own, unlisted = costs.money.minus(costs.followed), dict(costs.unlisted)
        for record in records:
            if isinstance(record, MessageRecord):
                self._follow_message(record)
                continue
            if isinstance(record, NoteRecord):
                self._follow_note(record)
            elif isinstance(record, UsageRecord):
                self._take_usage(usage_of(record), record.model, _bill_in(record))
            elif isinstance(record, ConfigRecord) and self._settings.auto and record.strategy:
                self._config = replace(self._config, budget=record.budget)
            self.history.follow(record)
        self.history.drain()  # these are stored already
        costs.followed, costs.unlisted = costs.money.minus(own), unlisted

    def inherit(self, source: Session, shared: Overlap) -> list[Record]:
        """Take over rounds of another session, which this new one forks or rewrites; return records of them."""
        replies = list(source.rounds.inherit_replies(source.entries, shared))
        for reply in replies:
            self.rounds.take_reply(reply)
        return [reply_note(reply) for reply in replies]

    # Internals

    def _take_reply(self, reply: GivenReply) -> None:
        self._replying = False
        self.rounds.take_reply(reply)
        if not reply.inherited:
            self.entries.chain.take_reply(reply.number, reply.shape)

    def _take_usage(self, usage: TokenUsage, model: str, bill: Bill | None = None) -> bool:
        """Count a request's usage; return whether it tells the size of the view."""
        # Further reports on the same history include rounds that are not in it yet.
        first = self._anchored != self.engine.item_count
        # A request that the client sends again once it has its reply is its own, and no round of Wane's.
        self._pay(usage, model, bill, replied=first or not self._replying)
        self._replying = True
        anchors = first and usage.of_request.input > 0
        if anchors:
            self._anchored = self.engine.item_count
        return anchors

    def _pay(self, usage: TokenUsage, model: str, bill: Bill | None = None, *, replied: bool) -> None:
        self.used += usage
        engine = self.engine
        own = engine.own + self._own_overhead
        self.costs.add(usage, model, engine.evicted, own=own, history=engine.history, replied=replied, bill=bill)

    def _follow_note(self, note: NoteRecord) -> None:
        if note.topic == CLIENT_NOTE:
            if self._due:
                raise JournalError(f"{len(self._due)} messages of the client are in a note, but not recorded")
            self._due.extend(entries_of(note))
        elif note.topic == EDITS:
            self.amend(edits_of(note))
        elif note.topic == REPLY_NOTE:
            self._take_reply(reply_of(note))
        elif note.topic == _FITTING:
            self._fitting = int(note.data["budget"])
        elif (call := spent_call(note)) is not None:
            self._pay(usage_of(call), call.model, _bill_in(call), replied=False)
        elif note.topic == FORK_NOTE:
            # The source of the fork has paid for the calls so far; they only told the engine the size of its requests.
            self.used = NO_USAGE
            self.costs.money = Money()

    def _follow_message(self, record: MessageRecord) -> None:
        if not self._due:
            raise JournalError("a message was recorded that no note on the client's messages mentions")
        message = dict(record.message)
        parts = self.wire.format.parts(message)
        self.history.follow(record, Prepared(message, parts, is_answer(parts)))
        self._followed += 1
        if self._followed == self._due[0].messages:
            self._followed = 0
            entry = self._due.popleft()
            self.rounds.settle(len(self.entries), entry.shape)
            self.entries.append(entry)


def _join_reports(first: FitReport, second: FitReport) -> FitReport:
    """Return the combined report of two passes before one request."""
    return replace(
        second,
        ran=first.ran or second.ran,
        overflowed=first.overflowed or second.overflowed,
        trace=(*first.trace, *second.trace),
        tokens_before=second.tokens_before + first.tokens_before - first.tokens_after,
    )


def _usage_record(
    usage: TokenUsage, model: str, items: int, *, anchors: bool = False, bill: Bill | None = None
) -> UsageRecord:
    bill = (bill or bill_of(usage, model)) if usage.input > 0 else None
    return UsageRecord(
        items=items,
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        cache_write_hour_tokens=usage.cache_write_hour,
        cost=None if bill is None else bill.cost,
        model=at_tier(model, usage.tier),
        anchors=anchors,
        parts=parts_of(usage, 0.0 if bill is None or bill.complete else bill.at_least),
        assumed="" if bill is None else bill.assumed,
    )


def _bill_in(call: UsageRecord) -> Bill:
    """Return what a recorded call cost, as it was priced when it was made."""
    return Bill(call.cost_at_least, call.cost is not None, call.assumed)


def _tokens(parts: Sequence[Part]) -> int:
    return sum(part.item(chars, 0).tokens for part in parts)
