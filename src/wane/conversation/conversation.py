"""One conversation kept within a budget: messages in, requests out. Sans I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Generic, Unpack

from wane.budgets import AutoBudget
from wane.conversation.alignment import Adapter, Aligner, ByMessage
from wane.conversation.calls import Call
from wane.conversation.common import Common, serialised
from wane.conversation.context import ContextArguments, ContextSettings
from wane.conversation.events import Listener
from wane.conversation.hosted import Host
from wane.conversation.recorded import Log
from wane.conversation.request import RECALL_ALONE, Request, Tool
from wane.conversation.scopes import OpenEpisode, stamped
from wane.conversation.state import export_conversation, restore_conversation
from wane.conversation.thrashing import Thrashing
from wane.conversation.timeline import Setup
from wane.core import ContextWindow, Episode, Room, exact_budget
from wane.core.errors import ConfigError, HistoryError
from wane.core.guidance import guidance
from wane.formats import get_format
from wane.formats.base import Format, writing
from wane.formats.endings import Ending, check_reason, stop_reason
from wane.formats.usage import request_tokens
from wane.refusals import TOO_LONG, fitting_budget, message_of
from wane.strategies.base import SummaryNeeded, traits
from wane.strategies.fold import FOLDING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    M = TypeVar("M", default=dict[str, Any])
else:
    from typing import TypeVar

    M = TypeVar("M")


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
        adapter: Adapter[M] | None = None,
        aligner: Callable[[], Aligner[M]] | None = None,
        on_event: Listener | None = None,
        settings: ContextSettings | None = None,
        **others: Unpack[ContextArguments],
    ) -> None:
        context = ContextSettings.of(settings, budget=budget, **others)
        if on_event is not None and not callable(on_event):
            raise ConfigError(f"on_event is {on_event!r}; it must be a function that takes an event, or None")
        chosen = get_format(format) if isinstance(format, str) else format
        setup = Setup(chosen, adapter or Adapter(), context, [])
        listeners = [] if on_event is None else [on_event]
        self.keep_opening = keep_opening
        self._attach(Common(setup, aligner or (lambda: ByMessage(setup.format, setup.adapter)), listeners))

    def _attach(self, common: Common[M]) -> None:
        self._common = common
        self.format = common.format
        self.listeners = common.listeners
        self.host = Host(common)
        self.log = Log(common)

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
        return self._common.settings

    @serialised
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
        self._common.change(ContextSettings.of(self.settings, budget=budget, **others))

    @property
    def auto_budget(self) -> AutoBudget | None:
        """The budget that was chosen for `budget="auto"`, with its reason; None before the first request."""
        return self._common.setup.chosen

    @property
    def own_tools(self) -> tuple[Tool, ...]:
        """The tools whose calls the conversation answers."""
        return self._common.own_tools

    @property
    def tools(self) -> list[Any]:
        """Definitions of its tools in the provider's form; send them with every request, besides the host's tools.

        Raises:
            ConfigError: for a format that writes no tools; see `own_tools`.
        """
        if not self.own_tools:
            return []
        format_ = writing(self.format, "a tool")
        return [format_.tool(tool.name, tool.description, tool.schema) for tool in self.own_tools]

    @property
    def instructions(self) -> str:
        """Text about these tools for the system prompt; empty if there are none."""
        settings = self.settings
        if not self.own_tools:
            return ""
        if not settings.delimits:
            return RECALL_ALONE
        leaving = FOLDING if settings.strategy == "fold" else None
        return guidance(settings.eviction, recall=settings.recall, leaving=leaving, tasks=settings.tasks)

    # Messages in

    @property
    @serialised
    def messages(self) -> list[M]:
        """The whole history, evicted or not."""
        self._common.answer_own()
        return list(self._common.line.transcript.messages)

    @property
    def length(self) -> int:
        """Number of messages in the history."""
        return len(self._common.line.transcript.messages)

    @property
    def ended(self) -> bool:
        """Whether the model's turn is over: no call of its last answer is open, whether or not it said anything.

        Calls that the provider ran do not count. It is false behind an answer that the provider wants back to go on
        with, such as one that stopped with `pause_turn`: append the whole answer, so that its stop reason is known.
        """
        return self._common.line.history.ended

    @property
    @serialised
    def calls(self) -> list[Call[M]]:
        """The calls of the history that the host must run and that have no result yet, in order."""
        return self._common.open_calls()

    @serialised
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
        first, history = self.length, self._common.line.history
        entries = message if isinstance(message, (list, tuple)) else [message]
        reason, ending = stop_reason(message if len(entries) != 1 else entries[0])
        if ending is Ending.VOID:
            check_reason(reason, ending, empty=self._common.is_empty(entries))
        tokens = request_tokens(entries[0], input_tokens or 0) if len(entries) == 1 else input_tokens or 0
        self._common.append(entries, None, tokens, at)
        if not message and self.asked:
            history.ended = True  # an answer without items
        if ending is Ending.CONTINUES:
            history.ended = False
        return self._common.open_calls(first)

    @serialised
    def extend(self, messages: Sequence[Any]) -> list[Call[M]]:
        """Take in several messages, such as a saved history, as if they were appended one by one.

        Returns:
            All calls that the host must run and that have no result yet.

        Raises:
            FormatError: for a message of another format or with unknown content; the error gives its number, and
                nothing is changed.
            HistoryError: for a message that no provider would accept there, likewise.
        """
        self._common.append(messages, 0)
        return self.calls

    @serialised
    def branch(self, count: int | None = None) -> Conversation[M]:
        """Return a new conversation with the first messages of this one, and the evictions made for them.

        Args:
            count: number of messages; None for all.

        Raises:
            ConfigError: for a number of messages that this conversation does not have.
        """
        self._common.answer_own()
        number: object = count
        if number is not None and not (isinstance(number, int) and 0 <= number <= self.length):
            raise ConfigError(
                f"a branch cannot have {number!r} messages; give a number from 0 to {self.length}, or None for all"
            )
        branch = copy(self)
        branch._attach(self._common.branched(count))
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
        common = self._common
        if common.line.engine.host is None:
            raise ConfigError(
                f"annotate is {self.settings.annotate!r}: the program opens no episodes. Use annotate='host'"
            )
        return OpenEpisode(common.owner, name, type, dependencies, common.check_scope, common.describe)

    # Requests out

    @property
    def window(self) -> ContextWindow:
        """The window: episodes, view, and what holds tokens. Read-only."""
        return self._common.line.engine.window

    @property
    def tokens(self) -> int:
        """Tokens of the next request if nothing is evicted."""
        return self._common.line.engine.tokens_with(self.overhead)

    @property
    def room(self) -> Room | None:
        """The room that the budget leaves for the work; None if no budget is kept."""
        engine = self._common.line.engine
        room = engine.room
        if room is None or not self.settings.manage:
            return None
        # The overhead may have changed since the last request.
        return replace(room, system=room.system + self.tokens - engine.tokens)

    @property
    def thrashing(self) -> Thrashing | None:
        """The signs that the window evicts what the work needs; None if there are none, or no budget is kept."""
        return self._common.line.engine.thrashing if self.settings.manage else None

    @property
    def overhead(self) -> int:
        """Tokens that every request carries besides its messages: the system prompt, tool definitions."""
        return self._common.line.overhead

    @overhead.setter
    def overhead(self, overhead: int | str) -> None:
        tokens: object = self.settings.counter(overhead) if isinstance(overhead, str) else overhead
        if not isinstance(tokens, int) or tokens < 0:
            raise ConfigError(f"overhead is {overhead!r}; it must be a number of tokens, at least 0, or text to count")
        self._common.line.host_overhead = tokens

    @property
    def asked(self) -> bool:
        """Whether a request was made with the present history, so that an answer may be on its way."""
        return self._common.line.shown is not None

    @serialised
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
        self._common.answer_own()
        self._common.asked_in = self._common.here()
        if not self._common.hosted and (calls := self.calls):
            waiting = ", ".join(f"{call.name} ({call.id})" for call in calls)
            raise HistoryError(f"calls without a result: {waiting}. Append `call.result(output)` for each first")
        self._common.verdicts.dropped()
        line = self._common.line
        if at is not None:
            line.asked_at = at
        outcome = line.request(cold=cold)
        self._common.tell()
        if isinstance(outcome, SummaryNeeded):
            format_ = writing(self.format, f"the strategy {self.settings.strategy!r}")
            view, numbers = line.view.read(outcome.view)
            messages = self.host.wire(view, outcome.instructions)
            view.append(format_.turn(outcome.instructions))
            numbers.append(None)
            return Request(messages, view, numbers, self.tokens, number=line.requests, for_summary=True)
        view, numbers = line.view.of(outcome.view, keep_opening=self.keep_opening)
        return Request(
            self.host.wire(view, outcome.reminder),
            view,
            numbers,
            outcome.tokens + line.engine.added_by(outcome.reminder),
            outcome.report,
            outcome.reminder,
            line.requests,
        )

    @serialised
    def summarised(self, text: str) -> Request[M]:
        """Take in the summary that a request asked for, and return the next request, which may ask for another one.

        Raises:
            HistoryError: if no request has asked for one.
        """
        self._common.line.summarised(text)
        return self.request()

    @serialised
    def observe(self, input_tokens: int, *, request: Request[M] | None = None) -> None:
        """Take in the provider's count of a request's tokens, including cached ones; later counts build on it.

        Args:
            input_tokens: all its input tokens; 0 or less is ignored.
            request: the request; None for the latest. A report of an earlier one is ignored.

        Raises:
            ConfigError: for tokens that are not a number.
        """
        _check_numbers(input_tokens=input_tokens)
        if request is None or request.number == self._common.line.requests:
            self._common.line.observe(input_tokens or 0)
            self._common.tell()

    @serialised
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
    @serialised
    def view(self) -> list[M]:
        """The messages of the next request if nothing more is evicted."""
        return self._common.line.view.read(self._common.line.engine.view)[0]

    @property
    def episodes(self) -> Sequence[Episode]:
        """All episodes and tasks so far, including removed ones, in order of start."""
        return self._common.line.engine.episodes

    @property
    def evicted(self) -> int:
        """Tokens of the history that are not in view."""
        return self._common.line.engine.evicted

    @serialised
    def recall(self, name: str, offset: int = 0) -> str:
        """Return a page of an episode's exact content, evicted or not; of a task, what came of it and what it holds.

        Args:
            name: name of the episode or task.
            offset: first character of the page.

        Raises:
            UnknownEpisodeError: if no episode of that name was started.
        """
        return self._common.line.archive.read(name, offset)

    @serialised
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
        return self._common.line.archive.find(pattern, offset)

    # State

    @serialised
    def state(self) -> dict[str, Any]:
        """Return what `restore` needs besides the history, as JSON data.

        Its size depends only on the view, not on what has left it. If the strategy does not evict by episode, the size
        is less than 1 KB, plus summaries and the places of texts that replace items.
        """
        self._common.answer_own()
        state = export_conversation(self._common.line, self._common.digest, self._common.verdicts)
        if self.host.stamp is not None:
            # An answer that comes only with the next request may come to another process.
            state["asked_in"] = self.host.stamp
        history = self._common.line.history
        state["continues"] = history.answered_last and not history.ended and not history.engine.window.open_calls
        return state

    @serialised
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
        restored = restore_conversation(self._common.setup, state, history)
        if restored is None:
            return False
        line, digest, verdicts, messages = restored
        self._common.begin(line)
        self._common.known.extend(messages)
        self._common.digest = digest
        self._common.verdicts = verdicts
        self._common.asked_in = stamped(state.get("asked_in")) or ()
        if state.get("continues"):  # by its stop reason, which no message has
            line.history.ended = False
        return True


def _check_numbers(**values: object) -> None:
    """Refuse values that are neither a number nor None.

    Raises:
        ConfigError: for such a value; the error gives its name.
    """
    for name, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        if value is not None and not is_number:
            raise ConfigError(f"{name} is {value!r:.60}; it must be a number")
