"""One conversation kept within a budget: messages in, requests out. Sans I/O.

`Conversation` holds the messages' calls, the lock and the events, and one history (`history.py`), which has the records
and the engine with its window. `Host` and `Log` are the same conversation as a framework and as a journal see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from math import isfinite
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Protocol, Unpack

from wane.budgets import AutoBudget
from wane.conversation.adapter import Adapter, Prepared
from wane.conversation.alignment import Aligner, Appended, ByMessage, Change, HostHistory
from wane.conversation.context import ContextArguments, ContextSettings
from wane.conversation.events import EpisodeChosen, Event, HistoryForked, HistoryReplaced, Listener
from wane.conversation.forks import go_back, has_answer, switch_strategy
from wane.conversation.from_records import follow_records, records_of
from wane.conversation.history import MessageHistory, Taken
from wane.conversation.request import RECALL_ALONE, Request, Tool, own_tools
from wane.conversation.scopes import (
    OpenEpisode,
    check_scope,
    live_scopes,
    read_scopes,
    scope_path,
    write_description,
    write_scopes,
)
from wane.conversation.state import Digest, export_conversation, restore_conversation
from wane.conversation.thrashing import Thrashing
from wane.conversation.tool_calls import Call, Verdicts, WaitingCalls, find_open_calls
from wane.conversation.views import SentMessages
from wane.core import DELIMITER, RECALL, Added, ContextWindow, Episode, EpisodeType, Kind, Room, exact_budget
from wane.core.episodes import Choice
from wane.core.errors import ConfigError, HistoryError
from wane.core.guidance import guidance
from wane.formats import get_format
from wane.formats.answers import Ending, check_reason, request_tokens, stop_reason
from wane.formats.anthropic import AnthropicFormat
from wane.formats.message_format import Format, is_native, writes, writing
from wane.formats.roles import Order
from wane.journal.receipts import Receipts
from wane.journal.records import ConfigRecord, Record
from wane.recall import answer
from wane.refusals import TOO_LONG, fitting_budget, message_of
from wane.strategies.host import HostScope
from wane.strategies.registry import traits
from wane.strategies.strategy import SummaryNeeded

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    M = TypeVar("M", default=dict[str, Any])
else:
    from typing import TypeVar

    M = TypeVar("M")

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Shared(Protocol):
    """A conversation, or a front of one: threads may share it."""

    _lock: RLock


_S = TypeVar("_S", bound=_Shared)


def _with_lock(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """Make the calls of a conversation's methods wait for each other across threads."""

    @wraps(method)
    def call(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._lock:
            return method(self, *args, **kwargs)

    return call


_FIXED: Final = frozenset({"annotate", "counter", "recall", "remind_at", "subagents", "tasks"})
"""Settings that are the same for a whole conversation."""


class Conversation(Generic[M]):
    """One conversation, kept within a budget. A sub-agent has one of its own.

        conversation = wane.Conversation(budget="80k")
        conversation.append({"role": "user", "content": task})
        while not conversation.ended:
            request = conversation.request()
            tools = [*conversation.tools, *mine]
            reply = client.chat.completions.create(model=…, messages=request.messages, tools=tools)
            for call in conversation.append(reply, input_tokens=reply.usage.prompt_tokens):
                conversation.append(call.result(run(call.name, call.arguments)))

    The history is append-only, and each request is a part of it. A conversation does nothing by itself: it sends no
    request, and reads no file and no clock. There are three ways to use it: your loop gives each message to `append`; a
    framework that keeps the history gives all of it to `host`; and `log` goes on from the records of a journal.

    Args:
        format: name of the messages' format (`wane.formats.FORMAT_NAMES`), or a format of your own.
        budget: tokens that the view may hold: a number, or text such as `"80k"`, the default; `"auto"` chooses one with
            the first request, by what never leaves and by the model's window (`auto_budget`).
        keep_opening: whether the model's current turn must begin with its own reasoning, as Anthropic demands if
            thinking has a budget (`thinking.type` is `enabled`); may be changed later.
        cache_control: for Anthropic's messages, a cache breakpoint such as `{"type": "ephemeral"}`, which requests then
            carry twice: at their end, ahead of a reminder, and behind the leading messages that no pass may take. None
            for none; may be changed later.
        adapter: reads what a framework's messages say about themselves: ids, usage, times.
        aligner: makes an aligner for the histories given to `host.ingest`; None to compare message by message.
        on_event: a first listener.
        settings: how the context is managed, in place of the defaults.
        others: single settings of `ContextSettings` by name, such as `strategy`, `policy`, `annotate` or `recall`.

    Attributes:
        format: the messages' format.
        host: the front for a framework that keeps the history and runs the tools.
        log: the front for a journal: what happened as records.
        listeners: called with each event, in order, after it has happened.

    Threads may share it: a call waits for another thread's call. But a history has one order, so let one loop append,
    and give each of several concurrent loops a conversation of its own (`branch`).

    Raises:
        ConfigError: for a setting that cannot work.
        FormatError: for an unknown format.
        MissingExtraError: for a format, a counter or a strategy whose extra is not installed.
        CounterError: for a counter that cannot work here.
    """

    def __init__(
        self,
        format: str | Format[M] = "openai",  # noqa: A002 - the word for it everywhere else
        *,
        budget: int | str | None = None,
        keep_opening: bool = False,
        cache_control: Mapping[str, Any] | None = None,
        adapter: Adapter[M] | None = None,
        aligner: Callable[[], Aligner[M]] | None = None,
        on_event: Listener | None = None,
        settings: ContextSettings | None = None,
        **others: Unpack[ContextArguments],
    ) -> None:
        context = ContextSettings.of(settings, budget=budget, **others)
        if on_event is not None and not callable(on_event):
            raise ConfigError(f"on_event is {on_event!r}; it must be a function that takes an event, or None")
        self.format: Format[M] = get_format(format) if isinstance(format, str) else format
        self.listeners: list[Listener] = [] if on_event is None else [on_event]
        if cache_control is not None and not isinstance(self.format, AnthropicFormat):
            raise ConfigError(f"cache_control is for Anthropic's messages, and these are in {self.format.name}")
        self.keep_opening = keep_opening
        self.cache_control = cache_control
        adapter = adapter or Adapter()
        self._new_aligner = aligner or (lambda: ByMessage(self.format, adapter))
        self._hosted = False  # whether a framework keeps the history
        # The object whose scopes concern the conversation (`wane.conversation.scopes`); branches share it.
        self._owner: object = object()
        self._worker: HostScope | None = None  # the scope of the agent that asks the model, if it has one
        self._asked_in: tuple[HostScope, ...] = ()  # the scopes in which the latest request was made
        self._make_fronts()
        self._begin(MessageHistory(self.format, adapter, context))

    def _make_fronts(self) -> None:
        self._lock = RLock()
        self.host = Host(self)
        self.log = Log(self)

    def _begin(self, history: MessageHistory[M]) -> None:
        """Go on with a history, and forget everything about another one."""
        self._history = history
        self._known = HostHistory(self._new_aligner())  # the host's history as it was last given
        self._appended: list[Appended[M]] = []  # what was appended since; few hosts ever give a whole history
        self._verdicts = Verdicts()
        self._digest = Digest(self.format, history.adapter)
        self._sent = SentMessages(self.format)
        self._waiting = WaitingCalls(self.format)  # own calls that wait for their results
        self._own_tools = own_tools(history.context)
        self._own_names = {tool.name for tool in self._own_tools}

    def __repr__(self) -> str:
        active = self.window.active
        inside = "" if active is None else f", in episode {active.name!r}"
        return (
            f"<Conversation: format {self.format.name}, strategy {self.settings.strategy}, "
            f"{self.length:,} messages, {self.tokens:,} of {self.settings.budget:,} tokens{inside}>"
        )

    # How the context is managed

    @property
    def settings(self) -> ContextSettings:
        """How the context is managed; use `change` to change it."""
        return self._history.context

    @_with_lock
    def change(self, *, budget: int | str | None = None, **others: Unpack[ContextArguments]) -> None:
        """Change settings for the requests to come: all of them, or none if one cannot be changed.

        A new strategy starts with the whole history, except what it evicted itself before (R14).

        Args:
            budget: tokens that the view may hold; None to leave it as it is.
            others: other settings by name: `policy`, `strategy`, `manage`, `tool_classes`, `cache_lifetime`.

        Raises:
            ConfigError: for a value that cannot work, and for a setting that is fixed for a whole conversation.
            MissingExtraError: for a strategy whose extra is not installed.
        """
        if fixed := [name for name in others if name in _FIXED]:
            raise ConfigError(
                f"{', '.join(fixed)} cannot be changed in a conversation: make a new one and `restore` this one's state"
            )
        before, after = self.settings, ContextSettings.of(self.settings, budget=budget, **others)
        # A new index lists what left before, too.
        begins_index = after.policy.index_share and not before.policy.index_share
        if after.strategy != before.strategy or (begins_index and writes(self.format)):
            self._history = switch_strategy(self._history, after)
        self._history.change_context(after)
        self._own_tools = own_tools(after)
        self._own_names = {tool.name for tool in self._own_tools}

    @property
    def auto_budget(self) -> AutoBudget | None:
        """The budget that was chosen for `budget="auto"`, with its reason; None before the first request."""
        return self._history.chosen

    @property
    def own_tools(self) -> tuple[Tool, ...]:
        """The tools whose calls the conversation answers."""
        return self._own_tools

    @property
    def tools(self) -> list[Any]:
        """Definitions of its tools in the provider's form; send them with every request, besides the host's tools.

        Raises:
            ConfigError: for a format that writes no tools; see `own_tools`.
        """
        if not self._own_tools:
            return []
        format_ = writing(self.format, "a tool")
        return [format_.tool(tool.name, tool.description, tool.schema) for tool in self._own_tools]

    @property
    def instructions(self) -> str:
        """Text about these tools for the system prompt; empty if there are none."""
        settings = self.settings
        if not self._own_tools:
            return ""
        if not settings.delimits:
            return RECALL_ALONE
        leaving = traits(settings.strategy).leaving
        return guidance(settings.eviction, recall=settings.recall, leaving=leaving, tasks=settings.tasks)

    # Messages in

    @property
    @_with_lock
    def messages(self) -> list[M]:
        """The whole history, evicted or not."""
        self._answer_own_calls()
        return list(self._history.transcript.messages)

    @property
    def length(self) -> int:
        """Number of messages in the history."""
        return len(self._history.transcript.messages)

    @property
    def ended(self) -> bool:
        """Whether the model's turn is over: no call of its last answer is open, whether or not it said anything.

        Calls that the provider ran do not count. It is false behind an answer that the provider wants back to go on
        with, such as one that stopped with `pause_turn`: append the whole answer, so that its stop reason is known.
        """
        return self._history.ended

    @property
    @_with_lock
    def calls(self) -> list[Call[M]]:
        """The calls of the history that the host must run and that have no result yet, in order."""
        return self._open_calls()

    @_with_lock
    def append(self, message: M | Sequence[Any], *, input_tokens: int = 0, at: float | None = None) -> list[Call[M]]:
        """Take in the next message of the history.

        The conversation answers calls of its own tools: their results enter the history before the next request, or
        before the next message that is not a result. If the host appends such a result itself, that one is used.

        Args:
            message: the message or, for `openai_responses`, an item, or the list of items of an answer. It may also be
                an object of the provider's SDK, such as a whole response.
            input_tokens: tokens of the request that it answers, including cached ones, as the provider reported. Where
                the provider ran tools of its own, its figure is a sum over several passes: append the whole answer, and
                what the request held is taken from that, or counted if the answer does not say it.
            at: time of the message in seconds, to know when the provider's cache has expired.

        Returns:
            Its calls that the host must run, in order. Append `call.result(output)` for each.

        Raises:
            FormatError: for a message of another format, for content that the format does not know, and for an answer
                whose stop reason says that it is none, such as a failed one that holds nothing. Nothing is changed
                then: a list is taken in whole or not at all.
            HistoryError: for a message that the provider would not accept here, such as a result without its call, two
                calls with one id, or a turn of the user before a call's result. Nothing is changed then either.
            ConfigError: for tokens or a time that is not a number.
        """
        _check_numbers(input_tokens=input_tokens, at=at)
        first, entries = self.length, message if isinstance(message, (list, tuple)) else [message]
        prepared = self._history.prepare(self._name_results(self._history.read(entries)))
        ending, tokens = None, 0
        # Only an answer has a stop reason and usage; an empty one has no parts.
        if not prepared or any(entry.answers or not entry.parts for entry in prepared):
            reason, ending = stop_reason(message if len(entries) != 1 else entries[0])
            if ending is Ending.VOID:
                check_reason(reason, ending, empty=not any(entry.parts for entry in prepared))
            tokens = request_tokens(entries[0], input_tokens or 0) if len(entries) == 1 else input_tokens or 0
        self._append(prepared, None, tokens, at)
        if not message and self.asked:
            self._history.set_ended(True)  # an answer without items
        if ending is Ending.CONTINUES:
            self._history.set_ended(False)
        return self._open_calls(first)

    @_with_lock
    def extend(self, messages: Sequence[Any]) -> list[Call[M]]:
        """Take in several messages, such as a saved history, as if they were appended one by one.

        Returns:
            All calls that the host must run and that have no result yet.

        Raises:
            FormatError: for a message of another format or with unknown content; the error gives its number, and
                nothing is changed.
            HistoryError: for a message that no provider would accept there, likewise.
        """
        self._append(self._history.prepare(self._name_results(self._history.read(messages)), first=0), 0)
        return self.calls

    @_with_lock
    def branch(self, count: int | None = None) -> Conversation[M]:
        """Return a new conversation with the first messages of this one, and the evictions made for them.

        Args:
            count: number of messages; None for all.

        Raises:
            ConfigError: for a number of messages that this conversation does not have.
        """
        self._answer_own_calls()
        number: object = count
        if number is not None and not (isinstance(number, int) and 0 <= number <= self.length):
            raise ConfigError(
                f"a branch cannot have {number!r} messages; give a number from 0 to {self.length}, or None for all"
            )
        branch = copy(self)
        branch.listeners = [*self.listeners]
        branch._worker = None
        branch._make_fronts()
        messages = self._history.transcript.messages
        stop = len(messages) if count is None else count
        history, shared = go_back(self._history, stop, events=[])
        branch._begin(history)
        known = history.prepare(history.transcript.messages, check=False)
        branch._known.extend([Appended(entry) for entry in known])
        branch._append(history.prepare(branch._name_results(messages[shared:stop]), check=False))
        # Own calls without a result get the results that they have in later messages.
        own_calls = [call for call in find_open_calls(branch._history) if call.name in branch._own_names]
        if own_calls:
            parts = [part for message in messages[stop:] for part in self.format.parts(message)]
            branch._waiting.take_over(own_calls, [part for part in parts if part.kind is Kind.RESULT])
        return branch

    # Marks of the program (R18)

    def episode(self, name: str, type: str = "expl", dependencies: Iterable[str] = ()) -> OpenEpisode:  # noqa: A002
        """Return an episode to enter by `with`. What is appended in it belongs to it. It needs `annotate="host"`.

        Several may be open at once, in tasks of asyncio or in threads: each branch then appends an answer together with
        the results of its calls. If the model's last answer in an exploration calls no tool, its text becomes the
        description; `describe` gives another one.

        Args:
            name: its name, which the conversation has not used.
            type: `expl` or `act`.
            dependencies: for an act, names of the explorations that it builds on.

        Raises:
            ConfigError: for a name or a type that cannot be used, and if the program does not mark episodes here.
        """
        return self._open(name, type, dependencies)

    def task(self, name: str) -> OpenEpisode:
        """Return a task to enter by `with`, which holds episodes and other tasks (R17); see `episode`."""
        return self._open(name, "task")

    def _open(self, name: str, type: str, dependencies: Iterable[str] = ()) -> OpenEpisode:  # noqa: A002
        if self._history.engine.host is None:
            raise ConfigError(
                f"annotate is {self.settings.annotate!r}: the program opens no episodes. Use annotate='host'"
            )
        return OpenEpisode(self._owner, name, type, dependencies, self._check_scope, self._describe)

    def _scopes_here(self) -> tuple[HostScope, ...]:
        """Return the scopes in which the program is now, if it marks episodes."""
        if self._history.engine.host is None:
            return ()
        scopes = scope_path(self._owner)
        in_episode = scopes and scopes[-1].type is not EpisodeType.TASK
        if in_episode or self._worker is None:
            return scopes
        return (*scopes, self._worker)

    def _check_scope(self, scope: HostScope) -> None:
        assert self._history.engine.host is not None
        check_scope(scope, self._owner, self._history.engine.host, self.window)

    @_with_lock
    def _describe(self, scope: HostScope, text: str) -> None:
        """Append a notice that holds the description of an open episode.

        Raises:
            HistoryError: outside its scope, before the model's first answer, and while a call has no result.
        """
        marker = self._history.engine.host
        assert marker is not None
        if self._scopes_here()[-1:] != (scope,) or self.window.latest < 0 or self._open_calls():
            raise HistoryError(
                f"{scope.name!r} cannot be described now: do so in its own scope, when its calls have their results"
            )
        marker.describing = True
        notice = writing(self.format, "a description").turn(write_description(scope.name, text))
        self._append(self._history.prepare([notice]))

    # Choices of a person (R23)

    @_with_lock
    def choose(self, episode: int, choice: Choice) -> Episode:
        """Keep an episode in view, or let it go with the next request, because a person says so; return the episode.

        Give it between the model's turns.

        Args:
            episode: its number (`Episode.number`).
            choice: `"keep"`, `"drop"`, or `""` to take an earlier choice back. What has left stays out of the view.

        Raises:
            UnknownEpisodeError: for a number of no episode in view.
            ConfigError: for a task, for another choice, and if the strategy does not evict by episode.
        """
        chosen = self._history.choose(episode, choice)
        self._history.events.append(EpisodeChosen(chosen))
        self._tell()
        return chosen

    # Requests out

    @property
    def window(self) -> ContextWindow:
        """The window: episodes, view, and what holds tokens. Read-only."""
        return self._history.engine.window

    @property
    def tokens(self) -> int:
        """Tokens of the next request if nothing is evicted."""
        return self._history.engine.tokens_with(self.overhead)

    @property
    def room(self) -> Room | None:
        """The room that the budget leaves for the work; None if no budget is kept."""
        engine = self._history.engine
        room = engine.room
        if room is None or not self.settings.manage:
            return None
        # The overhead may have changed since the last request.
        return replace(room, system=room.system + self.tokens - engine.tokens)

    @property
    def thrashing(self) -> Thrashing | None:
        """The signs that the window evicts what the work needs; None if there are none, or no budget is kept."""
        return self._history.engine.thrashing if self.settings.manage else None

    @property
    def overhead(self) -> int:
        """Tokens that every request carries besides its messages: the system prompt, tool definitions."""
        return self._history.overhead

    @overhead.setter
    def overhead(self, overhead: int | str) -> None:
        tokens: object = self.settings.counter(overhead) if isinstance(overhead, str) else overhead
        if not isinstance(tokens, int) or tokens < 0:
            raise ConfigError(f"overhead is {overhead!r}; it must be a number of tokens, at least 0, or text to count")
        self._history.host_overhead = tokens

    @property
    def asked(self) -> bool:
        """Whether a request was made with the present history, so that an answer may be on its way."""
        return self._history.shown is not None

    @_with_lock
    def request(self, *, at: float | None = None, cold: bool | None = None) -> Request[M]:
        """Run a pass if one is due, and return what to send next. A second call before a new message changes nothing.

        Args:
            at: time of the request in seconds, to know whether the provider's cache has expired.
            cold: whether it has expired, if the host knows; None to go by the times.

        Returns:
            The request. With a strategy that needs a summary, it may ask for that first (`Request.for_summary`).

        Raises:
            HistoryError: if a call has no result yet, because providers refuse such a request. Not if a framework keeps
                the history (`host`).
            ConfigError: for a time that is not a number.
        """
        _check_numbers(at=at)
        self._answer_own_calls()
        self._asked_in = self._scopes_here()
        if not self._hosted and (calls := self._open_calls()):
            waiting = ", ".join(f"{call.name} ({call.id})" for call in calls)
            raise HistoryError(f"calls without a result: {waiting}. Append `call.result(output)` for each first")
        history = self._history
        if self._verdicts.foreseen:
            self._verdicts.forget_foreseen()
        if at is not None:
            history.asked_at = at
        outcome = history.request(cold=cold)
        self._tell()
        if isinstance(outcome, SummaryNeeded):
            format_ = writing(self.format, f"the strategy {self.settings.strategy!r}")
            view, numbers = history.view.read(outcome.view, keep_opening=self.keep_opening)
            messages = self.host.wire(view, outcome.instructions)
            view.append(format_.turn(outcome.instructions))
            numbers.append(None)
            return Request(messages, view, numbers, self.tokens, number=history.requests, for_summary=True)
        view, numbers = history.view.of(outcome.view, keep_opening=self.keep_opening)
        if self.cache_control is None:
            messages = self.host.wire(view, outcome.reminder)
        else:
            fixed = history.view.count_fixed(numbers)
            messages = self._sent.write_cached(view, outcome.reminder, self.host.order, fixed, self.cache_control)
        return Request(
            messages,
            view,
            numbers,
            outcome.tokens + history.engine.added_by(outcome.reminder),
            outcome.report,
            outcome.reminder,
            history.requests,
        )

    @_with_lock
    def summarised(self, text: str) -> Request[M]:
        """Take in the summary that a request asked for, and return the next request, which may ask for another one.

        Raises:
            HistoryError: if no request has asked for one.
        """
        self._history.take_summary(text)
        return self.request()

    @_with_lock
    def observe(self, input_tokens: int, *, request: Request[M] | None = None) -> None:
        """Take in the provider's count of a request's tokens, including cached ones; later counts build on it.

        Args:
            input_tokens: all its input tokens; 0 or less is ignored.
            request: the request; None for the latest. A report of an earlier one is ignored.

        Raises:
            ConfigError: for tokens that are not a number.
        """
        _check_numbers(input_tokens=input_tokens)
        if request is None or request.number == self._history.requests:
            if input_tokens and input_tokens > 0:
                self._history.observe_tokens(input_tokens)
            self._tell()

    @_with_lock
    def refused(self, error: object) -> bool:
        """Take in a provider's refusal of the latest request as too long; return whether the next one is smaller.

            try:
                reply = client.chat.completions.create(…)
            except openai.BadRequestError as error:
                if not conversation.refused(error):
                    raise

        The provider's count and its limit, as far as it says them, calibrate the budget, which stays lowered. It is
        then also the window beyond which no pass works (R22).

        Args:
            error: what the provider's SDK raised, or the error as data or text.

        Returns:
            False if the error says something else, which changes nothing, or if nothing more can leave the view.
        """
        message = message_of(error)
        settings = self.settings
        if not TOO_LONG.search(message) or not settings.manage or not traits(settings.strategy).bounded:
            return False
        before = self.tokens
        budget = fitting_budget(message, before)
        if budget is None or budget < 1:
            return False
        self.change(budget=exact_budget(min(budget, settings.budget)), window=budget)
        return self.request().tokens < before

    # What can be looked up

    @property
    @_with_lock
    def view(self) -> list[M]:
        """The messages of the next request if nothing more is evicted."""
        return self._history.view.read(self._history.engine.view)[0]

    @property
    def episodes(self) -> Sequence[Episode]:
        """All episodes and tasks so far, including removed ones, in order of start."""
        return self._history.engine.episodes

    @property
    def evicted(self) -> int:
        """Tokens of the history that are not in view."""
        return self._history.engine.evicted

    @_with_lock
    def recall(self, name: str, offset: int = 0) -> str:
        """Return a page of an episode's exact content, evicted or not; of a task, what came of it and what it holds.

        Args:
            name: name of the episode or task.
            offset: first character of the page.

        Raises:
            UnknownEpisodeError: if no episode of that name was started.
        """
        return self._history.archive.read(name, offset)

    @_with_lock
    def search(self, pattern: str, offset: int = 0) -> str:
        """Return exact excerpts around a pattern in the history, evicted or not, each with its place.

        Args:
            pattern: text, or a regular expression that is matched line by line.
            offset: number of places to skip.

        Raises:
            ConfigError: for a pattern that is empty or not text, and an offset that is not a number of places.
        """
        value: object = pattern
        skipped: object = offset
        if not isinstance(value, str):
            raise ConfigError(f"the pattern of a search is {value!r:.60}; it must be text")
        if not pattern:
            raise ConfigError("the pattern of a search is empty; give it a text or a regular expression")
        if not isinstance(skipped, int) or skipped < 0:
            raise ConfigError(f"the offset of a search is {offset!r}; it must be a whole number, at least 0")
        return self._history.archive.find(pattern, offset)

    # State

    @_with_lock
    def state(self) -> dict[str, Any]:
        """Return what `restore` needs besides the history, as JSON data.

        Its size depends only on the view, not on what has left it. If the strategy does not evict by episode, the size
        is less than 1 KB, plus summaries and the places of texts that replace items.
        """
        self._answer_own_calls()
        history = self._history
        state = export_conversation(history, self._digest, self._verdicts)
        if self.host.stamp is not None:
            # An answer that comes only with the next request may come to another process.
            state["asked_in"] = self.host.stamp
        return state

    @_with_lock
    def restore(self, state: Mapping[str, Any], history: Sequence[Any]) -> bool:
        """Continue another conversation, of this process or another, with the settings of this one.

        Args:
            state: what its `state` returned.
            history: at least the messages that it had taken in by then. Pass the history to `host.ingest` next.

        Returns:
            Whether the state was restored. False if it belongs to another history; nothing is changed then.

        Raises:
            FormatError: for a message of another format.
            HistoryError: for data that is not a state, is damaged, or has another version.
        """
        restored = restore_conversation(self._history, state, history)
        if restored is None:
            return False
        restored_history, digest, verdicts, prepared = restored
        self._begin(restored_history)
        self._known.extend([Appended(message) for message in prepared])
        self._digest = digest
        self._verdicts = verdicts
        self._asked_in = read_scopes(state.get("asked_in")) or ()
        return True

    # Messages in: each is taken apart once, and its parts are handed on

    def _append(
        self, prepared: Sequence[Prepared[M]], first: int | None = None, tokens: int = 0, at: float | None = None
    ) -> None:
        """Take in messages of the host; all are checked before anything changes.

        Args:
            prepared: the messages.
            first: the first one's number for errors; None if they need not say which message is meant.
            tokens: tokens of the request that they answer.
            at: their time.
        """
        history = self._history
        waiting = [call.id for call, _ in self._waiting.calls]
        paired = history.pair_results(prepared, own=self._own_names, waiting=waiting, first=first, in_order=True)
        try:
            for entry, message in zip(prepared, paired, strict=True):
                if message is None:
                    self._appended.append(Appended(entry, left_out=True))
                    continue
                if self._waiting.calls:
                    self._waiting.forget_answered(message.parts)
                    if any(part.kind is not Kind.RESULT for part in message.parts):
                        self._answer_own_calls()
                self._appended.append(Appended(entry))
                self._note_own_calls(message, self._take(message, tokens, at))
        finally:
            self._tell()

    def _take(self, prepared: Prepared[M], tokens: int = 0, at: float | None = None) -> list[str | None]:
        """Take in a message, and return the verdicts on its calls, by part."""
        history = self._history
        marker = history.engine.host
        if marker is not None:
            scopes = history.adapter.scopes(prepared.message)
            marker.told = scopes is not None
            if scopes is None:
                # A framework gives an answer only with the next request, which may be made in another scope.
                scopes = self._asked_in if self._hosted and prepared.answers else self._scopes_here()
            marker.path = scopes
            marker.live = live_scopes()
        return self._note_verdicts(prepared, history.append(prepared, tokens=tokens, at=at))

    def _note_verdicts(self, prepared: Prepared[M], added: Sequence[Added]) -> list[str | None]:
        """Note the verdicts on the calls of a message that was taken in; return their texts, by part."""
        if not prepared.answers:
            return []
        texts: list[str | None] = []
        for outcome in added:
            verdict = outcome.verdict
            texts.append(None if verdict is None else verdict.answer(recall=self.settings.recall))
        self._verdicts.take(prepared.parts, texts, self.window.open_calls)
        return texts

    def _note_own_calls(self, prepared: Prepared[M], texts: Sequence[str | None]) -> None:
        """Note the own calls of an answer, which wait for their results, each with its verdict if it is a mark."""
        if prepared.answers and self._own_names:
            self._waiting.note(prepared, texts, self.window.open_calls, self._own_names)

    def _answer_own_calls(self) -> None:
        """Append the results of own calls that have none."""
        if not self._waiting.calls:
            return
        for call, verdict in self._waiting.take_open(self.window.open_calls):
            result = call.result(verdict or answer(call.raw, self._history.archive))
            prepared = self._history.prepare([result], check=False)
            (paired,) = self._history.pair_results(prepared)
            assert paired is not None
            self._appended.append(Appended(prepared[0]))
            self._take(paired)

    def _known_history(self) -> HostHistory[M]:
        """Return the host's history as far as it is known, with what was appended since it was last compared."""
        if self._appended:
            self._known.extend(self._appended)
            self._appended = []
        return self._known

    def _open_calls(self, first: int = 0) -> list[Call[M]]:
        """Return the host's calls without a result, from the message numbered `first` on."""
        open_calls = self.window.open_calls
        if not open_calls:
            return []
        waiting = [call.id for call, _ in self._waiting.calls]
        calls = find_open_calls(self._history, first)
        return [call for call in calls if call.name not in self._own_names and call.id not in waiting]

    def _name_results(self, messages: Sequence[M]) -> Sequence[M]:
        """Return the messages as the format writes them after the open calls: results that name their calls."""
        open_calls = self.window.open_calls
        if not open_calls or not is_native(self.format):
            return messages
        calls = find_open_calls(self._history)
        return self.format.answering(messages, [(call.id, call.name) for call in calls])

    def _tell(self) -> None:
        """Send the events to the listeners. If a listener fails, the next call sends that event again to all."""
        events: list[Event] = self._history.events
        count = 0
        try:
            for event in events:
                for listener in self.listeners:
                    listener(event)
                count += 1
        finally:
            del events[:count]


class Host(Generic[M]):
    """Takes in the history that a framework keeps, and answers own calls that the framework runs as tools.

    Get it from `Conversation.host`.
    """

    def __init__(self, conversation: Conversation[M]) -> None:
        self._conversation = conversation
        self._lock = conversation._lock

    @property
    def owner(self) -> object:
        """The object whose scopes concern the conversation (`wane.conversation.scopes`)."""
        return self._conversation._owner

    @owner.setter
    def owner(self, owner: object) -> None:
        self._conversation._owner = owner

    @property
    def persons(self) -> set[str]:
        """Ids of calls whose results a person gave (R21), as the framework says; add an id before its result comes in.

        Conversations may share the set.
        """
        return self._conversation._history.persons

    @persons.setter
    def persons(self, call_ids: set[str]) -> None:
        self._conversation._history.persons = call_ids

    @property
    def marks(self) -> bool:
        """Whether the program marks episodes (R18)."""
        return self._conversation._history.engine.host is not None

    @property
    def worker(self) -> HostScope | None:
        """The episode or task of the agent that asks the model; it lasts until another agent asks (R18)."""
        return self._conversation._worker

    @worker.setter
    def worker(self, scope: HostScope | None) -> None:
        self._conversation._worker = scope

    @property
    def stamp(self) -> list[dict[str, Any]] | None:
        """The scopes of the latest request as JSON data, for its answer to carry; None if the program marks nothing.

        An adapter whose framework merges histories puts it in the answer, and reads it by `Adapter.scopes`.
        """
        return write_scopes(self._conversation._asked_in) if self.marks else None

    def read(self, data: Sequence[Any]) -> Sequence[M]:
        """Return the messages of the host's data, which for `openai_responses` may be a flat list of items."""
        return self._conversation._history.read(data)

    @_with_lock
    def ingest(self, history: Sequence[Any]) -> Change:
        """Take in what is new in a whole history.

        The history may continue the known one, or an earlier message of it (a fork, a changed message), and then
        evictions up to that message persist. It may also be another history. The conversation does not answer its own
        calls here: the framework runs the tools, and they call `answer`.

        Raises:
            FormatError: for a message of another format; nothing is changed then.
            HistoryError: for a message that no provider would accept; nothing is changed then.
        """
        conversation = self._conversation
        known, before = conversation._known_history(), conversation._history
        messages = before.read(history)
        conversation._hosted, conversation._waiting = True, WaitingCalls(conversation.format)
        alignment = known.align(messages)
        length = conversation.length
        shared, fresh = known.count_taken(alignment.kept), alignment.fresh
        line = before
        if shared < length:
            line, shared = go_back(before, shared)
            fresh = fresh if shared else messages
        first = len(messages) - len(fresh)
        prepared = line.prepare(fresh, first=first)
        paired = line.pair_results(prepared, first=first)
        for number, renewed in known.number_renewed(alignment):
            if number < shared:
                line.renew(number, renewed)
        known.accept(messages, alignment, paired)
        if line is not before:
            conversation._history = line
            conversation._sent = SentMessages(conversation.format)
            conversation._digest.forget()
            line.events.append(HistoryForked(shared) if shared else HistoryReplaced())
        for message in paired:
            if message is not None:
                conversation._take(message)
        conversation._tell()
        return Change(shared, length - shared, len(fresh))

    @_with_lock
    def shares(self, history: Sequence[Any]) -> int:
        """Return how many first messages a history shares with the conversation's; 0 if no answer is among them."""
        known, own = self._conversation._known_history(), self._conversation._history
        shared = known.count_taken(known.align(own.read(history)).kept)
        return shared if has_answer(own, shared) else 0

    @_with_lock
    def digests(self, history: Sequence[Any]) -> list[str]:
        """Return the digests (`state()["digest"]`) of the beginnings of a history that continues the conversation's.

        Returns:
            One digest for each message after the known ones, that of the longest beginning first.
        """
        own = self._conversation._history
        messages, known = own.read(history), own.transcript.messages
        self._conversation._digest.of(known, len(known))  # computed once for all known messages
        digest = copy(self._conversation._digest)
        digests = [digest.of(messages, count) for count in range(len(known) + 1, len(messages) + 1)]
        return digests[::-1]

    @property
    def order(self) -> Order:
        """The order of roles that the whole history keeps (R12b)."""
        return self._conversation._history.transcript.order

    def wire(self, view: Sequence[M], reminder: str | None = None, *, order: Order | None = None) -> list[Any]:
        """Return the messages of a request in the provider's form.

        Args:
            view: the messages, of the format.
            reminder: a note to the model at their end.
            order: the order of roles in all that a request without eviction would hold, which this one keeps (R12b);
                None to go by the history.
        """
        return self._conversation._sent.write(view, reminder, self.order if order is None else order)

    def count_fixed(self, request: Request[M]) -> int:
        """Return how many leading messages of the latest request's view no pass may take; 0 if nothing has left it.

        Where a provider caches up to breakpoints alone, one behind them keeps a pass from paying for them again.
        """
        return self._conversation._history.view.count_fixed(request.numbers)

    # Own calls

    @_with_lock
    def has_made(self, call: Call[Any]) -> bool:
        """Whether a call belongs to the latest answer, foreseen or in the history, by its id."""
        conversation = self._conversation
        return call.id is not None and (
            conversation._verdicts.knows(call.id) or call.id in conversation.window.open_calls
        )

    @_with_lock
    def foresee(self, calls: Sequence[Call[Any]]) -> None:
        """Judge the own calls of an answer that is not in the history yet, as they will be judged there.

        Args:
            calls: all calls of the answer, in order: `Call(name, arguments, id)`. The answer may come in several parts,
                with a call of this method for each.
        """
        conversation = self._conversation

        def judge(arguments: Sequence[str]) -> list[str]:
            recalls = conversation.settings.recall
            return [verdict.answer(recall=recalls) for verdict in conversation.window.foresee(arguments)]

        conversation._verdicts.foresee(calls, judge)

    @_with_lock
    def answer(self, call: Call[Any]) -> str:
        """Return the result of an own call of the latest answer, foreseen or in the history. A bad call raises nothing.

        The verdict on a `delimiter` call is found by the call's id; without an id, by its arguments, or else as the
        next one in order. By arguments or order, each verdict is given only once, also across threads.

        Args:
            call: its name, its arguments as text or as the framework parsed them, and its id if known.
        """
        if call.name == RECALL:
            return answer(call.raw, self._conversation._history.archive)
        if call.name != DELIMITER:
            return f"Error: {call.name!r} is not a tool of this conversation; the program that offers it must run it."
        return self._conversation._verdicts.find(call)


class Log(Generic[M]):
    """Gives what happened as records for a journal, and goes on from them. Get it from `Conversation.log`."""

    def __init__(self, conversation: Conversation[M]) -> None:
        self._conversation = conversation
        self._lock = conversation._lock
        self._receipts = Receipts()
        self._followed: list[Record] = []  # the log whose first `_seen` records the receipts have taken in
        self._seen = 0

    @property
    def config(self) -> ConfigRecord:
        """The settings in force, as a record."""
        return self._conversation.settings.record(self._conversation._history.engine.overhead)

    @_with_lock
    def records(self, first: int = 0) -> list[Record]:
        """Return what has happened as records: another conversation can `follow` them.

        Args:
            first: number of records to leave out, because they were saved before. After a fork they begin anew.

        Raises:
            ConfigError: if messages of the format cannot be written as JSON.
        """
        return records_of(self._conversation._history, first)

    @_with_lock
    def sent(self, body: bytes, url: str = "") -> None:
        """Record a request that is about to be sent, so that the journal can prove what the model saw.

        Args:
            body: the exact bytes of its body, as an event hook of your HTTP client sees them.
            url: its address; leave out a query, which may hold a key.

        Raises:
            ConfigError: if messages of the format cannot be written as JSON.
        """
        log = self._conversation._history.log
        if log is not self._followed:  # after a fork the records begin anew
            self._receipts = Receipts()
            self._followed = log
            self._seen = 0
        self._receipts.follow(records_of(self._conversation._history, self._seen))
        self._seen = len(log)
        log.append(self._receipts.of(body, url))

    @_with_lock
    def follow(self, records: Iterable[Record]) -> None:
        """Go on from the records of a session, such as a journal's, as if the session had never ended (R14).

        No pass runs, nothing is inferred again, and there are no events. What another strategy did is not repeated.
        After that the conversation's own settings are in force. Call it once, on a new conversation.

        Args:
            records: the records, in order (`wane.journal`), with messages of the conversation's format.

        Raises:
            ConfigError: if messages of the format cannot be read from JSON.
            FormatError: if a message is not in the format.
            JournalError: if the records contradict each other; the error names the line. Do not use the conversation
                after that.
        """
        conversation = self._conversation

        def note(message: Prepared[M], paired: Prepared[M] | None, items: Sequence[Taken]) -> None:
            conversation._appended.append(Appended(message, left_out=paired is None))
            if paired is None:
                return
            conversation._waiting.forget_answered(paired.parts)
            conversation._note_own_calls(paired, conversation._note_verdicts(paired, [item.added for item in items]))

        for _ in follow_records(conversation._history, records, note):
            pass
        conversation._history.apply_context()


def _check_numbers(**values: object) -> None:
    """Refuse values that are neither a number nor None.

    Raises:
        ConfigError: for such a value; the error gives its name.
    """
    for name, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        if value is not None and not is_number:
            raise ConfigError(f"{name} is {value!r:.60}; it must be a number")
