"""One conversation kept within a budget: messages in, requests out. Sans I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any, Unpack

from wane.conversation import past
from wane.conversation.calls import Call, Verdicts, WaitingCalls, still_open
from wane.conversation.context import ContextArguments, ContextSettings
from wane.conversation.events import HistoryForked, HistoryReplaced, Listener
from wane.conversation.history import Taken
from wane.conversation.host import Adapter, Aligner, ByMessage, Change, HostHistory
from wane.conversation.request import Request
from wane.conversation.settings import ConversationSettings, serialised
from wane.conversation.state import Digest, export_conversation, restore_conversation
from wane.conversation.thrashing import Thrashing
from wane.conversation.timeline import Prepared, Setup, Timeline
from wane.core import DELIMITER, Added, ContextWindow, Kind, Room
from wane.core.errors import ConfigError, HistoryError
from wane.formats import get_format
from wane.formats.base import Format, NativeFormat
from wane.formats.writing import writes, writing
from wane.journal.records import Record
from wane.recall import RECALL, answer
from wane.strategies.base import SummaryNeeded

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    M = TypeVar("M", default=dict[str, Any])
else:
    from typing import TypeVar

    M = TypeVar("M")


class Conversation(ConversationSettings[M]):
    """One conversation, kept within a budget. A sub-agent has one of its own.

        conversation = wane.Conversation(budget="80k")
        conversation.append({"role": "user", "content": task})
        while not conversation.ended:
            request = conversation.request()
            tools = [*conversation.tools, *mine]
            reply = client.chat.completions.create(model=…, messages=request.messages, tools=tools)
            for call in conversation.append(reply, input_tokens=reply.usage.prompt_tokens):
                conversation.append(call.result(run(call.name, call.arguments)))

    The history is append-only, and requests are a part of it. Give each message to `append`, or the whole history to
    `ingest` if a framework keeps it. A conversation does nothing by itself: no request, no file, no clock.

    Args:
        format: name of the messages' format (`wane.formats.FORMAT_NAMES`), or a format of your own.
        budget: tokens that the view may hold: a number, or text such as `"80k"`, the default.
        keep_opening: whether the model's current turn must begin with its own reasoning, as Anthropic demands if
            thinking has a budget (`thinking.type` is `enabled`); may be changed later.
        adapter: reads what a framework's messages say about themselves: ids, usage, times.
        aligner: makes the comparison of histories given to `ingest`; None to compare message by message.
        on_event: a first listener.
        settings: how the context is managed, in place of the defaults.
        others: single settings of `ContextSettings` by name, such as `strategy`, `policy`, `annotate` or `recall`.

    Attributes:
        keep_opening: see above.
        listeners: called with each event, in order, after it has happened.

    Threads may share it: a call waits until another thread's has ended. But a history has one order, so let one loop
    append, and give loops that run at once a conversation each (`branch`).

    Raises:
        ConfigError: for a setting that cannot work.
        FormatError: for an unknown format.
        MissingExtraError: for a format, a counter or a strategy whose extra is not installed.
        CounterError: for a counter that cannot work here.
    """

    _host: HostHistory[M]
    _verdicts: Verdicts
    _digest: Digest[M]
    _waiting: WaitingCalls[M]
    listeners: list[Listener]

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
        self._lock = RLock()
        self._hosted = False  # whether a framework keeps the history
        self.format = get_format(format) if isinstance(format, str) else format
        self.keep_opening = keep_opening
        self._recalls = context.recall
        self.listeners = [] if on_event is None else [on_event]
        self._setup: Setup[M] = Setup(self.format, Adapter() if adapter is None else adapter, context, [])
        self._new_aligner = aligner or (lambda: ByMessage(self._setup.format, self._setup.adapter))
        self._begin(Timeline(self._setup))

    def __repr__(self) -> str:
        active = self.window.active
        inside = "" if active is None else f", in episode {active.name!r}"
        return (
            f"<Conversation: format {self.format.name}, strategy {self.strategy}, "
            f"{self.length:,} messages, {self.tokens:,} of {self.budget:,} tokens{inside}>"
        )

    # Messages in

    @property
    @serialised
    def messages(self) -> list[M]:
        """The whole history, evicted or not."""
        self._answer_own()
        return list(self._line.transcript.messages)

    @property
    def length(self) -> int:
        """Number of messages in the history."""
        return len(self._line.transcript.messages)

    @property
    def ended(self) -> bool:
        """Whether the model's turn is over: its last answer called no tool, whether or not it said anything."""
        return self._line.history.ended

    @property
    @serialised
    def calls(self) -> list[Call[M]]:
        """The calls of the history that the host must run and that have no result yet, in order."""
        return self._open()

    def read(self, data: Sequence[Any]) -> Sequence[M]:
        """Return the messages of what a host holds, which for `openai_responses` may be a flat list of items."""
        return self._setup.read(data)

    @serialised
    def append(self, message: M | Sequence[Any], *, input_tokens: int = 0, at: float | None = None) -> list[Call[M]]:
        """Take in the next message of the history.

        The conversation answers calls of its own tools: their results enter the history before the next request, or
        before the next message that is not a result. If the host appends such a result itself, that one is used.

        Args:
            message: the message or, for `openai_responses`, an item, or the list of items of an answer. It may be an
                object of the provider's SDK, also that of a whole answer.
            input_tokens: tokens of the request that it answers, including cached ones, as the provider reported.
            at: time of the message in seconds, to know when the provider's cache has expired.

        Returns:
            Its calls that the host must run, in order. Append `call.result(output)` for each.

        Raises:
            FormatError: for a message of another format, and for content that the format does not know. Nothing is
                changed then: a list is taken in whole or not at all.
            HistoryError: for a message that the provider would not accept here, such as a result without its call, or a
                turn of the user before a call's result. Nothing is changed then either.
        """
        first = self.length
        self._append_all(message if isinstance(message, (list, tuple)) else [message], None, input_tokens, at)
        if not message and self.asked:
            self._line.history.ended = True  # an answer without items
        return self._open(first)

    @serialised
    def extend(self, messages: Sequence[Any]) -> list[Call[M]]:
        """Take in several messages, such as a saved history: the same as appending them one by one.

        Returns:
            All calls that the host must run and that have no result yet.

        Raises:
            FormatError: for a message of another format or with unknown content, by its number; none is taken in then.
            HistoryError: for a message that no provider would accept there, likewise.
        """
        self._append_all(messages, 0)
        return self.calls

    @serialised
    def ingest(self, history: Sequence[Any]) -> Change:
        """Take in what is new in a whole history that a framework keeps.

        The history may continue the known one, or continue from an earlier message of it (a fork, a changed message):
        evictions up to there persist. Or it may be another history. The conversation does not answer its own calls
        here: the framework runs the tools, and they call `answer`.

        Raises:
            FormatError: for a message of another format; nothing is changed then.
            HistoryError: for a message that no provider would accept; nothing is changed then.
        """
        messages = self.read(history)
        self._hosted = True
        alignment = self._host.align(messages)
        length, shared, fresh = self.length, self._host.taken(alignment.kept), alignment.fresh
        line = self._line
        if shared < length:
            line, shared = past.back_to(line, shared, self._setup)
            fresh = fresh if shared else messages
        prepared = line.prepare(fresh, check=True, first=len(messages) - len(fresh))
        for number, message in self._host.renewed(alignment):
            if number < shared:
                line.renew(number, message)
        self._host.accept(messages, alignment, prepared)
        if line is not self._line:
            self._line = line
            self._waiting = WaitingCalls(self.format)
            self._digest.forget()
            self._setup.events.append(HistoryForked(shared) if shared else HistoryReplaced())
        for ready in prepared:
            if ready is not None:
                self._take(ready)
        self._tell()
        return Change(shared, length - shared, len(fresh))

    @serialised
    def shares(self, history: Sequence[Any]) -> int:
        """Return how many first messages a history shares with this one; 0 if no answer is among them."""
        shared = self._host.taken(self._host.align(self.read(history)).kept)
        return shared if past.answer_within(self._line, shared) else 0

    @serialised
    def branch(self, count: int | None = None) -> Conversation[M]:
        """Return a new conversation with the first messages of this one, and with the evictions made for them.

        Args:
            count: number of messages; None for all.

        Raises:
            ConfigError: for a negative number.
        """
        if count is not None and count < 0:
            raise ConfigError(f"a branch cannot have {count} messages; give a number of at least 0, or None for all")
        self._answer_own()
        branch = copy(self)
        branch._lock = RLock()
        branch.listeners = [*self.listeners]
        branch._setup = replace(self._setup, events=[])
        count = self.length if count is None else count
        line, shared = past.back_to(self._line, count, branch._setup)
        branch._begin(line)
        branch._host.extend(line.transcript.messages)
        branch.extend(self._line.transcript.messages[shared:count])
        branch._answer_as(self._line.transcript.messages[count:])
        return branch

    # Requests out

    @property
    def window(self) -> ContextWindow:
        """The window: episodes, view, and what holds tokens. Read-only."""
        return self._line.engine.window

    @property
    def tokens(self) -> int:
        """Tokens of the next request if nothing is evicted."""
        return self._line.engine.tokens_with(self.overhead)

    @property
    def room(self) -> Room | None:
        """The room that the budget leaves for the work; None if no budget is kept."""
        engine = self._line.engine
        room = engine.room if self.manage else None
        # The overhead may have changed since the last request.
        return None if room is None else replace(room, system=room.system + self.tokens - engine.tokens)

    @property
    def thrashing(self) -> Thrashing | None:
        """What shows that the window evicts what the work needs; None if nothing does, or no budget is kept."""
        return self._line.engine.thrashing if self.manage else None

    @property
    def overhead(self) -> int:
        """Tokens that every request carries besides its messages: the system prompt, tool definitions."""
        return self._line.overhead

    @overhead.setter
    def overhead(self, overhead: int | str) -> None:
        tokens: object = self._setup.settings.counter(overhead) if isinstance(overhead, str) else overhead
        if not isinstance(tokens, int) or tokens < 0:
            raise ConfigError(f"overhead is {overhead!r}; it must be a number of tokens, at least 0, or text to count")
        self._line.host_overhead = tokens

    @property
    def asked(self) -> bool:
        """Whether a request was made of the present history, so that its answer may be awaited."""
        return self._line.shown is not None

    @serialised
    def request(self, *, at: float | None = None, cold: bool | None = None) -> Request[M]:
        """Run a pass if one is due, and return what to send next. A second call before a new message changes nothing.

        Args:
            at: time of the request in seconds, to know whether the provider's cache has expired.
            cold: whether it has expired, if the host knows; None to go by the times.

        Returns:
            The request. With a strategy that needs a summary, it may ask for that first (`Request.for_summary`).

        Raises:
            HistoryError: if a call has no result yet, unless a framework keeps the history (`ingest`): providers refuse
                such a request.
        """
        self._answer_own()
        if not self._hosted and (calls := self.calls):
            waiting = ", ".join(f"{call.name} ({call.id})" for call in calls)
            raise HistoryError(f"calls without a result: {waiting}. Append `call.result(output)` for each first")
        self._verdicts.dropped()
        line = self._line
        line.asked = line.asked if at is None else at
        outcome = line.request(cold=cold)
        self._tell()
        if isinstance(outcome, SummaryNeeded):
            format_ = writing(self.format, f"the strategy {self.strategy!r}")
            view, numbers = line.view.read(outcome.view)
            view.append(format_.turn(outcome.instructions))
            numbers.append(None)
            return Request(format_.wire(view), view, numbers, self.tokens, number=line.requests, for_summary=True)
        view, numbers = line.view.of(outcome.view, keep_opening=self.keep_opening)
        return Request(
            self._wire(view, outcome.reminder),
            view,
            numbers,
            outcome.tokens + line.engine.added_by(outcome.reminder),
            outcome.report,
            outcome.reminder,
            line.requests,
        )

    @serialised
    def summarised(self, text: str) -> Request[M]:
        """Take in the summary that a request asked for, and return what to send next; it may ask for another one.

        Raises:
            HistoryError: if no request has asked for one.
        """
        self._line.summarised(text)
        return self.request()

    @serialised
    def observe(self, input_tokens: int, *, request: Request[M] | None = None) -> None:
        """Take in the provider's count of a request's tokens, including cached ones; later counts build on it.

        Args:
            input_tokens: all its input tokens; 0 or less is ignored.
            request: the request; None for the latest. A report of an earlier one is ignored.
        """
        if request is None or request.number == self._line.requests:
            self._line.observe(input_tokens)
            self._tell()

    # Recorded histories

    @serialised
    def records(self, first: int = 0) -> list[Record]:
        """Return what has happened as records, for a journal: another conversation can `follow` them.

        Args:
            first: number of records to leave out, because they were kept before. After a fork they begin anew.

        Raises:
            ConfigError: if messages of the format cannot be written as JSON.
        """
        return past.records(self._line, first)

    @serialised
    def follow(self, records: Iterable[Record]) -> None:
        """Go on from the records of a session, such as a journal's, as if it had never ended (R14).

        No pass runs, nothing is inferred again, and there are no events. What another strategy did is not repeated.
        From then on this conversation's own settings are in force. Call it once, on a new conversation.

        Args:
            records: the records, in order (`wane.journal`), with messages of this conversation's format.

        Raises:
            ConfigError: if messages of the format cannot be read from JSON.
            FormatError: if a message is not in the format.
            JournalError: if the records contradict each other; the error names the line. Do not use the conversation
                after that.
        """

        def note(message: M, prepared: Prepared[M] | None, items: Sequence[Taken]) -> None:
            self._host.extend([message], left_out=prepared is None)
            if prepared is not None:
                self._judged(prepared, [item.added for item in items])

        for _ in past.follow(self._line, records, note):
            pass
        self._line.configure()

    # Own calls, if a framework runs the tools

    @serialised
    def made(self, call: Call[Any]) -> bool:
        """Whether a call belongs to the latest answer, foreseen or in the history, by its id."""
        return call.id is not None and (self._verdicts.knows(call.id) or call.id in self.window.open_calls)

    @serialised
    def foresee(self, calls: Sequence[Call[Any]]) -> None:
        """Judge the own calls of an answer that is not in the history yet, as they will be judged there.

        Args:
            calls: all calls of the answer, in order: `Call(name, arguments, id)`. It may come in several parts.
        """

        def judge(arguments: Sequence[str]) -> list[str]:
            return [verdict.answer(recall=self._recalls) for verdict in self.window.foresee(arguments)]

        self._verdicts.foresee(calls, judge)

    @serialised
    def answer(self, call: Call[Any]) -> str:
        """Return the result of an own call of the latest answer, foreseen or in the history. A bad call raises nothing.

        The verdict on a `delimiter` call is found by the call's id; without an id, by its arguments, or else as the
        next one in order. The last two give each verdict only once, also across threads.

        Args:
            call: its name, its arguments as text or as the framework parsed them, and its id if it is known.
        """
        if call.name == RECALL:
            return answer(call.raw, self._line.archive)
        if call.name != DELIMITER:
            return f"Error: {call.name!r} is not a tool of this conversation; whoever offers it must run it."
        return self._verdicts.find(call)

    # State

    @serialised
    def digests(self, history: Sequence[Any]) -> list[str]:
        """Return the digests (`state()["digest"]`) of the parts of a history that begins as this one.

        Args:
            history: the history.

        Returns:
            One digest for each message after the known ones, the longest part of the history first.
        """
        messages, length = self.read(history), self.length
        self._digest.of(self._line.transcript.messages, length)  # once for all that is known
        digest = copy(self._digest)
        return [digest.of(messages, count) for count in range(length + 1, len(messages) + 1)][::-1]

    @serialised
    def state(self) -> dict[str, Any]:
        """Return what `restore` needs besides the history, as JSON data.

        Its size depends on the view, whatever has left it. If the strategy does not evict by episode, the size is less
        than 1 KB, besides summaries and the places of texts that replace items.
        """
        self._answer_own()
        return export_conversation(self._line, self._digest, self._verdicts)

    @serialised
    def restore(self, state: Mapping[str, Any], history: Sequence[Any]) -> bool:
        """Continue another conversation, of this process or another, with the settings of this one.

        Args:
            state: what its `state` returned.
            history: at least the messages that it had taken in by then. Pass the history to `ingest` next.

        Returns:
            Whether the state could be restored. If not, because it fits another history, nothing is changed.

        Raises:
            FormatError: for a message of another format.
            HistoryError: for data that are no state, are damaged, or have another version.
        """
        restored = restore_conversation(self._setup, state, history)
        if restored is None:
            return False
        line, digest, verdicts, messages = restored
        self._begin(line)
        self._host.extend(messages)
        self._digest, self._verdicts = digest, verdicts
        return True

    # Internals

    def _tell(self) -> None:
        """Tell the listeners what happened. If one fails, the next call repeats that event, for all of them."""
        events = self._setup.events
        while events:
            for listener in self.listeners:
                listener(events[0])
            del events[0]

    def _begin(self, line: Timeline[M]) -> None:
        self._line = line
        self._host = HostHistory(self._new_aligner())
        self._verdicts = Verdicts()
        self._digest = Digest(self.format, self._setup.adapter)
        self._waiting = WaitingCalls(self.format)

    def _wire(self, view: list[M], reminder: str | None) -> list[Any]:
        format_ = self.format
        if not writes(format_):
            return list(view)
        return format_.wire(view if reminder is None else [*view, format_.turn(reminder)])

    def _open(self, first: int = 0) -> list[Call[M]]:
        """The host's calls without a result, from a message on."""
        own, waiting = self._own_names(), self._waiting.ids
        calls = still_open(self.format, self._line.transcript.messages, self.window.open_calls, first)
        return [call for call in calls if call.name not in own and call.id not in waiting]

    def _own_names(self) -> set[str]:
        return {tool.name for tool in self.own_tools}

    def _append_all(self, data: Sequence[Any], first: int | None, tokens: int = 0, at: float | None = None) -> None:
        messages, own = self._answering(self.read(data)), self._own_names()
        # All are checked before anything changes.
        prepared = self._line.prepare(
            messages, own=own, waiting=self._waiting.ids, check=True, following=True, first=first
        )
        try:
            for message, ready in zip(messages, prepared, strict=True):
                if ready is None:
                    self._host.extend([message], left_out=True)
                else:
                    self._append(message, ready, own, tokens, at)
        finally:
            self._tell()

    def _answering(self, messages: Sequence[M]) -> list[M]:
        """The next messages, with results that name their calls."""
        if not isinstance(self.format, NativeFormat) or not self.window.open_calls:
            return [*messages]
        calls = still_open(self.format, self._line.transcript.messages, self.window.open_calls)
        return [*self.format.answering(messages, [(call.id, call.name) for call in calls])]

    def _append(self, message: M, prepared: Prepared[M], own: set[str], tokens: int, at: float | None) -> None:
        self._waiting.answered(prepared.parts)
        if any(part.kind is not Kind.RESULT for part in prepared.parts):
            self._answer_own()
        self._host.extend([message])
        texts = self._take(prepared, tokens, at)
        if prepared.answers:
            self._waiting.note(prepared.message, prepared.parts, texts, self.window.open_calls, own)

    def _answer_as(self, later: Sequence[M]) -> None:
        """Give own calls without a result the results that they have in later messages."""
        own = self._own_names()
        calls = still_open(self.format, self._line.transcript.messages, self.window.open_calls)
        if own_calls := [call for call in calls if call.name in own]:
            parts = (part for message in later for part in self.format.parts(message))
            self._waiting.take_over(own_calls, [part for part in parts if part.kind is Kind.RESULT])

    def _answer_own(self) -> None:
        """Append the results of own calls that have none."""
        for call, verdict in self._waiting.own(self.window.open_calls):
            message = call.result(verdict or answer(call.raw, self._line.archive))
            (prepared,) = self._line.prepare([message])
            assert prepared is not None
            self._host.extend([message])
            self._take(prepared)

    def _take(self, prepared: Prepared[M], tokens: int = 0, at: float | None = None) -> list[str | None]:
        return self._judged(prepared, self._line.take(prepared, tokens=tokens, at=at))

    def _judged(self, prepared: Prepared[M], added: Sequence[Added]) -> list[str | None]:
        """Note the verdicts on the calls of a message that was taken in; return their texts, by part."""
        texts = [None if outcome.verdict is None else outcome.verdict.answer(recall=self._recalls) for outcome in added]
        if prepared.answers:
            self._verdicts.taken(prepared.parts, texts, self.window.open_calls)
        return texts
