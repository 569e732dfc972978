"""From a run's history to a window: what was taken in, what the next request shows, what may be recalled."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, takewhile
from operator import is_
from types import MappingProxyType
from typing import Final, get_args

from pydantic_ai.messages import ModelMessage, ModelResponse

from wane.conversation.reminder import REMIND_AT, Reminder
from wane.core import (
    DEFAULT_BUDGET,
    Added,
    ContextWindow,
    Counter,
    Episode,
    Item,
    Mark,
    Policy,
    ToolClass,
    Verdict,
)
from wane.core.errors import ConfigError, HistoryError
from wane.counters import get_counter
from wane.formats.base import Part, Transcript
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.inference import Annotator, Limits, add_annotated
from wane.integrations.calls import Calls
from wane.integrations.events import (
    BudgetUnmet,
    EpisodeClosed,
    EpisodeOpened,
    Event,
    HistoryReplaced,
    Listener,
    MessageTaken,
    OverheadChanged,
    PassRan,
    Reminded,
    UsageObserved,
)
from wane.integrations.hidden import Hidden
from wane.integrations.history import Fresh, Known, growth
from wane.integrations.usage import context_tokens, model_of
from wane.recall import Archive
from wane.strategies.base import Annotate

CACHE_LIFETIME: Final = 300.0
"""How long a provider keeps an unused prompt cache, in seconds: Anthropic's five minutes."""


class Tracker:
    """Keeps a window in step with a run's history, over any number of runs.

    It is driven by the history alone, so that a history which comes from elsewhere gives the same view as
    the run that made it (R14): the requests of that run are passed through one by one, each with its pass,
    its reported usage and its response.

    Args:
        budget: tokens that the view may hold.
        policy: what a pass evicts, and how far; `Policy()` if None.
        counter: `chars`, `tiktoken`, or a function from text to tokens.
        tool_classes: classes of tools by name, on top of the defaults.
        remind_at: share of the budget that unannotated work may fill before the agent is reminded, a quarter of it
            ahead of the first start; None never reminds.
        manage: whether to evict and remind at all. While it is off, everything is still taken in.
        annotate: who marks episodes: `model`, the agent itself, or `infer`, what its tool calls tell. It is never
            reminded then, and the first `delimiter` call that is accepted ends the inference for good.
        cache_lifetime: seconds after which the provider's cache has expired, for a policy with `evict_when_cold`.
            Measured from a response to the next request, by their timestamps in the history.
        listener: told of every event, as `listeners` are.

    Attributes:
        window: the window; its budget, policy and tool classes may be changed between requests.
        transcript: the messages, by item.
        episodes: every episode so far, removed ones too, in order of start.
        manage: see above; may be changed between runs.
        annotate: see above.
        evicts: whether passes run while it is managed; False where another strategy keeps the budget.
        listeners: called with each event at once, in order.
        past: responses of the history to come of which nothing is told, nor of what was before them: they are another
            run's.

    Raises:
        ConfigError: for a budget, counter, tool class, share or way to annotate that cannot work.
    """

    window: ContextWindow
    transcript: Transcript[ModelMessage]
    episodes: list[Episode]
    _known: list[Known]

    def __init__(
        self,
        budget: int = DEFAULT_BUDGET,
        policy: Policy | None = None,
        *,
        counter: str | Counter = "chars",
        tool_classes: Mapping[str, ToolClass | str] | None = None,
        remind_at: float | None = REMIND_AT,
        manage: bool = True,
        annotate: Annotate = "model",
        cache_lifetime: float = CACHE_LIFETIME,
        listener: Listener | None = None,
    ) -> None:
        self.manage = manage
        self.evicts = True
        self.annotate = _checked(annotate)
        self.past = 0
        self._untold: list[Event] = []
        self.listeners: list[Listener] = [] if listener is None else [listener]
        self._counter = get_counter(counter) if isinstance(counter, str) else counter
        self._tool_classes = tool_classes
        self._cache_lifetime = cache_lifetime
        self._reminder = Reminder(remind_at)
        self._definitions = ""
        self._tools = self._instructions = 0
        self._start(ContextWindow(budget, policy, tool_classes=tool_classes))

    # What it knows

    def view(self) -> list[ModelMessage]:
        """Return the messages that the next request shows; those that are whole are the same objects."""
        return self.transcript.view(self.window.visible)

    def view_of(self, messages: Sequence[ModelMessage], history: Sequence[ModelMessage]) -> list[ModelMessage]:
        """Return the view of messages that others may have changed on their way from the history to the request.

        What was evicted is left out by the identity of its parts, calls and results by their ids too.
        Anything else, such as a note at the end, stays as it is.

        Args:
            messages: the messages of a request.
            history: the run's history, which was synced.
        """
        # What no response has followed yet is visible, all of it (R6, R13), so there only the request's words count.
        settled = len(history) - _unanswered(history)
        if len(messages) >= settled and all(map(is_, messages[:settled], history[:settled])):
            view = self.view()
            return view[: len(view) - _unanswered(self.transcript.messages)] + list(messages[settled:])
        visible = self.window.visible
        if len(visible) == self.transcript.item_count:
            return list(messages)
        hidden = Hidden.of(self.transcript, visible)
        return [message for message in map(hidden.without, messages) if message is not None]

    def verdict(self, tool_call_id: str) -> Verdict | None:
        """Return what became of a `delimiter` call, None if there is none of that id."""
        return self._calls.verdict(tool_call_id)

    @property
    def reminds(self) -> bool:
        """Whether a request may carry a reminder at all."""
        return self._may_remind and self._reminder.on

    @property
    def reminder(self) -> str | None:
        """What to add at the end of the request that is about to go out, if it is time to remind the agent."""
        return self._reminder.text if self._may_remind else None

    @property
    def inferring(self) -> bool:
        """Whether episodes are inferred, still."""
        return self._annotator is not None and not self._annotator.stopped

    def recall(self, name: str, offset: int = 0) -> str:
        """Return a page of an episode's exact content, with a line that says how to get the next one.

        Args:
            name: name of the episode, evicted or not.
            offset: where to begin, in characters.

        Raises:
            UnknownEpisodeError: if no episode of that name was started.
        """
        return self.archive.read(name, offset)

    @property
    def archive(self) -> Archive:
        """The whole history, to be recalled."""
        return Archive.of(self.window, self.transcript, self.episodes)

    # What it is told

    def sync(self, messages: Sequence[ModelMessage]) -> None:
        """Take in what is new of a run's whole history.

        A history that is no continuation of the known one is taken in from its beginning, in a window of its own.

        Raises:
            FormatError: if it holds a part that this version of Wane does not know.
        """
        self._deliver()
        grown = growth(self._known, messages)
        if grown is None:
            self._start(self._empty_window())
            self._tell(HistoryReplaced())
            grown = growth([], messages)
            assert grown is not None
        self._known = grown.entries
        for entry in grown.renewed:
            # Its instructions or its system prompt may be newer.
            assert entry.number is not None
            self.transcript.messages[entry.number] = entry.message
        for position, fresh in enumerate(grown.fresh):
            taken = len(self.transcript.messages)
            try:
                self._take(fresh.message, fresh.entry)
            except BaseException:
                # A listener failed. What was taken in is told again with the next call, and the rest taken in then.
                self._forget(grown.fresh[position + len(self.transcript.messages) - taken :])
                raise

    def judge_ahead(self, tool_call_id: str, arguments: str | None) -> None:
        """Judge a `delimiter` call of a response that is not in the history yet, as it will be judged there.

        Pydantic AI's `run_stream` runs the tools of the response that holds the output before it is. To be called
        for all calls of the response, in the order in which they stand.

        Args:
            tool_call_id: id of the call.
            arguments: its raw JSON arguments.
        """
        self._calls.foresee(tool_call_id, arguments)

    def prepare(self) -> None:
        """Make the window ready for a model request, which will be the view: run a pass if one is due.

        Calling it again before anything new has come changes nothing.
        """
        self._deliver()
        if not self._ready:
            self._request()

    def set_tools(self, definitions: str) -> None:
        """Say what tool definitions every request carries. Before `sync`, as requests of the history did so too.

        Args:
            definitions: the definitions, as text.
        """
        if definitions != self._definitions:
            self._definitions, self._tools = definitions, self._counter(definitions)

    def restore(
        self,
        window: ContextWindow,
        messages: Sequence[ModelMessage],
        episodes: Sequence[Episode] = (),
        marks: Mapping[int, Sequence[Mark]] = MappingProxyType({}),
        *,
        budgets: Mapping[int, int | None] = MappingProxyType({}),
        overflows: Container[int] = (),
    ) -> None:
        """Go on with a window that was brought back by other means, such as a journal.

        Args:
            window: the window, with every item of the messages in it.
            messages: the history so far.
            episodes: every episode so far; the live ones of the window if there are none.
            marks: by the index of the item that they stand ahead of, the marks that were inferred.
            budgets: by the number of items before, the budget in force from there on, None for a context that was
                not managed; the window's where nothing is said. The agent is reminded again as it would have been.
            overflows: numbers of items in the history at passes that had to take of what was not finished (R16).

        Raises:
            HistoryError: if the window does not hold just the items of the messages.
        """
        self._start(window)
        self.episodes = list(episodes or window.episodes)
        named = {episode.name: episode for episode in self.episodes}
        budget: int | None = window.budget
        active: Episode | None = None
        for message in messages:
            self._known.append(Known(message, len(message.parts), len(self.transcript.messages)))
            self._note_message(message)
            first = self.transcript.item_count
            budget = budgets.get(first, budget)
            if isinstance(message, ModelResponse):
                self._remind(budget, overflowed=first in overflows, active=active)
            for index, (item, part) in enumerate(self.transcript.take(message), first):
                verdict = self._follow(item, part, marks.get(index, ()))
                if verdict is not None and verdict.accepted:
                    active = named.get(verdict.name) if verdict.action == "start" else None
        if self.transcript.item_count != window.item_count:
            raise HistoryError(
                f"the window holds {window.item_count} items and the messages {self.transcript.item_count}; "
                "restore it with the messages that it was built from"
            )
        if window.item_count in overflows:
            # The request was made ready, and never answered: its pass is not run again.
            self._remind(budgets.get(window.item_count, budget), overflowed=True, active=active)

    def tell(self, event: Event) -> None:
        """Tell the listeners what happened to the requests by other means than this tracker."""
        self._tell(event)

    def set_tool_classes(self, tool_classes: Mapping[str, ToolClass | str] | None) -> None:
        """Class the tools of calls to come otherwise; see `ContextWindow.set_tool_classes`.

        Raises:
            ConfigError: for an unknown tool class.
        """
        self.window.set_tool_classes(tool_classes)
        self._tool_classes = tool_classes

    # How it does it

    def _start(self, window: ContextWindow) -> None:
        self.window = window
        self.transcript = Transcript(PydanticAIFormat(), self._counter)
        self.episodes = []
        self._known = []
        self._calls = Calls(window.has_left)
        self._received: ModelResponse | None = None
        self._answered: datetime | None = None
        self._asked: datetime | None = None
        self._reminder.reset()
        # Whether the view as it stands is what goes out, or went out, next.
        self._ready = False
        self._annotator = Annotator(Limits.of(window.budget)) if self.annotate == "infer" else None

    def _forget(self, untaken: Sequence[Fresh]) -> None:
        entries = {id(fresh.entry) for fresh in untaken}
        if id(None) in entries:
            # Half of a message is known: begin again.
            self._start(self._empty_window())
        self._known = [entry for entry in self._known if id(entry) not in entries]

    def _empty_window(self) -> ContextWindow:
        return ContextWindow(self.window.budget, self.window.policy, tool_classes=self._tool_classes)

    def _take(self, message: ModelMessage, entry: Known | None) -> None:
        if isinstance(message, ModelResponse):
            self._receive(message)
        self._note_message(message)
        kept = self._without_orphans(message)
        if entry is not None and kept is message:
            entry.number = len(self.transcript.messages)
        first = self.transcript.item_count
        taken = self.transcript.take(kept)
        items = tuple(item for item, _ in taken)
        added = tuple(self._add(item, part) for item, part in taken)
        self._ready = False
        self._tell(MessageTaken(kept, first, items, added), *chain.from_iterable(map(_episode_events, added)))
        if self.past and isinstance(message, ModelResponse):
            self.past -= 1

    def _add(self, item: Item, part: Part) -> Added:
        added = add_annotated(self.window, item, part, self._annotator)
        self._note_item(item, added.marks)
        if added.opened:
            self.episodes.append(added.opened)
        return added

    def _follow(self, item: Item, part: Part, marks: Sequence[Mark]) -> Verdict | None:
        """Take in an item that the window has already."""
        if self._annotator is not None:
            self._annotator.follow(item, part, marks)
        verdict = self._note_item(item, marks)
        if self._annotator is not None and verdict is not None and verdict.accepted:
            self._annotator.stop()
        return verdict

    def _note_item(self, item: Item, marks: Sequence[Mark]) -> Verdict | None:
        for mark in marks:
            self._calls.reserve(mark.name)
        verdict = self._calls.note(item)
        self._reminder.note(item, verdict)
        return verdict

    def _note_message(self, message: ModelMessage) -> None:
        if isinstance(message, ModelResponse):
            self._answered = message.timestamp
            return
        self._asked = message.timestamp
        if message.instructions is not None:
            self._instructions = self._counter(message.instructions)

    def _receive(self, response: ModelResponse) -> None:
        """What comes with a response: the request that it answers went out, and held so many tokens."""
        if response is self._received:
            return
        if not self._ready:
            self._request()
        self._received = response
        tokens = context_tokens(response)
        if tokens > 0:
            self.window.observe(tokens)
            self._tell(UsageObserved(response.usage, model_of(response), tokens))

    def _request(self) -> None:
        overhead = self._tools + self._instructions
        if overhead != self.window.overhead:
            self.window.overhead = overhead
            self._tell(OverheadChanged(overhead))
        if self.manage and self.evicts:
            self._fit()
        else:
            self.window.apply(())
        self._ready = True

    def _fit(self) -> None:
        report = self.window.fit(cold=self._is_cold())
        events: list[Event] = [PassRan(report)] if report.ran else []
        if not report.satisfied:
            events.append(BudgetUnmet(report))
        if self._remind(self.window.budget, overflowed=report.overflowed, active=self.window.active):
            events.append(Reminded())
        self._tell(*events)

    def _remind(self, budget: int | None, *, overflowed: bool, active: Episode | None) -> bool:
        """Whether a request reminds the agent; it has no budget if its context was not managed."""
        if budget is None or not self._may_remind:
            return False
        return self._reminder.ask(budget, overflowed=overflowed, active=active) is not None

    @property
    def _may_remind(self) -> bool:
        return self.manage and self.evicts and self.annotate == "model"

    def _is_cold(self) -> bool:
        if self._answered is None or self._asked is None:
            return False
        # As numbers, since a history may mix times with and without a zone.
        return self._asked.timestamp() - self._answered.timestamp() > self._cache_lifetime

    def _without_orphans(self, message: ModelMessage) -> ModelMessage:
        """Leave out results that answer no open call, as Pydantic AI does before it sends them."""
        if isinstance(message, ModelResponse):
            return message
        parts = self.transcript.format.parts(message)
        kept = self._calls.answering(parts)
        return message if len(kept) == len(parts) else self.transcript.format.keep(message, kept)

    def _tell(self, *events: Event) -> None:
        self._untold += () if self.past else events
        self._deliver()

    def _deliver(self) -> None:
        """Tell the listeners; what one of them fails at is told again, to all, before anything else happens."""
        while self._untold:
            for listener in self.listeners:
                listener(self._untold[0])
            del self._untold[0]


def _checked(annotate: Annotate) -> Annotate:
    if annotate not in get_args(Annotate):
        raise ConfigError(f"annotate is {annotate!r}; it must be one of: {', '.join(get_args(Annotate))}")
    return annotate


def _episode_events(added: Added) -> Iterator[Event]:
    if added.closed:
        yield EpisodeClosed(added.closed, added.index)
    if added.opened:
        yield EpisodeOpened(added.opened, added.index)


def _unanswered(messages: Sequence[ModelMessage]) -> int:
    """How many messages stand after the last response."""
    return sum(1 for _ in takewhile(lambda message: not isinstance(message, ModelResponse), reversed(messages)))
