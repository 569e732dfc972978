"""The state that the fronts of a conversation share: its timeline, its host's history, and its own calls.

This module also goes back in a timeline for a fork, and switches to another strategy. What left the view at a request
leaves it again, whatever the settings are now (R14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from wane.conversation.alignment import Aligner, HostHistory
from wane.conversation.calls import Call, Verdicts, WaitingCalls, still_open
from wane.conversation.context import ContextSettings
from wane.conversation.events import Listener
from wane.conversation.request import DELIMITER_TOOL, RECALL_TOOL, TASKS_TOOL, Tool
from wane.conversation.scopes import live, path
from wane.conversation.state import Digest
from wane.conversation.timeline import Prepared, Setup, Timeline
from wane.core import Added, ContextWindow, EpisodeType, Kind
from wane.core.errors import HistoryError
from wane.formats.base import Format, MessageT, NativeFormat, writing
from wane.formats.notices import is_persons, stated_in
from wane.journal.records import MessageRecord, Record, UsageRecord
from wane.recall import answer
from wane.strategies.host import CLOSING, OPENING, Scope

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Front(Protocol):
    """A front of a conversation."""

    _common: Common[Any]


_F = TypeVar("_F", bound=Front)


def serialised(method: Callable[Concatenate[_F, _P], _R]) -> Callable[Concatenate[_F, _P], _R]:
    """Make the calls of a front's methods wait for each other across threads."""

    @wraps(method)
    def call(self: _F, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._common.lock:
            return method(self, *args, **kwargs)

    return call


class Common(Generic[MessageT]):
    """The state that the fronts of a conversation share.

    Args:
        setup: its settings, format and adapter.
        new_aligner: makes an aligner for the host's histories.
        listeners: called with each event.

    Attributes:
        lock: serialises calls.
        line: the history with its messages and requests.
        known: the host's history as it was last given.
        verdicts: results of `delimiter` calls.
        digest: digest of the messages.
        waiting: own calls that wait for their results.
        hosted: whether a framework keeps the history.
        owner: the object whose scopes concern the conversation (`wane.conversation.scopes`); branches share it.
        worker: the scope of the agent that asks the model, if it has one.
        asked_in: the scopes in which the latest request was made.
    """

    def __init__(
        self, setup: Setup[MessageT], new_aligner: Callable[[], Aligner[MessageT]], listeners: Sequence[Listener]
    ) -> None:
        self.lock = RLock()
        self.setup = setup
        self.listeners = [*listeners]
        self.hosted = False
        self.owner: object = object()
        self.worker: Scope | None = None
        self.asked_in: tuple[Scope, ...] = ()
        self._new_aligner = new_aligner
        self.begin(Timeline(setup))

    def begin(self, line: Timeline[MessageT]) -> None:
        """Go on with a timeline, and forget everything about another one."""
        self.line = line
        self.known = HostHistory(self._new_aligner())
        self.verdicts = Verdicts()
        self.digest = Digest(self.format, self.setup.adapter)
        self.waiting = WaitingCalls(self.format)

    # State

    @property
    def format(self) -> Format[MessageT]:
        """The messages' format."""
        return self.setup.format

    @property
    def settings(self) -> ContextSettings:
        """How the context is managed."""
        return self.setup.settings

    @property
    def window(self) -> ContextWindow:
        """The window, under every strategy."""
        return self.line.engine.window

    @property
    def own_tools(self) -> tuple[Tool, ...]:
        """The tools whose calls the conversation answers."""
        settings = self.settings
        if not settings.manage:
            return ()
        tools: list[Tool] = []
        if settings.delimits:
            tools.append(TASKS_TOOL if settings.tasks else DELIMITER_TOOL)
        if settings.recall or settings.searches:
            tools.append(RECALL_TOOL)
        return tuple(tools)

    def open_calls(self, first: int = 0) -> list[Call[MessageT]]:
        """Return the host's calls without a result, from the message numbered `first` on."""
        own, waiting = self._own_names(), self.waiting.ids
        calls = still_open(self.format, self.line.transcript.messages, self.window.open_calls, first)
        return [call for call in calls if call.name not in own and call.id not in waiting]

    def tell(self) -> None:
        """Send the events to the listeners. If a listener fails, the next call sends that event again to all."""
        events = self.setup.events
        while events:
            for listener in self.listeners:
                listener(events[0])
            del events[0]

    # Changes

    def change(self, settings: ContextSettings) -> None:
        """Put other settings in force."""
        before = self.settings
        setup = replace(self.setup, settings=settings)
        after = setup.settings
        # A new index lists what left before, too.
        begins_index = after.policy.index_share and not before.policy.index_share
        if begins_index or after.strategy != before.strategy:
            self.line = under(self.line, setup)
        self.line.setup = self.setup = setup
        self.line.configure()

    def branched(self, count: int | None) -> Common[MessageT]:
        """Return the state of a new conversation with the first messages of this one; None for all."""
        branch = Common(replace(self.setup, events=[]), self._new_aligner, self.listeners)
        branch.hosted = self.hosted
        branch.owner = self.owner
        branch.asked_in = self.asked_in
        messages = self.line.transcript.messages
        count = len(messages) if count is None else count
        line, shared = back_to(self.line, count, branch.setup)
        branch.begin(line)
        branch.known.extend(line.transcript.messages)
        branch.append(messages[shared:count], 0)
        branch._answer_as(messages[count:])
        return branch

    # Messages

    def is_empty(self, data: Sequence[Any]) -> bool:
        """Whether a host's messages hold nothing."""
        return not any(map(self.format.parts, self.setup.read(data)))

    def append(self, data: Sequence[Any], first: int | None, tokens: int = 0, at: float | None = None) -> None:
        """Take in messages of the host; all are checked before anything changes.

        Args:
            data: the messages.
            first: the first one's number for errors; None if they need not say which message is meant.
            tokens: tokens of the request that they answer.
            at: their time.
        """
        messages, own = self._answering(self.setup.read(data)), self._own_names()
        prepared = self.line.prepare(
            messages, own=own, waiting=self.waiting.ids, check=True, following=True, first=first
        )
        try:
            for message, ready in zip(messages, prepared, strict=True):
                if ready is None:
                    self.known.extend([message], left_out=True)
                else:
                    self._append(message, ready, own, tokens, at)
        finally:
            self.tell()

    def here(self) -> tuple[Scope, ...]:
        """Return the scopes in which the program is now, if it marks episodes."""
        if self.line.engine.host is None:
            return ()
        scopes = path(self.owner)
        in_episode = scopes and scopes[-1].type is not EpisodeType.TASK
        if in_episode or self.worker is None:
            return scopes
        return (*scopes, self.worker)

    def take(self, prepared: Prepared[MessageT], tokens: int = 0, at: float | None = None) -> list[str | None]:
        """Take in a message, and return the verdicts on its calls, by part."""
        marker = self.line.engine.host
        if marker is not None:
            scopes = self.setup.adapter.scopes(prepared.message)
            marker.told = scopes is not None
            if scopes is None:
                # A framework gives an answer only with the next request, which may be made in another scope.
                scopes = self.asked_in if self.hosted and prepared.answers else self.here()
            marker.path = scopes
            marker.live = live()
        return self.judged(prepared, self.line.take(prepared, tokens=tokens, at=at))

    def judged(self, prepared: Prepared[MessageT], added: Sequence[Added]) -> list[str | None]:
        """Note the verdicts on the calls of a message that was taken in; return their texts, by part."""
        texts: list[str | None] = []
        for outcome in added:
            verdict = outcome.verdict
            texts.append(None if verdict is None else verdict.answer(recall=self.settings.recall))
        if prepared.answers:
            self.verdicts.taken(prepared.parts, texts, self.window.open_calls)
        return texts

    def answer_own(self) -> None:
        """Append the results of own calls that have none."""
        for call, verdict in self.waiting.own(self.window.open_calls):
            message = call.result(verdict or answer(call.raw, self.line.archive))
            (prepared,) = self.line.prepare([message])
            assert prepared is not None
            self.known.extend([message])
            self.take(prepared)

    # Scopes of the program

    def check_scope(self, scope: Scope) -> None:
        """Refuse a scope that cannot be opened now.

        Raises:
            HistoryError: for a name that was used, and for a dependency that is no exploration or has not ended.
        """
        marker = self.line.engine.host
        assert marker is not None
        if scope.name in marker.used or any(scope.name == other.name for other in path(self.owner)):
            raise HistoryError(f"the conversation has an episode {scope.name!r} already; give this one another name")
        explored = set(marker.explored)
        for episode in self.window.open_marks:
            # An episode closes only ahead of the model's next item, but has ended with its scope.
            if episode.type is EpisodeType.EXPL and marker.open_scope(str(episode.name)) not in live():
                explored.add(str(episode.name))
        for dependency in scope.dependencies:
            if dependency not in explored:
                raise HistoryError(
                    f"{scope.name!r} depends on {dependency!r}, which is no exploration of this conversation that has "
                    "ended"
                )

    def describe(self, scope: Scope, text: str) -> None:
        """Append a notice that holds the description of an open episode.

        Raises:
            HistoryError: outside its scope, before the model's first answer, and while a call has no result.
        """
        marker = self.line.engine.host
        assert marker is not None
        with self.lock:
            if self.here()[-1:] != (scope,) or self.window.latest < 0 or self.open_calls():
                raise HistoryError(
                    f"{scope.name!r} cannot be described now: do so in its own scope, when its calls have their results"
                )
            marker.describing = True
            self.append([writing(self.format, "a description").turn(_notice(scope.name, text))], None)

    # Internals

    def _answering(self, messages: Sequence[MessageT]) -> list[MessageT]:
        """Return the messages as the format writes them after the open calls: results that name their calls."""
        if not isinstance(self.format, NativeFormat) or not self.window.open_calls:
            return [*messages]
        calls = still_open(self.format, self.line.transcript.messages, self.window.open_calls)
        return [*self.format.answering(messages, [(call.id, call.name) for call in calls])]

    def _own_names(self) -> set[str]:
        return {tool.name for tool in self.own_tools}

    def _append(
        self, message: MessageT, prepared: Prepared[MessageT], own: set[str], tokens: int, at: float | None
    ) -> None:
        self.waiting.answered(prepared.parts)
        if any(part.kind is not Kind.RESULT for part in prepared.parts):
            self.answer_own()
        self.known.extend([message])
        texts = self.take(prepared, tokens, at)
        if prepared.answers:
            self.waiting.note(prepared.message, prepared.parts, texts, self.window.open_calls, own)

    def _answer_as(self, later: Sequence[MessageT]) -> None:
        """Give own calls without a result the results that they have in later messages."""
        own = self._own_names()
        calls = still_open(self.format, self.line.transcript.messages, self.window.open_calls)
        own_calls = [call for call in calls if call.name in own]
        if own_calls:
            parts = [part for message in later for part in self.format.parts(message)]
            self.waiting.take_over(own_calls, [part for part in parts if part.kind is Kind.RESULT])


def _notice(name: str, description: str) -> str:
    """Return a notice that holds a description."""
    content = description.replace(CLOSING, "[/system-reminder]")
    text = f"{OPENING}{content}{CLOSING}"
    # A description must not make it a user's turn or a standing notice (R15).
    if is_persons(text) or stated_in(text):
        return f"{OPENING}{name}: {content}{CLOSING}"
    return text


def answer_within(line: Timeline[MessageT], count: int) -> bool:
    """Whether a model made one of the first messages of a history."""
    adapter, format_ = line.setup.adapter, line.setup.format
    return any(adapter.answers(message, format_.parts(message)) for message in line.transcript.messages[:count])


def back_to(line: Timeline[MessageT], count: int, setup: Setup[MessageT]) -> tuple[Timeline[MessageT], int]:
    """Return a timeline of the first messages and their number; it is empty if no answer is among them.

    What was done for them is repeated. If that is no longer known, their requests are made again.
    """
    if not answer_within(line, count):
        return _afresh(line, setup), 0
    return _again(line, count, setup), count


def under(line: Timeline[MessageT], setup: Setup[MessageT]) -> Timeline[MessageT]:
    """Return a timeline of the same messages under another strategy.

    What that strategy did here before is repeated; what others did is not.
    """
    switched = _again(line, len(line.transcript.messages), setup)
    switched.shown = None
    return switched


def _again(line: Timeline[MessageT], count: int, setup: Setup[MessageT]) -> Timeline[MessageT]:
    """Return a timeline of the first messages: as it was recorded, or else with their requests made again."""
    messages = line.transcript.messages[:count]
    prepared = [message for message in Timeline(setup).prepare(messages) if message is not None]
    repeated = None
    if count >= line.base:
        # Before a state was restored the tool classes may have been others, so that other items would be evicted.
        with suppress(HistoryError):
            repeated = _redone(line, prepared, setup)
    if repeated is None:
        repeated = _afresh(line, replace(setup, events=[]))
        for number, message in enumerate(prepared):
            repeated.take(message, at=line.times.get(number))
        repeated.setup = setup
    if count == len(line.transcript.messages):
        # The time of the latest request, and times from a restored state, are in no message.
        repeated.asked_at = line.asked_at
        repeated.answered_at = line.answered_at
    return repeated


def _redone(
    line: Timeline[MessageT], prepared: Sequence[Prepared[MessageT]], setup: Setup[MessageT]
) -> Timeline[MessageT]:
    repeated = Timeline(setup)
    if line.origin is not None and setup.settings.strategy == line.setup.settings.strategy:
        repeated = line.origin(setup)
    repeated.host_overhead = line.host_overhead
    for record in _about(line, repeated.base, len(prepared)):
        if isinstance(record, MessageRecord):
            number = len(repeated.transcript.messages)
            repeated.follow(record, prepared[number], at=line.times.get(number))
        else:
            repeated.follow(record)
    repeated.host_overhead = line.host_overhead
    repeated.configure()
    return repeated


def _about(line: Timeline[MessageT], first: int, stop: int) -> Iterator[Record]:
    """Yield the records about the messages from `first` to `stop`, up to the request after them."""
    transcript = line.transcript
    items = transcript.first(stop) if stop < len(transcript.messages) else transcript.item_count + 1
    number = 0
    for record in line.history.log:
        is_message = isinstance(record, MessageRecord)
        if is_message and number == stop:
            return
        # The usage of the request after them is in an answer that is not among them.
        later = isinstance(record, UsageRecord) and record.items >= items
        if number >= first and not later:
            yield record
        if is_message:
            number += 1


def _afresh(line: Timeline[MessageT], setup: Setup[MessageT]) -> Timeline[MessageT]:
    empty = Timeline(setup)
    empty.host_overhead = line.host_overhead
    return empty
